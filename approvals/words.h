/* SPDX-License-Identifier: Apache-2.0 */
/* Pure: a command as one line for people. */
#ifndef BERTH_APPROVALS_WORDS_H
#define BERTH_APPROVALS_WORDS_H

#include "base/strbuf.h"

#include <jansson.h>

/*
 * Appends the command as one line for people: words apart by spaces, those that are more than letters, digits and ._-/:=@%+, in quotes, a
 * quote and a backslash in them behind a backslash. What controls a terminal, hides, joins or turns text around stands as \xNN or \uNNNN: two
 * commands that differ never look the same.
 */
void words_show(const json_t *command, struct strbuf *to);
/* The same of one text: a path, the name of an owner. */
void words_show_text(const char *text, struct strbuf *to);

#endif
