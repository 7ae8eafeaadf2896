/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits for a group of processes as a whole: cgroups, of version 2 where this process may make some with the
 * controllers that are needed, else of version 1, else in a scope that the user's systemd makes.
 *
 *     cgroup_make -> cgroup_doors_open -> cgroup_fork -> cgroup_measure -> cgroup_close
 *
 * Groups are named after the process that makes them (process/identity.h), and numbered; those that a dead one left are
 * removed by the next cgroup_close().
 */
#ifndef BERTH_PROVIDERS_LOCAL_SANDBOX_CGROUP_H
#define BERTH_PROVIDERS_LOCAL_SANDBOX_CGROUP_H

#include "base/arena.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum cgroup_limit {
        CGROUP_MEMORY = 1, /* of all processes and their files in memory; what exceeds it is killed */
        CGROUP_CPU = 2,
        CGROUP_PROCESSES = 4,
        CGROUP_EVERYTHING = 7
};

/* Groups of one name share a quota of CPUs, beside the one that each has. */
struct cgroup_family {
        const char *name;    /* small letters, digits and dashes; NULL: it is of none */
        unsigned cpu_millis; /* thousandths of one CPU, for all of them */
};
#define CGROUP_CPU_AS_IT_IS 0U        /* the family has a quota, or none: that is left to others */
#define CGROUP_CPU_UNBOUND UINT32_MAX /* it has none */

struct cgroup_limits {
        uint64_t memory_bytes;
        unsigned cpu_millis; /* thousandths of one CPU; a smaller share of its family counts instead */
        unsigned processes;
        struct cgroup_family family;
};

struct cgroup_usage {
        bool known; /* false: there is no group to ask; all others are 0 then */
        uint64_t peak_memory_bytes;
        uint64_t cpu_us;
        uint64_t memory_kills; /* processes killed for exceeding the memory limit */
        uint64_t memory_bytes; /* now, with its files in memory; 0 where it is not known */
};

struct cgroup;

/* Never fails: what could not be had is in cgroup_missing(). Owned; lives in the arena but must be closed. */
struct cgroup *cgroup_make(const struct cgroup_limits *limits, struct arena *arena);
/*
 * The same for a service that makes groups for others. On version 2 all groups of a root's service
 * may together use what the service's own group may (MemoryMax=, CPUQuota= and TasksMax= of its
 * unit). `child`: 0, or a child that lives longer than this process, which the group is named
 * after: while that lives, no process sweeps the group away.
 */
struct cgroup *cgroup_make_for_service(const struct cgroup_limits *limits, pid_t child, struct arena *arena);
/* The family's quota is another from now on; where none of its groups lives, nothing happens. False where it is not held. */
bool cgroup_family_set(const struct cgroup_family *family, bool service, struct arena *arena);
/* At the service's end: removes what its groups were in, where none is left. */
void cgroup_leave_service(void);
/* Mask of enum cgroup_limit that the group does not enforce, and why not (one line; "" where nothing is missing). */
unsigned cgroup_missing(const struct cgroup *group);
const char *cgroup_problem(const struct cgroup *group);
/* How it is done, for people: "cgroup v2", "cgroup v1", "systemd scope", "none". */
const char *cgroup_method(const struct cgroup *group);
/* Words to put in front of a command so that it runs in a scope of its own, ended by NULL; empty for most. */
const char *const *cgroup_launcher(const struct cgroup *group);
/*
 * The ways into the group, open: they can be given to another process, which needs no right of its
 * own to use them (before Linux 5.16 the kernel looks at the writer's rights, not at the opener's:
 * the process that enters must still have them).
 */
struct cgroup_doors {
        int folder;     /* of a group of version 2, to be born into; -1 if absent */
        int entries[4]; /* files that a process writes "0" into to move itself, all of them */
        size_t count;
};
#define CGROUP_DOORS_NONE \
        { .folder = -1 }
/* None for a group that is not there, or is a scope; -1 with errno. */
int cgroup_doors_open(const struct cgroup *group, struct cgroup_doors *ret);
void cgroup_doors_close(struct cgroup_doors *doors);
/*
 * fork(); where the child was born into the group, *ret_born says so to both, else it must enter by itself before it does
 * anything else. Moving a process from outside would cost some 10 ms: the kernel waits for an RCU grace
 * period, but not where a process is born into its group (v2) or moves itself alone (v1).
 */
pid_t cgroup_fork(const struct cgroup_doors *doors, bool *ret_born);
/* -1 with errno. */
int cgroup_enter(const struct cgroup_doors *doors);
/*
 * For a process that systemd-run started in a scope: a group below it with the limits, and another one that this process
 * moves itself to. NULL where the scope has not the controllers. Owned as cgroup_make()'s.
 */
struct cgroup *cgroup_make_in_scope(const struct cgroup_limits *limits, struct arena *arena);
/* Kills every process in it. */
void cgroup_kill(struct cgroup *group);
/* Once its processes have ended. */
void cgroup_measure(struct cgroup *group, struct cgroup_usage *ret);
/*
 * The files with the usage, open for reading: their holder needs no right to open them. Each -1 if
 * it is missing.
 */
struct cgroup_gauges {
        int memory, kills, cpu, used;
};
#define CGROUP_GAUGES_NONE \
        { -1, -1, -1, -1 }
/* All of them, or none. */
void cgroup_gauges_open(const struct cgroup *group, struct cgroup_gauges *ret);
void cgroup_gauges_measure(const struct cgroup_gauges *gauges, struct cgroup_usage *ret);
void cgroup_gauges_close(struct cgroup_gauges *gauges);
/*
 * Removes of the group what has no processes any more, and kills none: what can be done of cgroup_close() while its last processes end.
 * It cannot be entered or measured afterwards. NULL is fine.
 */
void cgroup_vacate(struct cgroup *group);
/* Kills what is left, and removes the group. NULL is fine. */
void cgroup_close(struct cgroup *group);

#endif
