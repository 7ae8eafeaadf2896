/* SPDX-License-Identifier: Apache-2.0 */
/* disassociate and reassociate: set or clear an override for each dependent of an environment, and apply those dependents. */
#include "base/clock.h"
#include "base/interrupt.h"
#include "cli/perform.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "controller/association.h"
#include "controller/report.h"

#include <string.h>

/* The dependents that are in the manifests. The others would be deleted, which is left to `berth apply`. */
static const char *const *list_declared(const struct session *session, const struct association *association,
                                        size_t *ret_count) {
        const char **declared = arena_array(session->arena, association->count + 1, sizeof(*declared));

        *ret_count = 0;
        for (size_t i = 0; i < association->count; i++) {
                const struct kind *kind;
                const char *name;
                struct error ignored;

                if (address_parse(association->dependents[i], &kind, &name, &ignored) < 0)
                        continue;
                if (manifests_find(&session->manifests, kind->id, name))
                        declared[(*ret_count)++] = association->dependents[i];
        }
        return declared;
}

/* The overrides are in the state already: if this fails, the next apply does it. */
static int apply_dependents(struct session *session, const struct options *options,
                            const struct association *association, const char *command, struct error *err) {
        struct plan_args args = session_plan_args(session, options, false);
        struct report_style style = { .verbose = options->verbose, .quiet = options->quiet };
        struct plan plan;

        args.targets = list_declared(session, association, &args.target_count);
        args.only_targets = true;
        if (args.target_count == 0) {
                fputs("None of them is in the manifests any more; berth apply deletes them.\n", stderr);
                return EXIT_DONE;
        }
        if (session_plan(session, &args, options, &plan, err) < 0)
                return -1;
        if (plan_has_refusals(&plan)) {
                report_plan_text(&plan, &style, stdout);
                return EXIT_REFUSED;
        }
        return perform(session, options, &args, &plan, command, err);
}

static int confirm_dependents(const struct options *options, const struct association *association, bool out,
                              struct error *err) {
        struct plan plan = { .change_count = association->count };

        if (!options->yes && !options->quiet) {
                fprintf(stderr,
                        out ? "Dependents of %s to take out of service:\n"
                            : "Dependents of %s to put back into service:\n",
                        options->operands[0]);
                for (size_t i = 0; i < association->count; i++)
                        fprintf(stderr, "  %s\n", association->dependents[i]);
        }
        return perform_confirm(options, &plan, false, err);
}

static int run_association(const struct options *options, bool out, struct error *err) {
        const char *command = out ? "disassociate" : "reassociate";
        struct session session SESSION_CLEANUP = { 0 };
        const char *environment = options->operands[0];
        struct association association;

        if (strncmp(environment, "Environment/", 12) == 0)
                environment += 12;
        if (!options->all)
                return error_set(err, "berth %s %s is for all dependents at once: say --all", command,
                                 options->operands[0]);
        session_init(&session);
        if (session_load(&session, options, true, err) < 0)
                return -1;
        interrupt_install();
        if (session_open_provider(&session, options, err) < 0 ||
            session_take_lease(&session, options, command, err) < 0 ||
            association_find(session.state, environment, out, session.arena, &association, err) < 0 ||
            confirm_dependents(options, &association, out, err) < 0 ||
            state_commit(session.state, association.ops, association.count, err) < 0)
                return -1;
        return apply_dependents(&session, options, &association, command, err);
}

int verb_disassociate(const struct options *options, struct error *err) {
        return run_association(options, true, err);
}

int verb_reassociate(const struct options *options, struct error *err) {
        return run_association(options, false, err);
}
