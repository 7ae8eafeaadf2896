/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files behind engine.h share. Everything here is guarded by the engine's lock, which is held while a sandbox is spoken to as
 * well: that returns at once. What may take long (place.h says what) is done without the lock, by who asked for it or by a thread of
 * engine_jobs.c, never by the engine's own, which hears all sandboxes. A session that somebody is about so is in SESSION_OPENING
 * or SESSION_ENDING, or has jobs, and is not forgotten.
 */
#ifndef BERTH_SESSIONS_ENGINE_PARTS_H
#define BERTH_SESSIONS_ENGINE_PARTS_H

#include "jobs/jobs.h"
#include "sessions/engine.h"
#include "sessions/execution.h"
#include "sessions/once_share.h"
#include "sessions/place.h"
#include "sessions/record.h"

#include <pthread.h>
#include <stdatomic.h>

enum session_phase {
        SESSION_NO_PLACE, /* parked, or its sandbox has gone, or nobody has looked yet */
        SESSION_OPENING,  /* without a place as long as that is asked for one */
        SESSION_OPEN,
        SESSION_PARKING,
        SESSION_ENDING
};

enum session_end {
        SESSION_LIVES,
        SESSION_IS_SOUGHT, /* ends; a sandbox may live that this server does not know */
        SESSION_ENDS,      /* its record says so, and is removed last */
        SESSION_OVER /* has no record, or another server has its end; a sandbox that this server has ends still */
};

struct session {
        struct engine *engine;   /* once it is in its lists */
        const char *told_status; /* to who follows all; NULL: none */
        struct record_session record;
        /* In a store that servers share: session_far.c. */
        bool far; /* another server sees to it, and nothing but its record is known here */
        bool stale; /* somebody else has changed its record, or may have: nothing is begun before that was looked at */
        /* servers_term(), before its record was written or looked at last as this server's; 0: it was not. */
        uint64_t term;
        int64_t unknown; /* of its newest executions: others have put them in line, and they were not read yet */
        int64_t number_used;             /* by an execution of which nobody knows whether it was written */
        int64_t history_stored;          /* what its record says of its history in the store */
        struct session *next, *previous; /* all, in the order in which they were made */
        struct session *same_bucket;
        struct session *unborn_before; /* while it is made: those that others began to make earlier */
        enum session_end end;
        bool forgotten;       /* its history has gone with its workspace: none is written any more */
        int64_t history_told; /* to its workspace: what its history takes up */
        int64_t ended_n;      /* the newest that has ended */
        bool trimming;        /* a thread is about it */
        bool polled;   /* the engine's thread waits for its sandbox, among others, and knows where it lies */
        size_t jobs;   /* under way, or waiting for a thread: engine_jobs.c */
        bool taken;    /* somebody has its turn: session_turn.c */
        size_t takers; /* who wait for it, and know where it lies */
        bool heard_soon, tended_soon; /* a job is about that */
        bool wanted;                  /* one of them sees to it that it gets a sandbox */
        bool hears,
                wakes_due; /* who follows it is woken a little later, and somebody is to be: session_hear() */
        bool tells_more;   /* its sandbox may have more to say, though its descriptor does not tell */

        enum session_phase phase;
        struct place_session *place; /* NULL in SESSION_NO_PLACE, and while it is being left */
        bool ever_open;
        bool described;        /* the next one was looked up since its sandbox was opened */
        char *image_digest;    /* of its environment's image, owned; NULL: it has none of its own */
        bool rejoining;        /* opened to be found again: it may not live any more */
        int64_t park_after_ms; /* wall time before which it is not parked, or cleared: its place could not */
        bool leaving;     /* its worker was told to end: it is to be parked before anything else is begun */
        json_t *restarts; /* the contexts whose kernels are to be fresh ones; NULL: none */
        struct execution *running; /* begun in the sandbox */
        struct execution *first_waiting, *last_waiting;
        size_t waiting, waiting_bytes; /* of them, and of what was asked of all of them */
        /* In a store that servers share: engine_seats.c. */
        bool seated;                 /* it has one of its agent's seats, as this server has written there */
        bool seat_used;              /* something has run since */
        bool seat_lost;              /* it is open without one */
        uint64_t seat_lapses;        /* servers_lapses(), before that was written */
        int64_t in_line;             /* its place in the line for its agent's limits; 0: it stands in none */
        struct execution *unwritten; /* ended, and the store did not take it yet: nobody has heard of it */
        bool refused;                /* as the last write of its record was, and the next one will be */
        /* Files of what executions left behind are brought out: how often that was asked for, and done. */
        int64_t bring_wanted, brought;
        bool bringing, just_brought;       /* it is under way; what waits comes before the next one */
        bool parks_next;                   /* once that is done */
        uint64_t heard_id;                 /* what the place is told to have been heard then; 0: nothing */
        struct engine_follower *followers; /* of the session itself, and of its executions */
};

struct engine_follower {
        struct engine *engine;
        struct engine_follower *next; /* of the session's */
        struct session *session;      /* NULL once that is forgotten */
        struct execution *execution;  /* held; NULL: of the session itself, or of history */
        json_t *kept;                 /* history's record */
        int64_t from;                 /* the next event's id */
        int64_t told;   /* of_all: events that it was given; how many others got is not its business */
        int descriptor; /* eventfd */
        bool changed;   /* the session's status has, and it was not told */
        bool due;       /* its descriptor is to be raised: see session_hear() */
        bool only_end;
        bool of_session, disconnects;
        bool missed;   /* of_all: that is told first */
        bool of_files; /* until the session has `from` brought */
        /* Of an execution that another server has: what is known of it is read again and again (engine_far.c). */
        struct far_execution *far;
        bool of_all; /* of the engine's list; `from` counts its notices then */
        bool all_owners;
        unsigned what;               /* of_all: enum engine_of */
        struct engine_caller caller; /* of_all: borrowed */
};

/* What is told to who follows all: of which session, or of which of its executions, and what was known then. Texts are owned. */
struct engine_notice {
        char *owner, *environment, *agent;
        const char *name;        /* static */
        char id[ENGINE_ID_SIZE]; /* of the session */
        enum engine_of of;
        int64_t n; /* of the execution; 0: of none */
        char status[16];
};
#define ENGINE_ENDED_STATUS "ended" /* of a session */
#define ENGINE_NOTICES 4096         /* who is further behind than that misses some, and is told so */

#define ENGINE_BUCKETS 4096

struct once_end;      /* once.c */
struct far_execution; /* engine_far.c */
struct servers;
struct agent_seats; /* engine_seats.c */

struct engine {
        struct engine_config config;
        pthread_mutex_t lock;
        pthread_cond_t turns; /* some session's was given back */
        pthread_t thread;
        char number[33]; /* random: no other engine has it */
        uint64_t writes; /* of sessions' records, to a store that is shared */
        bool started, stopping;
        struct servers *servers; /* NULL: the store is this engine's alone */
        struct agent_seats *seats;
        bool looks_for_word, looks_for_orphans;
        int64_t last_orphans_ms;
        struct engine_follower *far_followers;
        int wake;                          /* eventfd: there is something for the thread to do */
        struct engine_follower *followers; /* of all sessions */
        struct engine_notice notices[ENGINE_NOTICES];
        int64_t notice_count; /* that ever were */
        struct session *first, *last;
        struct session *unborn; /* being made: counted, and nobody's to find. The newest first */
        struct session *buckets[ENGINE_BUCKETS];
        size_t count;         /* not gone */
        size_t waiting_bytes; /* of all sessions */
        int64_t last_sweep_ms, last_purge_ms, stopping_ms;
        int64_t last_in_line;
        int64_t last_queued_ms; /* of a record: no two are the same, so that the line has one order */
        bool sandbox_went;      /* somebody in line may have room now */
        bool purging;           /* a thread is about old keys */
        bool writing_once_ends; /* one is about that */
        bool wakes_due;         /* of some session: before the lock is let go */
        size_t went;            /* sandboxes that have gone since memory was given back */
        struct once_end *unwritten_ends;
        struct once_shares once_shares;
        bool once_counting; /* the first purge adds what the store had before */
        struct jobs *jobs;
};

/* --- engine.c --- */

void engine_wake(struct engine *engine);
/* The living session of that owner and id that the caller may use; PROBLEM_NOT_FOUND otherwise. */
struct session *engine_find(struct engine *engine, const struct engine_caller *caller, const char *id,
                            struct problem *problem);
/* The same of any owner. */
struct session *engine_find_any(struct engine *engine, const struct engine_caller *caller, const char *id,
                                struct problem *problem);
/* Also a session that ends: it remembers its executions until they have ended. NULL: there is no such session. */
struct session *engine_find_known(struct engine *engine, const struct engine_caller *caller, const char *id);
/* The same of whoever asks, also of one that has ended and is not forgotten yet. NULL: there is none. */
struct session *engine_find_id(struct engine *engine, const char *id);
int engine_not_found(struct problem *problem);
void engine_add(struct engine *engine, struct session *session);
/*
 * Without the lock, since it waits for whoever is about the files, and for the disk: tells the workspace how long its session lives, as the
 * record has it by now.
 */
void engine_tell_life(struct engine *engine, const char *owner, const char *id);
/* Takes it out of the lists and frees it. Its place has been left. */
void engine_forget_session(struct engine *engine, struct session *session);
/* The same of one that has ended, once nobody is about it any more. */
void engine_forget_if_over(struct engine *engine, struct session *session);
int64_t engine_now(const struct engine *engine);
/* False once its record says that it ends, also before this server has found out which server must end it. */
static inline bool session_lives(const struct session *session) {
        return session->end == SESSION_LIVES && !session->record.ending;
}

/* --- session_turn.c: where the store is shared; else all but the lock is nothing --- */

/*
 * Whoever changes a session has its turn. It is waited for with the lock released: the session must be one that is not forgotten
 * meanwhile. Others may have changed it when it was waited for.
 */
void session_turn_take(struct session *session);
void session_turn_give(struct session *session);
enum session_look {
        SESSION_AS_KNOWN, /* as it is in memory, where this server changed it last: a write finds out whether that is so still */
        SESSION_AS_STORED
};
/* engine_find() or engine_find_any(), and its turn. Of a store that is shared it is read where that is needed. */
struct session *session_turn_find(struct engine *engine, const struct engine_caller *caller, const char *id,
                                  bool any_owner, enum session_look look, struct problem *problem);
/*
 * Asked before anything is begun in its sandbox, or with it (life.h). False: another server may already have the session,
 * since others may take this one for dead, or could since its record was looked at. It is stale then.
 */
bool session_may_act(struct session *session);
/* Around what takes long: lets go of the turn (of NULL: of none) and of the lock, and takes both again. */
void session_turn_leave(struct engine *engine, struct session *session);
void session_turn_return(struct engine *engine, struct session *session);
/* With the lock, which is released meanwhile where the store is shared. Else as session_store_get() and session_store_write(). */
int engine_get(struct engine *engine, enum session_table table, const char *key, struct arena *arena,
               struct session_item *ret, struct error *err) MUST_USE;
int engine_write(struct engine *engine, const struct session_change *changes, size_t count,
                 struct error *err) MUST_USE;

/* --- engine_jobs.c --- */

/*
 * Is called with the lock and the session's turn, releases both around what takes long, and returns with them. `context` is its
 * own to release.
 */
typedef void engine_work(struct engine *engine, struct session *session, void *context);
/* Has it done soon, by another thread. The session, which may be NULL, stays until then. */
void engine_job_add(struct engine *engine, struct session *session, const char *owner, engine_work *work,
                    void *context);
int engine_jobs_start(struct engine *engine, struct error *err) MUST_USE;
/* Waits for all. Those that have not begun are done, too. */
void engine_jobs_stop(struct engine *engine);

/* --- engine_revive.c: of what had not ended when the engine that had it died --- */

/*
 * With the turn. Reads those of its executions in, and joins its sandbox, if that lives. -1: the store does not say; nothing of it is to be
 * believed then.
 */
int engine_revive(struct engine *engine, struct session *session, struct error *err) MUST_USE;
/* Those that others have put in line, `unknown` of them. False: the store does not say. */
bool engine_revive_unknown(struct engine *engine, struct session *session);

/* --- engine_far.c --- */

/* Follows an execution that another server has: of that session (its owner's) and number. */
void far_follower_begin(struct engine_follower *follower, const char *owner, const char *id, int64_t n,
                        int64_t from);
/* With the lock, as far as these have the same names without `far`. */
enum engine_next far_follower_next(struct engine_follower *follower, struct engine_event *ret);
/* True: somebody is about it still, who frees it. */
bool far_follower_close(struct engine_follower *follower);
/* Who follows what this server does not have any more follows it from afar. */
void far_follow_instead(struct engine *engine, struct session *session);
/* Once a second. */
void far_look(struct engine *engine);
/* What it has said by now, for those who follow it elsewhere; `publishes` says whether there are any. With the turn. */
bool far_publishes(const struct session *session, const struct execution *execution);
void far_publish(struct engine *engine, struct session *session, struct execution *execution);

/* --- engine_sessions.c --- */

/* PROBLEM_UNKNOWN_AGENT, PROBLEM_AGENT_OUT_OF_SERVICE. */
int engine_check_agent(struct engine *engine, const char *agent, struct arena *arena,
                       struct catalog_agent *ret, struct problem *problem) MUST_USE;

/* --- session.c, session_line.c, session_place.c, session_hear.c: one session's life --- */

const char *session_status(const struct session *session);
json_t *session_json(const struct session *session);
int64_t session_expires_ms(const struct session *session);
/*
 * How long its sandbox may live from now: as long as its age lets it; where nobody comes any more, until it has expired by idleness, and a
 * little longer, so that an engine that lives is first. What runs may take its whole time.
 */
struct place_life session_life(const struct engine *engine, const struct session *session);
/* Tells its place, which it has. */
void session_tell_life(struct engine *engine, struct session *session);
bool session_busy(const struct session *session);
/* What is put in its line now is begun at once. */
bool session_is_free(const struct session *session);
/* Writes its record, with the given ones in one step. -1 where that failed: what is in memory is to be put back then. */
int session_store_record(struct engine *engine, struct session *session, const struct session_change *more,
                         size_t count, struct problem *problem) MUST_USE;
/* The same once: 1: written; 0: somebody else has changed the record, and it is to be looked at (the session is `stale`). */
int session_try_record(struct engine *engine, struct session *session, const struct session_change *more,
                       size_t count, struct problem *problem) MUST_USE;
/* Its status has changed: whoever follows it is woken. */
void session_changed(struct session *session);
/* What its sandbox ran: the next one may run another image. */
void session_forget_image(struct session *session);
/* Gives the sandbox the next execution in line, opens a sandbox where there is none, parks and ends as it was asked to. */
void session_go_on(struct engine *engine, struct session *session);
/* What the place has to say, until it has nothing more. */
void session_hear(struct engine *engine, struct session *session);
/* Its sandbox is no more, and the memory of its kernels with it: what begins there next says so. */
void session_lost(struct session *session, const char *reason);
/*
 * Releases the lock meanwhile: others may have ended the session then, and it ends. By the thread of who asks, or of a job. -1: it
 * is in SESSION_NO_PLACE again.
 */
int session_open_place(struct engine *engine, struct session *session, bool only_living,
                       struct error *err) MUST_USE;
/* Something waits for its sandbox: an execution, or a kernel that is to be a fresh one. */
bool session_wants(const struct session *session);
/* The context's kernel is to be a fresh one, as soon as there is a sandbox. PROBLEM_BUSY where there are too many of those. */
int session_restart(struct session *session, const char *context, struct problem *problem) MUST_USE;
void session_forget_restarts(struct session *session);
/* What ran in it when the last engine died is cut off, with that detail, which is static; what its worker has left is looked at first. */
void session_died_alone(struct engine *engine, struct session *session, const char *detail);
/* Of one that is open and where nothing runs: begins to park it, or does so once its files are brought out. */
int session_park(struct engine *engine, struct session *session, struct error *err) MUST_USE;
/* Records the end. What waits ends as `killed`, the sandbox is told to end, and what runs is `killed` when it has. */
int session_end(struct engine *engine, struct session *session, enum record_ending why,
                struct problem *problem) MUST_USE;
/* The last one in line from now on. */
void session_wait(struct session *session, struct execution *execution);
void session_cut_off_running(struct engine *engine, struct session *session, enum report_status status,
                             const char *detail);
/* Cuts off all that runs and waits. */
void session_cut_off(struct engine *engine, struct session *session, enum report_status status,
                     const char *detail);
/* One that runs is interrupted in its sandbox; one that waits ends. */
void session_interrupt(struct engine *engine, struct session *session, struct execution *execution);
/* It has ended: its record is written, followers hear of it. Gives up the line's reference. */
void session_execution_ended(struct engine *engine, struct session *session, struct execution *execution);
/* The ends that could not be written yet. False: nor can they now. */
bool session_write_ends(struct engine *engine, struct session *session);

/* --- engine_limits.c --- */

/*
 * session_open_place(), with the lock as there, or a place in the line for its agent's limits. 0: it is being opened; 1: it stands in line, and its executions
 * with it. -1, ERROR_LOCKED: the agent's limits turn it away, which `must_take` forbids.
 */
int session_open_or_wait(struct engine *engine, struct session *session, bool must_take,
                         struct error *err) MUST_USE;
/*
 * PROBLEM_PLACE_FAILED where this server is out of touch with others; PROBLEM_AGENT_LIMIT where it is clear before anything is made that
 * the agent's limits turn another session away.
 */
int engine_check_limits(struct engine *engine, const char *agent, struct problem *problem) MUST_USE;
/* It is idle, and nothing keeps it from being parked now. */
bool engine_can_make_room(const struct session *session);
/* With the lock, as engine_make_room(). */
bool engine_make_room_now(struct engine *engine, const char *agent);
/* Of one that stood in the line of a server that died: it stands in this one's, where it would if all had stood there from the beginning. */
void engine_line_again(struct engine *engine, struct session *session);
/* Of one in line: 1 where it is the next of its agent. */
size_t engine_queue_position(const struct session *session);
/* Where it stands in none, nothing happens. */
void engine_leave_line(struct engine *engine, struct session *session);
/* Opens those in line for whom there is room by now. */
void engine_serve_line(struct engine *engine);

/* --- engine_measure.c --- */

/* Of one that has its result. */
void engine_watch_end(const struct engine *engine, const struct execution *execution);

/* --- engine_follow.c --- */

/* Tells who follows all: of the execution of that number, or of the session itself (0). */
void engine_tell(struct session *session, const char *name, int64_t n, const char *status);
void engine_notices_free(struct engine *engine);
void engine_follower_raise(const struct engine_follower *follower);
void engine_followers_wake(struct session *session, const struct execution *execution);
/* Those that were not, since the session's events were being heard. By the engine's thread, as the last thing under the lock. */
void engine_followers_wake_due(struct session *session);
/* Without the lock, before what is followed is looked for or begun: NULL where the process has no descriptor for it. */
struct engine_follower *engine_follower_new(struct engine *engine, struct problem *problem) MUST_USE;
/* With the lock. */
void engine_follower_begin(struct engine_follower *follower, struct session *session,
                           struct execution *execution, int64_t from);

#endif
