/* SPDX-License-Identifier: Apache-2.0 */
/* Files that exist already and that the next sweep would delete because of a new or shorter expiry: expires-existing. */
#include "base/clock.h"
#include "providers/local/provider_local.h"
#include "providers/local/sweep.h"

#include <inttypes.h>

/* Files that the desired policy expires and the present one does not. */
static struct workspace_span newly_expired(const struct value *desired, const struct value *present,
                                           const char *environment, int64_t now_ms) {
        int64_t days = value_get_integer(desired, "expireAfterDays", -1),
                before = value_get_integer(present, "expireAfterDays", -1);
        struct workspace_span span = { INT64_MIN, INT64_MIN };

        if (days < 1 || !sweep_reaches(desired, environment))
                return span;
        span.until_ms = sweep_cutoff_ms(now_ms, days);
        if (before > 0 && sweep_reaches(present, environment))
                span.after_ms = sweep_cutoff_ms(now_ms, before);
        return span;
}

static int count_aged(const struct provider *provider, const struct change *change, struct arena *arena,
                      struct workspace_tally *ret, struct error *err) {
        const char *workspaces =
                local_workspaces_folder(provider->root, value_get(provider->stack, "local"), arena);
        int64_t now_ms = provider->clock->wall_ms(provider->clock);
        struct local_session *sessions;
        size_t count;

        if (local_sessions_list(workspaces, provider->stack_name, arena, &sessions, &count, err) < 0)
                return -1;
        for (size_t i = 0; i < count; i++) {
                const struct workspace_span span = newly_expired(change->desired, change->observed->spec,
                                                                 sessions[i].environment, now_ms);
                struct workspace_tally tally;

                if (sessions[i].problem || span.until_ms <= span.after_ms)
                        continue;
                if (local_workspace_expire(workspaces, sessions[i].id, span, false, arena, &tally, err) < 0)
                        return -1;
                local_tally_add(ret, &tally);
        }
        return 0;
}

int local_policy_ask(struct provider *provider, struct change *change, struct arena *arena,
                     struct error *err) {
        struct workspace_tally aged = { 0 };
        char oldest[32];

        if (change->action == ACTION_DELETE)
                return 0;
        if (count_aged(provider, change, arena, &aged, err) < 0)
                return -1;
        if (aged.files == 0)
                return 0;
        clock_format(aged.oldest_ms, oldest, sizeof(oldest));
        records_refuse(
                change,
                (struct refusal){
                        .id = "expires-existing",
                        .message = arena_printf(
                                arena,
                                "%" PRIu64 " %s, %" PRIu64 " bytes, oldest %.10s, %s older than "
                                "expireAfterDays: %" PRId64 " and would be deleted by the next sweep",
                                aged.files, aged.files == 1 ? "file" : "files", aged.bytes, oldest,
                                aged.files == 1 ? "is" : "are",
                                value_get_integer(change->desired, "expireAfterDays", 0)),
                        .remedy = arena_printf(
                                arena,
                                "save what is needed, or let them be deleted: --allow expires-existing:%s",
                                change->address),
                },
                arena);
        return 0;
}
