/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child process: started with what it is given and nothing else, waited for by a descriptor, ended whole.
 *
 *         struct process process PROCESS_CLEANUP = PROCESS_NONE;
 *
 *         process_start(&args, &process, err);          poll process.pidfd: readable once it has ended
 *         process_reap(&process);                       how it ended; what it left of its group is dead then
 *
 * posix_spawn(3) starts it, or what does the same (spawn.c): a fork of a program with threads would share their locks, and copy
 * memory that may hold secrets. So nothing of ours runs between the two programs. A limit, a user or a filter is set by a program in between (setpriv,
 * unshare, prlimit, one of our own), never here; run.h runs a program to its end.
 */
#ifndef BERTH_PROCESS_PROCESS_H
#define BERTH_PROCESS_PROCESS_H

#include "base/arena.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The child has a descriptor of ours as number `as`, which is at most PROCESS_NUMBER_MAX. */
#define PROCESS_NUMBER_MAX 15
struct process_descriptor {
        int ours, as;
};

enum process_group {
        PROCESS_OUR_GROUP,  /* a Ctrl-C at our terminal is for it too, and it may ask its user there */
        PROCESS_OWN_GROUP,  /* killed with what it starts */
        PROCESS_OWN_SESSION /* the same, without our terminal */
};

struct process_args {
        const char *const *arguments; /* ended by NULL */
        const char *program; /* NULL: arguments[0]. Without a slash it is looked for in this process's PATH */
        const char *const *environment; /* ended by NULL; NULL is an empty one */
        const char *folder;             /* where it starts; NULL: where we are */
        enum process_group group;
        /* All that it has. Of 0, 1 and 2, what is not among them is /dev/null. */
        struct process_descriptor descriptors[PROCESS_NUMBER_MAX + 1];
        size_t descriptor_count;
};

struct process {
        pid_t pid; /* 0: none, or reaped */
        int pidfd; /* readable once it has ended */
        bool leads_group;
};
#define PROCESS_NONE \
        { .pidfd = -1 }

struct process_status {
        bool signalled; /* `code` is the signal that ended it, else its exit code */
        int code;
};

/*
 * Starts it with no signal blocked and each at its default. ERROR_NOT_FOUND where there is no such program. A parent that
 * had us ignore SIGCHLD would have the kernel reap our children: that is undone here.
 */
int process_start(const struct process_args *args, struct process *ret, struct error *err) MUST_USE;

/*
 * The first program of that name in the folders, a list with colons between; NULL if absent.
 * In the arena.
 */
const char *process_find_program(const char *name, const char *folders, struct arena *arena);
/* The folders of a system's programs, with administrators' own, which an ordinary user's PATH may lack. */
#define PROCESS_SYSTEM_FOLDERS "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* To the process alone; nothing where it has ended. */
void process_signal(const struct process *process, int number);
/* SIGKILL, to its group as well where it leads one. Stopped or not, it dies; process_reap() still has to follow. */
void process_kill(const struct process *process);
/*
 * Waits for its end, kills what it left in its group, and takes its status; *process holds nothing
 * to release then.
 */
struct process_status process_reap(struct process *process);
/* Kills and reaps it, where that was not done. */
void process_end(struct process *process);
#define PROCESS_CLEANUP __attribute__((cleanup(process_end)))

#endif
