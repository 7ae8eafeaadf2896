/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Diagnostics as people see them: place, message, the source line with a mark under what it is about, a hint.
 *
 * Columns are counted three ways here: in bytes (the line), in characters (the place, which YAML counts so), and in
 * columns of the terminal (the mark, which must stand under wide characters and escapes as well).
 */
#include "schema/diagnostics.h"

#include "base/array.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/terminal.h"
#include "base/text_utf8.h"

#include <stdlib.h>
#include <string.h>

/* Of a long line only WINDOW characters around the place are shown. */
#define WINDOW 100U
#define WINDOW_BEFORE 60U

void diagnostics_init(struct diagnostics *diagnostics, struct arena *arena) {
        *diagnostics = (struct diagnostics){ .arena = arena };
}

void diagnostics_add(struct diagnostics *diagnostics, struct diagnostic diagnostic) {
        diagnostics->items = array_grow(diagnostics->arena, diagnostics->items, diagnostics->count,
                                        sizeof(*diagnostics->items));
        diagnostics->items[diagnostics->count++] = diagnostic;
        diagnostics->errors += diagnostic.severity == SEVERITY_ERROR;
}

static int compare_texts(const char *a, const char *b) {
        if (!a || !b)
                return (a != NULL) - (b != NULL);
        return strcmp(a, b);
}

static int compare_diagnostics(const void *a, const void *b) {
        const struct diagnostic *left = a, *right = b;
        int order = compare_texts(left->file, right->file);

        if (order != 0)
                return order;
        if (left->line != right->line)
                return left->line < right->line ? -1 : 1;
        if (left->column != right->column)
                return left->column < right->column ? -1 : 1;
        return compare_texts(left->message, right->message);
}

void diagnostics_sort(struct diagnostics *diagnostics) {
        if (diagnostics->count > 1)
                qsort(diagnostics->items, diagnostics->count, sizeof(*diagnostics->items),
                      compare_diagnostics);
}

/* The next character of UTF-8: its bytes. */
static size_t character_size(const char *text) {
        size_t size = 1;

        while (((unsigned char)text[size] & 0xC0) == 0x80)
                size++;
        return size;
}

/* What the terminal shows for a character. */
static void put_character(struct strbuf *line, const char *text, size_t length, size_t at, size_t size) {
        if (text[at] == '\t') {
                strbuf_append_char(line, ' ');
                return;
        }
        for (size_t end = at + size; at < end;)
                at += text_append_safe_character(line, text, length, at);
}

/* The part of the source line that is shown, and how many columns of it stand before and under the place. */
struct excerpt {
        struct strbuf text;
        int before, under;
};

static void make_excerpt(const struct diagnostic *diagnostic, struct excerpt *ret) {
        uint32_t column = diagnostic->column > 0 ? diagnostic->column : 1;
        uint32_t first =
                column + diagnostic->span > WINDOW && column > WINDOW_BEFORE ? column - WINDOW_BEFORE : 1;
        uint32_t position = 1;
        size_t start = 0, end = 0, length = strlen(diagnostic->source_line);

        if (first > 1)
                strbuf_append(&ret->text, "...");
        for (size_t at = 0; at < length;) {
                size_t size = character_size(diagnostic->source_line + at);

                if (position == column)
                        start = ret->text.length;
                if (position == column + diagnostic->span)
                        end = ret->text.length;
                if (position >= first + WINDOW) {
                        strbuf_append(&ret->text, "...");
                        break;
                }
                if (position >= first)
                        put_character(&ret->text, diagnostic->source_line, length, at, size);
                at += size;
                position++;
        }
        if (position <= column)
                start = ret->text.length;
        if (end < start || position <= column)
                end = ret->text.length;
        ret->before = text_columns(strbuf_text(&ret->text), start);
        ret->under = text_columns(strbuf_text(&ret->text) + start, end - start);
}

static void print_source_line(const struct diagnostic *diagnostic, FILE *stream) {
        const char *mark =
                terminal_style(stream, diagnostic->severity == SEVERITY_ERROR ? STYLE_RED : STYLE_YELLOW);
        const char *dim = terminal_style(stream, STYLE_DIM), *plain = terminal_style(stream, STYLE_PLAIN);
        struct excerpt excerpt = { 0 };

        make_excerpt(diagnostic, &excerpt);
        fprintf(stream, "%s%7u |%s %s\n", dim, diagnostic->line, plain, strbuf_text(&excerpt.text));
        fprintf(stream, "%s        |%s %*s%s^", dim, plain, excerpt.before, "", mark);
        for (int i = 1; i < excerpt.under; i++)
                fputc('~', stream);
        fprintf(stream, "%s\n", plain);
        strbuf_release(&excerpt.text);
}

/* "agents.yaml:12:17: ", or nothing where it is about no file. */
static void append_place(struct strbuf *to, const struct diagnostic *diagnostic) {
        if (!diagnostic->file)
                return;
        text_append_safe(to, diagnostic->file);
        if (diagnostic->line > 0)
                strbuf_printf(to, ":%u:%u", diagnostic->line, diagnostic->column);
        strbuf_append(to, ": ");
}

static void print_diagnostic(const struct diagnostic *diagnostic, FILE *stream) {
        bool is_error = diagnostic->severity == SEVERITY_ERROR;
        const char *severity = is_error ? "error" : "warning", *plain = terminal_style(stream, STYLE_PLAIN);
        struct strbuf place STRBUF_CLEANUP = STRBUF_INIT;
        int used;

        append_place(&place, diagnostic);
        used = text_columns(strbuf_text(&place), place.length) + (int)strlen(severity) + 2;
        fprintf(stream, "%s%s%s%s%s: ", terminal_style(stream, STYLE_BOLD), strbuf_text(&place),
                terminal_style(stream, is_error ? STYLE_RED : STYLE_YELLOW), severity, plain);
        terminal_print_line(stream, diagnostic->message, used, 8);
        if (diagnostic->source_line)
                print_source_line(diagnostic, stream);
        if (diagnostic->hint) {
                fprintf(stream, "%s        =%s ", terminal_style(stream, STYLE_DIM), plain);
                terminal_print_line(stream, diagnostic->hint, 10, 10);
        }
}

void diagnostics_print(const struct diagnostics *diagnostics, FILE *stream) {
        for (size_t i = 0; i < diagnostics->count; i++)
                print_diagnostic(&diagnostics->items[i], stream);
}

static json_t *number_or_null(uint32_t number) {
        return number > 0 ? json_integer(number) : json_null();
}

json_t *diagnostics_to_json(const struct diagnostics *diagnostics) {
        json_t *list = json_array();

        for (size_t i = 0; i < diagnostics->count; i++) {
                const struct diagnostic *diagnostic = &diagnostics->items[i];
                json_t *item = json_pack(
                        "{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "severity",
                        diagnostic->severity == SEVERITY_ERROR ? "error" : "warning", "file",
                        json_from_text(diagnostic->file), "line", number_or_null(diagnostic->line), "column",
                        number_or_null(diagnostic->column), "message", json_from_text(diagnostic->message),
                        "hint", json_from_text(diagnostic->hint), "address",
                        json_from_text(diagnostic->address));

                if (!item || json_array_append_new(list, item) != 0)
                        abort();
        }
        return list;
}
