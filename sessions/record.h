/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine keeps of a session, as text for the store and back; keys; ids. */
#ifndef BERTH_SESSIONS_RECORD_H
#define BERTH_SESSIONS_RECORD_H

#include "base/arena.h"
#include "base/error.h"
#include "sessions/engine.h"
#include "sessions/place.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define RECORD_DIGEST_SIZE 41 /* 160 bits in hex, NUL */

/* Why a session ends. From the write that says so, clients do not find the session; its sandbox, executions and record end after it. */
enum record_ending {
        RECORD_LIVES,
        RECORD_ENDED,   /* by its owner */
        RECORD_EXPIRED, /* by its age, or idleness */
        RECORD_UNMADE   /* its first sandbox did not start */
};

#define RECORD_HOLDER_SIZE 33 /* an engine's number */
#define RECORD_BY_SIZE 52     /* an engine's number, "." and the number of the write in hex */

/* One session as it is kept. Texts are owned, by malloc. */
struct record_session {
        char id[ENGINE_ID_SIZE];
        char *owner, *environment, *agent, *conversation; /* the last two may be NULL */
        json_t *labels, *variables;                       /* objects; NULL: none */
        int64_t created_ms, active_ms, idle_seconds, ttl_seconds;
        int64_t generation;      /* the newest */
        int64_t generation_base; /* the newest of the sandboxes before this one, each of which counts from 1 */
        json_t *contexts;        /* whose kernels began, each NULL, or why it was lost; NULL: none */
        int64_t queued_ms;       /* since when it stands in the line for its agent's limits; 0: it does not */
        int64_t last_n;          /* number of the newest execution; 0: there was none */
        int64_t taken_n;         /* of the one that was given to the sandbox last */
        int64_t history_bytes;   /* of the records of all of them */
        int64_t trimmed_n;       /* the newest for whose end older ones were trimmed: history.h */
        int64_t oldest_n;        /* all before it have ended, and are recorded so */
        struct place_checkpoint checkpoint; /* the last one; without a digest: none */
        bool parked;                        /* and no sandbox was given anything since */
        json_t *note;                       /* the place's own (place_event.note); NULL: none */
        enum record_ending ending;
        /*
         * In a store that servers share: who sees to what has not ended; "": nobody. The two lists are what others have asked of him, as
         * the last is (an execution that somebody there follows); NULL and 0: nothing.
         */
        char holder[RECORD_HOLDER_SIZE];
        json_t *restarts;   /* contexts whose kernels are to be fresh ones */
        json_t *interrupts; /* numbers */
        int64_t followed_n;
        char by[RECORD_BY_SIZE]; /* who wrote it, in a store that is shared; "": that is not kept */
        uint64_t version;        /* the store's */
};
void record_dispose(struct record_session *record);
/* When it ends by itself, milliseconds since 1970: by its age, and unless it is `busy` by idleness. */
int64_t record_ends_ms(const struct record_session *record, bool busy);
/* Something of it has not ended, and a server must bring it to its end: executions, kernels to be restarted, the session itself. */
bool record_is_open(const struct record_session *record);
/* The detail of executions that the end of the session cuts off; static. */
const char *record_why_ended(enum record_ending ending);

/* To be released with free(). */
char *record_to_text(const struct record_session *record);
/* *ret is all zero where it fails: a record that makes no sense is damage. */
int record_from_text(const struct session_item *item, struct record_session *ret, struct error *err) MUST_USE;

/* 128 random bits of the kernel's. */
void record_new_id(char id[ENGINE_ID_SIZE]);
/* Whether it can be one at all: what cannot is nowhere. */
bool record_is_id(const char *id);

/* Of texts that follow one another, NULL among them for one that is absent; ended by count. No two lists of texts have the same. */
void record_digest(const char *const *texts, size_t count, char digest[RECORD_DIGEST_SIZE]);

/* Keys, in the arena. */
const char *record_session_key(const char *owner, const char *id, struct arena *arena);
/* What those of all of an owner's sessions begin with. */
const char *record_session_prefix(const char *owner, struct arena *arena);
const char *record_conversation_key(const struct record_session *record, struct arena *arena);
const char *record_execution_key(const char *owner, const char *id, int64_t n, struct arena *arena);
/* What the keys of all of its executions begin with. */
const char *record_executions_prefix(const char *owner, const char *id, struct arena *arena);
/*
 * In the table of sessions, beside them: the sandbox of a session that has no record must be ended. Written before records had `ending`,
 * and still read. No digest begins with it.
 */
#define RECORD_ENDING "~ending/"
/* The same, of a store that is shared: whose the session of that id is, for who may see everybody's. */
#define RECORD_OWNER "~owner/"
/* And word for a server, "~word/SERVER/SESSION", whose value is the owner: the session's record was changed for it to see. */
#define RECORD_WORD "~word/"
#define RECORD_OTHERS '~' /* begins all keys there that are no session's: containers have some, too */

/*
 * When a record of that table may go by itself, which its value says (milliseconds since 1970); 0: it stays. A store that can deletes it
 * some time after that; who reads it looks at the time himself.
 */
int64_t record_expires_ms(enum session_table table, const char *value);

/*
 * In the table of keys, since it goes by itself: what an execution has said so far, for who follows it at another server. Behind the
 * prefix follows the number of the first event, in 10 digits.
 */
const char *record_live_prefix(const char *id, int64_t n, struct arena *arena);
const char *record_live_key(const char *id, int64_t n, int64_t event, struct arena *arena);

/* For what is kept beside a record: to be freed. NULL stays NULL. */
char *record_copy_text(const char *text);

#endif
