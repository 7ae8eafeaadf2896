/* SPDX-License-Identifier: Apache-2.0 */
/* What the files behind state.h share. */
#ifndef BERTH_STATE_STATE_PARTS_H
#define BERTH_STATE_STATE_PARTS_H

#include "state/state.h"
#include "state/store.h"

#include <pthread.h>

/* The format of the whole state: raised when an older Berth must not touch what a newer one wrote. See migrate.h. */
#define STATE_FORMAT 1
#define STATE_FORMAT_MOVED \
        1000000 /* is added where the state has moved away: a Berth that knows no moves refuses it */
#define STATE_LINEAGE_FILE "lineage"
#define STATE_IGNORE_FILE ".gitignore"
#define UUID_SIZE 37 /* with the NUL */

/* Keys of the database "meta". The texts of state_load_meta() stand under META_TEXT and their name. */
#define META_FORMAT "format"
#define META_LINEAGE "lineage"
#define META_SERIAL "serial"
#define META_RUN "run"
#define META_SECRET "secret"
#define META_LEASE "lease"
#define META_TEXT "text/"
#define META_MOVE "move" /* state_move.h */

struct commit_request;
struct shared;

struct state {
        char *folder;          /* of a shared state: where it lies, "s3://..." */
        struct shared *shared; /* NULL where it lies in a folder; it owns the store then */
        struct store *store;   /* NULL while the state is absent (STATE_READ only) */
        enum state_mode mode;
        bool moving; /* this process moves it: it may write where the state does not live */
        char lineage[UUID_SIZE];
        uint8_t secret_key[SHA256_SIZE];

        /* Group commit: the callers that wait, in order, and whether one of them is committing. */
        pthread_mutex_t commit_lock;
        pthread_cond_t commit_done;
        struct commit_request *first_waiting, *last_waiting;
        bool committing;

        /* The lease, and the thread that keeps it; both NULL and 0 while it is not held. */
        pthread_mutex_t lease_lock;
        pthread_cond_t lease_stop;
        pthread_t lease_thread;
        bool lease_stopping, lease_held;
        /* stays when the lease is lost: a former holder may not write without it */
        uint64_t lease_token;
};

/* folder.c */

/*
 * Whether the folder holds a state. An absent one is ERROR_NONE and false; a folder from which the data file alone has
 * gone is an error, so that a deleted file is not taken for a new beginning.
 */
int folder_look(const char *folder, bool *ret_present, struct error *err) MUST_USE;
/* Makes folder and state, whole or not at all; fine where another process is doing the same. */
int folder_create(const char *folder, struct error *err) MUST_USE;
/* The same of a state that is known: `body` fills the new store. ERROR_LOCKED where there is one meanwhile. */
int folder_create_of(const char *folder, const char *lineage, store_body *body, void *context,
                     struct error *err) MUST_USE;
/* Writes the sidecar that names the lineage, atomically. */
int folder_write_lineage(const char *folder, const char *lineage, struct error *err) MUST_USE;
/* "" if absent. */
int folder_read_lineage(const char *folder, char ret[UUID_SIZE], struct error *err) MUST_USE;

/* state.c: small values of "meta" */

/* store_read(), with the folder named where it fails. */
int state_read(struct state *state, store_body *body, void *context, struct error *err) MUST_USE;

/* store_write(); of a shared state, as shared_write() does it. */
int state_write(struct state *state, store_body *body, void *context, struct error *err) MUST_USE;

/* 1 and the numbers, or 0 where the key is absent. */
int meta_numbers(struct store_txn *txn, const char *key, uint64_t *ret, size_t count,
                 struct error *err) MUST_USE;
int meta_put_numbers(struct store_txn *txn, const char *key, const uint64_t *numbers, size_t count,
                     struct error *err) MUST_USE;
int meta_put_text(struct store_txn *txn, const char *key, const char *text, struct error *err) MUST_USE;
/* Seals the value and puts it. */
int state_put_sealed(struct store_txn *txn, enum store_database database, const char *key, uint8_t *bytes,
                     size_t length, struct error *err) MUST_USE;
/* Fails where the state is absent or was opened for reading. */
int state_check_writable(const struct state *state, struct error *err) MUST_USE;

/* state_move.c */

/* Fails where the state lives elsewhere and this process does not move it: in every transaction that writes what is the state's. */
int state_move_check(const struct state *state, struct store_txn *txn, struct error *err) MUST_USE;

/* state_lease.c */

/* Fails where this state held the lease and does not any more: to be called in every transaction that writes. */
int lease_check(struct state *state, struct store_txn *txn, struct error *err) MUST_USE;
/* Whether the lease is held, by a dead or living process; *ret_alive as in struct lease_holder. */
int lease_is_alive(struct store_txn *txn, bool *ret_alive, struct error *err) MUST_USE;

#endif
