/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input typed at a prompt: whether it is complete, and what it asks for. Python is not parsed but
 * judged by its brackets, its quotes, a backslash at a line's end and a colon there, as a person
 * would; invalid code counts as complete, since the kernel explains it. A block ends with an empty
 * line. Pure.
 *
 *      !COMMAND, %sh COMMAND        one command of sh; goes on behind a backslash
 *      %sh                          alone on its line: lines of sh, until an empty one
 *      %MAGIC, %%MAGIC              the kernel's; behind %% there are lines, until an empty one
 *      anything else                Python
 */
#ifndef BERTH_CLIENT_CELL_H
#define BERTH_CLIENT_CELL_H

#include <stdbool.h>
#include <stddef.h>

/* `typed`: lines, each with its end. */
bool cell_is_whole(const char *typed);
/* The code of one that is whole, within `typed`; *ret_shell: it is sh's. */
const char *cell_code(const char *typed, bool *ret_shell);

#endif
