/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two changes reach more objects: fewer days, which reach all that the rules select, and more
 * environments, which bring theirs along. An action that is taken away, or days that grow, reach
 * nothing.
 */
#include "providers/aws/workspace_policy/workspace_expiry.h"

#include "base/clock.h"
#include "providers/aws/client/texts.h"
#include "providers/aws/shared/aws_provider.h"
#include "providers/aws/workspace_policy/workspace_rules.h"

#include <inttypes.h>
#include <stdio.h>

#define DAY_MS (INT64_C(24) * 60 * 60 * 1000)

static bool is_empty_list(const struct value *list) {
        return !list || list->type != VALUE_LIST || list->count == 0;
}

struct workspace_expiry workspace_expiry_of(const char *field, const struct value *desired,
                                            const struct value *in_force, struct arena *arena) {
        const struct value *wanted = value_get(desired, "environments"), *had;
        int64_t days = value_get_integer(desired, field, -1), before = value_get_integer(in_force, field, -1);
        struct workspace_expiry expiry = { .field = field, .days = -1 };
        struct value *reached = value_new_list(arena);
        bool shorter = before < 0 || days < before;

        had = value_get(in_force, "environments");
        /* Rules for all that stand already, with as few days: whatever is selected now, they reach it. */
        if (days < 0 || (!shorter && workspace_rules_is_for_all(in_force)))
                return expiry;
        expiry.for_all = workspace_rules_is_for_all(desired);
        for (uint32_t i = 0; !expiry.for_all && !is_empty_list(wanted) && i < wanted->count; i++) {
                /* As few days as before: only the environments that are new to the rules. */
                if (shorter || !texts_have(had, value_text_of(&wanted->items[i])))
                        value_append(arena, reached, wanted->items[i]);
        }
        if (expiry.for_all || reached->count > 0)
                expiry.days = days;
        expiry.environments = reached;
        return expiry;
}

bool workspace_expiry_reaches(const struct workspace_expiry *expiry, const char *environment) {
        if (expiry->days < 0)
                return false;
        return expiry->for_all || (environment && texts_have(expiry->environments, environment));
}

/* S3 rounds up to the next midnight (UTC): what is of age now goes then. */
bool workspace_expiry_is_over(const struct workspace_expiry *expiry, int64_t since_ms, int64_t now_ms) {
        return expiry->days >= 0 && since_ms + expiry->days * DAY_MS <= now_ms;
}

void workspace_expiry_add(struct aged *aged, int64_t size, int64_t since_ms) {
        if (aged->count == 0 || since_ms < aged->oldest_ms)
                aged->oldest_ms = since_ms;
        aged->count++;
        aged->bytes += size > 0 ? (uint64_t)size : 0;
}

const char *workspace_expiry_describe(const struct aged *aged, const struct workspace_expiry *expiry,
                                      bool noncurrent, struct arena *arena) {
        const char *one = noncurrent ? "noncurrent version" : "object";
        bool single = aged->count == 1;
        char oldest[32];

        if (aged->count == 0 && !aged->more)
                return NULL;
        if (aged->count == 0)
                return arena_printf(arena,
                                    "there may be %ss older than %s: %" PRId64
                                    ": none was found, but there are more than could be looked at",
                                    one, expiry->field, expiry->days);
        clock_format(aged->oldest_ms, oldest, sizeof(oldest));
        return arena_printf(arena,
                            "%s%" PRIu64 " %s%s, %" PRIu64 " bytes, oldest %.10s, %s older than %s: %" PRId64
                            " already and would expire%s",
                            aged->more ? "at least " : "", aged->count, one, single ? "" : "s", aged->bytes,
                            oldest, single ? "is" : "are", expiry->field, expiry->days,
                            aws_readable_bytes(aged->bytes, arena));
}
