/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes that live below this one: which there are, and which of them an execution has started. The caller must be a
 * subreaper (prctl(2)), so that what loses its parent is this process's child.
 */
#ifndef BERTH_PROCESS_DESCENDANTS_H
#define BERTH_PROCESS_DESCENDANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct descendant {
        pid_t pid, parent, group;
        unsigned long long born; /* in the kernel's ticks: with the pid it is one process for good */
        long long ticks;         /* of CPU time, with that of its children that have ended */
};
struct descendants {
        struct descendant *items; /* base/array.h */
        size_t count;
};
void descendants_release(struct descendants *descendants); /* also of one that is all zero */
#define DESCENDANTS_CLEANUP __attribute__((cleanup(descendants_release)))

/*
 * Those that live now, without those that are dead and not reaped. Empty if /proc cannot be read.
 */
void descendants_find(struct descendants *ret);

/* CPU time of this process and of all below it, those that have ended too, in ms. */
int64_t descendants_cpu_ms(void);

/*
 * From now on each one's largest memory is counted again, if the kernel allows it (proc(5),
 * clear_refs).
 */
void descendants_count_peaks_anew(void);
/* The most memory that each of those that live now has had, together, in bytes (VmHWM): what several had at once is no more than that. */
int64_t descendants_peak_bytes(void);

/*
 * A number that changes with each process and thread that begins in our PID namespace: the last field of /proc/loadavg, which `file`
 * is, open. So long as it stays, all that live are among those that were found last. 0: it cannot be told.
 */
pid_t descendants_newest(int file);
/*
 * Takes those out that do not live any more. A child that `is_held` knows was not reaped: its id
 * belongs to no other process, and it stays.
 */
void descendants_forget_dead(struct descendants *descendants, bool (*is_held)(void *context, pid_t pid),
                             void *context);

/* As if it had lived then: nothing where it does not live. */
void descendants_add(struct descendants *descendants, pid_t pid);

/*
 * Sends `number` to those that are neither among `old` nor below one of them; `leader` counts as new even where it is among
 * them, or is 0. In `group` only, unless that is 0. How many there were.
 */
size_t descendants_signal(const struct descendants *old, pid_t leader, pid_t group, int number);
/* Kills them, and what they start meanwhile. Where they start processes faster than we find them it gives up for now. */
void descendants_kill(const struct descendants *old, pid_t leader);

#endif
