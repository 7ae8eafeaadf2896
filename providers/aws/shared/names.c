/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/shared/names.h"

const char *names_prefix(const struct value *stack) {
        const char *prefix = value_get_text(value_get(stack, "aws"), "namePrefix");

        return prefix ? prefix : "alphaagent";
}

const char *names_bucket(const char *prefix, const char *account, const char *region, struct arena *arena) {
        return arena_printf(arena, "%s-workspaces-%s-%s", prefix, account, region);
}

const char *names_function(const char *prefix, const char *environment, struct arena *arena) {
        return arena_printf(arena, "%s-env-%s", prefix, environment);
}
