/* SPDX-License-Identifier: Apache-2.0 */
/* sweep: deletes on this machine what workspace policies expire; without --yes it only says what it would delete. */
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/terminal.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "providers/local/local_layout.h"
#include "providers/local/sweep.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void set_tally(json_t *json, const struct workspace_tally *tally) {
        char oldest[32];

        clock_format(tally->oldest_ms, oldest, sizeof(oldest));
        json_object_set_new(json, "files", json_integer((json_int_t)tally->files));
        json_object_set_new(json, "bytes", json_integer((json_int_t)tally->bytes));
        json_object_set_new(json, "oldest", tally->files ? json_string(oldest) : json_null());
}

/* Why something of this session could not be deleted, or NULL. */
static const char *problem_of(const struct sweep_row *row) {
        return row->session.problem ? row->session.problem : row->tally.first_problem;
}

static json_t *row_to_json(const struct sweep_row *row) {
        json_t *json = json_pack("{s:s, s:s?, s:s?, s:I, s:o}", "session", row->session.id, "environment",
                                 row->session.environment, "policy", row->policy ? row->policy->name : NULL,
                                 "expireAfterDays", (json_int_t)row->days, "problem",
                                 json_from_text(problem_of(row)));

        set_tally(json, &row->tally);
        return json;
}

/* `bytes` is null where it takes up what its files do. */
static json_t *agent_to_json(const struct local_agent_workspace *agent) {
        json_t *json = json_pack("{s:s, s:s, s:s}", "agent", agent->agent, "owner", agent->owner,
                                 "environment", agent->environment);

        json_put(json, "bytes", agent->bytes ? json_integer((json_int_t)agent->bytes) : json_null());
        json_put(json, "createdAt", json_from_time(agent->created_ms));
        return json;
}

/* The same with and without --yes, so that a script can compare what would go with what went. */
static json_t *report_json(const struct sweep_report *report, bool deleted) {
        json_t *rows = json_array(), *agents = json_array(), *json;

        for (size_t i = 0; i < report->agent_count; i++)
                json_array_append_new(agents, agent_to_json(&report->agents[i]));
        for (size_t i = 0; i < report->count; i++)
                json_array_append_new(rows, row_to_json(&report->rows[i]));
        json = json_pack("{s:s, s:b, s:o, s:I, s:I, s:o, s:o}", "formatVersion", "1", "deleted", deleted,
                         "workspaces", json_from_text(report->workspaces), "policies",
                         (json_int_t)report->policies, "sessions", (json_int_t)report->sessions, "expired",
                         rows, "agents", agents);
        set_tally(json, &report->total);
        return json;
}

static void print_tally(const struct workspace_tally *tally) {
        char oldest[32];

        clock_format(tally->oldest_ms, oldest, sizeof(oldest));
        printf("%" PRIu64 " %s, %" PRIu64 " bytes, oldest %.10s", tally->files,
               tally->files == 1 ? "file" : "files", tally->bytes, oldest);
}

/* What no policy deletes, and who looks for room wants to know of. */
static void print_agents(const struct sweep_report *report, bool quiet) {
        uint64_t bytes = 0;

        for (size_t i = 0; i < report->agent_count; i++) {
                struct strbuf line STRBUF_CLEANUP = STRBUF_INIT;

                bytes += report->agents[i].bytes;
                if (quiet)
                        continue;
                fputs("  ", stdout);
                strbuf_printf(&line, "agent:%s  of %s", report->agents[i].agent, report->agents[i].owner);
                if (report->agents[i].bytes > 0)
                        strbuf_printf(&line, "  %" PRIu64 " bytes", report->agents[i].bytes);
                terminal_print_line(stdout, strbuf_text(&line), 2, 2);
        }
        if (report->agent_count > 0)
                printf("Kept until they are removed: %zu %s of agents, which take up %" PRIu64 " bytes.\n",
                       report->agent_count, report->agent_count == 1 ? "workspace" : "workspaces", bytes);
}

static void report_text(const struct sweep_report *report, bool deleted, bool quiet) {
        size_t sessions = 0;

        print_agents(report, quiet);

        for (size_t i = 0; i < report->count; i++) {
                const struct sweep_row *row = &report->rows[i];

                if (row->tally.files == 0)
                        continue;
                sessions++;
                if (quiet)
                        continue;
                printf("  %s  ", row->session.id);
                print_tally(&row->tally);
                printf("  (%s: %s, %" PRId64 " %s)\n", row->session.environment, row->policy->name, row->days,
                       row->days == 1 ? "day" : "days");
        }
        if (report->total.files == 0) {
                printf("Nothing to sweep: no file of %zu %s has expired%s.\n", report->sessions,
                       report->sessions == 1 ? "session" : "sessions",
                       report->policies ? "" : " (no policy expires anything)");
                return;
        }
        fputs(deleted ? "Deleted " : "Would delete ", stdout);
        print_tally(&report->total);
        printf(", of %zu %s.%s\n", sessions, sessions == 1 ? "session" : "sessions",
               deleted ? "" : " berth sweep --yes does it.");
}

/*
 * Each session's first problem, on standard error. A sweep that could not delete something fails; one that only looks
 * does not.
 */
static size_t warn_of_problems(const struct sweep_report *report) {
        size_t count = 0;

        for (size_t i = 0; i < report->count; i++) {
                const struct sweep_row *row = &report->rows[i];
                struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

                if (!problem_of(row))
                        continue;
                count++;
                strbuf_printf(&text, "session %s: %s", row->session.id, problem_of(row));
                if (row->tally.problems > 1)
                        strbuf_printf(&text, " (and %" PRIu64 " more)", row->tally.problems - 1);
                fputs("warning: ", stderr);
                terminal_print_line(stderr, strbuf_text(&text), 9, 9);
        }
        return count;
}

/* The stack's data root. Of the provider only its name matters here. */
static int find_root(struct session *session, const struct options *options, const char **ret,
                     struct error *err) {
        if (session_load(session, options, true, err) < 0 || session_open_provider(session, options, err) < 0)
                return -1;
        if (strcmp(session->provider_ops->name, "local") != 0)
                return error_set(err,
                                 "berth sweep is for workspaces on this machine; with the provider %s the "
                                 "store itself carries out the policies",
                                 session->provider_ops->name);
        *ret = local_root(session_state_folder(session, options), session->manifests.stack->name,
                          session->arena);
        return 0;
}

int verb_sweep(const struct options *options, struct error *err) {
        struct session session SESSION_CLEANUP;
        struct sweep_report report;
        const char *root;
        size_t problems;

        session_init(&session);
        if (find_root(&session, options, &root, err) < 0 ||
            sweep_run(root, clock_wall_ms(), options->yes, session.arena, &report, err) < 0)
                return -1;
        if (options->json)
                print_json(report_json(&report, options->yes));
        else
                report_text(&report, options->yes, options->quiet);
        problems = warn_of_problems(&report);
        return problems && options->yes ? EXIT_ERROR : EXIT_DONE;
}
