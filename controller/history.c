/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An apply has one entry: written as "begun" with the changes it will try, so that a run that dies has left its
 * trace, and written over at its end with each change's outcome. Both have the run's number as their key.
 */
#include "controller/history.h"

#include <pwd.h>
#include <unistd.h>

const char *history_who(struct arena *arena) {
        char host[256] = "localhost", buffer[4096];
        struct passwd entry, *found = NULL;

        gethostname(host, sizeof(host) - 1);
        if (getpwuid_r(getuid(), &entry, buffer, sizeof(buffer), &found) == 0 && found)
                return arena_printf(arena, "%s@%s", found->pw_name, host);
        return arena_printf(arena, "%ld@%s", (long)getuid(), host);
}

static const char *outcome_name(const struct change_result *result) {
        static const char *const names[] = {
                [JOB_DONE] = "done",          [JOB_FAILED] = "failed",
                [JOB_SKIPPED] = "skipped",    [JOB_NOT_STARTED] = "not started",
                [JOB_LEFT] = "left half-way",
        };

        return result->refused ? "refused" : names[result->outcome];
}

static struct value describe_change(struct arena *arena, const struct change *change,
                                    const struct change_result *result) {
        struct value *map = value_new_map(arena);

        value_set_text(arena, map, "address", change->address);
        value_set_text(arena, map, "action", action_name(change->action));
        if (result) {
                value_set_text(arena, map, "outcome", outcome_name(result));
                if (result->outcome == JOB_FAILED)
                        value_set_text(arena, map, "error", result->error.message);
        }
        return *map;
}

/* The changes (with their outcomes once there are any) and what --allow let through. */
static const struct value *describe_apply(const struct apply_args *args, const struct apply_result *result,
                                          bool ended, struct arena *arena) {
        struct value *detail = value_new_map(arena), *changes = value_new_list(arena),
                     *allowed = value_new_list(arena);

        for (size_t i = 0; i < args->plan->change_count; i++)
                value_append(
                        arena, changes,
                        describe_change(arena, args->plan->changes[i], ended ? &result->changes[i] : NULL));
        for (size_t i = 0; i < args->planning->allowance_count; i++) {
                const struct allowance *allowance = &args->planning->allowances[i];

                value_append(arena, allowed,
                             value_text(arena, arena_printf(arena, "%s%s%s", allowance->id,
                                                            allowance->address ? ":" : "",
                                                            allowance->address ? allowance->address : "")));
        }
        value_set(arena, detail, "changes", *changes);
        value_set(arena, detail, "allowed", *allowed);
        if (args->approved_by)
                value_set_text(arena, detail, "approvedBy", args->approved_by);
        return detail;
}

static int write_entry(const struct apply_args *args, const struct apply_result *result, const char *outcome,
                       bool ended, int64_t wall_ms, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct history_entry entry = {
                .run = result->run,
                .at_ms = wall_ms,
                .who = history_who(arena),
                .command = args->command,
                .commit = args->commit,
                .outcome = outcome,
                .detail = describe_apply(args, result, ended, arena),
        };
        struct state_op op = { .type = STATE_PUT_HISTORY, .history = &entry };

        if (state_serial(args->planning->state, &entry.serial, err) < 0)
                return -1;
        return state_commit(args->planning->state, &op, 1, err);
}

int history_begin(const struct apply_args *args, const struct apply_result *result, int64_t wall_ms,
                  struct error *err) {
        return write_entry(args, result, "begun", false, wall_ms, err);
}

int history_end(const struct apply_args *args, const struct apply_result *result, int64_t wall_ms,
                struct error *err) {
        const char *outcome = result->interrupted ? "interrupted" : result->failed ? "failed" : "done";

        return write_entry(args, result, outcome, true, wall_ms, err);
}

int history_of_edit(struct state *state, const char *command, const char *address, int64_t wall_ms,
                    struct arena *arena, struct history_entry *ret, struct error *err) {
        struct value *detail = value_new_map(arena), *changes = value_new_list(arena),
                     *change = value_new_map(arena);
        uint64_t run, serial;

        if (state_new_run(state, &run, err) < 0 || state_serial(state, &serial, err) < 0)
                return -1;
        value_set_text(arena, change, "address", address);
        value_set_text(arena, change, "action", command);
        value_set_text(arena, change, "outcome", "done");
        value_append(arena, changes, *change);
        value_set(arena, detail, "changes", *changes);
        value_set(arena, detail, "allowed", *value_new_list(arena));
        *ret = (struct history_entry){
                .run = run,
                .at_ms = wall_ms,
                .who = history_who(arena),
                .command = command,
                .outcome = "done",
                .serial = serial + 1,
                .detail = detail,
        };
        return 0;
}
