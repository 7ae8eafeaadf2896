/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines that a person types: on a terminal with editing and history, by libedit, which is loaded on first use; without it as the
 * terminal's own editing gives them, and from a file or a pipe as they come. This is the only module that includes libedit.
 */
#ifndef BERTH_CLIENT_LINES_H
#define BERTH_CLIENT_LINES_H

#include "base/error.h"
#include "base/interrupt.h"

#include <stdbool.h>

struct lines;

/*
 * `history`: a file for what was typed, made with mode 0600 where it is not there; NULL: none is kept. *ret_plain: on a terminal, but
 * without editing, for the reason in err.
 */
struct lines *lines_open(const char *history, bool *ret_plain, struct error *err);
void lines_closep(struct lines **lines);
#define LINES_CLEANUP __attribute__((cleanup(lines_closep)))

enum lines_next {
        LINES_LINE,        /* *ret: without its end; the lines' own until the next call */
        LINES_END,         /* of the input: Ctrl-D */
        LINES_INTERRUPTED, /* `interrupt`; what was typed of the line is dropped */
};

enum lines_next lines_next(struct lines *lines, const char *prompt, const struct interrupt *interrupt,
                           const char **ret);

#endif
