/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The next step follows from what the two places say of themselves, by any writer. So there is
 * one way through, whether it is begun, gone on with, or undone; and two that are under way at once
 * cannot both get past the leases.
 */
#include "controller/transfer.h"

#include "controller/history.h"

#include <string.h>
#include <unistd.h>

#define COMMAND "state migrate"

/* Opening */

/* *ret NULL if there is no state: STATE_CREATE would make one. */
static int open_there(const struct transfer *transfer, const char *place, bool aside, struct state **ret,
                      struct error *err) {
        struct stack_state_args args = {
                .registry = transfer->args->registry,
                .manifests = transfer->args->manifests,
                .place = place,
                .clock = transfer->args->clock,
                .gone_too = true,
                .aside = aside,
        };
        struct state *state;
        bool present;

        if (stack_state_open(&args, STATE_READ, &state, err) < 0)
                return -1;
        present = *state_lineage(state) != '\0';
        state_close(state);
        *ret = NULL;
        return present ? stack_state_open(&args, STATE_CREATE, ret, err) : 0;
}

/* Two places of one lineage would have one copy on this machine. */
static int open_target(struct transfer *transfer, struct error *err) {
        return open_there(transfer, transfer->args->to,
                          stack_state_has_scheme(transfer->from) &&
                                  stack_state_has_scheme(transfer->args->to),
                          &transfer->target, err);
}

/* What provider local makes is of one machine and lies beside its state, whatever the manifests say now. */
static int check_providers(const struct transfer *transfer, struct error *err) {
        const struct provider_registry *registry = transfer->args->registry;
        struct record *records;
        size_t count;

        if (state_load_records(transfer->source, transfer->arena, &records, &count, err) < 0)
                return -1;
        for (size_t i = 0; i < count; i++) {
                const struct provider_ops *ops = stack_provider_find(registry, records[i].provider);

                if (!ops || ops->lineage)
                        continue;
                if (stack_state_check_provider(transfer->args->to, ops, err) < 0)
                        return -1;
                return error_set(
                        err,
                        "what provider %s makes lies beside its state in %s: move that folder as a whole, while no "
                        "Berth runs",
                        ops->name, transfer->from);
        }
        return 0;
}

static int open_both(struct transfer *transfer, struct error *err) {
        const struct transfer_args *args = transfer->args;

        transfer->from = stack_state_whole_place(args->from, transfer->arena);
        transfer->to = stack_state_whole_place(args->to, transfer->arena);
        if (strcmp(transfer->from, transfer->to) == 0)
                return error_set(err, "the state is to move from %s: name another place than that",
                                 args->from);
        if (open_there(transfer, args->from, false, &transfer->source, err) < 0)
                return -1;
        if (!transfer->source)
                return error_set_kind(
                        err, ERROR_NOT_FOUND,
                        "there is no state in %s: --state (BERTH_STATE), or the Stack, say what moves",
                        args->from);
        if (state_move_begin(transfer->source, COMMAND, err) < 0 ||
            state_move_load(transfer->source, transfer->arena, &transfer->source_move, err) < 0 ||
            check_providers(transfer, err) < 0)
                return -1;
        return open_target(transfer, err);
}

/* Deciding */

static bool is_same_move(const struct state_move *a, const struct state_move *b) {
        return strcmp(a->id, b->id) == 0;
}

static int fail_elsewhere(const struct transfer *transfer, struct error *err) {
        return state_move_fail(transfer->source, &transfer->source_move, err);
}

static int decide_from_living(struct transfer *transfer, struct error *err) {
        uint64_t here, there;

        transfer->work = TRANSFER_MOVE;
        if (!transfer->target)
                return 0;
        if (transfer->target_move.stage == MOVE_NONE)
                return error_set(
                        err,
                        "the state of %s lies in %s as well, and lives in both: one is a copy of the other. "
                        "Look at both (berth state show), and take away the one that is not to be used",
                        transfer->from, transfer->to);
        if (state_serial(transfer->source, &here, err) < 0 || state_serial(transfer->target, &there, err) < 0)
                return -1;
        return there <= here
                       ? 0
                       : error_set(
                                 err,
                                 "the state in %s is newer than the one in %s: the latter was put back to what it "
                                 "was. Look at both (berth state show)",
                                 transfer->to, transfer->from);
}

/* A folder of another machine may have the same path. */
static bool is_of_this_host(const struct state_move *move) {
        char host[256] = "localhost";

        gethostname(host, sizeof(host) - 1);
        return !move->host || strcmp(move->host, host) == 0;
}

/* What lives in `to` may be a copy from before: it is where the state has gone only where the source says so. */
static int decide_from_gone(struct transfer *transfer, struct error *err) {
        const struct state_move *source = &transfer->source_move, *target = &transfer->target_move;
        bool went_there = strcmp(source->place, transfer->to) == 0;

        if (!transfer->target) {
                if (went_there && is_of_this_host(source))
                        return error_set(
                                err,
                                "the state in %s has moved to %s, and no longer exists: put that back (from a backup, or "
                                "the older versions of its objects). Nothing was changed",
                                transfer->from, transfer->to);
                return fail_elsewhere(transfer, err);
        }
        if (target->stage == MOVE_NONE && went_there)
                transfer->work = TRANSFER_NOTHING;
        else if (target->stage == MOVE_ARRIVING && is_same_move(source, target))
                transfer->work = TRANSFER_FINISH;
        else if (target->stage == MOVE_GIVEN_UP && is_same_move(source, target))
                transfer->work = TRANSFER_MOVE;
        else
                return fail_elsewhere(transfer, err);
        return 0;
}

/* The state here was never used, or is gone. */
static int decide_from_waiting(struct transfer *transfer, struct error *err) {
        const struct state_move *source = &transfer->source_move, *target = &transfer->target_move;

        if (!transfer->target)
                return fail_elsewhere(transfer, err);
        if (target->stage == MOVE_NONE)
                transfer->work = source->stage == MOVE_ARRIVING ? TRANSFER_GIVE_UP : TRANSFER_NOTHING;
        else if (target->stage == MOVE_GONE && is_same_move(source, target))
                transfer->work = TRANSFER_GIVE_UP;
        else
                return fail_elsewhere(transfer, err);
        return 0;
}

static int decide(struct transfer *transfer, struct error *err) {
        switch (transfer->source_move.stage) {
        case MOVE_NONE:
                return decide_from_living(transfer, err);
        case MOVE_GONE:
                return decide_from_gone(transfer, err);
        default:
                return decide_from_waiting(transfer, err);
        }
}

static int check_lineage(const struct transfer *transfer, struct error *err) {
        if (strcmp(state_lineage(transfer->source), state_lineage(transfer->target)) == 0)
                return 0;
        return error_set(
                err,
                "there is another state in %s (lineage %s, not %s): name a place that has none. Nothing was changed",
                transfer->to, state_lineage(transfer->target), state_lineage(transfer->source));
}

int transfer_begin(const struct transfer_args *args, struct arena *arena, struct transfer *ret,
                   struct error *err) {
        *ret = (struct transfer){ .args = args, .arena = arena };
        if (open_both(ret, err) < 0)
                return -1;
        if (!ret->target)
                return decide(ret, err);
        if (check_lineage(ret, err) < 0 || state_move_load(ret->target, arena, &ret->target_move, err) < 0 ||
            decide(ret, err) < 0)
                return -1;
        /* Behind the lease it stays as it is; what was seen before is what each commit expects to find. */
        return ret->work == TRANSFER_NOTHING ? 0 : state_move_begin(ret->target, COMMAND, err);
}

/* Carrying it out */

static struct state_move mark_of(const struct transfer *transfer, enum move_stage stage, const char *place,
                                 const char *id) {
        char host[256] = "localhost";
        struct state_move move = state_move_new(stage, place, history_who(transfer->arena),
                                                transfer->args->clock->wall_ms(transfer->args->clock));

        gethostname(host, sizeof(host) - 1);
        if (!stack_state_has_scheme(place))
                move.host = arena_strdup(transfer->arena, host);
        if (id)
                memcpy(move.id, id, sizeof(move.id));
        return move;
}

static int make_target(struct transfer *transfer, const struct state_move *arriving, struct error *err) {
        const struct transfer_args *args = transfer->args;
        struct object_store *store;
        int result;

        if (stack_state_has_scheme(args->to)) {
                if (stack_state_objects(args->registry, args->manifests, args->to, args->clock, &store, err) <
                    0)
                        return -1;
                result = state_move_make_shared(transfer->source, store, args->clock, arriving, err);
                store->ops->close(store);
        } else {
                result = state_move_make_folder(transfer->source, args->to, arriving, err);
        }
        if (result < 0 || open_target(transfer, err) < 0)
                return -1;
        if (!transfer->target)
                return error_set(err, "the state that was made in %s is not there: run it again", args->to);
        transfer->to = stack_state_whole_place(args->to, transfer->arena);
        return state_move_begin(transfer->target, COMMAND, err);
}

/* The serial stays: nothing that a plan is made from is another. */
static int make_history_entry(struct transfer *transfer, struct state *state, const char *place,
                              struct history_entry *ret, struct error *err) {
        if (history_of_edit(state, COMMAND, place, transfer->args->clock->wall_ms(transfer->args->clock),
                            transfer->arena, ret, err) < 0)
                return -1;
        return state_serial(state, &ret->serial, err);
}

static int move_on(struct transfer *transfer, struct error *err) {
        static const struct state_move none = { 0 };
        struct state_move arriving = mark_of(transfer, MOVE_ARRIVING, transfer->from, NULL), gone;
        struct history_entry entry;

        /* It was given up, and not to the end. */
        if (transfer->source_move.stage != MOVE_NONE &&
            state_move_note(transfer->source, &transfer->source_move, &none, NULL, err) < 0)
                return -1;
        if ((transfer->target
                     ? state_move_note(transfer->target, &transfer->target_move, &arriving, NULL, err)
                     : make_target(transfer, &arriving, err)) < 0)
                return -1;
        gone = mark_of(transfer, MOVE_GONE, transfer->to, arriving.id);
        if (make_history_entry(transfer, transfer->source, transfer->to, &entry, err) < 0 ||
            state_move_note(transfer->source, &none, &gone, &entry, err) < 0)
                return -1;
        return state_move_arrive(transfer->target, transfer->source, arriving.id, err);
}

static int give_up_transfer(struct transfer *transfer, struct error *err) {
        static const struct state_move none = { 0 };
        struct state_move given_up = mark_of(transfer, MOVE_GIVEN_UP, transfer->to, transfer->source_move.id);
        struct history_entry entry;

        if (transfer->source_move.stage == MOVE_ARRIVING &&
            state_move_note(transfer->source, &transfer->source_move, &given_up, NULL, err) < 0)
                return -1;
        if (transfer->target_move.stage == MOVE_NONE)
                return 0;
        if (make_history_entry(transfer, transfer->target, transfer->to, &entry, err) < 0)
                return -1;
        return state_move_note(transfer->target, &transfer->target_move, &none, &entry, err);
}

int transfer_carry_out(struct transfer *transfer, struct error *err) {
        switch (transfer->work) {
        case TRANSFER_MOVE:
                return move_on(transfer, err);
        case TRANSFER_FINISH:
                return state_move_arrive(transfer->target, transfer->source, transfer->source_move.id, err);
        case TRANSFER_GIVE_UP:
                return give_up_transfer(transfer, err);
        default:
                return 0;
        }
}

void transfer_close(struct transfer *transfer) {
        state_close(transfer->target);
        state_close(transfer->source);
        transfer->source = transfer->target = NULL;
}
