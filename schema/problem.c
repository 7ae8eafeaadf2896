/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Diagnostics with the line that they are about.
 *
 * The line is copied with the diagnostic, and secrets in it are covered with stars at the very end,
 * when the places of all of them are known. A line is quoted as it is, or not at all: if a text
 * could not be read, it is unknown which part of it is the secret.
 */
#include "base/array.h"
#include "base/sorted.h"
#include "base/suggest.h"
#include "base/text.h"
#include "schema/loading.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUOTE_MAX 4096U   /* a longer line is not quoted */
#define ERRORS_MAX 10000U /* more are counted, not kept */
/* Nearest names cost time in proportion to how many there are: not for the thousandth error of a kind. */
#define SUGGESTIONS_MAX 200U
#define LONG_LIST 64U
/* More than these bytes or places that could not be read are not looked through for each name. */
#define UNREAD_MAX ((size_t)1 << 20)
#define UNREAD_COUNT_MAX 64U

/* The byte at which a column (1-based) begins, `length` where the line is shorter. */
static size_t byte_of_column(const char *line, size_t length, uint32_t column) {
        size_t at = 0;

        for (uint32_t i = 1; i < column && at < length; i++) {
                at++;
                while (at < length && ((unsigned char)line[at] & 0xC0) == 0x80)
                        at++;
        }
        return at;
}

/* The bytes of the scalar that begins the text: what to underline. */
static size_t scalar_length(const char *text, size_t length) {
        size_t end = 0;

        if (length == 0 || strchr("{}[]|>,", text[0]))
                return 1;
        if (text[0] == '"' || text[0] == '\'') {
                for (end = 1; end < length && text[end] != text[0]; end++)
                        end += text[end] == '\\' && text[0] == '"';
                return end < length ? end + 1 : length;
        }
        while (end < length && !strchr(",[]{}\t", text[end])) {
                bool separated = end + 1 >= length || text[end + 1] == ' ';

                if ((text[end] == ':' && separated) ||
                    (text[end] == ' ' && end + 1 < length && text[end + 1] == '#'))
                        break;
                end++;
        }
        while (end > 1 && text[end - 1] == ' ')
                end--;
        return end > 0 ? end : 1;
}

static void quote_line(struct loading *loading, struct diagnostic *diagnostic, struct place place) {
        size_t length, at;
        const char *line = source_line(&loading->sources[place.file], place.line, &length);

        diagnostic->span = 1;
        if (!line || length > QUOTE_MAX)
                return;
        at = byte_of_column(line, length, place.column);
        diagnostic->span =
                (uint32_t)text_characters(line + at, at < length ? scalar_length(line + at, length - at) : 0);
        if (diagnostic->span == 0)
                diagnostic->span = 1;
        diagnostic->source_line = arena_strndup(loading->arena, line, length);
}

__attribute__((format(printf, 4, 0))) static struct diagnostic
make_diagnostic(struct loading *loading, struct place place, const char *hint, const char *format,
                va_list arguments) {
        struct diagnostic diagnostic = {
                .severity = SEVERITY_ERROR,
                .file = loading->sources[place.file].path,
                .line = place.line,
                .column = place.column,
                .hint = hint,
                .address = loading->address,
        };
        char text[2048];

        vsnprintf(text, sizeof(text), format, arguments);
        diagnostic.message = arena_strdup(loading->arena, text);
        if (place.line > 0)
                quote_line(loading, &diagnostic, place);
        return diagnostic;
}

struct diagnostic problem_make(struct loading *loading, struct place place, const char *hint,
                               const char *format, ...) {
        struct diagnostic diagnostic;
        va_list arguments;

        va_start(arguments, format);
        diagnostic = make_diagnostic(loading, place, hint, format, arguments);
        va_end(arguments);
        return diagnostic;
}

void problem_error(struct loading *loading, struct place place, const char *hint, const char *format, ...) {
        va_list arguments;

        if (loading->diagnostics->errors >= ERRORS_MAX) {
                loading->errors_hidden++;
                return;
        }
        va_start(arguments, format);
        diagnostics_add(loading->diagnostics, make_diagnostic(loading, place, hint, format, arguments));
        va_end(arguments);
}

void problem_warning(struct loading *loading, struct place place, const char *hint, const char *format, ...) {
        struct diagnostic diagnostic;
        va_list arguments;

        va_start(arguments, format);
        diagnostic = make_diagnostic(loading, place, hint, format, arguments);
        va_end(arguments);
        diagnostic.severity = SEVERITY_WARNING;
        diagnostics_add(loading->diagnostics, diagnostic);
}

const char *problem_suggest(struct loading *loading, const char *typed, const char *const *names,
                            size_t count) {
        const char *nearest;

        if (count > LONG_LIST && loading->suggestions++ >= SUGGESTIONS_MAX)
                return NULL;
        nearest = suggest_nearest(typed, names, count);
        return nearest ? arena_printf(loading->arena, "did you mean %s?", nearest) : NULL;
}

const char *problem_place_text(struct loading *loading, struct place place) {
        return arena_printf(loading->arena, "%s:%u:%u", loading->sources[place.file].path, place.line,
                            place.column);
}

void problem_add_secret(struct loading *loading, struct secret_place secret) {
        loading->secrets =
                array_grow(loading->work, loading->secrets, loading->secret_count, sizeof(*loading->secrets));
        loading->secrets[loading->secret_count++] = secret;
}

/* A sensitive text stands in {value: TEXT, sensitive: true}: either word counts, since the other may be misspelt. */
static bool speaks_of_secrets(const char *text, size_t length) {
        return memmem(text, length, "sensitive", strlen("sensitive")) ||
               memmem(text, length, "value", strlen("value"));
}

static struct unread text_of_lines(struct source *source, uint32_t start, uint32_t end) {
        size_t length;
        const char *from = source_line(source, start, &length), *to = source_line(source, end, &length);

        return (struct unread){
                .from = from ? from : source->bytes.data,
                .to = to ? to : source->bytes.data + source->bytes.length,
        };
}

void problem_note_unread(struct loading *loading, uint16_t file, uint32_t start, uint32_t end) {
        if (loading->unread_count > UNREAD_COUNT_MAX)
                return;
        loading->unread =
                array_grow(loading->work, loading->unread, loading->unread_count, sizeof(*loading->unread));
        loading->unread[loading->unread_count++] = text_of_lines(&loading->sources[file], start, end);
}

bool problem_is_unread(const struct loading *loading, const char *name) {
        size_t length = 0;

        for (size_t i = 0; i < loading->unread_count; i++)
                length += (size_t)(loading->unread[i].to - loading->unread[i].from);
        /* Each name is looked for in all of it: where that is much, it may be there. */
        if (length > UNREAD_MAX || loading->unread_count > UNREAD_COUNT_MAX)
                return true;
        for (size_t i = 0; i < loading->unread_count; i++) {
                const struct unread *unread = &loading->unread[i];

                if (memmem(unread->from, (size_t)(unread->to - unread->from), name, strlen(name)))
                        return true;
        }
        return false;
}

void problem_quote_nothing_unread(struct loading *loading, uint16_t file, size_t first, uint32_t start,
                                  uint32_t end) {
        struct unread unread = text_of_lines(&loading->sources[file], start, end);

        problem_note_unread(loading, file, start, end);
        if (!speaks_of_secrets(unread.from, (size_t)(unread.to - unread.from)))
                return;
        for (size_t i = first; i < loading->diagnostics->count; i++)
                loading->diagnostics->items[i].source_line = NULL;
}

static int compare_secrets(const void *a, const void *b) {
        const struct secret_place *left = a, *right = b;

        if (left->file != right->file)
                return left->file < right->file ? -1 : 1;
        if (left->end_line != right->end_line)
                return left->end_line < right->end_line ? -1 : 1;
        return left->end_column < right->end_column ? -1 : left->end_column > right->end_column;
}

/* What many aliases stand for was added many times. No two texts end in the same place. */
static void sort_secrets(struct loading *loading) {
        struct secret_place *secrets = loading->secrets;
        size_t kept = 1;

        qsort(secrets, loading->secret_count, sizeof(*secrets), compare_secrets);
        for (size_t i = 1; i < loading->secret_count; i++) {
                if (compare_secrets(&secrets[kept - 1], &secrets[i]) != 0)
                        secrets[kept++] = secrets[i];
        }
        loading->secret_count = kept;
}

struct line_of_file {
        const struct loading *loading;
        const char *path;
        uint32_t line;
};

static int compare_to_secret(const void *sought, const void *item) {
        const struct line_of_file *wanted = sought;
        const struct secret_place *secret = item;
        int order = strcmp(wanted->path, wanted->loading->sources[secret->file].path);

        return order ? order : (wanted->line > secret->end_line) - (wanted->line < secret->end_line);
}

/* The first of the sorted secrets that ends on the line or after it. */
static size_t first_secret(const struct loading *loading, const char *path, uint32_t line) {
        const struct line_of_file wanted = { loading, path, line };

        return sorted_first(loading->secrets, loading->secret_count, sizeof(*loading->secrets), &wanted,
                            compare_to_secret);
}

/* The line with a star for each character of the columns from `column` to before `end`. */
static const char *cover_with_stars(struct arena *arena, const char *line, uint32_t column, uint32_t end) {
        size_t length = strlen(line), start = byte_of_column(line, length, column);
        size_t stop = byte_of_column(line, length, end);
        uint32_t stars = (uint32_t)text_characters(line + start, stop > start ? stop - start : 0);
        char *copy = arena_alloc(arena, start + stars + (length - stop) + 1);

        memcpy(copy, line, start);
        memset(copy + start, '*', stars);
        memcpy(copy + start + stars, line + stop, length - stop);
        return copy;
}

static void hide_secrets(struct loading *loading, struct diagnostic *diagnostic) {
        for (size_t i = first_secret(loading, diagnostic->file, diagnostic->line); i < loading->secret_count;
             i++) {
                const struct secret_place *secret = &loading->secrets[i];
                uint32_t line = diagnostic->line;

                if (secret->line > line || strcmp(loading->sources[secret->file].path, diagnostic->file) != 0)
                        return;
                diagnostic->source_line = cover_with_stars(
                        loading->arena, diagnostic->source_line, secret->line == line ? secret->column : 1,
                        secret->end_line == line ? secret->end_column : UINT32_MAX);
        }
}

void problem_hide_secrets(struct loading *loading) {
        struct diagnostics *diagnostics = loading->diagnostics;

        if (loading->secret_count == 0)
                return;
        sort_secrets(loading);
        for (size_t i = 0; i < diagnostics->count; i++) {
                if (diagnostics->items[i].source_line)
                        hide_secrets(loading, &diagnostics->items[i]);
        }
}
