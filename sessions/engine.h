/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine: sessions, who owns them, what runs in them. It knows where records lie (store.h), where code runs (place.h) and what
 * was applied (catalog.h) by contract only.
 *
 *      engine_open -> engine_create -> engine_execute -> engine_follow / engine_result ... engine_end -> engine_close
 *
 * Nothing here waits for code to run. What takes long is begun, and who wants to know how it goes follows it: a follower has a
 * descriptor for poll(2), so that one thread can serve hundreds, and a thread of a connection's own can wait too. All functions
 * may be called by many threads at once. The engine has a thread of its own, which hears what sandboxes say, and others for what takes
 * long: nobody waits for what is slow of another owner's.
 *
 * Who calls is part of each call, and everything is looked up by owner and id together: what is another's is not there, by the
 * same answer. Answers are JSON as clients get it, new references.
 *
 * A record is written before its call returns, so what was answered holds when the server dies at once. A restarted engine finds
 * its sessions, and the sandboxes that still live. What ran when the server died, and whose end nobody saw, ends as `failed` with
 * a detail that says so. What waited is begun in its turn, once, and who stood in line for an agent's limits stands there again.
 *
 * Of a store that servers share, engines may be any number: each answers for all sessions, and what is asked of one that another engine
 * holds is seen to there, about a second later. Where one dies the others take over what it held.
 */
#ifndef BERTH_SESSIONS_ENGINE_H
#define BERTH_SESSIONS_ENGINE_H

#include "base/clock.h"
#include "base/strbuf.h"
#include "sessions/catalog.h"
#include "sessions/problem.h"
#include "sessions/store.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ENGINE_ID_SIZE 29      /* "s-", 26 characters of base32, NUL */
#define ENGINE_AGE_MAX 1209600 /* seconds; of idleSeconds and ttlSeconds: 14 days */
#define ENGINE_QUEUE_MAX 8     /* executions that wait in one session, beside the one that runs */
#define ENGINE_WAITING_BYTES \
        ((size_t)32 << 20) /* of what waits in one session, all together; one alone may have what it may */
#define ENGINE_OWNER_WAITING_BYTES ((size_t)64 << 20) /* the same in all of one owner's */
#define ENGINE_TIMEOUT_MAX 900                        /* seconds, of one execution */
#define ENGINE_WHY_PARKED "it was parked"             /* `state.reason` after parking that went well */
#define ENGINE_STREAM_MAX 1048576    /* bytes of standard output, and of error, that a client gets */
#define ENGINE_STREAM_STORED 65536   /* bytes of each that history keeps */
#define ENGINE_DISPLAYS_STORED 65536 /* bytes of displays that history keeps; images are files besides */
#define ENGINE_KEY_SECONDS 86400     /* that an Idempotency-Key is remembered */
#define ENGINE_LIST_MAX 1000
#define ENGINE_OWNER_MAX 600 /* characters of "REALM/NAME" */

struct engine;
struct place;

/*
 * Where the files of sessions are kept: they are there before the sandbox, and stay when it has gone. All may be any thread's, and all but
 * path() may take long: they are called without the engine's lock.
 */
struct engine_workspaces {
        void *context;
        /* Makes an empty one. Its files are not to be swept before `lives_until_ms`. `agent` may be NULL. */
        int (*make)(void *context, const char *owner, const char *id, const char *environment,
                    const char *agent, int64_t created_ms, int64_t lives_until_ms, struct problem *problem);
        /* Of a session that was never begun: nothing is in it. NULL: it stays. */
        int (*remove)(void *context, const char *owner, const char *id, struct problem *problem);
        /* 0: the session has ended. */
        int (*set_life)(void *context, const char *owner, const char *id, int64_t lives_until_ms,
                        struct problem *problem);
        /* PROBLEM_WORKSPACE_FULL where nothing more may be written down of the session. NULL: there is always room. */
        int (*check_room)(void *context, const char *owner, const char *id, struct problem *problem);
        /* What its history takes up, which is the owner's as its files are. NULL: nobody counts it. */
        int (*set_history)(void *context, const char *owner, const char *id, uint64_t bytes,
                           struct problem *problem);
        /* What place_opening calls `workspace`; in the arena. */
        const char *(*path)(void *context, const char *id, struct arena *arena);
        /* The files that came with an execution which never begins go. NULL, as those below: there are none. */
        void (*drop_staged)(void *context, const char *owner, const char *id, const char *staged);
        /* All go but these: after a restart. */
        void (*keep_staged)(void *context, const char *owner, const char *id, const char *const *names,
                            size_t count);
        /* What was asked is kept with its files: those of *staged, or NULL, and the name is in the arena then. */
        int (*stage_request)(void *context, const char *owner, const char *id, const char *bytes,
                             size_t length, struct arena *arena, const char **staged,
                             struct problem *problem);
        /* -1 where it is not there. */
        int (*staged_request)(void *context, const char *owner, const char *id, const char *staged,
                              struct strbuf *ret);
};

/* Seconds where 0 stands for the default; counts where 0 stands for no limit. */
struct engine_limits {
        int64_t idle_seconds, ttl_seconds; /* of sessions that do not say: 3600, 86400 */
        int64_t park_seconds;              /* of idleness, after which a session is parked: 300 */
        uint64_t checkpoint_bytes;         /* the most that is kept of a session's memory then: 256 MiB */
        int64_t checkpoint_ms;             /* that its taking may last: 5000 */
        size_t per_owner, total;           /* sessions */
        int64_t history_whole;             /* the newest executions of a session, of which all is kept: 100 */
        int64_t history_most; /* of which anything is, without output and displays where they are long: 10000 */
        uint64_t keys_bytes; /* an owner's Idempotency-Keys of a day and their answers: 512 MiB */
};

/* Who counts: called with the engine's lock held, so it returns at once, and asks the engine nothing. */
struct engine_watch {
        void *context;
        /* An execution has ended: the status of its result, and how long it waited and ran. */
        void (*ended)(void *context, const char *status, int64_t queued_ms, int64_t wall_ms);
};

/* All borrowed, and to outlive the engine. */
struct engine_config {
        struct session_store *store;
        struct place *place;
        struct catalog *catalog;
        const struct engine_workspaces *workspaces;
        const struct clock *clock; /* wall time: of records, ages and idleness */
        struct engine_limits limits;
        const struct engine_watch *watch; /* NULL: nobody counts */
        /* Of a store that servers share: servers.h; 0: its own. */
        int64_t beat_ms, silent_ms;
        int64_t ghost_ms;       /* engine_seats.h; 0: as there */
        int64_t thread_idle_ms; /* a thread that has nothing to do ends after that; 0: a minute */
};

/* Reads the records, joins the sandboxes that live, says of what was cut off that it was, and starts the engine's thread. */
int engine_open(const struct engine_config *config, struct engine **ret, struct error *err) MUST_USE;
/* Sandboxes live on, and what runs in them. No call may be under way, and no follower open. NULL is fine. */
void engine_close(struct engine *engine);

/* Who calls, as the door has established it. All borrowed for the call. */
struct engine_caller {
        const char *client; /* its name; keys of idempotency belong to it */
        const char *owner;  /* "REALM/NAME", "client:NAME", "uid:N" */
        /* What the client may use; NULL: all. Sessions in others are not there for it. Lists ended by NULL. */
        const char *const *environments, *const *agents;
        bool observes; /* engine_list() and engine_show() of every owner's */
        bool ends_any; /* engine_end() of anyone's */
};
/* Whether the caller may use both of them. NULL, for an environment or an agent: that is not in question. */
bool engine_may_use(const struct engine_caller *caller, const char *environment, const char *agent);

/* An Idempotency-Key; what was made under it is given again instead of being made twice. */
struct engine_once {
        const char *key;   /* NULL: none was given */
        const char *route; /* "POST /v1/sessions": the same key elsewhere is another */
        const char *
                body; /* SHA-256 of the request in hex: another body under the same key is PROBLEM_KEY_REUSED */
};

/*
 * For what leaves no record that a key could stand in (a restart, a copy): it is begun with 0, and ended by engine_once_end() with its
 * answer, or with NULL where it was not done. 1: it was done before, and *ret is that answer, a new reference. PROBLEM_BUSY while
 * another is about it. What an engine was about that died may be begun again. An end that the store does not take is answered from memory
 * until it does.
 */
int engine_once_begin(struct engine *engine, const struct engine_caller *caller,
                      const struct engine_once *once, const char *session, json_t **ret,
                      struct problem *problem) MUST_USE;
void engine_once_end(struct engine *engine, const struct engine_caller *caller,
                     const struct engine_once *once, const char *session, const json_t *answer);

/* --- sessions --- */

struct engine_wish {
        const char *environment, *agent;   /* one of them */
        const char *conversation;          /* NULL: none. 1 to 256 bytes without control characters */
        const json_t *labels;              /* an object of texts, or NULL; at most 64, of 256 bytes each */
        const json_t *variables;           /* an object of texts, or NULL; for each execution */
        int64_t idle_seconds, ttl_seconds; /* 0: the default */
        struct engine_once once;
};

/*
 * 1: made, now or by an earlier request with the same key; 0: the conversation's, which was there. *ret is the session: {id, owner, environment, agent, conversation,
 * labels, status, createdAt, lastActiveAt, idleSeconds, ttlSeconds, expiresAt, queuePosition, generation}. The sandbox is started
 * meanwhile: `status` is "starting", or "queued" where its agent's limits leave no room for it yet, and queuePosition its place
 * in line then, else null.
 */
int engine_create(struct engine *engine, const struct engine_caller *caller, const struct engine_wish *wish,
                  json_t **ret, struct problem *problem) MUST_USE;

/* `ret` may be NULL: then it is only asked whether it is there. */
int engine_show(struct engine *engine, const struct engine_caller *caller, const char *id, json_t **ret,
                struct problem *problem) MUST_USE;

/* NULL and 0 leave what is; `labels` replaces all. Times count from the session's start and its last activity, as ever. */
struct engine_patch {
        const json_t *labels;
        int64_t idle_seconds, ttl_seconds;
};
int engine_patch(struct engine *engine, const struct engine_caller *caller, const char *id,
                 const struct engine_patch *patch, json_t **ret, struct problem *problem) MUST_USE;

/* The session is gone when this returns; what ran in it is killed. Its workspace stays, and its history with that. */
int engine_end(struct engine *engine, const struct engine_caller *caller, const char *id,
               struct problem *problem) MUST_USE;

/* Lists ended by NULL, or NULL for all: one of each list must fit; of labels each ("name=value"). */
struct engine_filter {
        const char *const *statuses, *const *environments, *const *agents, *const *labels;
        const char *conversation; /* NULL: any, or none */
        bool all_owners;          /* of a caller that observes */
        size_t limit;             /* 1 to ENGINE_LIST_MAX; 0 for 100 */
        const char *cursor;       /* of the answer before, or NULL */
};
/* {items, cursor}: newest last, by id where two are of one millisecond; cursor null at the end. */
int engine_list(struct engine *engine, const struct engine_caller *caller, const struct engine_filter *filter,
                json_t **ret, struct problem *problem) MUST_USE;

/*
 * Takes the checkpoint and ends the sandbox. PROBLEM_BUSY where something runs or waits. Follow the session to see it parked: or
 * still idle where no checkpoint can be taken (the disk is full), or running where somebody has asked for an execution
 * meanwhile, which is not kept waiting for it.
 */
int engine_park(struct engine *engine, const struct engine_caller *caller, const char *id,
                struct problem *problem) MUST_USE;
/* Whether it is on its way there. */
bool engine_is_parking(struct engine *engine, const struct engine_caller *caller, const char *id);
/* A fresh kernel for the next execution; what runs in it is interrupted. NULL is "main". */
int engine_restart(struct engine *engine, const struct engine_caller *caller, const char *id,
                   const char *context, struct problem *problem) MUST_USE;

/* --- executions --- */

struct engine_code {
        const char *code;
        size_t code_length;
        const char *language;    /* "python", "sh", "bash"; NULL: python */
        const char *context;     /* NULL: "main" */
        const json_t *variables; /* an object of texts, or NULL; over the session's */
        const char *input;       /* standard input; NULL: at its end */
        size_t input_length;
        int64_t timeout_seconds;         /* 1 to ENGINE_TIMEOUT_MAX; 0 for 300 */
        bool interrupt_on_disconnect;    /* the last engine_follower_close() of it interrupts it */
        const char *const *return_files; /* patterns, ended by NULL; or NULL */
        /* Files that come with it (workspace_stage.h), which are put when it begins; NULL: none. The engine's where it is taken. */
        const char *staged;
        struct engine_once once;
};

/*
 * 1 where the key was used: for this session, in the arena, and the execution of that number (0: for the session itself). 0 where it
 * was not. PROBLEM_KEY_REUSED; PROBLEM_KEYS_FULL where it was not, and nothing could be made under it now.
 */
int engine_repeats(struct engine *engine, const struct engine_caller *caller, const struct engine_once *once,
                   struct arena *arena, const char **ret_session, int64_t *ret_n,
                   struct problem *problem) MUST_USE;

struct engine_follower;

/*
 * Puts it at the end of the session's line; 1, and *ret its number; 0 where the key's was there already. ret_follower may be NULL;
 * who follows from the start (engine_follow() from 0) gets its result whole however soon it ends.
 */
int engine_execute(struct engine *engine, const struct engine_caller *caller, const char *id,
                   const struct engine_code *code, int64_t *ret, struct engine_follower **ret_follower,
                   struct problem *problem) MUST_USE;

/*
 * A result as clients get it, or {session, n, status: "queued" | "running", queuePosition: 1 for the next one, null for one that runs}. For as long as the engine remembers the execution (it
 * lives, or somebody follows it) with streams up to ENGINE_STREAM_MAX; later as history keeps it (engine_limits). The history of a session
 * that has ended stays its owner's until engine_forget().
 */
int engine_result(struct engine *engine, const struct engine_caller *caller, const char *id, int64_t n,
                  json_t **ret, struct problem *problem) MUST_USE;
/* {items, cursor}: all executions, the first one first, without streams and displays. */
int engine_history(struct engine *engine, const struct engine_caller *caller, const char *id, size_t limit,
                   const char *cursor, json_t **ret, struct problem *problem) MUST_USE;
/* PROBLEM_NOT_RUNNING where it has ended. One that still waits ends as "interrupted" at once. */
int engine_interrupt(struct engine *engine, const struct engine_caller *caller, const char *id, int64_t n,
                     struct problem *problem) MUST_USE;

/* The workspace has gone, and the history of its session goes with it. PROBLEM_HAS_SESSIONS where the session lives. */
int engine_forget(struct engine *engine, const struct engine_caller *caller, const char *id,
                  struct problem *problem) MUST_USE;

/* For who runs other things for an agent: whether one of its sandboxes is on its way out, or an idle session is parked for that now. */
bool engine_make_room(struct engine *engine, const char *agent);

/* --- following --- */

struct engine_event {
        int64_t id;       /* rises by one, from 1 */
        const char *name; /* "started", "stdout", "stderr", "display", "done" */
        json_t *data;     /* a new reference: for the caller to release */
};

enum engine_next {
        ENGINE_NOTHING = 0, /* nothing yet: poll the descriptor */
        ENGINE_EVENT = 1,   /* *ret */
        ENGINE_ENDED = 2    /* there will be no more */
};

/*
 * The events of one execution with an id of `from` or more (0: all). One that has ended is told again, as far as history has kept it.
 * A follower who falls behind misses nothing: events are kept while the execution runs.
 */
int engine_follow(struct engine *engine, const struct engine_caller *caller, const char *id, int64_t n,
                  int64_t from, struct engine_follower **ret, struct problem *problem) MUST_USE;
/* The same of a session: "status" with the session as data, now and whenever its status changes; ENGINE_ENDED when it is gone. */
int engine_follow_session(struct engine *engine, const struct engine_caller *caller, const char *id,
                          struct engine_follower **ret, struct problem *problem) MUST_USE;
/*
 * What happens to all sessions that the caller may see, from now on: "session" with the session as data, whenever its status changes
 * ({id, owner, status: "ended"} at its end), and "execution", {session, n, status}, as it begins and ends; "missed" where more
 * happened than is kept, and first of all where the caller comes `again`: ids are each follower's own. `caller` is borrowed until it
 * is closed.
 */
enum engine_of {
        ENGINE_OF_SESSIONS = 1, /* and of their executions */
        /* What engine_tell_beside() was given. */
        ENGINE_OF_CONTAINERS = 2,
        ENGINE_OF_APPROVALS = 4,
        ENGINE_OF_ALL_APPROVALS = 8 /* every owner's, whatever the caller observes else */
};
int engine_follow_all(struct engine *engine, const struct engine_caller *caller, unsigned what, bool again,
                      struct engine_follower **ret, struct problem *problem) MUST_USE;
/*
 * For who has other things beside: followers of all hear of one of them, as an event of that name, {id, owner, environment,
 * agent, status}. Whoever may see a session of that owner, environment and agent is told. What is in no environment has none in its event.
 */
struct engine_news {
        const char *name; /* static: of the event */
        enum engine_of of;
        const char *id; /* as long as a session's at most */
        const char *owner, *environment, *agent, *status;
};
void engine_tell_beside(struct engine *engine, const struct engine_news *news);
/*
 * Has the files brought into the session's workspace that processes have written which its executions left behind: *ret ends when that is
 * done, and never has an event. NULL where there is nothing to wait for: no sandbox of his lives, one execution runs (whose
 * files come at its end), nobody in it has done anything since the last time.
 */
int engine_bring_files(struct engine *engine, const struct engine_caller *caller, const char *id,
                       struct engine_follower **ret, struct problem *problem) MUST_USE;
int engine_follower_descriptor(const struct engine_follower *follower); /* readable when there is something */
/* Of an execution: from now on it is told no event, and its descriptor is readable once there is the result. */
void engine_follower_await_end(struct engine_follower *follower);
enum engine_next engine_follower_next(struct engine_follower *follower, struct engine_event *ret);
void engine_follower_close(struct engine_follower *follower); /* NULL is fine */

/* --- for metrics --- */

#define ENGINE_STATUSES 5
extern const char *const engine_statuses[ENGINE_STATUSES]; /* of sessions */
struct engine_measures {
        size_t sessions[ENGINE_STATUSES];
        size_t running, waiting; /* executions */
};
void engine_measure(struct engine *engine, struct engine_measures *ret);

/* --- for guards --- */

/* How many sessions live in the environment, and whose: [{owner, sessions}], at most 20 of them. */
int engine_users_of(struct engine *engine, const char *environment, size_t *ret_count, json_t **ret_owners);

#endif
