/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where code runs: one sandbox a session, on this machine or elsewhere. The engine knows a place by this table only; a body is given
 * to it (providers/local/session/ is the one of this machine).
 *
 *      open -> poll descriptor() for patience_ms() -> next: PLACE_OPENED
 *           -> execute -> next: PLACE_STARTED, PLACE_OUTPUT, PLACE_DISPLAY ... PLACE_DONE -> heard ->  execute ...
 *           -> leave (the sandbox lives on, and is opened again later), or end -> next: PLACE_ENDED -> leave
 *           -> park -> next: PLACE_PARKED -> write down the checkpoint -> end; or execute: it is called off
 *
 * Nothing here waits for code to run: what takes long is begun, and `next` says how it went. One thread can have hundreds open. A
 * session is used by one thread at a time; a place by many. open(), leave(), clear() and adopt() may take long all the same, a minute at
 * worst (a program that they need was stopped, a disk is slow): they are called where nobody else waits for them.
 *
 * A sandbox outlives whoever opened it. Events have numbers, and those that nobody said to have heard are told again to who opens the
 * sandbox after a death: the same numbers, the same content, none left out and none twice in one opening. So the engine writes
 * down what an event means, and calls `heard` then. What was not heard is kept beside the sandbox, PLACE_UNHEARD_MAX bytes
 * about; beyond that the code waits in its next print. An engine that keeps less output than comes says early that it has heard.
 *
 * Everything that an event carries comes out of a sandbox, and may be anything that its code wanted to say: bounded by
 * runtime/protocol/content.h and checked for its form (texts are UTF-8 without NUL, but for output and the bytes of displays). That it
 * belongs to the execution that runs, and that each execution ends once, is held by the place.
 */
#ifndef BERTH_SESSIONS_PLACE_H
#define BERTH_SESSIONS_PLACE_H

#include "base/arena.h"
#include "base/error.h"
#include "runtime/protocol/report.h"
#include "runtime/protocol/request.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLACE_UNHEARD_MAX ((size_t)20 << 20)
#define PLACE_CONTEXTS_MAX 8
#define PLACE_NOTE_MAX ((size_t)4096)
#define PLACE_INPUT_MAX ((size_t)15 << 20) /* code and standard input of one execution, together */

struct place;
struct place_session; /* a body's own */

/*
 * The memory of a session's kernels as a file of the place's, beside the workspace. What is in it came out of the sandbox: it is
 * given to that session's sandbox alone, and only with this digest.
 */
struct place_checkpoint {
        char digest[65]; /* SHA-256 in hex; "": there is none */
        uint64_t bytes;
        int64_t taken_ms; /* kept by the engine; places need not say it */
};

struct place_opening {
        const char *id;          /* of the session: names its sandbox */
        const char *environment; /* as it was applied; NULL: the agent's */
        const char *agent;       /* whose limits hold; or NULL */
        /* The folder of its files, where they are kept on this machine. */
        const char *workspace;
        /* Whose the session is, and the workspace of that id, which is there (workspace.h); NULL: its files are not kept. */
        const char *owner;
        /* The sandbox ends by itself so long after now, 1 to 14 days' worth: the session's age. place_class.expire() makes it less. */
        int64_t ttl_ms;
        /* Only one that lives: ERROR_NOT_FOUND where none does. Else one is started where none lives. */
        bool only_living;
        /*
         * What the engine believes to run: its number and how long it may still take, in ms; 0 and 0: nothing. Of a sandbox that
         * took a lower number last, that execution never began.
         */
        int64_t running, running_ms;
        bool parked; /* by PLACE_PARKED, and nothing was executed since */
        const json_t *
                note; /* the last one that an event of the session had, in any place_session; NULL: none had */
        /* It is there for a command (place_execution.arguments): never a warm one. The number of that which runs, or 0. */
        bool for_command;
        int64_t command;
        /* Whose such a one is, of `agent`: its workspace is the one of these two. NULL: it is its own, and goes with it. */
        const char *shares_files_of;
        /*
         * One that shares its network: with all of the same text, of which one may live already. NULL: with nobody. What connects to the i-th
         * of the sockets comes to the i-th port in there; they stay the caller's.
         */
        const char *network;
        const int *listeners;
        const uint16_t *ports;
        size_t port_count;
        /*
         * What a new sandbox begins with, before PLACE_OPENED; other checkpoints of the session may be removed. NULL: with nothing. The
         * kernels of `contexts` have generation 2 then, whether they could be restored or are lost, and all others begin with 1.
         */
        const struct place_checkpoint *checkpoint;
        const json_t *contexts; /* the names of the contexts that should be in it: at most 8, each once */
        /* Of those that are taken, and given back; 0: the place's defaults. */
        uint64_t checkpoint_bytes_max;
        int64_t checkpoint_ms;
        /*
         * Of a place that begins executions some time after execute(): asked by any thread when that is about to be, after the time was taken
         * that bounds how long it may run; `term` is the execution's. False: another server may have the session by now, and nothing of it is
         * begun. NULL: always.
         */
        bool (*may_begin)(void *context, uint64_t term);
        void *may_begin_context;
};

struct workspace_row;

/* The workspace of an agent for an owner, which all of its containers for him have. */
struct place_shared {
        const char *agent, *owner;
        const char *
                environment; /* whose quota it gets when it is made; NULL: it is not made where there is none */
};

/* When a sandbox ends by itself if nobody says otherwise: so many ms from now. */
struct place_life {
        int64_t age_ms; /* whatever it does then; never after its ttl */
        int64_t idle_ms; /* while no client is connected; a little later where output was not heard; INT64_MAX: not at all */
};

struct place_execution {
        int64_t n; /* rises in a session, from 1 */
        enum request_language language;
        const char *context; /* content_is_context() */
        const char *code;
        size_t code_length;
        /*
         * A program and what it is given, a list of texts (request_is_arguments()), instead of code: the command that the sandbox is there
         * for. It runs beside the executions, for as long as it likes, and an interrupt is SIGTERM to it. Of those one at a
         * time, too; numbers go up over both.
         */
        const json_t *arguments;
        const char *input; /* standard input; NULL: at its end */
        size_t input_length;
        const json_t *variables; /* NULL, or an object of texts; REQUEST_VARIABLES_MAX and its bytes */
        int64_t timeout_ms;      /* 1 to REQUEST_TIMEOUT_MS_MAX; not looked at of a command */
        uint64_t term;           /* for place_opening.may_begin */
        struct place_life life;  /* as of place_class.expire(), told with it; an age of 0: nothing new */
        /* Files that came with it, to be put into the workspace before it begins (workspace_stage.h); NULL: none. */
        const char *staged;
};

enum place_event_type {
        PLACE_NOTHING, /* nothing new yet */
        PLACE_OPENED,  /* first of all */
        PLACE_STARTED,
        PLACE_OUTPUT,
        PLACE_DISPLAY,
        PLACE_DONE, /* the last of an execution; also of one that was cut off: `killed`, `memory` or `failed` then */
        PLACE_RESTARTED,
        PLACE_PARKED,  /* the checkpoint is safe, and the sandbox still lives: for end() */
        PLACE_STAYED,  /* it was to be parked, and goes on: `reason` */
        PLACE_BROUGHT, /* what bring() was asked for is done */
        PLACE_LEAVING, /* somebody has told its worker to end: park() it, or it is killed soon */
        PLACE_ENDED    /* no process of it is left. Always the last */
};

enum place_was { PLACE_NEW, PLACE_KEPT, PLACE_RESTORED, PLACE_LOST };

/* One file of the workspace, of those that an execution changed. */
struct place_file {
        const char *path; /* below the workspace; any bytes but NUL */
        uint64_t bytes;
        const char *sha256; /* in hex; changed files have it */
        const char *reason; /* why it was left in the sandbox; skipped ones have it */
};
struct place_file_list {
        const struct place_file *items;
        size_t count;
};

/* Everything is borrowed until the next call about this session. */
struct place_event {
        enum place_event_type type;
        uint64_t id; /* for `heard`; rises. 0: nothing to hear (OPENED, ENDED) */
        int64_t n;   /* started, output, display, done */
        /* opened */
        bool kept;    /* a sandbox that lived was found; else it is new */
        int64_t last; /* of one that was kept: the last execution that it took, 0 where it took none. What comes after began nowhere */
        bool loaded; /* opened: the checkpoint was. Else `reason`, where there was one and the sandbox is new */
        /* parked */
        struct place_checkpoint checkpoint;
        bool restoring; /* ended: while the checkpoint was loaded, which may have done it */
        /*
         * done, restarted, parked: what the place has to know of the session when it is opened again, by whichever server; at most
         * PLACE_NOTE_MAX as text. It is written down in one step with what the event means, and told to nobody else. NULL: as before.
         */
        const json_t *note;
        /* started: what it began with. generation 0: sh, which has none */
        const char *context;
        int64_t generation;
        enum place_was was;
        const char *reason;            /* lost, opened, stayed, ended: why, in words for people */
        bool says_why;                 /* started, restored: `reason` is all there is to say of it */
        const json_t *restored, *lost; /* [name], [{name, type, why}]; NULL where there was no checkpoint */
        /* output */
        bool is_stderr;
        const char *bytes;
        size_t length;
        /* display */
        bool is_main;     /* the value of the last expression */
        const char *file; /* where its image lies below the workspace, or NULL */
        const struct content_display *display;
        /* done */
        enum report_status status; /* report_status_name() */
        int64_t exit_code;         /* -1: nothing ended by itself */
        struct content_value value;
        struct content_error error;
        const char *ended;  /* why the kernel does not live any more, or NULL */
        const char *detail; /* for people, or NULL */
        int64_t wall_ms, cpu_ms;
        uint64_t peak_memory_bytes; /* of the sandbox so far; 0: not known */
        /* What was kept of the kernels' memory after it, in bytes, and how long that took. Both 0: nothing was. */
        uint64_t checkpoint_bytes;
        int64_t checkpoint_ms;
        int64_t stdout_bytes, stderr_bytes, displays_dropped;
        int64_t left; /* processes that live on */
        bool not_taken; /* nothing of it ran, and the sandbox has not heard of it: the one before it is the last that it took */
        struct place_file_list changed, deleted, conflict, skipped;
};

struct place_usage {
        uint64_t cpu_us; /* of all CPUs, since the sandbox began */
        uint64_t memory_bytes,
                peak_memory_bytes; /* that count against its limit: what it keeps in memory of files, too */
};

/* What a body implements. All but the four that may take long do at once what they do. */
struct place_class {
        /*
         * Its kernels' generations go on from one sandbox of the session to the next, by the place's own note. Else each sandbox counts from
         * 1, and the engine goes on.
         */
        bool counts_generations;
        /* Its sandboxes can be there for a command: place_opening.for_command. */
        bool runs_commands;
        /*
         * Begins to open it; what cannot even be begun (no such environment, limits that the machine cannot hold) fails here.
         * ERROR_LOCKED: as much runs for its agent as may, and later there may be room.
         */
        int (*open)(struct place *place, const struct place_opening *opening, struct place_session **ret,
                    struct error *err);
        /* Readable when next() has something to do. It may change with each next(). */
        int (*descriptor)(const struct place_session *session);
        /* So many ms after which next() must be called though nothing is readable; -1: none. */
        int64_t (*patience_ms)(const struct place_session *session);
        /* Until it says PLACE_NOTHING. -1: it can be heard no more: leave() it and clear() its id, or open it again. */
        int (*next)(struct place_session *session, struct place_event *ret, struct error *err);
        /*
         * One at a time, after PLACE_OPENED; where one runs it is an error. ERROR_UNREACHABLE where the sandbox is dying, which
         * PLACE_ENDED will say: nothing of it ran, nor will. Files that were put into the workspace from outside are in the sandbox before
         * the code begins; where those that came with it cannot be, nothing of it runs, and PLACE_DONE says `failed` and why. The place ends
         * what goes on beyond its deadline: the whole sandbox, where nothing else helps.
         */
        int (*execute)(struct place_session *session, const struct place_execution *execution,
                       struct error *err);
        /* Of one that has ended nothing happens. */
        void (*interrupt)(struct place_session *session, int64_t n);
        /* Of one that shares its network: lines for its /etc/hosts, in place of those before. May be NULL. */
        void (*name)(struct place_session *session, const char *lines);
        /* Ends a context's kernel: PLACE_RESTARTED, and what ran there is done. */
        int (*restart)(struct place_session *session, const char *context, struct error *err);
        /*
         * Takes the checkpoint: PLACE_PARKED or PLACE_STAYED. Until then nothing is executed. ERROR_REFUSED where something runs,
         * or the place cannot do it.
         */
        int (*park)(struct place_session *session, struct error *err);
        /*
         * Brings out what was written since the last execution, by what it left behind: PLACE_BROUGHT follows, and until then nothing is
         * executed or parked. Of one that is open and where nothing runs. 1: nothing can have been written. May be NULL.
         */
        int (*bring)(struct place_session *session, struct error *err);
        void (*expire)(struct place_session *session, const struct place_life *life);
        /* This event and all before it are safe. */
        void (*heard)(struct place_session *session, uint64_t id);
        /* What it uses, for people to look at. False: nobody knows, of one that ends or is not open yet, too. May be NULL. */
        bool (*measure)(struct place_session *session, struct place_usage *ret);
        /* Kills what there is: PLACE_ENDED follows. */
        void (*end)(struct place_session *session);
        /* Lets go of it, whatever it does; a sandbox that lives goes on, of one that has ended the rest is removed. Frees it. NULL is fine. */
        void (*leave)(struct place_session *session);
        /*
         * Ends the sandbox of that id where one lives, and removes what is left of one that died with nobody there: for a server that
         * starts, of sessions that it does not open.
         */
        int (*clear)(struct place *place, const char *id, struct error *err);
        /*
         * Of one that does not live: 1 where its worker took a checkpoint before it ended, with nobody there, and after the
         * execution `last`. May be NULL: workers of this place do not.
         */
        int (*adopt)(struct place *place, const struct place_opening *opening, int64_t last,
                     struct place_checkpoint *ret, struct error *err);
        /*
         * The folder of a shared workspace (workspace.h): ERROR_NOT_FOUND where there is none. It may take as long as a file system
         * takes to be made. May be NULL, all of them: this place has none.
         */
        int (*shared_open)(struct place *place, const struct place_shared *shared, int *ret_folder,
                           struct error *err);
        /* No container has it. */
        int (*shared_remove)(struct place *place, const struct place_shared *shared, struct error *err);
        /* The owner's (NULL: everybody's), by key, in the arena; none of them is opened for that. */
        int (*shared_list)(struct place *place, const char *owner, struct arena *arena,
                           struct workspace_row **ret, size_t *ret_count, struct error *err);
        /* Before the first of these: what the list says is made true again where a death or somebody else's hand left it otherwise. */
        int (*shared_recover)(struct place *place, struct error *err);
        /*
         * -1 where it is clear that no sandbox could be started now: what all of them need is missing. For probes: at once, and nothing is
         * started. May be NULL.
         */
        int (*check)(struct place *place, struct error *err);
        void (*close)(struct place *place);
};

/* A body's own structure begins with this. */
struct place {
        const struct place_class *class;
};

#endif
