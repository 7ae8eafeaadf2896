/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much runs at the same time, across processes: for each agent or environment with a limit a
 * folder, in it one file a run, which the run keeps locked (flock) as long as it lives and which
 * says what it uses. A run that dies in whatever way frees its slot by dying. A process that looks
 * or adds holds the folder's lock file. A process that waits has such a file as well, with a number
 * one larger than the last: they are served in that order.
 */
#ifndef BERTH_PROVIDERS_LOCAL_EXEC_SLOTS_H
#define BERTH_PROVIDERS_LOCAL_EXEC_SLOTS_H

#include "base/clock.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct exec_use {
        int64_t runs, memory_mb, cpu_millis; /* as limits: -1: no limit */
};

struct exec_slot {
        int file;   /* locked; -1: none, or passed on */
        char *path; /* of the file, owned */
        bool passed;
};
#define EXEC_SLOT_NONE \
        { -1, NULL, false }

/*
 * Takes a slot in `folder` (made where needed) for `use`, so that all uses together stay within `limits`. Where they
 * would not, or others wait already: ERROR_REFUSED with `reject`, else waits its turn, or until the user interrupts
 * (ERROR_INTERRUPTED).
 * `whose` is for messages: "Agent/x".
 */
int exec_slot_take(const char *folder, const char *whose, const struct exec_use *use,
                   const struct exec_use *limits, bool reject, const struct clock *clock,
                   struct exec_slot *ret, struct error *err) MUST_USE;
/*
 * The lock, for the processes of the run: the slot is taken until the last of them has closed it.
 * It belongs to the caller, and the slot here has only the name, which exec_slot_release() removes
 * if no process holds the lock any more.
 */
int exec_slot_pass(struct exec_slot *slot);
void exec_slot_release(struct exec_slot *slot);
#define EXEC_SLOT_CLEANUP __attribute__((cleanup(exec_slot_release)))

#endif
