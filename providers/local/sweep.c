/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For each session of the stack: its environment, the shortest expiry of a policy that selects it, and the files older than
 * that. Policies come from the records, as they were applied. When in doubt nothing is deleted: a policy that cannot be read
 * stops the sweep, and a session whose stack or environment is not known is left alone, as is one that still lives.
 */
#include "providers/local/sweep.h"

#include "base/array.h"
#include "base/files.h"
#include "providers/local/record.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DAY_MS (INT64_C(24) * 60 * 60 * 1000)

/* ---- deciding ---- */

bool sweep_reaches(const struct value *spec, const char *environment) {
        const struct value *names = value_get(spec, "environments");

        if (value_get_boolean(value_get(spec, "selector"), "all", false))
                return true;
        for (uint32_t i = 0; environment && names && names->type == VALUE_LIST && i < names->count; i++) {
                const char *name = value_text_of(&names->items[i]);

                if (name && strcmp(name, environment) == 0)
                        return true;
        }
        return false;
}

static int64_t days_of(const struct sweep_policy *policy) {
        return value_get_integer(policy->spec, "expireAfterDays", 0);
}

const struct sweep_policy *sweep_policy_for(const struct sweep_policy *policies, size_t count,
                                            const char *environment) {
        const struct sweep_policy *found = NULL;

        for (size_t i = 0; i < count; i++) {
                if (days_of(&policies[i]) < 1 || !sweep_reaches(policies[i].spec, environment))
                        continue;
                if (!found || days_of(&policies[i]) < days_of(found))
                        found = &policies[i];
        }
        return found;
}

int64_t sweep_cutoff_ms(int64_t now_ms, int64_t days) {
        int64_t span, cutoff;

        /* A record may hold any number: after a span that cannot be computed nothing expires. */
        if (__builtin_mul_overflow(days, DAY_MS, &span) || __builtin_sub_overflow(now_ms, span, &cutoff))
                return INT64_MIN;
        return cutoff;
}

/* ---- reading the policies that were applied ---- */

/* Only this stack's own policies count; a record that cannot be read stops the sweep. */
static int load_policies(const char *root, struct arena *arena, struct sweep_policy **ret, size_t *ret_count,
                         struct error *err) {
        const char **names;
        size_t found, count = 0;
        struct sweep_policy *policies;

        if (record_list(root, KIND_WORKSPACE_POLICY, arena, &names, &found, err) < 0)
                return -1;
        policies = arena_array(arena, found + 1, sizeof(*policies));
        for (size_t i = 0; i < found; i++) {
                struct record_place place = { root, local_stack_of(root), KIND_WORKSPACE_POLICY, names[i] };
                struct local_record record;

                if (record_read(&place, arena, &record, err) < 0)
                        return -1;
                if (record.exists && record.ownership == OWNER_SELF)
                        policies[count++] = (struct sweep_policy){ names[i], record.spec };
        }
        *ret = policies;
        *ret_count = count;
        return 0;
}

static int find_workspaces(const char *root, struct arena *arena, const char **ret, struct error *err) {
        struct record_place place = { root, local_stack_of(root), KIND_STACK, local_stack_of(root) };
        struct local_record stack;

        if (record_read(&place, arena, &stack, err) < 0)
                return -1;
        if (stack.exists && stack.ownership != OWNER_SELF)
                return error_set(err, "%s does not belong to the stack %s: run berth plan", stack.path,
                                 place.stack);
        *ret = local_workspaces_folder(root, stack.spec, arena);
        return 0;
}

/* ---- sweeping ---- */

/* A session that cannot be swept gets a problem; the others are swept nevertheless. */
static void sweep_session(const char *workspaces, struct sweep_row *row, int64_t now_ms, bool remove,
                          struct arena *arena) {
        struct workspace_span span = { INT64_MIN, sweep_cutoff_ms(now_ms, row->days) };
        struct error failure = { 0 };

        if (local_workspace_expire(workspaces, row->session.id, span, remove, arena, &row->tally, &failure) <
            0)
                row->session.problem = arena_strdup(arena, failure.message);
}

static size_t count_expiring(const struct sweep_policy *policies, size_t count) {
        size_t expiring = 0;

        for (size_t i = 0; i < count; i++)
                expiring += days_of(&policies[i]) > 0;
        return expiring;
}

/* Their containers may be stopped for as long as files last: what of them is old is not for a clock to say. */
static int find_agents(const char *root, struct arena *arena, struct sweep_report *report,
                       struct error *err) {
        struct local_agent_workspace *all;
        size_t count;

        if (local_agents_list(report->workspaces, local_stack_of(root), arena, &all, &count, err) < 0)
                return -1;
        report->agents = arena_array(arena, count + 1, sizeof(*all));
        for (size_t i = 0; i < count; i++) {
                if (all[i].owner)
                        report->agents[report->agent_count++] = all[i];
        }
        return 0;
}

int sweep_run(const char *root, int64_t now_ms, bool remove, struct arena *arena, struct sweep_report *ret,
              struct error *err) {
        struct sweep_report report = { 0 };
        struct local_session *sessions;
        struct sweep_policy *policies;
        size_t policy_count;

        if (find_workspaces(root, arena, &report.workspaces, err) < 0 ||
            load_policies(root, arena, &policies, &policy_count, err) < 0 ||
            local_sessions_list(report.workspaces, local_stack_of(root), arena, &sessions, &report.sessions,
                                err) < 0 ||
            find_agents(root, arena, &report, err) < 0)
                return -1;
        report.policies = count_expiring(policies, policy_count);
        report.rows = arena_array(arena, report.sessions + 1, sizeof(*report.rows));
        for (size_t i = 0; i < report.sessions; i++) {
                struct sweep_row row = { .session = sessions[i] };

                /* What runs in a living session may need any of its files: they are swept once it has ended. */
                if (!row.session.problem && row.session.lives_until_ms <= now_ms)
                        row.policy = sweep_policy_for(policies, policy_count, row.session.environment);
                if (row.policy) {
                        row.days = days_of(row.policy);
                        sweep_session(report.workspaces, &row, now_ms, remove, arena);
                }
                if (!row.session.problem && !row.tally.files && !row.tally.problems)
                        continue;
                local_tally_add(&report.total, &row.tally);
                report.rows[report.count++] = row;
        }
        *ret = report;
        return 0;
}
