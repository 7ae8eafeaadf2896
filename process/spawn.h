/* SPDX-License-Identifier: Apache-2.0 */
/* How process_start() has a program started: process.h says what the program gets. */
#ifndef BERTH_PROCESS_SPAWN_H
#define BERTH_PROCESS_SPAWN_H

#include "process/process.h"

/* Returns 0 and the child's id, or an errno; without its program nothing is left of a child. */
int spawn(const struct process_args *args, pid_t *ret) MUST_USE;

#endif
