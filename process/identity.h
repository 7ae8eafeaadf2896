/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identifies a process in names and records that outlive it: a process id alone is given again, and
 * means another process in another PID namespace. With the time at which it started, the machine's
 * boot and the namespace it names one process forever.
 */
#ifndef BERTH_PROCESS_IDENTITY_H
#define BERTH_PROCESS_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process_identity {
        pid_t pid;
        uint64_t start;     /* clock ticks since boot */
        uint64_t boot;      /* the first half of the boot's id */
        uint64_t namespace; /* the PID namespace's inode */
};

/*
 * The state's letter (proc(5)) and the start, in clock ticks since boot, of a process; false if it
 * cannot be seen.
 */
bool identity_look(pid_t pid, char *ret_state, uint64_t *ret_start);

/* Of this process. */
struct process_identity identity_of_self(void);

/* "PID-START-BOOT-NAMESPACE", digits and a to f: a name for files, and part of one. */
#define IDENTITY_TEXT_SIZE 80
void identity_write(const struct process_identity *identity, char text[IDENTITY_TEXT_SIZE]);
/* False where the text does not begin with one. *ret_end is what stands behind it. */
bool identity_read(const char *text, struct process_identity *ret, const char **ret_end);

enum identity_life {
        IDENTITY_DEAD,
        IDENTITY_ALIVE,
        /*
         * It cannot be seen from here: another PID namespace or boot (a machine that shares files,
         * say), a hidden /proc.
         */
        IDENTITY_UNKNOWN
};
enum identity_life identity_life(const struct process_identity *identity);
/* The same for a process of this boot and namespace, of which no more is known. A zombie is dead. */
enum identity_life identity_process_life(pid_t pid, uint64_t start);

#endif
