/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command line of the user's configuration: taken apart without a shell, and run with its output
 * and time bounded.
 */
#ifndef BERTH_PROVIDERS_AWS_CLIENT_COMMAND_H
#define BERTH_PROVIDERS_AWS_CLIENT_COMMAND_H

#include "base/arena.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/strbuf.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Words as Python's shlex.split() makes them, which botocore uses: blanks part words, '...' is taken as it is, "..."
 * knows \" and \\, a backslash elsewhere takes the next character as it is. Nothing is expanded. *ret is ended by NULL.
 */
int command_split(const char *line, struct arena *arena, char ***ret, struct error *err) MUST_USE;

struct command_limits {
        int64_t timeout_ms;
        size_t output;                     /* bytes of standard output */
        const struct interrupt *interrupt; /* kills it at INTERRUPT_NOW; NULL: nothing does */
};
/*
 * Runs argv[0], looked for along PATH, with nothing to read and our environment, and appends its standard output. Fails
 * where it cannot be started, exceeds a limit (it is killed then), or ends with anything but 0; the end of what it said on
 * standard error is part of the message. The caller wipes `ret`.
 */
int command_run(char *const *argv, const struct command_limits *limits, struct strbuf *ret,
                struct error *err) MUST_USE;

#endif
