/* SPDX-License-Identifier: Apache-2.0 */
/* plan: shows what would change. A refusal is told before changes: exit code 3 stands above 2. */
#include "base/log.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "controller/report.h"
#include "controller/saved_plan.h"

#include <string.h>

/*
 * A saved plan is bound to its state by lineage and key. A shared state that does not exist yet
 * would get others at the apply: it is created empty for the plan, as a local folder is. A run
 * without rights to write there can still show the plan.
 */
static void make_state(struct state *state) {
        struct error failure;

        if (!state_is_unmade(state))
                return;
        if (state_lease_acquire(state, "plan", &failure) < 0)
                log_warning("the state in %s does not exist yet, and this run cannot create it: %s. The "
                            "saved plan cannot be applied; save one once with rights to write there, or "
                            "apply without one",
                            state_folder(state), failure.message);
        else
                state_lease_release(state);
}

int verb_plan(const struct options *options, struct error *err) {
        struct session session SESSION_CLEANUP = { 0 };
        struct report_style style = { .verbose = options->verbose, .quiet = options->quiet };
        struct plan_args args;
        struct plan plan;

        if (options->format && strcmp(options->format, "text") != 0 && strcmp(options->format, "json") != 0 &&
            strcmp(options->format, "markdown") != 0)
                return error_set(err, "berth plan: --format takes text, json or markdown, not \"%s\"",
                                 options->format);
        session_init(&session);
        if (session_open(&session, options, err) < 0)
                return -1;
        if (options->output)
                make_state(session.state);
        args = session_plan_args(&session, options, false);
        if (session_plan(&session, &args, options, &plan, err) < 0)
                return -1;
        if (options->output && saved_plan_write(options->output, &args, &plan, err) < 0)
                return -1;
        if (options->json)
                print_json(report_plan_json(&plan));
        else if (options->format && strcmp(options->format, "markdown") == 0)
                report_plan_markdown(&plan, stdout);
        else
                report_plan_text(&plan, &style, stdout);
        if (options->output && !options->json && !options->quiet)
                fprintf(stderr, "Saved: berth apply %s\n", options->output);
        if (plan_has_refusals(&plan))
                return EXIT_REFUSED;
        return options->detailed_exitcode && plan_has_changes(&plan) ? EXIT_CHANGES : EXIT_DONE;
}
