/* SPDX-License-Identifier: Apache-2.0 */
/* What the terminal can show: its width, colour, and the columns a text takes (by utf8proc). */
#ifndef BERTH_BASE_TERMINAL_H
#define BERTH_BASE_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum style {
        STYLE_PLAIN,
        STYLE_BOLD,
        STYLE_DIM,
        STYLE_RED,
        STYLE_GREEN,
        STYLE_YELLOW,
        STYLE_BLUE,
        STYLE_CYAN
};

/* Columns of the terminal behind `stream`, from it or COLUMNS; 80 where there is none. */
int terminal_width(FILE *stream);

/* Never colour, whatever the stream (--no-color). */
void terminal_disable_colour(void);
/* Whether `stream` is a terminal that takes colour: NO_COLOR unset or empty, TERM not "dumb". */
bool terminal_has_colour(FILE *stream);
/* Escape sequences for `stream`: "" where it takes no colour. STYLE_PLAIN resets. */
const char *terminal_style(FILE *stream, enum style style);

/* Columns that UTF-8 text takes; invalid bytes count one each, control characters none. */
int text_columns(const char *text, size_t length);

/* Whether the bytes are valid UTF-8 (no surrogates, no overlong forms). On failure *ret_offset is the bad byte's. */
bool text_is_utf8(const char *text, size_t length, size_t *ret_offset);

/*
 * Writes text that came from outside: control characters (escape sequences, newlines) appear as \xNN, so that what
 * somebody put into a tag cannot drive the user's terminal.
 */
void terminal_print_safe(FILE *stream, const char *text);

#endif
