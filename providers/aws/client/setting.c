/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An empty text is no setting, as for the AWS CLI: a variable that is set to nothing does not hide the profile's
 * value.
 */
#include "providers/aws/client/setting.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *if_any(const char *text) {
        return text && *text ? text : NULL;
}

const char *setting_variable(const char *name) {
        return if_any(getenv(name));
}

const char *setting_get(const char *variable, const struct profiles *profiles, const char *profile,
                        const char *key) {
        const char *value = setting_variable(variable);

        return value ? value : if_any(profiles_get(profiles, profile, key));
}

const char *setting_region(const struct profiles *profiles, const char *profile) {
        const char *region = setting_variable("AWS_REGION");

        return region ? region : setting_get("AWS_DEFAULT_REGION", profiles, profile, "region");
}

bool setting_is_true(const char *value) {
        return value && strcasecmp(value, "true") == 0;
}

char *setting_copy(const char *text) {
        char *copy = text ? strdup(text) : NULL;

        if (text && !copy)
                abort();
        return copy;
}
