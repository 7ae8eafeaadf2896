/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A new layout for YAML without losing a comment: libyaml's events, which know no comments, say
 * only where blocks stand; the lines are the text's own, moved.
 *
 *   1. The text is cut into lines.
 *   2. The events give the blocks (lists and maps that go by indentation), each with the column that it stands at and the one that it
 *      should: two more than the one around it. They give the inner lines as well: those within a text or a pair of brackets.
 *   3. Each other line begins at the column of a block that is open there, and goes to that block's new one. An inner line moves by as
 *      much as the block around it. A comment goes with the line below it if it stood at that line's column, else with a block of its own column.
 *   4. The result is read again. It must have the same events, and the same bytes but for whitespace.
 *
 * The last step is what makes the others safe: a text that they do not understand is refused, and never written.
 */
#include "schema/format.h"

#include "base/arena.h"
#include "base/array.h"
#include "schema/breaks.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define STEP 2
#define DEPTH_MAX 64
#define NONE SIZE_MAX

struct line {
        const char *text; /* without its break */
        size_t length;
        size_t indent; /* spaces that it begins with */
        bool inner;    /* begins within a text or a pair of brackets */
        bool exact;    /* its end is within a text: spaces are left there */
        size_t owner;  /* inner: the block around it; or NONE */
        size_t word;   /* the next line that is neither empty nor a comment, itself perhaps */
        size_t target; /* where it begins in the result */
};

struct block {
        size_t column, target;
        size_t first, end; /* lines; it ends where the line `end` begins */
};

/* A run of spaces in a line that becomes one. */
struct gap {
        size_t line, offset, length;
};

struct layout {
        struct arena *arena;
        struct line *lines;
        size_t line_count;
        struct block *blocks; /* in the order in which they begin */
        size_t block_count;
        struct gap *gaps; /* by line and offset */
        size_t gap_count;
};

/* An open node while events come: a block's number, or NONE for a pair of brackets. */
struct nest {
        size_t block;
        yaml_mark_t start;
        bool is_map;
        bool expects_key;
};

struct walk {
        struct layout *layout;
        struct nest open[DEPTH_MAX];
        size_t depth;
};

/* --- lines --- */

static void cut_lines(struct layout *layout, const char *text, size_t length) {
        size_t from = 0;

        while (from < length) {
                size_t to = from;
                struct line line = { .text = text + from, .owner = NONE };

                while (to < length && text[to] != '\n' && text[to] != '\r')
                        to++;
                line.length = to - from;
                while (line.indent < line.length && line.text[line.indent] == ' ')
                        line.indent++;
                layout->lines =
                        array_grow(layout->arena, layout->lines, layout->line_count, sizeof(*layout->lines));
                layout->lines[layout->line_count++] = line;
                from = to + 1;
                if (to + 1 < length && text[to] == '\r' && text[to + 1] == '\n')
                        from++;
        }
}

static bool is_blank(const struct line *line) {
        for (size_t i = line->indent; i < line->length; i++) {
                if (line->text[i] != '\t')
                        return false;
        }
        return true;
}

static bool is_comment(const struct line *line) {
        return line->indent < line->length && line->text[line->indent] == '#';
}

/* "---", "...", "%YAML": they stand at the margin. */
static bool is_marker(const struct line *line) {
        return line->indent == 0 && line->length > 0 &&
               (line->text[0] == '%' ||
                (line->length >= 3 &&
                 (memcmp(line->text, "---", 3) == 0 || memcmp(line->text, "...", 3) == 0) &&
                 (line->length == 3 || line->text[3] == ' ' || line->text[3] == '\t')));
}

/* The byte of a column, which counts characters. */
static size_t offset_of(const struct line *line, size_t column) {
        size_t at = 0;

        while (at < line->length && column > 0) {
                at++;
                while (at < line->length && ((unsigned char)line->text[at] & 0xC0) == 0x80)
                        at++;
                column--;
        }
        return at;
}

static void add_gap(struct layout *layout, size_t number, size_t offset, size_t length) {
        layout->gaps = array_grow(layout->arena, layout->gaps, layout->gap_count, sizeof(*layout->gaps));
        layout->gaps[layout->gap_count++] = (struct gap){ number, offset, length };
}

/* --- blocks --- */

/* From where an anchor or a tag may stand to what it is of: that is what a block's column is. */
static size_t column_of(const struct layout *layout, const yaml_mark_t *mark, size_t *ret_line) {
        size_t number = mark->line;
        size_t at = number < layout->line_count ? offset_of(&layout->lines[number], mark->column) : 0;

        while (number < layout->line_count) {
                const struct line *line = &layout->lines[number];

                while (at < line->length && (line->text[at] == ' ' || line->text[at] == '\t'))
                        at++;
                if (at < line->length && (line->text[at] == '&' || line->text[at] == '!')) {
                        while (at < line->length && line->text[at] != ' ' && line->text[at] != '\t')
                                at++;
                } else if (at < line->length && line->text[at] != '#') {
                        break;
                } else {
                        number++;
                        at = 0;
                }
        }
        *ret_line = number;
        return at;
}

static size_t innermost(const struct walk *walk) {
        for (size_t i = walk->depth; i > 0; i--) {
                if (walk->open[i - 1].block != NONE)
                        return walk->open[i - 1].block;
        }
        return NONE;
}

static void mark_inner(struct walk *walk, const yaml_mark_t *start, const yaml_mark_t *end, bool exact) {
        struct layout *layout = walk->layout;
        size_t last = end->column > 0 ? end->line + 1 : end->line;

        for (size_t i = start->line + 1; i < last && i < layout->line_count; i++) {
                layout->lines[i].inner = true;
                layout->lines[i].exact |= exact;
                layout->lines[i].owner = innermost(walk);
        }
}

static int begin_nest(struct walk *walk, const yaml_event_t *event, struct error *err) {
        struct layout *layout = walk->layout;
        bool is_map = event->type == YAML_MAPPING_START_EVENT;
        bool is_block = is_map ? event->data.mapping_start.style == YAML_BLOCK_MAPPING_STYLE
                               : event->data.sequence_start.style == YAML_BLOCK_SEQUENCE_STYLE;
        struct nest nest = {
                .block = NONE, .start = event->start_mark, .is_map = is_map, .expects_key = true
        };

        if (walk->depth == DEPTH_MAX)
                return error_set(err, "line %zu: nested deeper than %d levels", event->start_mark.line + 1,
                                 DEPTH_MAX);
        if (is_block) {
                size_t around = innermost(walk);
                struct block block = { .end = layout->line_count };

                block.column = column_of(layout, &event->start_mark, &block.first);
                block.target = around == NONE ? 0 : layout->blocks[around].target + STEP;
                layout->blocks = array_grow(layout->arena, layout->blocks, layout->block_count,
                                            sizeof(*layout->blocks));
                nest.block = layout->block_count++;
                layout->blocks[nest.block] = block;
        }
        walk->open[walk->depth++] = nest;
        return 0;
}

static void end_nest(struct walk *walk, const yaml_event_t *event) {
        struct layout *layout = walk->layout;
        struct nest *nest = &walk->open[--walk->depth];

        if (nest->block < layout->block_count)
                layout->blocks[nest->block].end = event->end_mark.line;
        else
                mark_inner(walk, &nest->start, &event->end_mark, false);
}

/* The spaces behind a key's colon, where its value stands on the same line. */
static void find_key_gap(struct layout *layout, const yaml_event_t *key) {
        size_t number = key->end_mark.line, at, from;
        const struct line *line;

        if (number >= layout->line_count || key->start_mark.line != number)
                return;
        line = &layout->lines[number];
        at = offset_of(line, key->end_mark.column);
        if (at >= line->length || line->text[at] != ':')
                return;
        from = ++at;
        while (at < line->length && line->text[at] == ' ')
                at++;
        if (at - from > 1 && at < line->length && line->text[at] != '#' && line->text[at] != '\t')
                add_gap(layout, number, from, at - from);
}

static void take_leaf(struct walk *walk, const yaml_event_t *event) {
        struct nest *around = walk->depth > 0 ? &walk->open[walk->depth - 1] : NULL;
        size_t line = event->start_mark.line;

        if (event->type == YAML_SCALAR_EVENT && event->end_mark.line > line) {
                yaml_scalar_style_t style = event->data.scalar.style;

                mark_inner(walk, &event->start_mark, &event->end_mark, style != YAML_PLAIN_SCALAR_STYLE);
                /* Its text begins here; that of a block one begins on the next line. */
                if (style == YAML_SINGLE_QUOTED_SCALAR_STYLE || style == YAML_DOUBLE_QUOTED_SCALAR_STYLE)
                        walk->layout->lines[line].exact = true;
        }
        if (around && around->block != NONE && around->is_map && around->expects_key)
                find_key_gap(walk->layout, event);
}

/* Of a map, keys and values take turns. */
static void toggle_key(struct walk *walk) {
        if (walk->depth > 0)
                walk->open[walk->depth - 1].expects_key = !walk->open[walk->depth - 1].expects_key;
}

static int take_event(struct walk *walk, const yaml_event_t *event, struct error *err) {
        switch (event->type) {
        case YAML_MAPPING_START_EVENT:
        case YAML_SEQUENCE_START_EVENT:
                return begin_nest(walk, event, err);
        case YAML_MAPPING_END_EVENT:
        case YAML_SEQUENCE_END_EVENT:
                end_nest(walk, event);
                toggle_key(walk);
                return 0;
        case YAML_SCALAR_EVENT:
        case YAML_ALIAS_EVENT:
                take_leaf(walk, event);
                toggle_key(walk);
                return 0;
        default:
                return 0;
        }
}

/* --- reading --- */

static int fail_syntax(const yaml_parser_t *parser, struct error *err) {
        size_t line = parser->problem_mark.line + 1;

        return error_set_kind(err, ERROR_DIAGNOSED, "line %zu: no YAML: %s", line,
                              parser->problem ? parser->problem : "it cannot be read");
}

typedef int event_taker(void *context, const yaml_event_t *event, struct error *err);

static int read_events(const char *text, size_t length, event_taker *take, void *context, struct error *err) {
        yaml_parser_t parser;
        bool over = false;
        int result = 0;

        if (!yaml_parser_initialize(&parser))
                abort();
        yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
        yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
        while (result == 0 && !over) {
                yaml_event_t event;

                if (!yaml_parser_parse(&parser, &event)) {
                        result = fail_syntax(&parser, err);
                        break;
                }
                over = event.type == YAML_STREAM_END_EVENT;
                result = take(context, &event, err);
                yaml_event_delete(&event);
        }
        yaml_parser_delete(&parser);
        return result;
}

static int walk_event(void *context, const yaml_event_t *event, struct error *err) {
        return take_event(context, event, err);
}

/* What an event means, without where it stands. */
static void note_text(struct strbuf *to, const yaml_char_t *text, size_t length) {
        strbuf_printf(to, "%d:%zu:", text != NULL, length);
        strbuf_append_bytes(to, (const char *)text, length);
}

static void note_name(struct strbuf *to, const yaml_char_t *name) {
        note_text(to, name, name ? strlen((const char *)name) : 0);
}

static int note_event(void *context, const yaml_event_t *event, struct error *err) {
        struct strbuf *to = context;

        (void)err;
        strbuf_printf(to, "%d;", (int)event->type);
        switch (event->type) {
        case YAML_SCALAR_EVENT:
                note_name(to, event->data.scalar.anchor);
                note_name(to, event->data.scalar.tag);
                strbuf_printf(to, "%d%d", (int)event->data.scalar.style, event->data.scalar.plain_implicit);
                note_text(to, event->data.scalar.value, event->data.scalar.length);
                break;
        case YAML_ALIAS_EVENT:
                note_name(to, event->data.alias.anchor);
                break;
        case YAML_SEQUENCE_START_EVENT:
                note_name(to, event->data.sequence_start.anchor);
                note_name(to, event->data.sequence_start.tag);
                break;
        case YAML_MAPPING_START_EVENT:
                note_name(to, event->data.mapping_start.anchor);
                note_name(to, event->data.mapping_start.tag);
                break;
        default:
                break;
        }
        return 0;
}

/* --- laying out --- */

/* Where the line's first word goes. `open`: the blocks around it, the outermost first. */
static bool target_at(const struct layout *layout, const size_t *open, size_t count, size_t column,
                      size_t *ret) {
        for (size_t i = count; i > 0; i--) {
                const struct block *block = &layout->blocks[open[i - 1]];

                if (block->column != column)
                        continue;
                *ret = block->target;
                return true;
        }
        return false;
}

static size_t moved(const struct layout *layout, size_t owner, size_t indent) {
        const struct block *block;

        if (owner == NONE)
                return indent;
        block = &layout->blocks[owner];
        if (block->target >= block->column)
                return indent + (block->target - block->column);
        return indent > block->column - block->target ? indent - (block->column - block->target) : 0;
}

/* Each dash of "-   - name: x" has one space behind it. */
static void find_dash_gaps(struct layout *layout, size_t number) {
        const struct line *line = &layout->lines[number];
        size_t at = line->indent;

        while (at + 1 < line->length && line->text[at] == '-' && line->text[at + 1] == ' ') {
                size_t from = ++at;

                while (at < line->length && line->text[at] == ' ')
                        at++;
                if (at == line->length || line->text[at] == '#' || line->text[at] == '\t')
                        return;
                if (at - from > 1)
                        add_gap(layout, number, from, at - from);
        }
}

static int compare_gaps(const void *a, const void *b) {
        const struct gap *one = a, *other = b;

        if (one->line != other->line)
                return one->line < other->line ? -1 : 1;
        return one->offset < other->offset ? -1 : one->offset > other->offset;
}

struct writer {
        const struct layout *layout;
        struct strbuf *to;
        size_t gap; /* the next one */
        bool wrote; /* a line */
        bool blank; /* an empty line is due before the next one */
};

/* An empty line within a text: it means one, and spaces beyond those that all lines have belong to it. */
static void write_empty(struct writer *writer, const struct line *line) {
        for (size_t i = 0; line->exact && i < line->target; i++)
                strbuf_append_char(writer->to, ' ');
        strbuf_append_char(writer->to, '\n');
}

static void write_yaml_line(struct writer *writer, size_t number, size_t indent) {
        const struct layout *layout = writer->layout;
        const struct line *line = &layout->lines[number];
        size_t at = line->indent, end = line->length;

        if (!line->exact) {
                while (end > at && (line->text[end - 1] == ' ' || line->text[end - 1] == '\t'))
                        end--;
        }
        if (writer->blank && writer->wrote)
                strbuf_append_char(writer->to, '\n');
        writer->blank = false;
        for (size_t i = 0; i < indent; i++)
                strbuf_append_char(writer->to, ' ');
        while (writer->gap < layout->gap_count && layout->gaps[writer->gap].line < number)
                writer->gap++;
        for (; writer->gap < layout->gap_count && layout->gaps[writer->gap].line == number; writer->gap++) {
                const struct gap *gap = &layout->gaps[writer->gap];

                if (gap->offset < at || gap->offset + gap->length > end)
                        continue;
                strbuf_append_bytes(writer->to, line->text + at, gap->offset - at);
                strbuf_append_char(writer->to, ' ');
                at = gap->offset + gap->length;
        }
        strbuf_append_bytes(writer->to, line->text + at, end - at);
        strbuf_append_char(writer->to, '\n');
        writer->wrote = true;
}

/* --- which line goes where --- */

static void find_words(struct layout *layout) {
        size_t word = layout->line_count;

        for (size_t i = layout->line_count; i > 0; i--) {
                struct line *line = &layout->lines[i - 1];

                if (line->inner || !(is_blank(line) || is_comment(line)))
                        word = i - 1;
                line->word = word;
        }
}

static size_t target_of_comment(const struct layout *layout, const struct line *line, const size_t *open,
                                size_t count) {
        const struct line *word = line->word < layout->line_count ? &layout->lines[line->word] : NULL;
        size_t target;

        if (word && !word->inner && !is_marker(word) && word->indent == line->indent)
                return word->target;
        if (target_at(layout, open, count, line->indent, &target))
                return target;
        for (size_t i = count; i > 0; i--) {
                if (layout->blocks[open[i - 1]].column <= line->indent)
                        return layout->blocks[open[i - 1]].target;
        }
        return 0;
}

static size_t target_of_word(const struct layout *layout, const struct line *line, const size_t *open,
                             size_t count) {
        size_t target;

        if (is_marker(line))
                return 0;
        if (target_at(layout, open, count, line->indent, &target))
                return target;
        return moved(layout, count > 0 ? open[count - 1] : NONE, line->indent);
}

/* Goes over the lines with the blocks that are open in each. Comments come last, since they go by the words below them. */
static int aim(struct layout *layout, bool comments, struct error *err) {
        size_t open[DEPTH_MAX], count = 0, next = 0;

        for (size_t i = 0; i < layout->line_count; i++) {
                struct line *line = &layout->lines[i];

                while (count > 0 && layout->blocks[open[count - 1]].end <= i &&
                       layout->blocks[open[count - 1]].first < i)
                        count--;
                for (; next < layout->block_count && layout->blocks[next].first <= i; next++) {
                        if (count == DEPTH_MAX)
                                return error_set(err, "line %zu: nested deeper than %d levels", i + 1,
                                                 DEPTH_MAX);
                        open[count++] = next;
                }
                if (line->inner)
                        line->target = moved(layout, line->owner, line->indent);
                else if (comments && is_comment(line))
                        line->target = target_of_comment(layout, line, open, count);
                else if (!comments && line->word == i)
                        line->target = target_of_word(layout, line, open, count);
        }
        return 0;
}

/* --- the whole --- */

static void write_lines(struct layout *layout, struct strbuf *to) {
        struct writer writer = { .layout = layout, .to = to };

        for (size_t i = 0; i < layout->line_count; i++) {
                const struct line *line = &layout->lines[i];

                if (!line->inner && is_blank(line))
                        writer.blank = true;
                else if (line->inner && line->indent == line->length)
                        write_empty(&writer, line);
                else
                        write_yaml_line(&writer, i, line->target);
        }
}

static bool is_space(char byte) {
        return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

static bool same_but_for_space(const char *a, size_t a_length, const char *b, size_t b_length) {
        size_t i = 0, j = 0;

        for (;;) {
                while (i < a_length && is_space(a[i]))
                        i++;
                while (j < b_length && is_space(b[j]))
                        j++;
                if (i == a_length || j == b_length)
                        return i == a_length && j == b_length;
                if (a[i++] != b[j++])
                        return false;
        }
}

/* The first line that reads otherwise is not looked for: what matters is that nothing is written. */
static int check_result(const char *text, size_t length, const struct strbuf *result, struct error *err) {
        struct strbuf before STRBUF_CLEANUP = STRBUF_INIT, after STRBUF_CLEANUP = STRBUF_INIT;
        struct error unread;

        if (read_events(text, length, note_event, &before, err) < 0)
                return -1;
        if (read_events(strbuf_text(result), result->length, note_event, &after, &unread) < 0 ||
            before.length != after.length || memcmp(before.data, after.data, before.length) != 0 ||
            !same_but_for_space(text, length, strbuf_text(result), result->length))
                return error_set(
                        err, "it cannot be laid out without changing what it says, and was left as it is");
        return 0;
}

static int lay_out(struct layout *layout, const char *text, size_t length, struct strbuf *to,
                   struct error *err) {
        struct walk walk = { .layout = layout };

        cut_lines(layout, text, length);
        if (read_events(text, length, walk_event, &walk, err) < 0)
                return -1;
        find_words(layout);
        if (aim(layout, false, err) < 0 || aim(layout, true, err) < 0)
                return -1;
        for (size_t i = 0; i < layout->line_count; i++) {
                if (!layout->lines[i].inner && layout->lines[i].word == i)
                        find_dash_gaps(layout, i);
        }
        if (layout->gap_count > 1)
                qsort(layout->gaps, layout->gap_count, sizeof(*layout->gaps), compare_gaps);
        write_lines(layout, to);
        return 0;
}

/* Every line ends with CRLF, as on Windows; where ends are mixed, they all become LF. */
static bool has_crlf(const char *text, size_t length) {
        const char *end = text + length, *at = text, *newline;

        for (; (newline = memchr(at, '\n', (size_t)(end - at))); at = newline + 1) {
                if (newline == text || newline[-1] != '\r')
                        return false;
        }
        return at > text;
}

static void append_result(struct strbuf *to, const struct strbuf *result, bool crlf) {
        const char *text = strbuf_text(result), *end = text + result->length, *newline;

        for (; crlf && (newline = memchr(text, '\n', (size_t)(end - text))); text = newline + 1) {
                strbuf_append_bytes(to, text, (size_t)(newline - text));
                strbuf_append(to, "\r\n");
        }
        strbuf_append_bytes(to, text, (size_t)(end - text));
}

int format_yaml(const char *text, size_t length, struct strbuf *to, struct error *err) {
        static const char mark[] = "\xEF\xBB\xBF";
        struct strbuf whole STRBUF_CLEANUP = STRBUF_INIT, result STRBUF_CLEANUP = STRBUF_INIT;
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct layout layout = { .arena = arena };

        if (length >= sizeof(mark) - 1 && memcmp(text, mark, sizeof(mark) - 1) == 0) {
                text += sizeof(mark) - 1;
                length -= sizeof(mark) - 1;
        }
        if (breaks_found(text, length) || memmem(text, length, mark, sizeof(mark) - 1))
                return error_set(
                        err,
                        "it holds a line break of YAML 1.1 (U+0085, U+2028, U+2029) or a byte order mark");
        /* So that the last line ends as all others do. */
        strbuf_append_bytes(&whole, text, length);
        if (length > 0 && text[length - 1] != '\n' && text[length - 1] != '\r')
                strbuf_append_char(&whole, '\n');
        if (lay_out(&layout, strbuf_text(&whole), whole.length, &result, err) < 0 ||
            check_result(strbuf_text(&whole), whole.length, &result, err) < 0)
                return -1;
        append_result(to, &result, has_crlf(text, length));
        return 0;
}
