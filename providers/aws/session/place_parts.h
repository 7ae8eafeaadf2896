/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files place*.c alone. */
#ifndef BERTH_PROVIDERS_AWS_SESSION_PLACE_PARTS_H
#define BERTH_PROVIDERS_AWS_SESSION_PLACE_PARTS_H

#include "base/arena.h"
#include "base/interrupt.h"
#include "jobs/jobs.h"
#include "providers/aws/session/invoke.h"
#include "providers/aws/session/place.h"
#include "providers/aws/workspace/workspace_index.h"
#include "runtime/protocol/invocation.h"

#include <pthread.h>
#include <stdatomic.h>

struct aws_place {
        struct place place; /* the first */
        struct aws_place_config config;
        struct arena *arena;
        atomic_bool streams_missing;       /* InvokeWithResponseStream is not to be had here */
        struct jobs *invocations, *urgent; /* place_jobs.c */
};

/*
 * The state that a session's next execution needs; as JSON it is the place's note: {n, [boot],
 * contexts: {NAME: GENERATION}, [checkpoint: {n, sha256, bytes}], [lacks]}.
 */
struct place_memory {
        int64_t n;                          /* the last execution that may have begun; 0: none */
        char boot[INVOCATION_BOOT_SIZE];    /* the environment where it did; "": not known */
        json_t *contexts;                   /* kernels that began, and the generation of each; never NULL */
        struct place_checkpoint checkpoint; /* the last one; without a digest: none */
        int64_t checkpoint_n;               /* the execution that it was taken after */
        char lacks[256]; /* why none was taken after a later one; "": it is the newest memory that there is */
};
void place_memory_begin(struct place_memory *memory, const json_t *note);
json_t *place_memory_note(const struct place_memory *memory); /* a new reference */
void place_memory_release(struct place_memory *memory);

/* An event for the engine, with all that it refers to. */
struct place_item {
        struct place_item *next;
        struct place_event event;
        struct message message; /* of the runtime; or all zero */
        struct report report;
        struct arena *arena; /* or NULL */
        json_t *note;        /* or NULL */
        size_t bytes;
};

/* An execution that was asked for, copied. */
struct place_task {
        struct arena *arena;
        struct interrupt stop; /* NOW: while Lambda does not have it, it is not to be sent any more */
        struct place_execution execution;
        json_t *variables;
        bool only_await;  /* another server has begun it, and has died: its result is waited for */
        int64_t await_ms; /* as long as that may take */
};

struct place_session {
        struct aws_place *place;
        struct arena *arena;
        const char *id, *owner, *environment;
        int64_t checkpoint_bytes_max, checkpoint_ms;
        bool (*may_begin)(void *context, uint64_t term); /* or NULL; see place_opening */
        void *may_begin_context;
        struct interrupt left; /* NOW: the session was left, and nothing is waited for any more */
        int wake;              /* an eventfd: readable when next() has something to do */
        bool kept;             /* there is something to go on with */
        int64_t last;          /* of it: the execution that was begun last */
        pthread_mutex_t lock;  /* of all below but the last three */
        pthread_cond_t changed;
        struct place_item *first_item, *last_item;
        size_t item_bytes; /* of all of them */
        uint64_t last_id;
        size_t jobs;             /* threads that work for it, or will */
        bool works;              /* one of them does what is asked, one after the other */
        struct place_task *task; /* to be done, or under way; NULL: none */
        json_t *restarts;        /* contexts whose kernels must start again; NULL: none */
        int64_t running;         /* number of what runs; 0: nothing */
        bool interrupted;        /* it was asked to stop */
        bool sent;               /* and Lambda may have it already */
        bool ending, said_ended, said_opened;
        int64_t signed_seconds; /* how long what is signed for the next call lives; who works has it */
        /* Used by the working thread, and while none works, by the caller. */
        struct place_memory memory;
        bool count_due;           /* once the execution has ended, its files must be counted in the bucket */
        uint64_t files_bytes;     /* that they may be; 0: not limited */
        struct place_item *given; /* the last event that was given out; the engine's thread's */
        /* keys of the bucket that are not needed any more, once that event was heard; NULL: none */
        json_t *drops;
        uint64_t drops_id;
};

/* --- place_jobs.c: threads, a bounded number of them --- */

typedef void place_work(struct place_session *session);
int place_jobs_start(struct aws_place *place, struct error *err) MUST_USE;
/* Has it done soon. Urgent is what takes a moment, and what others wait for. `session->lock` is not held. */
void place_jobs_add(struct aws_place *place, struct place_session *session, place_work *work, bool urgent);
/* Does all that was added, and waits until no thread lives. */
void place_jobs_stop(struct aws_place *place);

/* --- place.c --- */

void place_task_free(struct place_task *task);
void place_wake(struct place_session *session); /* with its lock: next() has something to do */

/*
 * The next event; the item is the session's from now on. Waits while the engine is far behind: -1
 * if it takes no more events.
 */
int place_say(struct place_session *session, struct place_item *item);
struct place_item *place_item_new(enum place_event_type type, int64_t n);
void place_item_free(struct place_item *item);

/* --- place_files.c: the session's files --- */

struct place_files {
        bool kept;                    /* it has a workspace in the bucket */
        bool listed_apart;            /* by the object transfer/N/files */
        struct workspace_index index; /* as it was when the execution was sent; in the call's arena */
        /*
         * it is the current one: another server had sent the execution, and changes since then are
         * not known
         */
        bool of_now;
        int64_t since_ms; /* objects that were put since then are others' (`of_now`), or may be. By AWS's clock */
        json_t *offer; /* the event's `workspace`; NULL: it has none */
};
/* Puts the files into the workspace that came with the execution. Those that have no room or no place there are `ret_skipped`, in the arena. */
int place_files_stage(struct place_session *session, const char *staged,
                      const struct aws_place_environment *environment, struct arena *arena,
                      struct place_file_list *ret_skipped, struct error *err) MUST_USE;
/* The index, as it is now. */
int place_files_find(struct place_session *session, struct arena *arena, struct place_files *ret,
                     struct error *err) MUST_USE;
/* The same, and what the runtime is told of it. ERROR_REFUSED where more is there than may be. */
int place_files_offer(struct place_session *session, int64_t n,
                      const struct aws_place_environment *environment, struct arena *arena,
                      struct place_files *ret, struct error *err) MUST_USE;
/*
 * What became of it: -1 where the workspace has not heard of all of it. What code has deleted and others have put meanwhile stays: it is
 * moved from one list of the answer to another.
 */
struct place_answer;
int place_files_settle(struct place_session *session, const struct place_files *files,
                       struct place_answer *answer, struct error *err) MUST_USE;
/* Tells of them in the answer, as skipped. */
void place_files_skip(struct place_answer *answer, struct place_file_list skipped);
void place_files_release(struct place_files *files);
/* Holds the index against the bucket: files could not be brought in, which are not what it says, or it is due. */
void place_files_check(struct place_session *session, uint64_t files_bytes);
/* Whether the bucket may hold what the index was never told, for long enough. */
bool place_files_is_count_due(const struct place_session *session, const struct place_files *files);

/* --- place_call.c: what an invocation is told --- */

/* A presigned GET; in the arena. */
int place_sign_get(const struct place_session *session, const char *key, struct arena *arena,
                   const char **ret, struct error *err) MUST_USE;
/* {url, prefix, fields}: a new reference, NULL with err. */
json_t *place_sign_folder(const struct place_session *session, const char *prefix, uint64_t bytes_max,
                          struct arena *arena, struct error *err);

/* {get, bytes, sha256} of an object transfer/N/NAME, which is written now: a new reference, NULL with err. */
json_t *place_put_object(const struct place_session *session, int64_t n, const char *name, const void *bytes,
                         size_t length, const char *type, struct arena *arena, struct error *err);

struct place_call {
        struct aws_place_environment environment;
        bool has_body;      /* the object transfer/N/body has its code and input */
        const char *tenant; /* or NULL */
        struct strbuf event;
        int64_t started_ms, deadline_ms; /* since 1970, by AWS's clock */
        struct place_files files;
        struct place_file_list skipped; /* of the files that came with it; in the arena */
};
#define PLACE_CALL_INIT \
        { .event = STRBUF_SECRET }
void place_call_release(struct place_call *call);
/* The event for a request; `staged`: files that came with it, or NULL. `request->n` or, of what is no execution, the last one's number is its own. */
int place_call_make(struct place_session *session, const struct request *request, const char *staged,
                    int64_t n, int64_t timeout_ms, struct arena *arena, struct place_call *ret,
                    struct error *err) MUST_USE;
/* Keys in the bucket, in the arena. */
const char *place_key(const struct place_session *session, int64_t n, const char *name, struct arena *arena);

/* --- place_answer.c: what comes back --- */

/* The content of one answer. */
struct place_answer {
        struct place_session *session;
        int64_t n;
        bool is_execution;
        bool buffered;
        struct strbuf whole; /* of a buffered one */
        struct message_reader reader;
        size_t shown,
                shown_before; /* events that were said; of a second copy of the answer: as many were before */
        bool greeted, started, restarted;
        struct message done_message, end_message;
        struct report done;
        struct invocation_end end;
        bool has_done, has_end;
        struct arena *arena; /* of what follows */
        const char *refused; /* the runtime's word; NULL: none */
        struct place_file *files[5];
        size_t counts[5];
        int64_t left_ms;  /* of one from the bucket: when it was left there */
        json_t *contexts; /* that began, with their generations */
        struct error lie; /* what cannot be */
        bool lied, deaf;  /* deaf: the engine takes no more events */
};
enum {
        PLACE_FILES_CHANGED,
        PLACE_FILES_DELETED, /* by the code */
        PLACE_FILES_GONE,    /* from the bucket, before */
        PLACE_FILES_CONFLICT,
        PLACE_FILES_SKIPPED
};
void place_answer_begin(struct place_answer *answer, struct place_session *session, int64_t n,
                        bool is_execution, bool buffered);
void place_answer_release(struct place_answer *answer);
/* False: no more of it is wanted. As invoke_call.sink. */
bool place_answer_take(void *context, const void *bytes, size_t length);
/* All has come that will: of a buffered one it is read only now. */
void place_answer_end(struct place_answer *answer);
/* Forgets all that has come but how much was said: the same answer comes once more, from the bucket. */
void place_answer_again(struct place_answer *answer);

/* --- place_run.c: one invocation from its beginning to its end --- */

/* Does all that was asked of the session, one after the other. */
void place_run(struct place_session *session);
/* Removes what the session's `drops` name. */
void place_run_drop(struct place_session *session);
/* Puts the object that the runtime looks for. */
void place_run_interrupt(struct place_session *session);
/* At most 1,000 keys. */
int place_delete(struct aws_place *place, const struct s3_object *objects, size_t count,
                 const struct interrupt *ended_by, struct arena *arena, struct error *err) MUST_USE;
/* Removes all that lies below transfer/ of a session. */
int place_run_clear(struct aws_place *place, const char *id, struct error *err) MUST_USE;

#endif
