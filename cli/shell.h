/* SPDX-License-Identifier: Apache-2.0 */
/* Quoting, for commands that are printed to be copied. */
#ifndef BERTH_CLI_SHELL_H
#define BERTH_CLI_SHELL_H

#include "base/strbuf.h"

/* The text as one word of a POSIX shell: quoted where it needs to be. */
void shell_append_word(struct strbuf *to, const char *word);

#endif
