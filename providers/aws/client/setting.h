/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of the SDKs, one by one: an environment variable, and behind it the profile's key. */
#ifndef BERTH_PROVIDERS_AWS_CLIENT_SETTING_H
#define BERTH_PROVIDERS_AWS_CLIENT_SETTING_H

#include "providers/aws/client/profiles.h"

#include <stdbool.h>

/* The variable's text, borrowed from the environment; NULL where it is not set, or empty. */
const char *setting_variable(const char *name);
/* The variable's, or else what the profile says under `key`; borrowed; NULL where neither says anything. */
const char *setting_get(const char *variable, const struct profiles *profiles, const char *profile,
                        const char *key);

/* AWS_REGION, AWS_DEFAULT_REGION, or the profile's region: as above. */
const char *setting_region(const struct profiles *profiles, const char *profile);

/* "true" in any case: how the SDKs write a yes. NULL: not set. */
bool setting_is_true(const char *value);

/* To be released with free(); NULL gives NULL. */
char *setting_copy(const char *text);

#endif
