/* SPDX-License-Identifier: Apache-2.0 */
#include "base/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utf8proc.h>

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

int text_columns(const char *text, size_t length) {
        const utf8proc_uint8_t *bytes = (const utf8proc_uint8_t *)text;
        int columns = 0;

        for (size_t i = 0; i < length;) {
                utf8proc_int32_t codepoint;
                utf8proc_ssize_t size =
                        utf8proc_iterate(bytes + i, (utf8proc_ssize_t)(length - i), &codepoint);

                if (size <= 0) {
                        columns++;
                        i++;
                        continue;
                }
                columns += utf8proc_charwidth(codepoint);
                i += (size_t)size;
        }
        return columns;
}

bool text_is_utf8(const char *text, size_t length, size_t *ret_offset) {
        const utf8proc_uint8_t *bytes = (const utf8proc_uint8_t *)text;

        for (size_t i = 0; i < length;) {
                utf8proc_int32_t codepoint;
                utf8proc_ssize_t size;

                if (bytes[i] < 0x80) {
                        i++;
                        continue;
                }
                size = utf8proc_iterate(bytes + i, (utf8proc_ssize_t)(length - i), &codepoint);
                if (size <= 0) {
                        *ret_offset = i;
                        return false;
                }
                i += (size_t)size;
        }
        return true;
}

void terminal_print_safe(FILE *stream, const char *text) {
        for (const unsigned char *byte = (const unsigned char *)text; *byte; byte++) {
                /* C1 controls are two bytes in UTF-8: 0xC2 followed by 0x80 to 0x9F. */
                bool c1 = byte[0] == 0xC2 && byte[1] >= 0x80 && byte[1] <= 0x9F;

                if (*byte < 0x20 || *byte == 0x7F || c1) {
                        fprintf(stream, "\\x%02X", c1 ? byte[1] : byte[0]);
                        byte += c1;
                } else {
                        fputc(*byte, stream);
                }
        }
}
