/* SPDX-License-Identifier: Apache-2.0 */
/* Pure: commands that need no approval, held against one word by word. There is no shell in it: a pattern is no glob, and a word no text to be parted. */
#ifndef BERTH_APPROVALS_WORDS_H
#define BERTH_APPROVALS_WORDS_H

#include "base/strbuf.h"

#include <jansson.h>
#include <stdbool.h>

/*
 * Both are lists of texts. A word of the pattern is the very word of the command; "*" is any one word, "**" at the end all that follow,
 * which may be none. Neither stands for the program. `program`: the path of the file that would run, with no link in it.
 *
 * A runner is a program that runs what its words say: a shell, an interpreter, one that starts another program (env, timeout, find). A pattern
 * with a wildcard behind a runner's name, be that the program or a word, fits nothing. No wildcard stands for a word that names a
 * runner (by itself, in a path, behind "=", among several words), nor for any where the program is a runner under another name.
 */
bool words_fit(const json_t *pattern, const json_t *command, const char *program);

/* Whether a pattern fits nothing, whatever is asked for: its program is a wildcard, or one stands behind a runner. */
bool words_are_void(const json_t *pattern);

/*
 * Appends the command as one line for people: words apart by spaces, those that are more than letters, digits and ._-/:=@%+, in quotes, a
 * quote and a backslash in them behind a backslash. What controls a terminal, hides, joins or turns text around stands as \xNN or \uNNNN: two
 * commands that differ never look the same.
 */
void words_show(const json_t *command, struct strbuf *to);

#endif
