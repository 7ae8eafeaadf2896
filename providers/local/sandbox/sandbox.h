/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run of one program in a sandbox of its own, from nothing to nothing.
 *
 *     sandbox_run(&spec, &sinks, arena, &result, &err)
 *
 * makes a workspace in memory, lets the caller fill it, runs the program there to its end, its
 * deadline or the user's interrupt, kills whatever it left running, lets the caller collect from
 * the workspace, and removes everything. Outside of the run's own processes only a cgroup is made:
 * mounts and files are those of a mount namespace that ends with the run. docs/sandbox.md says what
 * the program can and cannot do.
 *
 * The same in steps, for a caller that waits for more than one:
 *
 *     sandbox_start -> poll sandbox_descriptor() for reading -> sandbox_next: SANDBOX_STARTED ... SANDBOX_ENDED
 *     -> sandbox_judge -> sandbox_end
 *
 * Each run has a worker (sandbox_worker.c), a process of its own that holds the clock: nothing that
 * this process does or leaves undone holds up the deadline. The chain is: this process, the worker,
 * process 1 of a PID namespace (sandbox_init.c), bubblewrap with all other namespaces, the program.
 * A process that dies takes all behind it with it, and the last step is the kernel's.
 */
#ifndef BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_H
#define BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_H

#include "base/arena.h"
#include "base/error.h"
#include "egress/tally.h"
#include "providers/exec.h"
#include "providers/local/sandbox/output.h"
#include "providers/local/sandbox/sandbox_workspace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Every limit is enforced by the kernel. */
struct sandbox_limits {
        /* Of all processes, and of what they keep in files of the workspace and /tmp. */
        uint64_t memory_bytes;
        unsigned cpu_millis; /* thousandths of one CPU */
        unsigned processes;
        uint64_t workspace_bytes;
        uint64_t workspace_files;
        int64_t deadline_ms; /* of wall time from the program's start */
};

/*
 * Sandboxes of one name and owner share a quota of CPUs, whichever process starts them, beside the
 * limits of each.
 */
struct sandbox_family {
        const char *name;    /* hexadecimal digits, at most 40; NULL: it is of none */
        uid_t owner;         /* whose it is; a launcher takes its client for that */
        unsigned cpu_millis; /* 0: no quota */
};
#define SANDBOX_FAMILY_NAME_MAX 40

struct sandbox_keeper; /* sandbox_keeper.h */
struct sandbox_kept;   /* sandbox_kept.h */

struct sandbox_variable {
        const char *name, *text;
};

/* False for names that would tell of the host's accounts or of Berth (AWS_*, BERTH_*), and for what is no name. */
bool sandbox_takes_variable(const char *name);

/* Where programs are looked for, unless variables say otherwise. */
#define SANDBOX_PATH "/usr/local/bin:/usr/bin:/bin"

/* A read-only file below /run/berth. */
struct sandbox_file {
        const char *name;
        const void *bytes;
        size_t length;
};

/* What sandboxes of one owner and agent have together. All borrowed. */
struct sandbox_shared {
        int network; /* the network namespace of one of them, or -1: this is the first */
        /* What connects to the i-th of the sockets, which listen, comes to the i-th port of its loopback device. */
        const int *listeners;
        const uint16_t *ports;
        size_t port_count; /* at most SANDBOX_PORTS_MAX */
};

struct sandbox_spec {
        /*
         * Where a `berth launcher` listens, which places the worker then: its store has the image, by its digest; its own
         * rights make the sandbox, and this process needs none. NULL: this process places the worker itself.
         */
        const char *launcher;
        const char *image_root;   /* the image's root folder; NULL: the machine's own /usr */
        const char *image_digest; /* of the same, where there is a launcher */
        const char *const *argv;  /* ended by NULL */
        /* Names that sandbox_takes_variable() does not take are left out of both; the latter win. */
        const struct sandbox_variable *image_variables;
        size_t image_variable_count;
        const struct sandbox_variable *variables;
        size_t variable_count;
        const struct sandbox_file *files;
        size_t file_count;
        struct sandbox_limits limits;
        struct sandbox_family family;
        struct allow_list network; /* the hosts that it may reach; without entries it has no way out */
        /* For a lasting sandbox: its network is shared; NULL: it has its own. */
        const struct sandbox_shared *shared;
        /*
         * For a lasting sandbox: a folder on the disk that the workspace should lie on, if the host
         * can; otherwise, and for NULL, in memory.
         */
        const char *disk;
        /*
         * For a lasting sandbox: its workspace is this one, which stays, with `bytes` and `files`
         * as the limits say; NULL: it has its own.
         */
        const struct sandbox_kept *kept;
        const char *kept_name; /* the same, where a launcher has it: KEEP's */
        bool accept_degraded;
        /*
         * For sandbox_run() alone: what the program reads, or -1; the interrupt that ends it, or
         * NULL.
         */
        int input;
        const struct interrupt *interrupt;
        /*
         * Descriptors that stay open as long as the run lives, and no longer: locks. Closed here, and -1, once it has them. A
         * launcher takes none: there they stay this process's, with which the run ends, and are closed by sandbox_end().
         */
        int *held;
        size_t held_count;
        struct sandbox_keeper
                *ahead; /* has a worker that waits for PLACE, and none once it is taken; or NULL */
        int (*fill)(void *context, const struct sandbox_workspace *workspace,
                    struct error *err); /* or NULL */
        int (*collect)(void *context, const struct sandbox_workspace *workspace,
                       struct error *err); /* or NULL */
        void *context;
};

struct sandbox_sink {
        int descriptor;        /* gets everything as it comes; -1: no receiver */
        struct output *output; /* or NULL */
};

struct sandbox_sinks {
        struct sandbox_sink output, errors;
};

struct sandbox_result {
        int exit_code; /* the program's; 128 + N where signal N ended it */
        enum exec_reason reason;
        int64_t wall_ms, cpu_ms;
        uint64_t peak_memory_bytes;
        const char *const *degraded; /* what this host could not enforce */
        size_t degraded_count;
        const struct tally *reached; /* what it reached, and was refused; NULL: it had no way out */
};

struct sandbox;

enum sandbox_event {
        SANDBOX_NOTHING, /* nothing new yet */
        SANDBOX_STARTED, /* the workspace was filled, the program begins, sandbox_pipes() are there */
        SANDBOX_ENDED,   /* no process of it is left */
};

/*
 * This side's ends of the program's input, output and errors. The input does not block. A caller
 * that closes one sets it to -1.
 */
struct sandbox_pipes {
        int input, output, errors;
};

/*
 * Fails where the program could not be started: bubblewrap missing or failing, limits that the host cannot enforce (unless
 * spec->accept_degraded). The spec is not looked at after it returns, but for `fill`, `collect` and their context. Lives in
 * the arena.
 */
int sandbox_start(const struct sandbox_spec *spec, struct arena *arena, struct sandbox **ret,
                  struct error *err) MUST_USE;
int sandbox_descriptor(const struct sandbox *sandbox);
/* Never waits, but for `fill`. What could not be set up is an error here as well. */
int sandbox_next(struct sandbox *sandbox, enum sandbox_event *ret, struct error *err) MUST_USE;
/* Until sandbox_end(). */
struct sandbox_pipes *sandbox_pipes(struct sandbox *sandbox);
/*
 * Milliseconds until sandbox_next() must be called even if nothing can be read: a worker that was
 * stopped is killed then.
 */
int64_t sandbox_patience_ms(const struct sandbox *sandbox);
/* Asks the worker to kill the program; SANDBOX_ENDED comes as ever. */
void sandbox_cancel(struct sandbox *sandbox);
/*
 * The outcome of an ended run, after `collect`. `printed` is quoted in messages if bubblewrap could
 * not start the program: the bytes of the errors' pipe. `signal` is what asked to cancel.
 */
int sandbox_judge(struct sandbox *sandbox, const struct output *printed, int signal,
                  struct sandbox_result *ret, struct error *err) MUST_USE;
/* Kills what there is, and waits for it. NULL is fine. */
void sandbox_end(struct sandbox *sandbox);

/*
 * All of it in one. Fails as its parts do, and where a sink does not take what the program printed
 * (a full disk; a reader that went away does not count). Installs nothing and leaves nothing
 * behind; spec->interrupt ends the run, from its first level on.
 */
int sandbox_run(const struct sandbox_spec *spec, const struct sandbox_sinks *sinks, struct arena *arena,
                struct sandbox_result *ret, struct error *err) MUST_USE;

#endif
