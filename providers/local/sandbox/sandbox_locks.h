/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many locks of files a run holds. The kernel keeps some 200 bytes for each, charges them to no
 * cgroup or user, and has no limit for them (RLIMIT_LOCKS is from Linux 2.4): a million fits into a
 * second of work. Databases need them, so they are not denied, but counted, in /proc/locks as the
 * PID namespace of the run has it.
 */
#ifndef BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_LOCKS_H
#define BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_LOCKS_H

#include <stdio.h>

#define SANDBOX_LOCKS_MAX 4096

/*
 * Reads `locks` from its beginning, until it has counted one more than `most`. Counted is what has
 * an owner in the namespace: ranges, whole files, and waiters. Locks of open file descriptions
 * (F_OFD_SETLK) name no owner, and a namespace shows those of the whole machine: they are not
 * counted, and the filter of system calls denies them.
 */
unsigned sandbox_locks_count(FILE *locks, unsigned most);

#endif
