/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A wish to stop, for which a thread can wait: each level has a descriptor that poll(2) finds
 * readable once the level is reached, and forever after.
 *
 * At the first level nothing new is begun and what is in flight is finished; at the second it is dropped. The command-line
 * program has one of its own, raised by signals; a server makes one for each thing that it may have to stop. What can be
 * interrupted is given a pointer; NULL there is an interrupt that never comes.
 */
#ifndef BERTH_BASE_INTERRUPT_H
#define BERTH_BASE_INTERRUPT_H

#include "base/error.h"

#include <stdatomic.h>

enum { INTERRUPT_NONE, INTERRUPT_FINISH, INTERRUPT_NOW };

struct interrupt {
        atomic_int level;
        int reached[2]; /* eventfds that are never read: of INTERRUPT_FINISH and INTERRUPT_NOW */
};

int interrupt_init(struct interrupt *ret, struct error *err) MUST_USE;
void interrupt_dispose(struct interrupt *interrupt);

/* One level more; safe in a signal handler and from any thread. */
void interrupt_raise(struct interrupt *interrupt);
/* To that level, where it is not there yet; as safe. */
void interrupt_raise_to(struct interrupt *interrupt, int level);
int interrupt_level(const struct interrupt *interrupt);
/* Readable once `level` is reached. -1, which poll(2) skips, for NULL. Borrowed: only ever polled. */
int interrupt_descriptor(const struct interrupt *interrupt, int level);

/*
 * The wish of this process's user: raised by the signals that are installed below, or by the code
 * that ends the process.
 */
extern struct interrupt interrupt_user;
/* The same, with its descriptors made: used to wait for it, or to raise it. */
struct interrupt *interrupt_of_user(void);
/* Installs the handlers for SIGINT and SIGTERM. */
void interrupt_install(void);
/* The same for as long as nothing is begun that should be finished: the first signal is INTERRUPT_NOW. */
void interrupt_install_at_once(void);
/* SIGHUP is INTERRUPT_FINISH too, however often it comes; where it is ignored (nohup) it stays so. */
void interrupt_on_hangup(void);
/*
 * From here on only printing is left, and a reader that takes nothing does not hold it up: a signal that came before, or comes, gives it one
 * second, the next one none. The process then ends with 128 + the number of the first signal.
 */
void interrupt_only_printing_left(void);
/* Which signal asked first; 0 where none did. */
int interrupt_signal(void);

#endif
