/* SPDX-License-Identifier: Apache-2.0 */
/* What the terminal can show: its width and colour, and text made safe for it. */
#ifndef BERTH_BASE_TERMINAL_H
#define BERTH_BASE_TERMINAL_H

#include <stdbool.h>
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

/* Columns of the terminal behind `stream`, from it or COLUMNS; 80 if it is not a terminal. */
int terminal_width(FILE *stream);

/* Never colour, whatever the stream (--no-color). */
void terminal_disable_colour(void);
/* Whether `stream` is a terminal that takes colour: NO_COLOR unset or empty, TERM not "dumb". */
bool terminal_has_colour(FILE *stream);
/* Escape sequences for `stream`: "" where it takes no colour. STYLE_PLAIN resets. */
const char *terminal_style(FILE *stream, enum style style);

/* The text as text_append_safe() makes it safe. */
void terminal_print_safe(FILE *stream, const char *text);
/* text_append_wrapped() to a terminal, by its width; anything else gets the line whole. Ends with a newline. */
void terminal_print_wrapped(FILE *stream, const char *text, int used, int indent);
/* The same for what has to stay one line wherever it is no terminal's: a newline in it is shown by its number. */
void terminal_print_line(FILE *stream, const char *text, int used, int indent);

#endif
