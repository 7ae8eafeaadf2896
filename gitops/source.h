/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One source at work; of the loop alone: follow.c makes them, children.c those of a pattern, source.c is the thread, source_poll.c asks
 * Git, source_reconcile.c brings a commit into force, commands.c answers people.
 *
 * `lock` guards what is marked with it, and is never held over a call that may wait; `saving` orders the writes of the
 * state's meta, and is taken before `lock`.
 */
#ifndef BERTH_GITOPS_SOURCE_H
#define BERTH_GITOPS_SOURCE_H

#include "base/digest.h"
#include "gitops/controller_metrics.h"
#include "gitops/follow.h"
#include "gitops/notifier.h"
#include "gitops/status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

enum wake {
        WAKE_POLL = 1 << 0,     /* a webhook, or resume: is there a new commit? */
        WAKE_SYNC = 1 << 1,     /* look at everything, whatever was found before */
        WAKE_DECISION = 1 << 2, /* a person approved or allowed something */
        WAKE_HANDED = 1 << 3    /* a child: its parent has a commit for it */
};

/* How many reconcile at once: memory is bounded by it. */
#define SLOT_COUNT 4

/* A file, whatever its present name. */
struct file_identity {
        dev_t device;
        ino_t inode; /* 0: none */
};

struct following {
        const struct follow_args *args;
        const struct controller_config *config;
        const struct clock *clock;
        struct metrics *metrics;
        struct provider_watch watch; /* into them */
        struct notifier *notifier;   /* NULL without notifications */
        /* Those of the Controller, then children as they come. None is ever taken away or moved: any thread may walk them. */
        struct source **sources;
        atomic_size_t count;
        pthread_mutex_t adding; /* of children */
        int64_t started_ms;     /* wall time */
        atomic_bool stopping;
        pthread_mutex_t slot_lock;
        pthread_cond_t slot_free;
        unsigned slots_taken;
};

static inline size_t following_count(const struct following *following) {
        return atomic_load(&following->count);
}

/* Children that one source may have, those that are gone included. */
#define CHILDREN_MAX 1000
#define CHILDREN_FOLDER "folders" /* of a source's folder: their states */
#define FOLDER_GONE "FolderGone"  /* of the condition Ready */

struct source {
        struct following *following;
        const struct source_config *config;
        struct source *parent;           /* of a child; else NULL */
        struct source_config own_config; /* a child's */
        char *folder, *git_folder, *plan_path;
        const char *url; /* for people */
        struct arena *names;
        pthread_t thread;
        bool started;
        pthread_mutex_t repository; /* one worker at a time in git_folder; a child uses its parent's */
        pthread_mutex_t saving;
        struct state *state;             /* `saving` to open it; NULL where it cannot be opened */
        struct file_identity state_file; /* what was opened; the lock's */

        pthread_mutex_t lock;
        pthread_cond_t wake;
        /* All of these under the lock. Times are monotonic, 0: not at all. */
        struct source_status status;
        unsigned woken; /* of enum wake */
        uint64_t rounds_begun, rounds_ended;
        bool busy;
        bool reached_end; /* was once reconciled to its end since the start */
        bool ended;       /* the thread is done */
        int64_t next_poll_ms, next_drift_ms, next_retry_ms;
        int64_t heard_ms;
        int exit_code;          /* with --once */
        json_t *handed;         /* of a child: the commit that its thread has not taken yet; or NULL */
        char told[COMMIT_SIZE]; /* of a child: the last one that was handed, taken or not */
        bool gone;              /* of a child: the newest commit has no such folder */
        bool retired;           /* and it holds nothing: it is not reported */

        /* The thread's own. */
        unsigned poll_failures, failures;
        char warned[SHA256_HEX_SIZE]; /* of what the last plan warned of */
        bool looked;                  /* at everything that exists, since the start */
        bool has_slot;
        bool new_here;  /* began without a commit of its own, and has not asked a shared state for one yet */
        bool ask_again; /* Git, at once: an attempt has found out what was followed before */
};

/* source.c */
void source_init(struct source *source, struct following *following, const struct source_config *config);
void source_init_child(struct source *source, struct source *parent, const char *path);
void source_dispose(struct source *source);
int source_start(struct source *source, struct error *err) MUST_USE;      /* its thread */
int source_open_state(struct source *source, struct error *err) MUST_USE; /* fine where it is open */
/*
 * Whether the state that was opened still is where it was: a folder that was removed, or replaced,
 * leaves a state that no process can ever open, and writes to it are lost. One stat(2), any thread;
 * true where none was opened yet.
 */
bool source_has_its_state(struct source *source);
/* Runs until the loop stops; with --once one round. */
void *source_run(void *argument);
void source_wake(struct source *source, unsigned why);
/* Writes the status to the state. */
int source_save(struct source *source, struct error *err) MUST_USE;
/*
 * Writes the status as it will be with this decision, and puts the decision into it only then: a
 * decision that could not be written must not be acted on. `decision` is given up. ERROR_REFUSED
 * where another commit came meanwhile: it was decided about the one before.
 */
int source_decide(struct source *source, struct decision *decision, struct error *err) MUST_USE
        __attribute__((nonnull(2)));
/* The status of a running source: a new reference. */
json_t *source_json(struct source *source);
void source_hear(struct source *source); /* it lives */
/*
 * A new commit, whose reference is given up: what was decided about the one before means nothing any more. The thread alone.
 */
void source_follow(struct source *source, json_t *commit);
/* Tells log and notifications. `detail` is joined into the document, and given up; may be NULL. */
void source_tell(struct source *source, enum notify_event event, const char *commit, const char *reason,
                 const char *message, json_t *detail);
/* After problem or verdict was changed (under no lock): conditions, log, notifications. */
void source_conclude(struct source *source);

/* source_poll.c */
struct git_answer;
enum poll_outcome { POLL_UNCHANGED, POLL_MOVED, POLL_FAILED, POLL_INTERRUPTED };
enum poll_outcome source_poll(struct source *source, struct arena *arena, struct git_answer *ret);
/* A commit accepted before, from the bare repository. */
int source_read_commit(struct source *source, const char *commit, struct arena *arena, struct git_answer *ret,
                       struct error *err) MUST_USE;
/*
 * The manifests of another folder of that commit, which the source's Stack includes. -1 with ERROR_NOT_FOUND where it has no
 * such folder, or none that may be read.
 */
int source_read_included(struct source *source, const char *commit, const char *folder, struct arena *arena,
                         struct git_answer *ret, struct error *err) MUST_USE;
/* {id, ref, subject, author, signer, committedAt}: a new reference. */
json_t *commit_json(const struct git_answer *answer, const char *ref);

/* source_reconcile.c */
struct reconcile_args {
        const struct git_answer *answer; /* with files where it moved; or NULL */
        bool full;                       /* look at everything that exists: the drift timer, sync */
        bool again;                      /* also what is known to be bad */
};
void source_reconcile(struct source *source, const struct reconcile_args *args, struct arena *arena);
/* Takes one of SLOT_COUNT slots; false where the loop stops first. */
bool source_take_slot(struct source *source) MUST_USE;
void source_give_slot(struct source *source);

/* children.c: of a source whose path is a pattern, on its own thread but for the second. */
void children_follow_commit(struct source *tree, const struct git_answer *answer,
                            struct arena *arena);    /* newest commit */
void children_restore(struct source *tree);          /* those of the last run, before any thread is started */
void children_go_on(struct source *tree, bool sync); /* starts and wakes those that need it */
void children_report_gone(struct source *child);     /* on the child's thread */
/* Warns of states that a path of before has left. */
void children_mention_former(const struct source *source);

/* commands.c: what the control socket answers. */
json_t *commands_answer(void *context, json_t *json);

#endif
