/* SPDX-License-Identifier: Apache-2.0 */
#include "base/terminal.h"

#include "base/strbuf.h"
#include "base/text_utf8.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define DEFAULT_WIDTH 80

static bool colour_disabled;

int terminal_width(FILE *stream) {
        struct winsize size;
        const char *columns = getenv("COLUMNS");

        if (ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
                return size.ws_col;
        if (columns) {
                long width = strtol(columns, NULL, 10);

                if (width >= 20 && width <= 1000)
                        return (int)width;
        }
        return DEFAULT_WIDTH;
}

void terminal_disable_colour(void) {
        colour_disabled = true;
}

bool terminal_has_colour(FILE *stream) {
        const char *no_color = getenv("NO_COLOR");
        const char *term = getenv("TERM");

        if (colour_disabled || (no_color && no_color[0]))
                return false;
        return isatty(fileno(stream)) && term && strcmp(term, "dumb") != 0;
}

const char *terminal_style(FILE *stream, enum style style) {
        static const char *const sequences[] = {
                [STYLE_PLAIN] = "\033[0m", [STYLE_BOLD] = "\033[1m",   [STYLE_DIM] = "\033[2m",
                [STYLE_RED] = "\033[31m",  [STYLE_GREEN] = "\033[32m", [STYLE_YELLOW] = "\033[33m",
                [STYLE_BLUE] = "\033[34m", [STYLE_CYAN] = "\033[36m",
        };

        return terminal_has_colour(stream) ? sequences[style] : "";
}

void terminal_print_safe(FILE *stream, const char *text) {
        struct strbuf safe STRBUF_CLEANUP = STRBUF_INIT;

        text_append_safe(&safe, text);
        fputs(strbuf_text(&safe), stream);
}

void terminal_print_wrapped(FILE *stream, const char *text, int used, int indent) {
        struct strbuf lines STRBUF_CLEANUP = STRBUF_INIT;

        text_append_wrapped(&lines, text, isatty(fileno(stream)) ? terminal_width(stream) : INT_MAX, used,
                            indent);
        fprintf(stream, "%s\n", strbuf_text(&lines));
}

void terminal_print_line(FILE *stream, const char *text, int used, int indent) {
        struct strbuf safe STRBUF_CLEANUP = STRBUF_INIT;

        text_append_safe(&safe, text);
        terminal_print_wrapped(stream, strbuf_text(&safe), used, indent);
}
