/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of a verb that has many (`berth session list`): which operands and options each takes. */
#ifndef BERTH_CLI_SUBVERB_H
#define BERTH_CLI_SUBVERB_H

#include "base/error.h"
#include "cli/options.h"

#include <stddef.h>

#define SUBVERB_MANY 1000

/* The first member of a row of a table that suggest_row() looks through. */
struct subverb {
        const char *name, *usage; /* usage: its operands, as "SESSION [N]" */
        size_t least, most;       /* operands behind its name */
        const char *takes; /* " env label ": of the options that belong to some commands of the verb alone */
};

/*
 * -1 with what is wrong: an option that belongs to another of the verb's commands is a mistake, and never ignored; too few operands, or
 * too many. `verb` is as typed, "berth session"; the first of the operands is the command's name.
 */
int subverb_check(const char *verb, const struct subverb *subverb, const struct options *options,
                  struct error *err) MUST_USE;

#endif
