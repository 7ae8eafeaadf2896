/* SPDX-License-Identifier: Apache-2.0 */
/* apply and destroy: the same, but destroy desires nothing. */
#include "base/clock.h"
#include "base/interrupt.h"
#include "cli/perform.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "controller/report.h"
#include "controller/saved_plan.h"

#include <string.h>

static int report_refused(const struct options *options, const struct plan *plan) {
        struct report_style style = { .verbose = options->verbose, .quiet = options->quiet };

        if (options->json) {
                print_json(report_plan_json(plan));
        } else {
                report_plan_text(plan, &style, stdout);
                fputs("\nRefused: nothing was changed.\n", stdout);
        }
        return EXIT_REFUSED;
}

/* The allowances of this command line and of the saved plan. */
static void join_allowances(struct plan_args *planning, const struct saved_plan *saved, struct arena *arena) {
        size_t count = planning->allowance_count + saved->allowance_count;
        struct allowance *joined = arena_array(arena, count + 1, sizeof(*joined));

        if (planning->allowance_count)
                memcpy(joined, planning->allowances, planning->allowance_count * sizeof(*joined));
        if (saved->allowance_count)
                memcpy(joined + planning->allowance_count, saved->allowances,
                       saved->allowance_count * sizeof(*joined));
        planning->allowances = joined;
        planning->allowance_count = count;
}

/*
 * A saved plan has its manifests with it, but no secrets. Those are read again where it needs any, and are compared by their
 * hashes: from other manifests than it was made of it is not applied.
 */
static int open_saved(struct session *session, const struct options *options, struct saved_plan *saved,
                      struct error *err) {
        if (options->target_count || options->exclude_count)
                return error_set(err,
                                 "a saved plan is applied whole: --target and --exclude go with berth plan");
        interrupt_install_at_once();
        if (session_take_lease(session, options, "apply", err) < 0 ||
            saved_plan_read(options->operands[0], session->state, session->arena, saved, err) < 0)
                return -1;
        if (saved->needs_secrets) {
                if (session_load(session, options, true, err) < 0)
                        return error_context(
                                err, "sensitive values are not in %s; they are read from the manifests",
                                options->operands[0]);
                if (saved_plan_restore_secrets(saved, &session->manifests, session->state, session->arena,
                                               err) < 0)
                        return -1;
        }
        session->manifests = saved->manifests;
        return session_open_provider(session, options, err);
}

/*
 * Plans again from the saved plan's inputs and compares: exactly what was approved is done, or
 * nothing.
 */
static int plan_saved(struct session *session, const struct options *options, struct saved_plan *saved,
                      struct plan_args *planning, struct plan *ret, struct error *err) {
        if (open_saved(session, options, saved, err) < 0)
                return -1;
        *planning = session_plan_args(session, options, saved->destroy);
        planning->targets = saved->targets;
        planning->target_count = saved->target_count;
        planning->excludes = saved->excludes;
        planning->exclude_count = saved->exclude_count;
        join_allowances(planning, saved, session->arena);
        if (session_plan(session, planning, options, ret, err) < 0)
                return -1;
        return saved_plan_compare(saved, ret, session->arena, err);
}

static int plan_now(struct session *session, const struct options *options, bool destroy,
                    struct plan_args *planning, struct plan *ret, struct error *err) {
        if (session_load(session, options, true, err) < 0)
                return -1;
        interrupt_install_at_once();
        if (session_open_provider(session, options, err) < 0 ||
            session_take_lease(session, options, destroy ? "destroy" : "apply", err) < 0)
                return -1;
        *planning = session_plan_args(session, options, destroy);
        return session_plan(session, planning, options, ret, err);
}

static int apply_unless_refused(struct session *session, const struct options *options,
                                struct plan_args *planning, struct plan *plan, struct error *err) {
        struct report_style style = { .verbose = options->verbose, .quiet = options->quiet };

        /* --skip-refused skips refused changes; a refusal of the whole plan always holds. */
        if (plan->refusal_count > 0 || (plan_has_refusals(plan) && !options->skip_refused))
                return report_refused(options, plan);
        if (!options->json)
                report_plan_text(plan, &style, stdout);
        fflush(stdout);
        if (plan_has_changes(plan)) {
                if (perform_confirm(options, plan, planning->destroy, err) < 0)
                        return -1;
                if (!options->json && !options->quiet)
                        fputc('\n', stdout);
        }
        return perform(session, options, planning, plan, planning->destroy ? "destroy" : "apply", err);
}

static int run_apply(const struct options *options, bool destroy, struct error *err) {
        struct session session SESSION_CLEANUP = { 0 };
        struct saved_plan saved = { 0 };
        struct plan_args planning;
        struct plan plan;
        int result;

        if (options->refresh == PLAN_REFRESH_NONE)
                return error_set(err, "--refresh none is for plan: an apply always reads what exists first");
        session_init(&session);
        if (options->operand_count > 0)
                result = plan_saved(&session, options, &saved, &planning, &plan, err);
        else
                result = plan_now(&session, options, destroy, &planning, &plan, err);
        if (result == 0)
                result = apply_unless_refused(&session, options, &planning, &plan, err);
        saved_plan_release(&saved);
        return result;
}

int verb_apply(const struct options *options, struct error *err) {
        return run_apply(options, false, err);
}

int verb_destroy(const struct options *options, struct error *err) {
        return run_apply(options, true, err);
}
