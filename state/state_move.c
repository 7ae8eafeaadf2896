/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A place that does not live has a format that no Berth knows which does not know of moves: one that is older refuses it, whatever
 * it would do there.
 *
 * What moves is everything but what is of the place alone: its lease, where a copy stands, the mark, and what a controller notes of
 * its source in the folder that it follows it by. Values are taken over as they are stored: both places have one secret key.
 */
#include "state/state_move.h"

#include "base/array.h"
#include "state/codec.h"
#include "state/migrate.h"
#include "state/shared_state.h"
#include "state/state_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The mark */

struct state_move state_move_new(enum move_stage stage, const char *place, const char *who, int64_t at_ms) {
        struct state_move move = { .stage = stage, .place = place, .who = who, .at_ms = at_ms };

        shared_new_id(move.id);
        return move;
}

enum { MARK_STAGE, MARK_AT, MARK_NUMBERS };
enum { MARK_ID, MARK_PLACE, MARK_HOST, MARK_WHO, MARK_TEXTS };

static int encode_mark(const struct state_move *move, struct arena *arena, uint8_t **ret, size_t *ret_length,
                       struct error *err) {
        struct sealed_value form = { 0 };

        sealed_value_add_number(&form, (uint64_t)move->stage);
        sealed_value_add_number(&form, (uint64_t)move->at_ms);
        sealed_value_add_text(&form, move->id);
        sealed_value_add_text(&form, move->place);
        sealed_value_add_text(&form, move->host);
        sealed_value_add_text(&form, move->who);
        return sealed_value_pack(&form, arena, ret, ret_length, err);
}

static int get_mark(struct store_txn *txn, struct arena *arena, struct state_move *ret, struct error *err) {
        const struct sealed_place where = { store_database_name(STORE_META), META_MOVE };
        struct state_move move = { 0 };
        struct sealed_value form;
        struct slice value;
        int found = store_get(txn, STORE_META, META_MOVE, &value, err);

        if (found < 0)
                return -1;
        if (found == 0) {
                *ret = move;
                return 0;
        }
        if (sealed_value_parse(value.data, value.length, where, MARK_NUMBERS, MARK_TEXTS, &form, err) < 0)
                return -1;
        move.stage = (enum move_stage)form.numbers[MARK_STAGE];
        move.at_ms = (int64_t)form.numbers[MARK_AT];
        snprintf(move.id, sizeof(move.id), "%s", form.texts[MARK_ID].text ? form.texts[MARK_ID].text : "");
        move.place = arena_strdup(arena, form.texts[MARK_PLACE].text);
        move.host = arena_strdup(arena, form.texts[MARK_HOST].text);
        move.who = arena_strdup(arena, form.texts[MARK_WHO].text);
        if (form.numbers[MARK_STAGE] < MOVE_GONE || form.numbers[MARK_STAGE] > MOVE_GIVEN_UP || !move.place)
                return error_set(err, "meta \"" META_MOVE "\": this Berth does not know it");
        *ret = move;
        return 0;
}

struct mark_read {
        struct arena *arena;
        struct state_move move;
};

static int read_mark(struct store_txn *txn, void *context, struct error *err) {
        struct mark_read *read = context;

        return get_mark(txn, read->arena, &read->move, err);
}

int state_move_load(struct state *state, struct arena *arena, struct state_move *ret, struct error *err) {
        struct mark_read read = { .arena = arena };

        if (state->store && state_read(state, read_mark, &read, err) < 0)
                return -1;
        *ret = read.move;
        return 0;
}

int state_move_fail(const struct state *state, const struct state_move *move, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *here = state->folder, *there = move->place;
        const char *on = move->host ? arena_printf(arena, " on %s", move->host) : "";
        char at[32];

        clock_format(move->at_ms, at, sizeof(at));
        if (move->stage == MOVE_ARRIVING)
                return error_set(
                        err,
                        "the state that moves from %s%s to %s has not arrived yet (begun by %s at %s): finish it by berth "
                        "state migrate --state %s %s, or give it up by berth state migrate --state %s %s",
                        there, on, here, move->who ? move->who : "?", at, there, here, here, there);
        return error_set(
                err,
                "the state in %s has moved to %s%s (%s, %s) and is no more used here: give --state %s (or BERTH_STATE), "
                "and have the Stack's state say so. A move that was broken off is finished by berth state migrate "
                "--state %s %s",
                here, there, on, move->who ? move->who : "?", at, there, here, there);
}

int state_move_check(const struct state *state, struct store_txn *txn, struct error *err) {
        struct arena *arena ARENA_CLEANUP = NULL;
        struct state_move move;
        struct slice value;
        int found = state->moving ? 0 : store_get(txn, STORE_META, META_MOVE, &value, err);

        if (found <= 0)
                return found;
        arena = arena_new();
        return get_mark(txn, arena, &move, err) < 0 ? -1 : state_move_fail(state, &move, err);
}

static int check_in_read(struct store_txn *txn, void *state, struct error *err) {
        return state_move_check(state, txn, err);
}

int state_check_lives(struct state *state, struct error *err) {
        return state->store ? state_read(state, check_in_read, state, err) : 0;
}

int state_move_begin(struct state *state, const char *command, struct error *err) {
        state->moving = true;
        return state_lease_acquire(state, command, err);
}

/* Changing the mark */

/* The mark, or its absence, and the format that goes with it. */
static int put_mark(struct store_txn *txn, const struct state_move *move, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        uint64_t format = move->stage == MOVE_NONE ? STATE_FORMAT : STATE_FORMAT_MOVED + STATE_FORMAT;
        uint8_t *bytes;
        size_t length;

        if (meta_put_numbers(txn, META_FORMAT, &format, 1, err) < 0)
                return -1;
        if (move->stage == MOVE_NONE)
                return store_delete(txn, STORE_META, META_MOVE, err);
        if (encode_mark(move, arena, &bytes, &length, err) < 0)
                return -1;
        return state_put_sealed(txn, STORE_META, META_MOVE, bytes, length, err);
}

static int expect_mark(const struct state *state, struct store_txn *txn, const struct state_move *expected,
                       struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct state_move there;

        if (get_mark(txn, arena, &there, err) < 0)
                return -1;
        if (there.stage == expected->stage && strcmp(there.id, expected->id) == 0)
                return 0;
        return error_set_kind(err, ERROR_LOCKED,
                              "another run moves the state in %s at the same time: run it again",
                              state->folder);
}

struct noting {
        struct state *state;
        const struct state_move *from, *to;
        const struct history_entry *entry;
};

static int put_history(struct store_txn *txn, const struct noting *noting, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        char key[CODEC_RUN_KEY_SIZE];
        uint8_t *bytes;
        size_t length;

        codec_run_key(noting->entry->run, key);
        if (codec_encode_history(noting->entry, noting->state->secret_key, arena, &bytes, &length, err) < 0)
                return -1;
        return state_put_sealed(txn, STORE_HISTORY, key, bytes, length, err);
}

static int note_move(struct store_txn *txn, void *context, struct error *err) {
        const struct noting *noting = context;

        if (lease_check(noting->state, txn, err) < 0 ||
            expect_mark(noting->state, txn, noting->from, err) < 0 ||
            (noting->entry && put_history(txn, noting, err) < 0))
                return -1;
        return put_mark(txn, noting->to, err);
}

int state_move_note(struct state *state, const struct state_move *from, const struct state_move *to,
                    const struct history_entry *entry, struct error *err) {
        struct noting noting = { .state = state, .from = from, .to = to, .entry = entry };

        if (state_check_writable(state, err) < 0)
                return -1;
        return state_write(state, note_move, &noting, err) < 0 ? -1 : 0;
}

/* What moves */

static bool moves(const struct shared_change *change) {
        return change->database != STORE_META ||
               (strcmp(change->key, META_MOVE) != 0 && strcmp(change->key, META_FORMAT) != 0 &&
                strcmp(change->key, META_TEXT STATE_META_SOURCE) != 0);
}

static int dump_moving(struct state *state, struct arena *arena, struct shared_change **ret,
                       size_t *ret_count, struct error *err) {
        struct shared_change *changes;
        size_t all, count = 0;

        if (shared_cache_dump(state->store, arena, &changes, &all, err) < 0)
                return -1;
        for (size_t i = 0; i < all; i++) {
                if (moves(&changes[i]))
                        changes[count++] = changes[i];
        }
        *ret = changes;
        *ret_count = count;
        return 0;
}

struct arriving {
        struct state *state;
        const struct state_move *expected;
        struct arena *arena;
        struct shared_change *changes;
        size_t count;
};

static void note_difference(void *context, enum shared_difference difference,
                            const struct shared_change *change) {
        struct arriving *arriving = context;

        (void)difference;
        arriving->changes =
                array_grow(arriving->arena, arriving->changes, arriving->count, sizeof(*arriving->changes));
        arriving->changes[arriving->count++] = *change;
}

static int arrive(struct store_txn *txn, void *context, struct error *err) {
        static const struct state_move none = { 0 };
        const struct arriving *arriving = context;

        if (lease_check(arriving->state, txn, err) < 0 ||
            expect_mark(arriving->state, txn, arriving->expected, err) < 0 ||
            shared_cache_put(txn, arriving->changes, arriving->count, err) < 0)
                return -1;
        return put_mark(txn, &none, err);
}

/* No other process writes to the target meanwhile: what is compared is what the commit finds. */
int state_move_arrive(struct state *target, struct state *source, const char *id, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct state_move expected = { .stage = MOVE_ARRIVING };
        struct arriving arriving = { .state = target, .expected = &expected, .arena = arena };
        struct shared_change *now, *then;
        size_t now_count, then_count;

        snprintf(expected.id, sizeof(expected.id), "%s", id);
        if (state_check_writable(target, err) < 0 || dump_moving(target, arena, &now, &now_count, err) < 0 ||
            dump_moving(source, arena, &then, &then_count, err) < 0)
                return -1;
        shared_cache_compare(now, now_count, then, then_count, note_difference, &arriving);
        return state_write(target, arrive, &arriving, err) < 0 ? -1 : 0;
}

/* Making the target */

static int fill_folder(struct store_txn *txn, void *context, struct error *err) {
        const struct arriving *arriving = context;

        return shared_cache_put(txn, arriving->changes, arriving->count, err) < 0
                       ? -1
                       : put_mark(txn, arriving->expected, err);
}

int state_move_make_folder(struct state *source, const char *folder, const struct state_move *move,
                           struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct arriving arriving = { .expected = move, .arena = arena };

        if (dump_moving(source, arena, &arriving.changes, &arriving.count, err) < 0)
                return -1;
        return folder_create_of(folder, source->lineage, fill_folder, &arriving, err);
}

static void add_sealed(struct arena *arena, struct shared_change **changes, size_t *count, const char *key,
                       uint8_t *bytes, size_t length) {
        sealed_value_seal(bytes, length, (struct sealed_place){ store_database_name(STORE_META), key });
        *changes = array_grow(arena, *changes, *count, sizeof(**changes));
        (*changes)[(*count)++] = (struct shared_change){
                .database = STORE_META, .key = key, .value = bytes, .length = length
        };
}

int state_move_make_shared(struct state *source, struct object_store *store, const struct clock *clock,
                           const struct state_move *move, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        uint64_t format = STATE_FORMAT_MOVED + STATE_FORMAT;
        struct shared_entry root = { .at_ms = clock->wall_ms(clock),
                                     .who = move->who,
                                     .command = "state migrate" };
        struct shared_change *changes;
        uint8_t *bytes;
        size_t length;

        if (shared_check_conditions(store, err) < 0 || state_serial(source, &root.serial, err) < 0 ||
            dump_moving(source, arena, &changes, &root.count, err) < 0 ||
            encode_mark(move, arena, &bytes, &length, err) < 0)
                return -1;
        add_sealed(arena, &changes, &root.count, META_MOVE, bytes, length);
        if (codec_encode_numbers(&format, 1, arena, &bytes, &length, err) < 0)
                return -1;
        add_sealed(arena, &changes, &root.count, META_FORMAT, bytes, length);
        root.changes = changes;
        snprintf(root.lineage, sizeof(root.lineage), "%s", source->lineage);
        shared_new_id(root.id);
        return shared_log_create(store, &root, err);
}
