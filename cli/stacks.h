/* SPDX-License-Identifier: Apache-2.0 */
/* --stacks: one verb for every stack below the folder that -f names, side by side. */
#ifndef BERTH_CLI_STACKS_H
#define BERTH_CLI_STACKS_H

#include "cli/options.h"

/* Runs `verb` for each, prints one summary, and returns the worst of their exit codes; -1 where none was begun. */
int stacks_run(const char *verb, const struct options *options, struct error *err) MUST_USE;

#endif
