/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the runtime share: its state, and what each part does to it. Not for others. */
#ifndef BERTH_RUNTIME_SERVE_RUNTIME_PARTS_H
#define BERTH_RUNTIME_SERVE_RUNTIME_PARTS_H

#include "process/descendants.h"
#include "runtime/protocol/checkpoint.h"
#include "runtime/protocol/report.h"
#include "runtime/protocol/request.h"
#include "runtime/serve/kernel.h"
#include "runtime/serve/kernel_word.h"
#include "runtime/serve/runtime.h"

/*
 * Most executions are over within this time, counted in whole ms. For this time `started` waits for
 * the message after it, and leftovers of earlier executions wait in their pipes to be thrown away:
 * each process is woken once and not three times.
 */
#define RUNTIME_HOLD_MS 2
/* Kept for the caller at most, beside one message: who prints more than is taken waits. */
#define RUNTIME_BACKLOG ((size_t)1 << 20)
/* A kernel that has closed its socket is dying, as a rule; else it is killed after this. */
#define RUNTIME_CLOSED_MS 1000
/* Between a wish to stop and the kill. */
#define RUNTIME_GRACE_MS 2000
/* Before that it is asked again: a program that waits for a shell ignores SIGINT, and what it starts may not have been there yet. */
#define RUNTIME_AGAIN_MS 1500
#define RUNTIME_DISPLAYS_MAX 64
#define RUNTIME_DISPLAY_BYTES_MAX ((size_t)16 << 20)
/* Pipes of executions that are over, which processes still write to. */
#define RUNTIME_LINGERING_MAX 128
/* A kernel with this many unread bytes takes nothing more. */
#define RUNTIME_KERNEL_BACKLOG ((size_t)4 << 20)

/* Output over the pipe of an execution after its end, up to the next one of its context. */
#define RUNTIME_LATE_MAX 32768
struct late {
        int64_t n;    /* of that execution */
        int pipes[2]; /* among the lingering; -1: ended */
        struct strbuf text[2];
        uint64_t bytes[2]; /* with those that are not in the text */
};

struct context {
        char name[65];
        int64_t generation; /* of its kernel, or of the last one; 0: none */
        struct kernel kernel;
        bool preparing;
        bool fresh;      /* nothing was executed in it yet */
        bool explained;  /* `lost` says already why this one dies */
        bool restarted;  /* since that was asked for */
        int64_t kill_ms; /* when it is killed, since it has closed its socket; INT64_MAX: never */
        char lost[256];  /* why the last one does not live any more */
        /*
         * Its restored names, if it is fresh and was restored: [name], [{name, type, why}]; else
         * NULL.
         */
        json_t *restored, *restored_lost;
        bool restoring; /* it was told to, and has not answered */
        bool expected;  /* it should be in the checkpoint that is being restored */
        struct late late;
};

/* A checkpoint that is being taken: one context after the other. */
struct taking {
        bool active;
        size_t next;             /* the context to look at next */
        struct context *context; /* whose kernel was asked; NULL: none */
        int pipe;                /* what it says comes here; -1: closed */
        struct message_reader reader;
        bool headed, whole;       /* its first and its last part came */
        int64_t kept, lost_count; /* what the first said */
        int64_t data,
                data_max; /* bytes in this context; in all of them that are still to come, this one included */
        int64_t total, total_max; /* bytes of the file so far, and at most */
        int64_t until_ms;         /* when there is no more time */
        int64_t kill_ms; /* when its kernel is told to stop its task, and then killed; INT64_MAX: none was asked */
        bool told;       /* it was told to */
        int64_t max_ms;
        bool late;        /* a kernel that lives had too little time, or none */
        json_t *contexts; /* what became of each */
};

/* A checkpoint that is being restored. */
struct restoring {
        bool active;
        int64_t left; /* bytes to come */
        bool deaf;    /* they are thrown away */
        struct checkpoint_reader reader;
        struct context *context; /* whose data come; NULL: not wanted */
        int64_t until_ms, max_ms;
        char reason[256]; /* why not all of it was read */
        json_t *contexts; /* what became of each */
};

struct execution {
        int64_t n; /* 0: none runs */
        enum request_language language;
        struct context *context; /* NULL: sh */
        struct process shell;
        int pipes[2]; /* standard output and error; -1: ended, or none */
        int64_t bytes[2];
        int64_t again_ms;                /* when it is asked again to stop: INT64_MAX */
        int64_t started_ms, deadline_ms; /* INT64_MAX: none */
        int64_t kill_ms;      /* when everything of it is killed: INT64_MAX until it was asked to stop */
        bool begun;           /* user code runs: it may be sent a signal */
        bool wants_interrupt; /* asked for, and not sent yet */
        bool interrupted, late, killed;
        bool broke; /* its kernel did not keep to the protocol */
        int64_t displays, dropped;
        size_t display_bytes;
};

/* What the sandbox is there for, where that is a command: it runs beside executions, for as long as it likes. */
struct command {
        int64_t n; /* 0: none runs */
        struct process process;
        int pipes[2]; /* standard output and error; -1: ended, or none */
        int64_t bytes[2];
        int64_t started_ms;
};

struct runtime {
        int input, output, folder; /* the working folder */
        /* when files that are mapped are looked at next; INT64_MAX: no process can write there */
        int64_t mapped_ms;
        struct message_reader requests;
        struct strbuf unsent;
        size_t sent;
        size_t memory_max;
        int signals; /* SIGCHLD */
        struct context contexts[RUNTIME_CONTEXTS_MAX];
        size_t context_count;
        struct execution execution;
        struct command command;
        int spare
                [2]
                [2]; /* pipes for the next one, made while nothing runs: their ends to read and to write; -1: none */
        int lingering[RUNTIME_LINGERING_MAX];
        size_t lingering_count;
        struct descendants known; /* those that lived when the last execution ended */
        int loadavg;              /* /proc/loadavg; -1: it cannot be had */
        pid_t newest;          /* descendants_newest(), before those were looked for; 0: it cannot be told */
        bool settled;          /* it was the same the time before */
        bool ends;             /* the caller has asked for it */
        bool answered;         /* an execution has ended, and nothing was prepared for the next one yet */
        int64_t hold_until_ms; /* when `started` leaves, where nothing follows it before; 0: at once */
        struct taking taking;
        struct restoring restoring;
};

void runtime_report(struct runtime *runtime, const struct report *report);
void runtime_refuse(struct runtime *runtime, int64_t n, const char *reason);
/* Finds the processes that live now. */
void runtime_look_around(struct runtime *runtime);
void runtime_look_at_mapped(struct runtime *runtime);
/* How many of the known are no kernels. */
int64_t runtime_left(const struct runtime *runtime);

/* --- ending.c --- */

/*
 * Kernels (all of them, or the one of `only`) are told to end, and have RUNTIME_GRACE_MS for it:
 * `atexit` runs and files are flushed. Their output meanwhile is read. The caller ends or reaps
 * them.
 */
void ending_of_kernels(struct runtime *runtime, const struct context *only);

/* --- context.c --- */

/* Where programs of the image are looked for. */
const char *context_program_folders(void);

/* The one of that name, made if absent; NULL where there are too many. */
struct context *context_get(struct runtime *runtime, const char *name);
/* Where it has no kernel, starts one. Python's first words go to the two descriptors. */
int context_start(struct runtime *runtime, struct context *context, int output, int errors,
                  struct error *err) MUST_USE;
void context_prepare(struct runtime *runtime, const struct request *request);
void context_restart(struct runtime *runtime, const struct request *request);
/* The kernel's socket is readable: reads what it says. */
void context_hear(struct runtime *runtime, struct context *context);
/* What time brings. */
void context_tick(struct context *context);
/* The kernel is dead. */
void context_end(struct runtime *runtime, struct context *context);
/* Our own environment but for what is Berth's or the cloud's, and `variables`, which may be NULL. */
const char **context_environment(const json_t *variables, struct arena *arena);

/* Kills its kernel and what that has started since the last execution; its end comes as a signal. */
void context_kill(struct runtime *runtime, struct context *context, const char *why);
/* Adds what became of it, for a report: a reason says that nothing was kept. */
void context_add_outcome(json_t *outcomes, const struct context *context, int64_t kept, int64_t lost,
                         const char *reason);
void context_release(struct context *context);
/* Reads what is in one of the lingering pipes. False: nothing writes there any more. */
bool late_read(struct runtime *runtime, int pipe);
/* The context's next execution has begun: it tells what came late, as its own standard error. */
void late_tell(struct runtime *runtime, struct context *context);
void late_release(struct late *late);
/* The pipe is closed without having been read to its end. */
void late_forget(struct runtime *runtime, int pipe);

/* --- checkpoint_take.c --- */

void checkpoint_take_start(struct runtime *runtime, const struct request *request);
/* Its pipe can be read; the kernel has said that it is done; the kernel is dead. */
void checkpoint_take_read(struct runtime *runtime);
void checkpoint_take_done(struct runtime *runtime, const struct kernel_word *word);
void checkpoint_take_kernel_ended(struct runtime *runtime, const struct context *context);
void checkpoint_take_tick(struct runtime *runtime);

/* --- checkpoint_restore.c --- */

void checkpoint_restore_start(struct runtime *runtime, const struct request *request);
void checkpoint_restore_piece(struct runtime *runtime, const struct request *request);
/* The kernel says what it has; or it is dead. */
void checkpoint_restore_done(struct runtime *runtime, struct context *context,
                             const struct kernel_word *word);
void checkpoint_restore_kernel_ended(struct runtime *runtime, struct context *context);
void checkpoint_restore_tick(struct runtime *runtime);
/* Whether pieces must wait until a kernel has read what it was sent. */
bool checkpoint_restore_is_behind(const struct runtime *runtime);

/* --- command.c --- */

void command_start(struct runtime *runtime, const struct request *request);
/* SIGTERM, for it and what it has started in its own group. */
void command_stop(const struct runtime *runtime);
/* One of its pipes can be read; it is dead. */
void command_read(struct runtime *runtime, int stream);
void command_ended(struct runtime *runtime, struct process_status status);

/* --- execution.c --- */

/*
 * The present content of a pipe, without bytes that come while it is read, as output of `n`;
 * `bytes` counts it.
 */
void execution_take_rest(struct runtime *runtime, int pipe, int64_t n, int stream, int64_t *total);

void execution_start(struct runtime *runtime, const struct request *request);
void execution_interrupt(struct runtime *runtime, int64_t n);
/* Its user code begins, shows something, or has ended. */
void execution_begun(struct runtime *runtime);
void execution_show(struct runtime *runtime, const struct kernel_word *word);
void execution_done(struct runtime *runtime, const struct kernel_word *word);
/* The kernel that it runs in is dead; or its shell. */
void execution_kernel_ended(struct runtime *runtime, struct process_status status, bool was_ready);
void execution_shell_ended(struct runtime *runtime, struct process_status status);
/* Makes ready what the next one needs in any case. */
void execution_foresee(struct runtime *runtime);
/* One of its pipes can be read. */
void execution_read(struct runtime *runtime, int stream);
/* What time brings: the deadline, the end of the grace. */
void execution_tick(struct runtime *runtime);
/* When execution_tick() has something to do; INT64_MAX: never. */
int64_t execution_next_ms(const struct runtime *runtime);

#endif
