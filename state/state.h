/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of one stack: what Berth last applied, what it last saw, which resources depend on
 * which, what it is in the middle of.
 *
 *     state_open -> state_load_* (plan)                                          readers never block
 *     state_open -> state_lease_acquire -> state_load_* -> state_commit ... -> state_lease_release -> state_close
 *
 * Nothing here spans a network call: each function is one short transaction. Whatever is returned is copied out of the
 * store into the arena given. Formats of every database: docs/state.md.
 */
#ifndef BERTH_STATE_STATE_H
#define BERTH_STATE_STATE_H

#include "base/arena.h"
#include "base/digest.h"
#include "base/error.h"
#include "schema/value.h"

#include <stdbool.h>
#include <stdint.h>

struct state;

enum state_mode {
        STATE_READ,  /* an absent state reads as empty (nothing is made on disk) */
        STATE_CREATE /* makes folder and store where absent */
};

/*
 * Checks the store before its first read: a truncated, zeroed or foreign file, and a newer format, are errors. A
 * process opens a folder once at a time, and does not use a state in a copy of itself.
 */
int state_open(const char *folder, enum state_mode mode, struct state **ret, struct error *err) MUST_USE;
void state_close(struct state *state); /* NULL is fine */

/*
 * The same of a state that many machines share (docs/state.md). `store` is the state's from now on,
 * also where this fails; `who`, "anna@ci-7", is for people. Here STATE_CREATE makes nothing yet: a
 * missing state is made when the lease is taken.
 */
struct object_store;
struct clock;
int state_open_shared(struct object_store *store, const struct clock *clock, const char *who,
                      enum state_mode mode, struct state **ret, struct error *err) MUST_USE;
/* The same with a copy on this machine that goes with the state: another place's of the same lineage may be open. */
int state_open_shared_aside(struct object_store *store, const struct clock *clock, const char *who,
                            enum state_mode mode, struct state **ret, struct error *err) MUST_USE;
bool state_is_shared(const struct state *state);
/*
 * Fails where the state has moved elsewhere (state_move.h), and says where. A caller that reads it as the
 * stack's state asks first.
 */
int state_check_lives(struct state *state, struct error *err) MUST_USE;
/*
 * A shared one that was not made yet: its lineage and key are this process's alone until it takes
 * the lease.
 */
bool state_is_unmade(const struct state *state);
/* Whether the state of that lineage lies in the store, by its root; `store` stays the caller's. */
int state_lies_at(struct object_store *store, const char *lineage, bool *ret, struct error *err) MUST_USE;
/* Reads what others have written since; of a folder's state, which is always up to date, there is nothing to do. */
int state_catch_up(struct state *state, struct error *err) MUST_USE;
/* Of a shared state: 1 where older versions of its objects are kept, 0 where not, -1 where that cannot be known. */
int state_keeps_versions(struct state *state);

/*
 * The files of a state in a folder, as they are told from those that were there before, without opening it. False where they cannot be,
 * or have changed so shortly before that a change after this look might not be seen.
 */
struct state_mark {
        int64_t parts[10];
};
bool state_mark_take(const char *folder, struct state_mark *ret);
bool state_mark_is(const struct state_mark *mark, const struct state_mark *other);

/* As messages name it: the folder, or "s3://BUCKET/PREFIX". */
const char *state_folder(const struct state *state);
/* A UUID given to the state when it was made; "" while absent. */
const char *state_lineage(const struct state *state);
/*
 * Raised by one in each transaction that changes recorded resources, bindings or overrides. Read
 * again from the store.
 */
int state_serial(struct state *state, uint64_t *ret, struct error *err) MUST_USE;
/* The key under which sensitive values are hashed: made with the state, never leaves it. */
const uint8_t *state_secret_key(const struct state *state);

#define SOURCE_SIZE 16

/* The spec that was last applied to one resource. */
struct record {
        const char *address;              /* "Kind/name" */
        const char *provider;             /* "aws" */
        const char *id;                   /* the provider's own name, or NULL */
        uint8_t fingerprint[SHA256_SIZE]; /* value_fingerprint() of the desired spec that was applied */
        uint8_t source[SOURCE_SIZE];      /* of all that the spec was made from; zeroes: not known */
        const struct value *spec;         /* that spec, secrets as keyed hashes; NULL until record_decode() */
        const char *raw;                  /* the spec as stored (JSON); for record_decode() */
        size_t raw_length;
        uint64_t serial;    /* at which it was written */
        int64_t applied_ms; /* wall time */
        bool incomplete;    /* a change of it failed half-way: it must be read and made whole again */
};

/* Decodes the spec when first needed. */
int record_decode(struct record *record, struct arena *arena, struct error *err) MUST_USE;

/* What a provider last saw. The store treats `spec` and `extra` as JSON; enums as the provider contract numbers them. */
struct sighting {
        const char *address;
        bool exists;
        bool drifted; /* it is not as the record says that it was applied */
        const char *id, *fingerprint, *owner, *health_reason; /* any may be NULL */
        int ownership, health;
        const struct value *spec, *extra; /* decoded by sighting_decode(); secrets as keyed hashes */
        const char *raw;
        size_t raw_length;
        int64_t seen_ms; /* wall time */
};
int sighting_decode(struct sighting *sighting, struct arena *arena, struct error *err) MUST_USE;

/* A step that was begun and not ended: left by a run that died, or under way. */
struct journal_entry {
        uint64_t run; /* number of the run */
        const char *address;
        const char *action;       /* "create", ... */
        int stage;                /* the last one begun */
        bool answered;            /* the stage's outcome was seen */
        const struct value *data; /* progress data, or NULL */
        int64_t at_ms;
};

struct binding {
        const char *environment; /* name */
        const char *dependent;   /* "Agent/x" or "Swarm/x" */
        bool active;
};

/*
 * A dependent taken out of service by `disassociate`: whatever its manifest says, it is applied as inactive and bound to
 * nothing, until `reassociate` drops the override.
 */
struct override {
        const char *dependent;   /* "Agent/x" or "Swarm/x" */
        const char *environment; /* what it was bound to: remembered */
};

struct history_entry {
        uint64_t run;
        int64_t at_ms;
        const char *who;     /* user@host */
        const char *command; /* "apply", "destroy" */
        const char *commit;  /* of the manifests' repository, or NULL */
        const char *outcome; /* "begun", "done", "failed", "interrupted"; a run that died stays "begun" */
        uint64_t serial;     /* the state's when this was written; 0: not known (an older Berth's) */
        /* map: {changes: [{address, action, outcome, error?}], allowed: [...]}; or NULL */
        const struct value *detail;
};

/* Each returns everything, sorted by key, in the arena; specs undecoded. */
int state_load_records(struct state *state, struct arena *arena, struct record **ret, size_t *ret_count,
                       struct error *err) MUST_USE;
int state_load_sightings(struct state *state, struct arena *arena, struct sighting **ret, size_t *ret_count,
                         struct error *err) MUST_USE;
/*
 * The same without specs, ids and texts: `address`, `exists`, `drifted`, `ownership` and `health`
 * alone, for a pass over all that needs no more of most; and one sighting whole, *ret NULL if
 * absent.
 */
int state_load_sighting_heads(struct state *state, struct arena *arena, struct sighting **ret,
                              size_t *ret_count, struct error *err) MUST_USE;
int state_load_sighting(struct state *state, const char *address, struct arena *arena, struct sighting **ret,
                        struct error *err) MUST_USE;
int state_load_bindings(struct state *state, struct arena *arena, struct binding **ret, size_t *ret_count,
                        struct error *err) MUST_USE;
/* Overrides by dependent. */
int state_load_overrides(struct state *state, struct arena *arena, struct override **ret, size_t *ret_count,
                         struct error *err) MUST_USE;
int state_load_journal(struct state *state, struct arena *arena, struct journal_entry **ret,
                       size_t *ret_count, struct error *err) MUST_USE;
/* The newest first, `limit` at the most (0: all). */
int state_load_history(struct state *state, size_t limit, struct arena *arena, struct history_entry **ret,
                       size_t *ret_count, struct error *err) MUST_USE;
#define STATE_META_SOURCE \
        "source" /* a controller's notes in the folder that it follows a source by: no part of the state */
/* Small texts of meta beside lineage and serial (the stack's name, its account and region). NULL where absent. */
int state_load_meta(struct state *state, const char *name, struct arena *arena, const char **ret,
                    struct error *err) MUST_USE;

/* Whether there is a state in that folder, by the files there: it may be damaged. */
bool state_folder_holds(const char *folder);
/* Whether the state of that lineage lies in that folder, by the files there. */
bool state_lies_in(const char *folder, const char *lineage);

enum state_op_type {
        STATE_PUT_RECORD,      /* .record: spec (not raw) is encoded */
        STATE_DELETE_RECORD,   /* .address */
        STATE_PUT_SIGHTING,    /* .sighting */
        STATE_DELETE_SIGHTING, /* .address */
        STATE_PUT_BINDING,     /* .binding: replaces what the dependent had */
        STATE_DELETE_BINDING,  /* .address of the dependent */
        STATE_PUT_OVERRIDE,    /* .override */
        STATE_DELETE_OVERRIDE, /* .address of the dependent */
        STATE_JOURNAL_BEGIN,   /* .journal: intent, before a stage's call */
        STATE_JOURNAL_ANSWER,  /* .journal: its outcome, after it */
        STATE_JOURNAL_END,     /* .address: the change is over */
        STATE_PUT_HISTORY,     /* .history: by run number */
        STATE_PUT_META         /* .meta */
};

struct state_op {
        enum state_op_type type;
        union {
                const char *address;
                const struct record *record;
                const struct sighting *sighting;
                const struct binding *binding;
                const struct override *override;
                const struct journal_entry *journal;
                const struct history_entry *history;
                struct {
                        const char *name, *text;
                } meta;
        };
};

/*
 * All or nothing, durable when it returns. May be called by many threads at once: callers that wait together are
 * committed together, in one transaction with one sync. Grows the map as needed; a full disk is an error that leaves
 * the state as it was. The serial is raised once per call that has record, binding or override operations.
 */
int state_commit(struct state *state, const struct state_op *ops, size_t count, struct error *err) MUST_USE;

/*
 * How many runs the history has: without a bound, a state that is applied every minute would grow
 * forever.
 */
#define STATE_HISTORY_KEPT 1000

/* The next run's number, taken durably; what the history has of runs before the last STATE_HISTORY_KEPT goes with it. */
int state_new_run(struct state *state, uint64_t *ret, struct error *err) MUST_USE;

/* The lease: at most one run changes a state. */
struct lease_holder {
        long pid;
        const char *host, *boot_id, *command; /* boot_id: NULL of a shared state's */
        const char *who;                      /* "anna"; NULL of a folder's */
        int64_t since_ms, heartbeat_ms;       /* wall time */
        bool alive; /* as far as can be told from here: same host and boot, process there; or heartbeat fresh */
};
/*
 * Takes the lease, or fails with ERROR_LOCKED, a message that names the holder's pid, host, command and start, and how
 * to release it by hand. A holder that is dead (same boot and host: its process is gone; else: no heartbeat for 60 s)
 * loses it. A thread of the state renews the heartbeat every few seconds until release.
 */
int state_lease_acquire(struct state *state, const char *command, struct error *err) MUST_USE;
void state_lease_release(struct state *state);
/*
 * Whether a lease that was taken still holds, as far as is known without asking: ERROR_LOCKED where not. A folder's is looked at by
 * each commit alone: 0.
 */
int state_lease_check(struct state *state, struct error *err) MUST_USE;
/* *ret NULL if it is free. */
int state_lease_show(struct state *state, struct arena *arena, struct lease_holder **ret,
                     struct error *err) MUST_USE;
/* Takes the lease from a holder by hand (lock release). Refuses to while the holder is alive unless `force`. */
int state_lease_break(struct state *state, bool force, struct error *err) MUST_USE;

/* Reads every database, decodes every value, checks references and sums; problems are listed, one text each. */
int state_verify(struct state *state, struct arena *arena, const char ***ret_problems, size_t *ret_count,
                 struct error *err) MUST_USE;
/* A consistent copy while others work; `path` must not exist, or be an empty folder. */
int state_backup(struct state *state, const char *path, struct error *err) MUST_USE;

#endif
