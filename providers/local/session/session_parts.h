/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this folder alone. */
#ifndef BERTH_PROVIDERS_LOCAL_SESSION_SESSION_PARTS_H
#define BERTH_PROVIDERS_LOCAL_SESSION_SESSION_PARTS_H

#include "base/arena.h"
#include "base/interrupt.h"
#include "base/strbuf.h"
#include "process/frame.h"
#include "providers/local/local_program.h"
#include "providers/local/sandbox/sandbox_lasting.h"
#include "providers/local/sandbox/sandbox_messages.h"
#include "sessions/place.h"
#include "sessions/problem.h"
#include "sessions/workspace_owner.h"
#include "sessions/workspace_still.h"

#include <pthread.h>

struct session_place {
        struct place place;
        struct arena *arena;
        const char *root, *folder, *runtime, *launcher;
        const char *workspaces, *stack; /* NULL, both: containers share none */
        bool accept_degraded;
        struct workspace_bounds bounds;
        struct session_warm *warm; /* NULL: none */
        pthread_mutex_t lock;      /* of the next one, and of the `network` of those in it */
        struct place_session *sharing;
};

/* What the runtime said of Python and modules that it was asked to have ready. */
struct session_prepared {
        bool over;
        const char *problem; /* Python did not start; NULL: it did. In the session's arena, as the next */
        const char
                *missing; /* "NAME (REASON), NAME (REASON)": modules that could not be imported; NULL: none */
};

/* What runs, as far as this process knows. */
struct session_execution {
        int64_t n; /* 0: nothing */
        bool started;
        int64_t until_ms;      /* of the monotonic clock: then the sandbox is killed */
        enum report_status by; /* how it ends where we ended it: REPORT_TIMEOUT, or REPORT_OK: we did not */
        struct cgroup_usage before;
};

struct place_session {
        struct session_place *place;
        struct arena *arena;
        const char *socket; /* the worker's */
        const char *agent;  /* or NULL */
        struct local_program program;
        struct timespec agent_written; /* its record, when its CPUs were looked up last */
        struct sandbox_lasting lasting;
        struct frame_reader reader;
        int waits; /* an epoll(7): readable when there is something to do */
        bool listens, waits_to_send;
        struct strbuf outgoing;
        size_t outgoing_at;
        /* The runtime's stream. */
        struct frame told; /* being read */
        size_t told_at;
        uint64_t position; /* the number of the next byte of it */
        uint64_t replayed; /* below it, events may be of what ended before this opening */
        struct message_reader messages;
        struct message message; /* the last event lies in it */
        struct content_display display;
        uint64_t heard; /* the end of the last event that was given out */
        /* What the worker is still to be told of it, and when at the latest; 0: nothing. */
        uint64_t heard_later;
        int64_t heard_until_ms;
        struct place_life life_later; /* to be told with what is said next; without an age: nothing */
        /* The known state. */
        bool kept, greeted, opened;
        bool handed_over;                 /* it was warm: who has it now was not told yet that it is open */
        struct session_prepared prepared; /* of one that was asked to be */
        int64_t mark;                     /* the last execution that it took */
        int64_t mark_before; /* the one before that: its worker has not heard of `mark` while that is pending */
        struct session_execution execution, command;
        bool for_command;
        /* what it had taken when it was opened: this server knows nothing of those */
        int64_t mark_found;
        struct strbuf pending; /* the request of one whose files are being put in */
        int64_t pending_ms;    /* how long it may take */
        char *pending_staged;  /* the files that came with it; or NULL */
        bool pending_interrupt;
        struct place_event done; /* of one whose files are being brought out; type PLACE_NOTHING: of none */
        /* Its files. */
        const char *id, *owner;             /* owner NULL: they are not kept */
        int folder;                         /* the sandbox's workspace; -1: not given to us */
        const char *shares;                 /* its network, with all of the same text; NULL: with no other */
        int network;                        /* that, once its worker has given it; else -1 */
        struct place_session *next_sharing; /* in session_place.sharing */
        struct frame_reader asked;          /* else where its worker is asked for them; socket -1: nowhere */
        bool fresh;                         /* the sandbox is new, and nothing was put into it */
        bool brought_last;                  /* after its end */
        struct session_sync *sync;          /* under way, or NULL */
        bool bringing;                      /* it is what bring() began */
        struct cgroup_usage
                at_sync; /* what the sandbox had used when its files were last looked at; not known: it may be any */
        /* The last state in which no work remained: while both are unchanged, there is none. */
        struct session_still {
                struct workspace_still *copy, *kept; /* NULL: not known */
                int folder;                          /* of the second */
        } still;
        struct {
                bool failed;
                struct problem problem;
        } job;               /* how the last one of these, or of session_park.c's, went */
        struct arena *files; /* the next four lie in it */
        struct place_file_list changed, deleted, conflict, left;
        /* The memory of its kernels: session_park.c. */
        struct place_checkpoint checkpoint, taken; /* the one that it has; the one that is being taken */
        json_t *contexts;                          /* expected in it; NULL: none */
        uint64_t checkpoint_bytes_max;
        int64_t checkpoint_ms;
        enum session_parking { PARKING_NOT, PARKING_FILES, PARKING_TAKEN, PARKING_STORED } parking;
        enum session_restoring {
                RESTORING_NOT,
                RESTORING_FILES,
                RESTORING_LOOKED_AT,
                RESTORING_LOADED
        } restoring;
        int memory;              /* its file; -1: none */
        int64_t memory_until_ms; /* of the monotonic clock: then the sandbox is killed; 0: not */
        struct sandbox_ending ending;
        bool deaf;       /* the runtime's stream cannot be read any more */
        bool over;       /* ENDED came, or the worker is gone */
        bool said_ended; /* PLACE_ENDED was given out */
        const char *why; /* it ended; in the arena */
        int64_t ends_ms; /* its kernels were told to end: when it is killed; 0: they were not */
        int64_t dies_ms; /* it was told to end: when it is killed; 0: it was not */
        bool killing; /* that is under way, in a thread whose `lasting` is: nothing is said to it any more */
};

/* session_kept.c */
/* Sets spec.kept for these two. In the arena. */
void session_kept_describe(const struct session_place *place, const struct place_shared *shared,
                           const struct sandbox_limits *limits, struct arena *arena,
                           struct sandbox_spec *ret);
/*
 * Of a sandbox that is about to be started: it is there, and says whose it is. 1: it cannot be had, which was accepted, and the sandbox
 * has one of its own.
 */
int session_kept_make(const struct session_place *place, const struct place_shared *shared,
                      const struct sandbox_limits *limits, struct error *err) MUST_USE;
int session_kept_open(struct place *place, const struct place_shared *shared, int *ret_folder,
                      struct error *err) MUST_USE;
int session_kept_remove(struct place *place, const struct place_shared *shared, struct error *err) MUST_USE;
int session_kept_list(struct place *place, const char *owner, struct arena *arena, struct workspace_row **ret,
                      size_t *ret_count, struct error *err) MUST_USE;
int session_kept_recover(struct place *place, struct error *err) MUST_USE;

/* session.c */
/* Where the worker of that session is found. A launcher has them in a folder of its own, by their users. */
const char *session_worker_path(const struct session_place *place, const char *id, struct arena *arena);
/* As place_class.open(), but never a warm one. */
int session_open_cold(struct session_place *place, const struct place_opening *opening,
                      struct place_session **ret, struct error *err) MUST_USE;
/* When the sandbox ends by itself. */
void session_set_life(struct place_session *session, const struct place_life *life);
/* The same, however idle it is. */
void session_set_age(struct place_session *session, int64_t age_ms);
/* Asks the runtime to start Python and import modules, a list of texts or NULL: session->prepared says when that is over. */
void session_prepare(struct place_session *session, const json_t *modules);
/* Events up to now need not be sent again. */
void session_hear_all(struct place_session *session);
/* It was warm, and is this opening's now: that it is open is what it says next. */
int session_hand_over(struct place_session *session, const struct place_opening *opening,
                      struct error *err) MUST_USE;

/*
 * The network of one that shares it with `session`, for the caller to close; -1 if absent.
 */
int session_network_of(const struct place_session *session);

/* session_start.c */
/* The worker of the opening, found or started. */
int session_start(struct place_session *session, const struct place_opening *opening,
                  struct error *err) MUST_USE;

/*
 * The newest applied CPU share of its agent holds for all that runs for it. A user's systemd is
 * waited for: by the thread that brings its files, before an execution.
 */
void session_share_cpus(struct place_session *session);
/* Whether there is anything to do for that; at once. */
bool session_cpus_have_changed(const struct place_session *session);

/*
 * A slot of those that may run for the opening's agent at the same time, and its lock: -1 if there
 * is no such limit. ERROR_LOCKED: there is no room.
 */
int session_slot_take(const struct session_place *place, const struct place_opening *opening,
                      const struct local_program *program, int *ret, struct error *err) MUST_USE;

/* session_files.c */
/* Whether it has a copy that we can reach, and a workspace for it. */
bool session_files_kept(const struct place_session *session);
/* Of the two in the sandbox's copy and out of it: `after` an execution out of it alone. */
int session_files_begin(struct place_session *session, bool after, struct error *err) MUST_USE;
/*
 * Whether there is nothing to do for the two, told at once; then there are no events of files.
 * Else, and where it cannot be told, false.
 */
bool session_files_are_still(struct place_session *session, bool after);
void session_files_forget(struct place_session *session);
/* What takes long, as files do, in the same thread: nothing else is done with the session meanwhile. Its outcome is session->job. */
typedef int session_job(struct place_session *session, const struct interrupt *interrupt,
                        struct problem *problem);
int session_files_begin_job(struct place_session *session, session_job *job, struct error *err) MUST_USE;
bool session_files_are_over(const struct place_session *session);
void session_files_stop(struct place_session *session);
/* Waits for it; what came of it is in the session, until the next one. */
void session_files_end(struct place_session *session);

/* session_event.c: what a message of the runtime's means. False: nothing for the engine. -1: it cannot be believed. */
int session_event_read(struct place_session *session, struct place_event *ret, struct error *err) MUST_USE;
/* The end of an execution that the sandbox took with it. */
void session_event_cut(struct place_session *session, struct session_execution *execution,
                       struct place_event *ret);

/* session_park.c. True: *ret is an event. */
/* The worker has a file for a checkpoint that it takes by itself. */
void session_park_arm(struct place_session *session);
bool session_park_ask(struct place_session *session, struct place_event *ret);
/* PARKED came: "", or why not. */
bool session_park_told(struct place_session *session, const char *why, struct place_event *ret);
void session_park_end(struct place_session *session, struct place_event *ret);
/* Its files first: variables may be of classes in modules of the workspace, or read files as they are restored. */
bool session_restore_begin(struct place_session *session, struct place_event *ret);
bool session_restore_look(struct place_session *session, struct place_event *ret);
bool session_restore_ask(struct place_session *session, struct place_event *ret);
bool session_restore_end(struct place_session *session, const struct report *report, struct place_event *ret);
int session_park_adopt(struct place *place, const struct place_opening *opening, int64_t last,
                       struct place_checkpoint *ret, struct error *err) MUST_USE;

#endif
