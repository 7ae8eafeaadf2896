/* SPDX-License-Identifier: Apache-2.0 */
/* drift and refresh: read what exists and compare it with what was applied. They change nothing but the observations. */
#include "cli/session.h"
#include "cli/verbs.h"
#include "controller/report.h"

static int plan_with_refresh(struct session *session, const struct options *options,
                             enum plan_refresh refresh, struct plan *ret, struct error *err) {
        struct plan_args args;

        if (session_open(session, options, err) < 0)
                return -1;
        args = session_plan_args(session, options, false);
        args.refresh = refresh;
        return session_plan(session, &args, options, ret, err);
}

static int report_wrong_account(const struct options *options, const struct plan *plan) {
        if (options->json)
                print_json(report_plan_json(plan));
        else
                report_refusals_text(plan, stdout);
        return EXIT_REFUSED;
}

/* A plan that is refused as a whole, because the account is not the stack's, has looked at nothing. */
static bool is_elsewhere(const struct plan *plan) {
        return plan->refusal_count > 0 && plan->change_count == 0;
}

int verb_drift(const struct options *options, struct error *err) {
        struct session session SESSION_CLEANUP;
        struct plan plan;

        session_init(&session);
        if (plan_with_refresh(&session, options, options->refresh, &plan, err) < 0)
                return -1;
        if (is_elsewhere(&plan))
                return report_wrong_account(options, &plan);
        if (options->json)
                print_json(report_drift_json(&plan));
        else
                report_drift_text(&plan, stdout);
        return plan.drift_count ? EXIT_CHANGES : EXIT_DONE;
}

int verb_refresh(const struct options *options, struct error *err) {
        struct session session SESSION_CLEANUP;
        struct plan plan;
        size_t existing = 0;

        session_init(&session);
        if (plan_with_refresh(&session, options, PLAN_REFRESH_FULL, &plan, err) < 0)
                return -1;
        if (is_elsewhere(&plan))
                return report_wrong_account(options, &plan);
        for (size_t i = 0; i < plan.subject_count; i++)
                existing += plan.subjects[i].observed->exists;
        if (options->json)
                print_json(json_pack("{s:I, s:I, s:I}", "read", (json_int_t)plan.subject_count, "existing",
                                     (json_int_t)existing, "drifted", (json_int_t)plan.drift_count));
        else
                printf("Read: %zu of %zu %s, %zu drifted%s\n", existing, plan.subject_count,
                       plan.subject_count == 1 ? "resource exists" : "resources exist", plan.drift_count,
                       plan.drift_count ? "; berth drift shows how." : ".");
        return EXIT_DONE;
}
