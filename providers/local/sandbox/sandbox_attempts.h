/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attempts of `berth doctor --self-test`, as data: Python statements that go through only where the sandbox leaks.
 * None does harm where it does: what can be opened is closed again and never written.
 */
#ifndef BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_ATTEMPTS_H
#define BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_ATTEMPTS_H

#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>

struct sandbox_attempt {
        const char *name; /* NULL ends the table */
        const char *code; /* must raise OSError */
};
extern const struct sandbox_attempt sandbox_attempts[];

/* The program that makes them all, each in a process of its own. */
void sandbox_attempts_program(struct strbuf *ret);
/*
 * Judges what it printed: the number of attempts, all of them denied, or 0 and in `ret_through` the names of those that
 * were not, or not seen to be. Fails closed: what did not speak went through.
 */
size_t sandbox_attempts_judge(const char *printed, struct strbuf *ret_through);

#endif
