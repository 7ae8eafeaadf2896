/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cage for a process of our own that reads what strangers wrote: a Git server's packs, an image's
 * archive, a signature. An attacker that takes such a process over finds nothing of worth there.
 *
 *         const struct cage cage = { .calls = CAGE_OFFLINE, .write = folders, .data_bytes = 256 << 20 };
 *
 *         cage_enter(&cage, &weak, err);          from here on, and for whatever it starts
 *
 * The process puts itself into it, right after it was started and before it has read anything: with one thread, and with
 * those descriptors that it shall keep, which go on to work whatever the cage says. There is no way out of it.
 *
 * What holds inside:
 *
 * | what               | how                                                                                        |
 * |--------------------|--------------------------------------------------------------------------------------------|
 * | files              | Landlock: what `read`, `run` and `write` name, the system's own below /usr, and no other     |
 * | network            | system calls by `calls`; Landlock: TCP to `ports` alone (kernel 6.7), and no port of its own |
 * | processes          | none, but for the judges'; signals to those within alone; no tracing, no other's memory      |
 * | its end            | PR_SET_PDEATHSIG stays, where the process had it; one whose parent has died meanwhile is refused |
 * | rights             | no_new_privs, no capability (root: see below), not dumpable, no core file                    |
 * | sockets of Unix    | none, but for CAGE_JUDGES_NAMES                                                             |
 * | memory             | data_bytes of its own, none shared without a file                                            |
 *
 * Root gives itself up: with `user` it becomes that user, which owns only what it was given. It keeps one right, CAP_DAC_READ_SEARCH,
 * only where something that the cage names cannot be read without it. Landlock bounds it, so root without Landlock is refused.
 */
#ifndef BERTH_PROCESS_CAGE_H
#define BERTH_PROCESS_CAGE_H

#include "base/arena.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The tables are in filter/cage_table.c. */
enum cage_calls {
        CAGE_OFFLINE,      /* files and its own memory */
        CAGE_ONLINE,       /* and sockets of IP that it connects */
        CAGE_JUDGES,       /* and programs, started and waited for; no socket */
        CAGE_JUDGES_NAMES, /* the same with Unix sockets: where users' names come from a service */
        CAGE_PROXY, /* sockets of IP, also those that listen and were given; no file, not even one that may be read */
        CAGE_CALLS_COUNT
};

struct cage {
        enum cage_calls calls;
        /* Lists ended by NULL, or NULL; what is not there is left out. Links are followed when the cage is entered. */
        const char *const *read;  /* files and folders, whole */
        const char *const *run;   /* programs */
        const char *const *write; /* folders: regular files, folders and links in them */
        const uint16_t *ports;    /* of TCP, to connect to; ended by 0, or NULL */
        uint64_t data_bytes;      /* RLIMIT_DATA */
        uint64_t file_bytes;      /* RLIMIT_FSIZE */
        unsigned files_open;
        unsigned cpu_seconds;
        uid_t user; /* where we are root: the user, and the group, to become; 0: stay */
};

/*
 * *ret_weak: NULL, or what does not hold here, for people ("this kernel has no Landlock: ..."). -1 where the cage cannot be
 * made: nothing may be read then.
 */
int cage_enter(const struct cage *cage, const char **ret_weak, struct error *err) MUST_USE;

/* The version of Landlock that the kernel has, 0 for none or one too old. Of use from 2 on; 4 has ports, 6 signals. */
unsigned cage_landlock(void);

/*
 * A user for `folder` that nothing else on this machine has: from a range that systemd and the
 * distributions leave unused, by the folder's inode. The folder is made, and belongs to that user
 * with all that is in it. 0 where we are not root, or where this namespace has no such user.
 */
int cage_user_of(const char *folder, uid_t *ret, struct error *err) MUST_USE;

/* For a process that shall put itself into a cage: PATH, and nothing of ours (no credentials, proxies, locale). In the arena. */
const char *const *cage_environment(struct arena *arena);

#endif
