/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cell.h"

#include "base/text.h"

#include <string.h>

/* Where reading Python stands: at the end of what was typed, that is what is still open. */
struct reading {
        char quote; /* of the string that is open; NUL: none */
        bool is_triple;
        unsigned depth;   /* of brackets */
        char last;        /* on the line, outside of comments; NUL: nothing but blanks */
        bool is_block;    /* some line ended with a colon, or began with a decorator */
        bool continues;   /* the line before ended with a backslash */
        bool ended_empty; /* that line was empty, and nothing was open */
};

static void end_line(struct reading *reading) {
        /* A string of one line that is not closed is a mistake, and the kernel says so. */
        if (!reading->is_triple && reading->last != '\\')
                reading->quote = '\0';
        reading->continues = reading->last == '\\' && !reading->is_triple;
        reading->ended_empty = reading->last == '\0' && !reading->quote && reading->depth == 0;
        if (!reading->quote && reading->depth == 0 && reading->last == ':')
                reading->is_block = true;
        reading->last = '\0';
}

/* Within a string; returns what is used of it. A backslash takes the next character with it, in raw strings too. */
static size_t read_quoted(struct reading *reading, const char *at) {
        size_t quotes = reading->is_triple ? 3 : 1;

        reading->last = *at;
        if (*at == '\\' && at[1] && at[1] != '\n')
                return reading->last = 'x', 2;
        if (strncmp(at, reading->quote == '"' ? "\"\"\"" : "'''", quotes) != 0)
                return 1;
        reading->quote = '\0';
        reading->is_triple = false;
        return quotes;
}

static size_t skip_plain(struct reading *reading, const char *at) {
        if (*at == '#')
                return strcspn(at, "\n");
        if (*at == '@' && reading->last == '\0' && reading->depth == 0)
                reading->is_block = true;
        if (*at != ' ' && *at != '\t' && *at != '\f')
                reading->last = *at;
        if (*at == '"' || *at == '\'') {
                reading->quote = *at;
                reading->is_triple = at[1] == *at && at[2] == *at;
                return reading->is_triple ? 3 : 1;
        }
        if (strchr("([{", *at))
                reading->depth++;
        else if (strchr(")]}", *at) && reading->depth > 0)
                reading->depth--;
        return 1;
}

static bool python_is_whole(const char *typed) {
        struct reading reading = { 0 };

        for (const char *at = typed; *at;) {
                if (*at == '\n') {
                        end_line(&reading);
                        at++;
                } else {
                        at += reading.quote ? read_quoted(&reading, at) : skip_plain(&reading, at);
                }
        }
        if (reading.quote || reading.depth > 0 || reading.continues)
                return false;
        return !reading.is_block || reading.ended_empty;
}

static bool is_shell_line(const char *typed) {
        return typed[0] == '!' || text_begins_with(typed, "%sh ");
}

/* `%timeit f(1)`: what follows need not be Python. Of a cell's `%%time` the lines behind it belong to it. */
static bool is_line_magic(const char *typed) {
        return typed[0] == '%' && typed[1] != '%';
}

bool cell_is_whole(const char *typed) {
        if (is_shell_line(typed) || (is_line_magic(typed) && !text_begins_with(typed, "%sh\n")))
                return !text_ends_with(typed, "\\\n");
        if (text_begins_with(typed, "%sh\n") || text_begins_with(typed, "%%"))
                return text_ends_with(typed, "\n\n");
        return python_is_whole(typed);
}

const char *cell_code(const char *typed, bool *ret_shell) {
        *ret_shell = true;
        if (typed[0] == '!')
                return typed + 1;
        if (text_begins_with(typed, "%sh ") || text_begins_with(typed, "%sh\n"))
                return typed + 4;
        *ret_shell = false;
        return typed;
}
