/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What code said, as it is printed: to a file or a pipe byte by byte; to a terminal as text that cannot drive it. There control
 * characters, invalid bytes and characters that reorder or hide text are shown by their numbers (base/terminal.h), tabs and ends of
 * lines stay, and a carriage return alone begins a new line instead of writing over the one that stands there. Pure.
 */
#ifndef BERTH_CLIENT_SHOWN_H
#define BERTH_CLIENT_SHOWN_H

#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>

struct shown {
        bool is_terminal;
        bool return_held; /* a carriage return came last: what follows says what it means */
        bool inside_line; /* the last that was appended was no line's end */
};

/* The next piece; pieces begin and end between characters. */
void shown_append(struct shown *shown, const char *bytes, size_t length, struct strbuf *to);
/* Held text, and a line's end if the last line has none. */
void shown_end_line(struct shown *shown, struct strbuf *to);

#endif
