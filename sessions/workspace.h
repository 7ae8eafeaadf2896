/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workspaces: the durable files of sessions, each found by its owner and its id together. Where they lie is a body's to know
 * (workspace_body.h); on this machine they are plain folders:
 *
 *     {workspaces}/sessions/ID/session.json    whose it is: stack, environment, owner; until when its session lives
 *     {workspaces}/sessions/ID/workspace/      the files; each is replaced whole, none is ever written in place
 *     {workspaces}/sessions/ID/incoming/       files that are being written, each locked by who writes it, or all by who has the lock
 *     {workspaces}/sessions/ID/staged/         files of executions that wait: workspace_stage.h
 *     {workspaces}/sessions/ID/usage           how many files and bytes there are, as long as this boot of the machine lasts
 *     {workspaces}/sessions/ID/history         how many bytes the records of its executions have
 *     {workspaces}/sessions/ID/checkpoint-*    the memory of its kernels, while its session is parked: checkpoint.h
 *     {workspaces}/sessions/ID/base            what the session's own copy was last like: workspace_base.h
 *
 * The first two are those of providers/local/local_workspaces.h, which policies and guards read. What lies in workspace/ was written by
 * code that nobody trusts: it is opened beneath, no link is followed, and nothing but regular files and folders is there
 * for callers.
 *
 * Whoever is not the owner gets PROBLEM_NOT_FOUND with the same words as for an id that never was.
 *
 * A struct workspace belongs to one thread. Any number of them, in any process, may be open for one workspace: what changes
 * it holds the lock of its folder.
 */
#ifndef BERTH_SESSIONS_WORKSPACE_H
#define BERTH_SESSIONS_WORKSPACE_H

#include "base/arena.h"
#include "base/interrupt.h"
#include "sessions/problem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WORKSPACE_ID_MAX 64
#define WORKSPACE_OWNER_MAX 2400 /* bytes: of as many characters as an owner may have (engine.h), four each */

struct workspace_body;
struct workspace_row;

/*
 * The workspaces that agents have for owners, each one's containers' together. Their ids are "agent:NAME", of whoever asks: two owners'
 * of one agent are two. They lie where the containers run, change while they are looked at, and are made by the first container that has
 * them, or by workspace_make_shared().
 */
struct workspace_shared {
        /* *ret_folder has workspace/, incoming/ and session.json. PROBLEM_NOT_FOUND where there is none. */
        int (*open)(void *context, const char *owner, const char *agent, int *ret_folder,
                    struct problem *problem);
        int (*make)(void *context, const char *owner, const char *agent, const char *environment,
                    struct problem *problem);
        int (*remove)(void *context, const char *owner, const char *agent, struct problem *problem);
        /* The owner's (NULL: everybody's), by key. None is opened for that. */
        int (*list)(void *context, const char *owner, struct arena *arena, struct workspace_row **ret,
                    size_t *ret_count, struct problem *problem);
        void *context;
};
#define WORKSPACE_OF_AGENT "agent:"
/* The agent's name in such an id; NULL: it is another's. */
const char *workspace_agent_of(const char *id);

/* Where workspaces are, and whose stack they are of. All borrowed. */
struct workspaces {
        const char
                *folder; /* of this machine; of another body's, where files are kept that are on their way */
        const char *stack;
        const struct workspace_body *body;     /* NULL: folders of this machine */
        void *context;                         /* the body's own */
        const struct workspace_shared *shared; /* NULL: there are none */
};

struct workspace {
        const struct workspace_body *body;
        void *own;  /* the body's. The next three are those of this machine's */
        int folder; /* of the session */
        int files;  /* of its files */
        bool locked;
        bool shared;   /* running code changes it: it is counted at each question */
        bool own_disk; /* a disk image of its own: the free room of the workspaces' disk does not bound it */
        char id[WORKSPACE_ID_MAX + 1];
};
#define WORKSPACE_INIT \
        { .folder = -1, .files = -1 }

/* What it may hold, and what must stay free on its disk; 0: no bound. */
struct workspace_limits {
        uint64_t bytes_max;
        uint64_t files_max; /* folders are counted too */
        uint64_t folders_max;
        uint64_t free_min;
        uint64_t
                owner_max; /* not 0: bytes_max is what is left of this for the owner, and who is refused is told that */
};

struct workspace_usage {
        uint64_t files; /* and folders */
        uint64_t folders;
        uint64_t bytes;
};

/* A workspace in a list; in the arena. */
struct workspace_row {
        const char *id;
        const char *owner;
        const char *environment;
        const char *agent; /* for which its session was made; NULL: none */
        int64_t created_ms;
        int64_t lives_until_ms; /* no sweep touches its files before; 0: its session has ended */
        const char *
                key; /* of a shared one in a list: its id, and which of several owners' it is; it stands before all ids of sessions */
        uint64_t
                bytes; /* of a shared one in a list: what it takes up whatever is in it; 0: what its files do */
};

/*
 * Makes an empty one, whole or not at all. Ids are the caller's: letters, digits, "-" and "_", at most WORKSPACE_ID_MAX.
 * PROBLEM_CONFLICT where there is one.
 */
int workspace_create(const struct workspaces *workspaces, const struct workspace_row *row,
                     struct problem *problem) MUST_USE;

int workspace_open(const struct workspaces *workspaces, const char *owner, const char *id,
                   struct workspace *ret, struct problem *problem) MUST_USE;
/* The same whoever's it is: for who looks after all owners' alone. */
int workspace_open_any(const struct workspaces *workspaces, const char *id, struct workspace *ret,
                       struct problem *problem) MUST_USE;
/* Where there is one already it stays as it is. */
int workspace_make_shared(const struct workspaces *workspaces, const char *owner, const char *agent,
                          const char *environment, struct problem *problem) MUST_USE;
/* PROBLEM_NOT_FOUND as for an id that never was. */
int workspace_not_found(struct problem *problem);
void workspace_close(struct workspace *workspace);
#define WORKSPACE_CLEANUP __attribute__((cleanup(workspace_close)))

/* What session.json says of an open one. */
int workspace_describe(const struct workspace *workspace, struct arena *arena, struct workspace_row *ret,
                       struct problem *problem) MUST_USE;
/* Until then its session lives; 0: it has ended, and its checkpoints go. */
int workspace_set_life(struct workspace *workspace, int64_t lives_until_ms, struct problem *problem) MUST_USE;

/*
 * At most `limit` of the owner's (NULL: everybody's), sorted by id, those behind `after` ("" for all). *ret_more where there are
 * others behind them. Damaged ones are nobody's.
 */
int workspace_list(const struct workspaces *workspaces, const char *owner, const char *after, size_t limit,
                   struct arena *arena, struct workspace_row **ret, size_t *ret_count, bool *ret_more,
                   struct problem *problem) MUST_USE;

/* Those that agents have: all of the owner's (NULL: everybody's), by key. */
int workspace_list_shared(const struct workspaces *workspaces, const char *owner, struct arena *arena,
                          struct workspace_row **ret, size_t *ret_count, struct problem *problem) MUST_USE;

/*
 * Renames it out of sight, and then removes it: after the first step it is gone for everybody, and what a death in between leaves
 * is removed by workspace_recover(). It need not be open, and whoever has it open finds that it is gone.
 */
int workspace_remove(const struct workspaces *workspaces, const char *owner, const char *id,
                     struct problem *problem) MUST_USE;

/*
 * Removes what dead processes left: halves of workspaces that were made or removed, files that nobody writes any more, and this
 * stack's staged files where no session lives. For a server that starts.
 */
int workspace_recover(const struct workspaces *workspaces, struct problem *problem) MUST_USE;

/* Counts its files: by the number that is kept, or by walking through all of them where there is none. */
int workspace_measure(struct workspace *workspace, const struct interrupt *interrupt,
                      struct workspace_usage *ret, struct problem *problem) MUST_USE;

/* What the records of its session's executions take up: its owner's, as its files are. 0 where nobody has said. */
int workspace_set_history(struct workspace *workspace, uint64_t bytes, struct problem *problem) MUST_USE;

/* PROBLEM_WORKSPACE_FULL: so many bytes are there, and more than may be would be. */
int workspace_is_full(const struct workspace_limits *limits, uint64_t bytes, struct problem *problem);
/* PROBLEM_WORKSPACE_FULL where `more` bytes would leave less than limits->free_min on its disk. */
int workspace_check_free(const struct workspace *workspace, const struct workspace_limits *limits,
                         uint64_t more, struct problem *problem) MUST_USE;

/* ---- for the other modules on workspaces of this machine ---- */

uint64_t workspace_history(const struct workspace *workspace);

/* Waits for the lock. PROBLEM_NOT_FOUND where it was removed meanwhile. */
int workspace_lock(struct workspace *workspace, const struct interrupt *interrupt,
                   struct problem *problem) MUST_USE;
void workspace_unlock(struct workspace *workspace);

/*
 * Around each change, under the lock: what is there before it, which is then forgotten on disk, and what is there after it. A death
 * in between means that the next one counts all files.
 */
int workspace_usage_begin(struct workspace *workspace, const struct interrupt *interrupt,
                          struct workspace_usage *ret, struct problem *problem) MUST_USE;
void workspace_usage_end(struct workspace *workspace, const struct workspace_usage *usage);

/* An empty file in incoming/, locked, and its name there. It is removed by unlinkat() or by renameat(). */
#define WORKSPACE_INCOMING_MAX 48
int workspace_incoming_make(const struct workspace *workspace, char name[WORKSPACE_INCOMING_MAX],
                            int *ret_descriptor, struct problem *problem) MUST_USE;
#define WORKSPACE_INCOMING "incoming"

/* "1b4e28ba-2fa1-...": this boot of the machine; `id` takes 40 bytes. "" where the kernel does not say. */
void workspace_boot(char id[40]);

#endif
