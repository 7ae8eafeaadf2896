/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Group commit. Each caller encodes its own operations, then queues up; one of those who wait commits the operations of
 * all in one transaction with one sync, while the next group gathers. Where the group's transaction fails, each of its
 * callers is tried alone, so that every one gets its own answer: a large one may fail on a full disk, a small one not.
 */
#include "state/codec.h"
#include "state/state_parts.h"

#include <string.h>

struct encoded_op {
        enum store_database database;
        const char *key;
        uint8_t *bytes; /* NULL: delete */
        size_t length;
};

struct commit_request {
        struct encoded_op *ops;
        size_t count;
        bool raises_serial, done;
        bool is_source; /* nothing but what a controller notes of its source: no part of the state */
        int result;
        struct error *err;
        struct commit_request *next;
};

/* Encoding */

static enum store_database database_of(enum state_op_type type) {
        switch (type) {
        case STATE_PUT_RECORD:
        case STATE_DELETE_RECORD:
                return STORE_RECORDED;
        case STATE_PUT_SIGHTING:
        case STATE_DELETE_SIGHTING:
                return STORE_OBSERVED;
        case STATE_PUT_BINDING:
        case STATE_DELETE_BINDING:
                return STORE_BINDINGS;
        case STATE_PUT_OVERRIDE:
        case STATE_DELETE_OVERRIDE:
                return STORE_OVERRIDES;
        case STATE_JOURNAL_BEGIN:
        case STATE_JOURNAL_ANSWER:
        case STATE_JOURNAL_END:
                return STORE_JOURNAL;
        case STATE_PUT_HISTORY:
                return STORE_HISTORY;
        case STATE_PUT_META:
                break;
        }
        return STORE_META;
}

static const char *op_key(const struct state_op *op, struct arena *arena) {
        switch (op->type) {
        case STATE_PUT_RECORD:
                return op->record->address;
        case STATE_PUT_SIGHTING:
                return op->sighting->address;
        case STATE_PUT_BINDING:
                return op->binding->dependent;
        case STATE_PUT_OVERRIDE:
                return op->override->dependent;
        case STATE_JOURNAL_BEGIN:
        case STATE_JOURNAL_ANSWER:
                return op->journal->address;
        case STATE_PUT_HISTORY: {
                char *key = arena_alloc(arena, CODEC_RUN_KEY_SIZE);

                codec_run_key(op->history->run, key);
                return key;
        }
        case STATE_PUT_META:
                return arena_printf(arena, META_TEXT "%s", op->meta.name);
        default:
                return op->address;
        }
}

static int encode_journal(const struct state *state, const struct state_op *op, struct arena *arena,
                          struct encoded_op *ret, struct error *err) {
        struct journal_entry entry = *op->journal;

        entry.answered = op->type == STATE_JOURNAL_ANSWER;
        return codec_encode_journal(&entry, state->secret_key, arena, &ret->bytes, &ret->length, err);
}

static int encode_value(const struct state *state, const struct state_op *op, struct arena *arena,
                        struct encoded_op *ret, struct error *err) {
        const uint8_t *key = state->secret_key;

        switch (op->type) {
        case STATE_PUT_RECORD:
                return codec_encode_record(op->record, key, arena, &ret->bytes, &ret->length, err);
        case STATE_PUT_SIGHTING:
                return codec_encode_sighting(op->sighting, key, arena, &ret->bytes, &ret->length, err);
        case STATE_PUT_BINDING:
                return codec_encode_binding(op->binding, arena, &ret->bytes, &ret->length, err);
        case STATE_PUT_OVERRIDE:
                return codec_encode_override(op->override, arena, &ret->bytes, &ret->length, err);
        case STATE_JOURNAL_BEGIN:
        case STATE_JOURNAL_ANSWER:
                return encode_journal(state, op, arena, ret, err);
        case STATE_PUT_HISTORY:
                return codec_encode_history(op->history, key, arena, &ret->bytes, &ret->length, err);
        case STATE_PUT_META:
                /* Without a text the entry is deleted. */
                return op->meta.text ? codec_encode_text(op->meta.text, arena, &ret->bytes, &ret->length, err)
                                     : 0;
        default:
                return 0;
        }
}

/* What the store would refuse is refused here, before it could fail a whole group. */
static int encode_op(const struct state *state, const struct state_op *op, struct arena *arena,
                     struct encoded_op *ret, struct error *err) {
        size_t length;

        ret->database = database_of(op->type);
        ret->key = op_key(op, arena);
        length = ret->key ? strlen(ret->key) : 0;
        if (length < 1 || length > STORE_KEY_MAX)
                return error_set(err, "a name of %zu bytes cannot be kept in the state's database \"%s\"",
                                 length, store_database_name(ret->database));
        if ((op->type == STATE_PUT_BINDING && !op->binding->environment) ||
            (op->type == STATE_PUT_OVERRIDE && !op->override->environment))
                return error_set(err, "the binding of %s names no environment", ret->key);
        return encode_value(state, op, arena, ret, err);
}

/*
 * The serial counts what plans are made from: records, bindings, overrides. Sightings and changes
 * under way do not count.
 */
static bool raises_serial(const struct state_op *op) {
        enum store_database database = database_of(op->type);

        return database == STORE_RECORDED || database == STORE_BINDINGS || database == STORE_OVERRIDES;
}

static bool is_source(const struct state_op *op) {
        return op->type == STATE_PUT_META && strcmp(op->meta.name, STATE_META_SOURCE) == 0;
}

static int encode_all(const struct state *state, const struct state_op *ops, size_t count,
                      struct arena *arena, struct commit_request *ret, struct error *err) {
        ret->ops = arena_array(arena, count, sizeof(*ret->ops));
        ret->count = count;
        ret->is_source = true;
        for (size_t i = 0; i < count; i++) {
                if (encode_op(state, &ops[i], arena, &ret->ops[i], err) < 0)
                        return error_context(err, "nothing was recorded");
                ret->raises_serial |= raises_serial(&ops[i]);
                ret->is_source &= is_source(&ops[i]);
        }
        return 0;
}

/* Committing */

struct group {
        struct state *state;
        struct commit_request *first;
        bool alone; /* only the first */
};

static int put_ops(struct store_txn *txn, const struct commit_request *request, uint64_t serial,
                   struct error *err) {
        for (size_t i = 0; i < request->count; i++) {
                const struct encoded_op *op = &request->ops[i];

                if (!op->bytes) {
                        if (store_delete(txn, op->database, op->key, err) < 0)
                                return -1;
                        continue;
                }
                if (op->database == STORE_RECORDED)
                        sealed_value_set_number(op->bytes, CODEC_RECORD_SERIAL, serial);
                if (state_put_sealed(txn, op->database, op->key, op->bytes, op->length, err) < 0)
                        return -1;
        }
        return 0;
}

static int write_group(struct store_txn *txn, void *context, struct error *err) {
        const struct group *group = context;
        uint64_t serial = 0, before;

        if (lease_check(group->state, txn, err) < 0 || meta_numbers(txn, META_SERIAL, &serial, 1, err) < 0)
                return -1;
        before = serial;
        for (const struct commit_request *request = group->first; request; request = request->next) {
                if (!request->is_source && state_move_check(group->state, txn, err) < 0)
                        return -1;
                if (request->raises_serial)
                        serial++;
                if (put_ops(txn, request, serial, err) < 0)
                        return -1;
                if (group->alone)
                        break;
        }
        return serial == before ? 0 : meta_put_numbers(txn, META_SERIAL, &serial, 1, err);
}

/* Answers go into each request; they are not read until `done` is set under the lock. */
static void commit_group(struct state *state, struct commit_request *first) {
        struct group group = { .state = state, .first = first };
        struct error failure;

        if (first->next && state_write(state, write_group, &group, &failure) >= 0)
                return;
        group.alone = true;
        for (; group.first; group.first = group.first->next)
                group.first->result = state_write(state, write_group, &group, group.first->err) < 0 ? -1 : 0;
}

static void enqueue(struct state *state, struct commit_request *request) {
        if (state->last_waiting)
                state->last_waiting->next = request;
        else
                state->first_waiting = request;
        state->last_waiting = request;
}

/*
 * With the lock held, by one of those who wait, for all of them. A request that comes meanwhile
 * queues up for the next group.
 */
static void commit_waiting(struct state *state) {
        struct commit_request *group = state->first_waiting;

        state->first_waiting = state->last_waiting = NULL;
        state->committing = true;
        pthread_mutex_unlock(&state->commit_lock);
        commit_group(state, group);
        pthread_mutex_lock(&state->commit_lock);
        for (struct commit_request *next; group; group = next) {
                /* Once it is done its owner may return, and the request be gone. */
                next = group->next;
                group->done = true;
        }
        state->committing = false;
        pthread_cond_broadcast(&state->commit_done);
}

int state_commit(struct state *state, const struct state_op *ops, size_t count, struct error *err) {
        struct arena *arena ARENA_CLEANUP = NULL;
        struct commit_request request = { .err = err };

        if (count == 0)
                return 0;
        if (state_check_writable(state, err) < 0)
                return -1;
        arena = arena_new();
        if (encode_all(state, ops, count, arena, &request, err) < 0)
                return -1;
        pthread_mutex_lock(&state->commit_lock);
        enqueue(state, &request);
        while (!request.done) {
                if (state->committing)
                        pthread_cond_wait(&state->commit_done, &state->commit_lock);
                else
                        commit_waiting(state);
        }
        pthread_mutex_unlock(&state->commit_lock);
        return request.result;
}
