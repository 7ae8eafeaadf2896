/* SPDX-License-Identifier: Apache-2.0 */
/* state migrate: the state goes to another place, and the note in the stack's bucket says so. */
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/log.h"
#include "base/terminal.h"
#include "cli/perform.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "controller/lineage.h"
#include "controller/transfer.h"

#include <inttypes.h>
#include <string.h>

static const char *question_of(const struct transfer *transfer, struct arena *arena) {
        switch (transfer->work) {
        case TRANSFER_MOVE:
                return arena_printf(arena, "The state moves from %s to %s. From then on %s is no more used.",
                                    transfer->from, transfer->to, transfer->from);
        case TRANSFER_FINISH:
                return arena_printf(arena,
                                    "The move of the state from %s to %s was broken off: it is finished.",
                                    transfer->from, transfer->to);
        default:
                return arena_printf(arena,
                                    "The move of the state from %s to %s was broken off: it stays in %s.",
                                    transfer->to, transfer->from, transfer->to);
        }
}

static const char *result_of(const struct transfer *transfer, struct arena *arena) {
        switch (transfer->work) {
        case TRANSFER_MOVE:
        case TRANSFER_FINISH:
                return arena_printf(arena,
                                    "The state is in %s now. Have the Stack's state say so, or --state "
                                    "(BERTH_STATE). %s keeps only a note that says where it went.",
                                    transfer->to, transfer->from);
        case TRANSFER_GIVE_UP:
                return arena_printf(arena, "The state stays in %s.", transfer->to);
        default:
                return arena_printf(arena, "The state lies in %s already.", transfer->to);
        }
}

/* Its place in AWS is known to a provider that has looked at the Stack there. */
static int renew_note(struct session *session, const struct options *options, struct state *state,
                      struct error *err) {
        const struct stack_provider_args providing = {
                .registry = &session_registry,
                .manifests = &session->manifests,
                .provider = options->provider,
                .folder = session_state_folder(session, options),
                .clock = &clock_system,
        };
        struct plan_args args;
        struct plan plan;

        if (stack_provider_open(&providing, &session->provider_ops, &session->provider, err) < 0)
                return -1;
        if (!session->provider_ops->lineage)
                return 0;
        args = session_plan_args(session, options, false);
        args.state = state;
        args.targets = &session->manifests.stack->address;
        args.target_count = 1;
        if (plan_make(&args, session->arena, &plan, err) < 0)
                return -1;
        if (plan.refusal_count > 0)
                return error_set(err, "%s: %s", plan.refusals[0].id, plan.refusals[0].message);
        return lineage_renew(&args, err);
}

/* `state adopt` trusts the note: a failure to renew it must be reported. */
static void tell_bucket(struct session *session, const struct options *options, struct state *state) {
        struct error failure = { 0 };
        const char *stack;

        if (state_load_meta(state, "stack", session->arena, &stack, &failure) < 0 || !stack)
                return;
        if (!session->manifests.stack || strcmp(session->manifests.stack->name, stack) != 0)
                (void)error_set(&failure, "the manifests of stack %s are not in %s", stack, options->path);
        else if (renew_note(session, options, state, &failure) == 0)
                return;
        log_warning("the note of the state in the stack's bucket says where it was until the next apply: %s",
                    failure.message);
}

static json_t *transfer_json(const struct transfer *transfer, uint64_t serial) {
        static const char *const outcomes[] = {
                [TRANSFER_MOVE] = "moved",
                [TRANSFER_FINISH] = "finished",
                [TRANSFER_GIVE_UP] = "given-up",
                [TRANSFER_NOTHING] = "there-already",
        };

        return json_pack("{s:o, s:o, s:s, s:s, s:I}", "from", json_from_text(transfer->from), "to",
                         json_from_text(transfer->to), "outcome", outcomes[transfer->work], "lineage",
                         state_lineage(transfer->target ? transfer->target : transfer->source), "serial",
                         (json_int_t)serial);
}

static int migrate_state(struct session *session, const struct options *options, struct transfer *transfer,
                         struct error *err) {
        uint64_t serial;

        if (transfer->work != TRANSFER_NOTHING &&
            perform_ask(options, question_of(transfer, session->arena), err) < 0)
                return -1;
        if (transfer_carry_out(transfer, err) < 0 || state_serial(transfer->target, &serial, err) < 0)
                return -1;
        tell_bucket(session, options, transfer->target);
        if (options->json)
                print_json(transfer_json(transfer, serial));
        else
                terminal_print_line(stdout, result_of(transfer, session->arena), 0, 0);
        return EXIT_DONE;
}

int verb_state_migrate(const struct options *options, struct error *err) {
        struct session session SESSION_CLEANUP = { 0 };
        struct transfer transfer = { 0 };
        struct transfer_args args = {
                .registry = &session_registry,
                .manifests = &session.manifests,
                .clock = &clock_system,
        };
        struct lock_wait wait = { 0 };
        struct error failure = { 0 };
        int result;

        session_init(&session);
        if (options->operand_count != 2)
                return error_set(err,
                                 "berth state migrate needs the place that the state moves to: berth state "
                                 "migrate s3://BUCKET/PREFIX, or a folder");
        args.to = options->operands[1];
        session_load_quietly(&session, options);
        if (session_state_place(&session, options, &args.from, err) < 0)
                return -1;
        interrupt_install();
        interrupt_on_hangup();
        while ((result = transfer_begin(&args, session.arena, &transfer, &failure)) < 0) {
                transfer_close(&transfer);
                if (session_wait_for_lock(options, &wait, &failure, err) < 0)
                        break;
        }
        if (result == 0)
                result = migrate_state(&session, options, &transfer, err);
        /* The provider is told of the state, which goes last. */
        if (session.provider_ops)
                session.provider_ops->close(session.provider);
        session.provider_ops = NULL;
        transfer_close(&transfer);
        return result;
}
