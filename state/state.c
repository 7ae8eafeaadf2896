/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a state: the folder is looked at, a missing state is made (for reading it counts as empty), the store is
 * opened and checked, its format carried forward, the lineage compared with the file beside it. Then reading and
 * committing work on the store alone.
 */
#include "state/state.h"

#include "base/files.h"
#include "base/log.h"
#include "state/backup.h"
#include "state/codec.h"
#include "state/migrate.h"
#include "state/shared_index.h"
#include "state/shared_state.h"
#include "state/state_parts.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Small values of "meta" */

static struct sealed_place meta_place(const char *key) {
        return (struct sealed_place){ store_database_name(STORE_META), key };
}

int meta_numbers(struct store_txn *txn, const char *key, uint64_t *ret, size_t count, struct error *err) {
        struct slice value;
        int found = store_get(txn, STORE_META, key, &value, err);

        if (found <= 0)
                return found;
        return codec_decode_numbers(value.data, value.length, key, ret, count, err) < 0 ? -1 : 1;
}

int state_put_sealed(struct store_txn *txn, enum store_database database, const char *key, uint8_t *bytes,
                     size_t length, struct error *err) {
        sealed_value_seal(bytes, length, (struct sealed_place){ store_database_name(database), key });
        return store_put(txn, database, key, bytes, length, err);
}

int meta_put_numbers(struct store_txn *txn, const char *key, const uint64_t *numbers, size_t count,
                     struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        uint8_t *bytes;
        size_t length;
        int result;

        if (codec_encode_numbers(numbers, count, arena, &bytes, &length, err) < 0)
                return -1;
        result = state_put_sealed(txn, STORE_META, key, bytes, length, err);
        explicit_bzero(bytes, length); /* the secret key passes here */
        return result;
}

int meta_put_text(struct store_txn *txn, const char *key, const char *text, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        uint8_t *bytes;
        size_t length;

        if (codec_encode_text(text, arena, &bytes, &length, err) < 0)
                return -1;
        return state_put_sealed(txn, STORE_META, key, bytes, length, err);
}

/* Opening */

static int read_identity(struct store_txn *txn, void *context, struct error *err) {
        uint64_t key[SHA256_SIZE / sizeof(uint64_t)];
        struct state *state = context;
        struct slice value;
        struct sealed_value form;
        int found = store_get(txn, STORE_META, META_LINEAGE, &value, err);

        if (found < 0)
                return -1;
        if (found == 1) {
                if (sealed_value_parse(value.data, value.length, meta_place(META_LINEAGE), 0, 1, &form, err) <
                    0)
                        return -1;
                snprintf(state->lineage, sizeof(state->lineage), "%s",
                         form.texts[0].text ? form.texts[0].text : "");
                found = meta_numbers(txn, META_SECRET, key, sizeof(key) / sizeof(key[0]), err);
                if (found < 0)
                        return -1;
        }
        if (found == 0 || !state->lineage[0])
                return error_set(
                        err, "the file %s/" STORE_DATA_FILE " is not a state file of Berth; " STATE_REMEDY,
                        state->folder);
        memcpy(state->secret_key, key, sizeof(key));
        explicit_bzero(key, sizeof(key));
        return 0;
}

/* The file lineage may be missing: a process died before it made it, or only data.mdb was restored. It may not differ. */
static int check_lineage(struct state *state, struct error *err) {
        char lineage[UUID_SIZE];
        struct error ignored;

        if (folder_read_lineage(state->folder, lineage, err) < 0)
                return -1;
        if (!lineage[0]) {
                if (state->mode == STATE_CREATE &&
                    folder_write_lineage(state->folder, state->lineage, &ignored) < 0)
                        log_debug("state: %s", ignored.message);
                return 0;
        }
        if (strcmp(lineage, state->lineage) != 0)
                return error_set(
                        err,
                        "the state folder %s mixes two states: its file lineage says %s, " STORE_DATA_FILE
                        " is %s. Restore both from one backup; or remove lineage, if " STORE_DATA_FILE
                        " is the right one",
                        state->folder, lineage, state->lineage);
        return 0;
}

static int open_present(struct state *state, struct error *err) {
        bool may_write = state->mode == STATE_CREATE;

        if (store_open(state->folder, may_write ? STORE_MODE_WRITE : STORE_MODE_READ, &state->store, err) <
                    0 ||
            migrate(state->store, state->folder, migrations, STATE_FORMAT, may_write, err) < 0 ||
            store_read(state->store, read_identity, state, err) < 0)
                return -1;
        return check_lineage(state, err);
}

static int open_state_folder(struct state *state, struct error *err) {
        bool present;

        if (folder_look(state->folder, &present, err) < 0)
                return -1;
        if (!present && state->mode == STATE_CREATE) {
                if (folder_create(state->folder, err) < 0)
                        return -1;
                present = true;
        }
        if (present)
                return open_present(state, err);
        /* Hashes made with this key are compared with nothing: there is no record yet. */
        random_bytes(state->secret_key, sizeof(state->secret_key));
        return 0;
}

static struct state *new_state(const char *folder, enum state_mode mode) {
        struct state *state = calloc(1, sizeof(*state));
        pthread_condattr_t attributes;

        if (!state)
                abort();
        state->folder = strdup(*folder ? folder : ".");
        if (!state->folder)
                abort();
        state->mode = mode;
        pthread_mutex_init(&state->commit_lock, NULL);
        pthread_cond_init(&state->commit_done, NULL);
        pthread_mutex_init(&state->lease_lock, NULL);
        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        pthread_cond_init(&state->lease_stop, &attributes);
        pthread_condattr_destroy(&attributes);
        return state;
}

/* Errors of the store name its file. Errors of a value do not, and get the folder added. */
static int name_folder(const struct state *state, struct error *err) {
        return strstr(err->message, state->folder) ? -1
                                                   : error_context(err, "the state in %s", state->folder);
}

int state_read(struct state *state, store_body *body, void *context, struct error *err) {
        int result = store_read(state->store, body, context, err);

        return result < 0 ? name_folder(state, err) : result;
}

int state_open(const char *folder, enum state_mode mode, struct state **ret, struct error *err) {
        struct state *state = new_state(folder, mode);

        if (open_state_folder(state, err) < 0) {
                name_folder(state, err);
                state_close(state);
                return -1;
        }
        *ret = state;
        return 0;
}

static int attach_shared(struct state *state, struct object_store *store, const struct clock *clock,
                         const char *who, bool aside, struct error *err) {
        if (shared_open(store, clock, who, state->mode, aside, &state->shared, &state->store, err) < 0)
                return -1;
        if (state->store)
                return migrate(state->store, shared_cache_path(state->shared), migrations, STATE_FORMAT,
                               false, err) < 0
                               ? -1
                               : store_read(state->store, read_identity, state, err);
        random_bytes(state->secret_key, sizeof(state->secret_key));
        return 0;
}

static int open_objects(struct object_store *store, const struct clock *clock, const char *who,
                        enum state_mode mode, bool aside, struct state **ret, struct error *err) {
        struct state *state = new_state(store->place, mode);

        if (attach_shared(state, store, clock, who, aside, err) < 0) {
                name_folder(state, err);
                state_close(state);
                return -1;
        }
        *ret = state;
        return 0;
}

int state_open_shared(struct object_store *store, const struct clock *clock, const char *who,
                      enum state_mode mode, struct state **ret, struct error *err) {
        return open_objects(store, clock, who, mode, false, ret, err);
}

int state_open_shared_aside(struct object_store *store, const struct clock *clock, const char *who,
                            enum state_mode mode, struct state **ret, struct error *err) {
        return open_objects(store, clock, who, mode, true, ret, err);
}

/* Where the root alone is gone (a rule that expires objects), the state can be had again, and whose it is is not known. */
static int check_all_gone(struct object_store *store, struct error *err) {
        static const char *const keys[] = { SHARED_LOG_PREFIX "000000000001", SHARED_INDEX_KEY };

        for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
                struct object_answer answer OBJECT_ANSWER_CLEANUP = OBJECT_ANSWER_INIT;
                int outcome = store->ops->get(store, keys[i], &answer, err);

                if (outcome == OBJECT_DONE)
                        return error_set(err, "%s/" SHARED_ROOT " is gone, though %s is there", store->place,
                                         keys[i]);
                if (outcome != OBJECT_ABSENT)
                        return -1;
        }
        return 0;
}

int state_lies_at(struct object_store *store, const char *lineage, bool *ret, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct shared_entry root;
        struct shared_log log;
        int found = shared_log_begin(store, arena, &log, &root, err);

        if (found < 0 || (found == 0 && check_all_gone(store, err) < 0))
                return -1;
        *ret = found && strcmp(log.lineage, lineage) == 0;
        return 0;
}

bool state_is_shared(const struct state *state) {
        return state->shared != NULL;
}

bool state_is_unmade(const struct state *state) {
        return state->shared && shared_is_unmade(state->shared);
}

int state_catch_up(struct state *state, struct error *err) {
        return state->shared ? shared_catch_up(state->shared, err) : 0;
}

int state_keeps_versions(struct state *state) {
        return state->shared ? shared_keeps_versions(state->shared) : -1;
}

int state_write(struct state *state, store_body *body, void *context, struct error *err) {
        return state->shared ? shared_write(state->shared, body, context, err)
                             : store_write(state->store, body, context, err);
}

void state_close(struct state *state) {
        if (!state)
                return;
        state_lease_release(state);
        if (state->shared)
                shared_close(state->shared);
        else
                store_close(state->store);
        pthread_mutex_destroy(&state->commit_lock);
        pthread_cond_destroy(&state->commit_done);
        pthread_mutex_destroy(&state->lease_lock);
        pthread_cond_destroy(&state->lease_stop);
        explicit_bzero(state->secret_key, sizeof(state->secret_key));
        free(state->folder);
        free(state);
}

const char *state_folder(const struct state *state) {
        return state->folder;
}

const char *state_lineage(const struct state *state) {
        return state->lineage;
}

const uint8_t *state_secret_key(const struct state *state) {
        return state->secret_key;
}

int state_check_writable(const struct state *state, struct error *err) {
        if (state->store && state->mode == STATE_CREATE)
                return 0;
        return error_set(err, "the state in %s was opened for reading only", state->folder);
}

static int read_serial(struct store_txn *txn, void *serial, struct error *err) {
        return meta_numbers(txn, META_SERIAL, serial, 1, err);
}

int state_serial(struct state *state, uint64_t *ret, struct error *err) {
        uint64_t serial = 0;

        if (state->store && state_read(state, read_serial, &serial, err) < 0)
                return -1;
        *ret = serial;
        return 0;
}

struct new_run {
        struct state *state;
        uint64_t run;
};

/* 1 and the key of the oldest entry of the history, 0 if it is empty. */
static int oldest_run(struct store_txn *txn, char ret[CODEC_RUN_KEY_SIZE], struct error *err) {
        struct store_cursor *cursor STORE_CURSOR_CLEANUP = NULL;
        struct slice key, value;
        int found;

        if (store_cursor_open(txn, STORE_HISTORY, false, &cursor, err) < 0)
                return -1;
        found = store_cursor_next(cursor, &key, &value, err);
        if (found > 0)
                snprintf(ret, CODEC_RUN_KEY_SIZE, "%.*s", (int)key.length, (const char *)key.data);
        return found;
}

/* With `run` itself, whose entry is still to come, STATE_HISTORY_KEPT stay. */
static int prune_history(struct store_txn *txn, uint64_t run, struct error *err) {
        char first_kept[CODEC_RUN_KEY_SIZE], oldest[CODEC_RUN_KEY_SIZE];

        if (run <= STATE_HISTORY_KEPT)
                return 0;
        codec_run_key(run - STATE_HISTORY_KEPT + 1, first_kept);
        for (;;) {
                int found = oldest_run(txn, oldest, err);

                if (found <= 0)
                        return found;
                if (strcmp(oldest, first_kept) >= 0)
                        return 0;
                if (store_delete(txn, STORE_HISTORY, oldest, err) < 0)
                        return -1;
        }
}

static int take_run(struct store_txn *txn, void *context, struct error *err) {
        struct new_run *taking = context;

        taking->run = 0;
        if (lease_check(taking->state, txn, err) < 0 || state_move_check(taking->state, txn, err) < 0 ||
            meta_numbers(txn, META_RUN, &taking->run, 1, err) < 0)
                return -1;
        taking->run++;
        if (prune_history(txn, taking->run, err) < 0)
                return -1;
        return meta_put_numbers(txn, META_RUN, &taking->run, 1, err);
}

int state_new_run(struct state *state, uint64_t *ret, struct error *err) {
        struct new_run taking = { .state = state };

        if (state_check_writable(state, err) < 0 || state_write(state, take_run, &taking, err) < 0)
                return -1;
        *ret = taking.run;
        return 0;
}

int state_backup(struct state *state, const char *path, struct error *err) {
        if (!state->store)
                return error_set_kind(err, ERROR_NOT_FOUND, "there is no state in %s", state->folder);
        return backup_store(state->store, path, err);
}
