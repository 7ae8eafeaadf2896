/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one place that knows libyaml: events in, a tree of nodes for each document out.
 *
 * Input is hostile. Nesting is bounded by DEPTH_MAX, anchors by ANCHORS_MAX, and what aliases stand for by weights: a node
 * weighs about as much as it takes once its aliases are expanded, an alias adds the weight of what it points to, and from a
 * limit on aliases are broken ("billion laughs"). An alias may point only to what is complete, so there is no circle.
 *
 * After a syntax error libyaml cannot go on. Reading begins again at the next line of "---", with a new parser and lines
 * counted from there, so that errors of later documents are reported in the same run. Until then nothing that the document
 * says is decoded, and lines of it are not quoted if they may hold a secret.
 */
#include "schema/breaks.h"
#include "schema/node.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define DEPTH_MAX 64U
#define ANCHORS_MAX 10000U
#define ANCHOR_BUCKETS 256U
/* What aliases may add, in nodes: to one document, and to all documents of a file. */
#define ALIAS_WEIGHT_DOCUMENT 100000U
#define ALIAS_WEIGHT_FILE 2000000U
#define BYTES_PER_WEIGHT 64U

struct anchor {
        const char *name;
        const struct node *node;
        struct anchor *next;
};

struct reader {
        struct loading *loading;
        uint16_t file;
        const char *text;     /* as long as the source's, for libyaml */
        struct breaks breaks; /* of `text` */
        uint32_t line_offset; /* of the part that the parser was given */
        yaml_parser_t parser;
        struct node *root;
        struct node *open[DEPTH_MAX]; /* the lists and maps around the place reached */
        struct node *last[DEPTH_MAX]; /* their last children so far */
        size_t depth;
        struct anchor *anchors[ANCHOR_BUCKETS];
        size_t anchor_count;
        uint32_t alias_weight;      /* of this document */
        uint32_t file_alias_weight; /* of the documents before */
        uint32_t document_line;     /* where this document begins */
        size_t document_first;      /* its first diagnostic's number */
};

static struct place place_of_mark(const struct reader *reader, const yaml_mark_t *mark) {
        return (struct place){
                .file = reader->file,
                .line = (uint32_t)mark->line + 1 + reader->line_offset,
                .column = (uint32_t)mark->column + 1,
        };
}

/* Stays at the highest number rather than begin again at zero. */
static uint32_t add_weight(uint32_t a, uint32_t b) {
        uint32_t sum;

        return __builtin_add_overflow(a, b, &sum) ? UINT32_MAX : sum;
}

static unsigned hash_name(const char *name) {
        unsigned hash = 5381;

        for (; *name; name++)
                hash = hash * 33 + (unsigned char)*name;
        return hash % ANCHOR_BUCKETS;
}

static void add_anchor(struct reader *reader, const yaml_char_t *name, const struct node *node) {
        struct anchor *anchor, **bucket;

        if (!name)
                return;
        if (++reader->anchor_count > ANCHORS_MAX) {
                if (reader->anchor_count == ANCHORS_MAX + 1)
                        problem_error(reader->loading,
                                      (struct place){ .file = reader->file,
                                                      .line = node->line,
                                                      .column = node->column },
                                      NULL, "more than %u anchors in one document", ANCHORS_MAX);
                return;
        }
        bucket = &reader->anchors[hash_name((const char *)name)];
        anchor = arena_alloc(reader->loading->scratch, sizeof(*anchor));
        anchor->name = arena_strdup(reader->loading->scratch, (const char *)name);
        anchor->node = node;
        anchor->next = *bucket;
        *bucket = anchor;
}

static const struct node *find_anchor(const struct reader *reader, const char *name) {
        for (const struct anchor *anchor = reader->anchors[hash_name(name)]; anchor; anchor = anchor->next) {
                if (strcmp(anchor->name, name) == 0)
                        return anchor->node;
        }
        return NULL;
}

static uint8_t tag_of(const struct reader *reader, const yaml_event_t *event, const yaml_char_t *tag) {
        static const struct {
                const char *name;
                enum node_tag tag;
        } core[] = {
                { YAML_STR_TAG, TAG_TEXT },     { YAML_INT_TAG, TAG_INTEGER },
                { YAML_BOOL_TAG, TAG_BOOLEAN }, { YAML_NULL_TAG, TAG_NULL },
                { YAML_FLOAT_TAG, TAG_OTHER },  { YAML_MAP_TAG, TAG_NONE },
                { YAML_SEQ_TAG, TAG_NONE },     { "!", TAG_TEXT },
        };

        if (!tag)
                return TAG_NONE;
        for (size_t i = 0; i < sizeof(core) / sizeof(core[0]); i++) {
                if (strcmp((const char *)tag, core[i].name) == 0)
                        return (uint8_t)core[i].tag;
        }
        problem_error(reader->loading, place_of_mark(reader, &event->start_mark), NULL,
                      "the tag %.100s means nothing here: leave it out", (const char *)tag);
        return TAG_OTHER;
}

static struct node *new_node(struct reader *reader, const yaml_event_t *event, enum node_type type) {
        struct node *node = arena_alloc(reader->loading->scratch, sizeof(*node));

        node->type = (uint8_t)type;
        node->line = (uint32_t)event->start_mark.line + 1 + reader->line_offset;
        node->column = (uint32_t)event->start_mark.column + 1;
        node->weight = 1;
        return node;
}

static struct node *scalar_node(struct reader *reader, const yaml_event_t *event) {
        struct node *node = new_node(reader, event, NODE_SCALAR);
        size_t length = event->data.scalar.length;
        char *text = arena_strndup(reader->loading->scratch, (const char *)event->data.scalar.value, length);

        breaks_restore(&reader->breaks, text, length);
        node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        node->tag = tag_of(reader, event, event->data.scalar.tag);
        node->complete = true;
        node->end_line = (uint32_t)event->end_mark.line + 1 + reader->line_offset;
        node->end_column = (uint32_t)event->end_mark.column + 1;
        node->count = (uint32_t)length;
        node->weight += (uint32_t)(length / BYTES_PER_WEIGHT);
        node->text = text;
        if (memchr(text, '\0', length)) {
                problem_error(reader->loading, place_of_mark(reader, &event->start_mark), NULL,
                              "this text holds an escaped NUL (\\0), which no text in a manifest may");
                node->type = NODE_BROKEN;
        }
        add_anchor(reader, event->data.scalar.anchor, node);
        return node;
}

static void break_alias(struct reader *reader, struct node *node, const char *hint, const char *problem,
                        const char *name) {
        struct place place = { .file = reader->file, .line = node->line, .column = node->column };

        problem_error(reader->loading, place, hint, "%s: *%.100s", problem, name);
        node->type = NODE_BROKEN;
}

static struct node *alias_node(struct reader *reader, const yaml_event_t *event) {
        struct node *node = new_node(reader, event, NODE_ALIAS);
        const char *name = (const char *)event->data.alias.anchor;
        const struct node *target = find_anchor(reader, name);

        node->complete = true;
        if (!target) {
                break_alias(reader, node, "anchors (&NAME) must stand above, in the same document",
                            "an alias without an anchor", name);
                return node;
        }
        if (!target->complete) {
                break_alias(reader, node, NULL, "an alias that refers to itself", name);
                return node;
        }
        reader->alias_weight = add_weight(reader->alias_weight, target->weight);
        if (reader->alias_weight > ALIAS_WEIGHT_DOCUMENT ||
            add_weight(reader->alias_weight, reader->file_alias_weight) > ALIAS_WEIGHT_FILE) {
                /* Said once; whatever comes after it in this document is passed over in silence. */
                if (reader->alias_weight != UINT32_MAX)
                        break_alias(reader, node, "aliases multiply what they stand for: write less of them",
                                    "the aliases of this document expand to too much", name);
                reader->alias_weight = UINT32_MAX;
                node->type = NODE_BROKEN;
                return node;
        }
        node->target = (struct node *)(uintptr_t)target;
        node->weight = target->weight;
        return node;
}

static void append_child(struct reader *reader, struct node *node) {
        struct node *parent;

        if (reader->depth == 0) {
                reader->root = node;
                return;
        }
        parent = reader->open[reader->depth - 1];
        if (reader->last[reader->depth - 1])
                reader->last[reader->depth - 1]->next = node;
        else
                parent->first = node;
        reader->last[reader->depth - 1] = node;
        parent->count++;
}

/* False where the nesting is too deep, which is reported. */
static bool open_node(struct reader *reader, struct node *node) {
        append_child(reader, node);
        if (reader->depth == DEPTH_MAX) {
                problem_error(
                        reader->loading,
                        (struct place){ .file = reader->file, .line = node->line, .column = node->column },
                        NULL, "lists and maps nest more than %u deep", DEPTH_MAX);
                return false;
        }
        reader->open[reader->depth] = node;
        reader->last[reader->depth++] = NULL;
        return true;
}

static void close_node(struct reader *reader) {
        struct node *node = reader->open[--reader->depth];

        for (const struct node *child = node->first; child; child = child->next)
                node->weight = add_weight(node->weight, child->weight);
        node->complete = true;
}

static bool is_empty_document(const struct node *root) {
        return !root || node_is_null(root);
}

static void begin_document(struct reader *reader, uint32_t line) {
        reader->document_line = line;
        reader->document_first = reader->loading->diagnostics->count;
        reader->root = NULL;
        reader->depth = 0;
        reader->anchor_count = 0;
        reader->file_alias_weight = add_weight(reader->file_alias_weight, reader->alias_weight);
        reader->alias_weight = 0;
        memset(reader->anchors, 0, sizeof(reader->anchors));
        arena_clear(reader->loading->scratch);
}

static void end_document(struct reader *reader) {
        if (is_empty_document(reader->root))
                return;
        reader->loading->sources[reader->file].documents++;
        if (reader->root->type != NODE_BROKEN)
                decode_document(reader->loading, reader->file, reader->root);
}

/* False where reading of this document cannot go on. */
static bool take_yaml_event(struct reader *reader, const yaml_event_t *event) {
        struct node *node;

        switch (event->type) {
        case YAML_DOCUMENT_START_EVENT:
                begin_document(reader, (uint32_t)event->start_mark.line + 1 + reader->line_offset);
                return true;
        case YAML_DOCUMENT_END_EVENT:
                end_document(reader);
                return true;
        case YAML_SCALAR_EVENT:
                append_child(reader, scalar_node(reader, event));
                return true;
        case YAML_ALIAS_EVENT:
                append_child(reader, alias_node(reader, event));
                return true;
        case YAML_SEQUENCE_START_EVENT:
                node = new_node(reader, event, NODE_LIST);
                tag_of(reader, event, event->data.sequence_start.tag);
                add_anchor(reader, event->data.sequence_start.anchor, node);
                return open_node(reader, node);
        case YAML_MAPPING_START_EVENT:
                node = new_node(reader, event, NODE_MAP);
                tag_of(reader, event, event->data.mapping_start.tag);
                add_anchor(reader, event->data.mapping_start.anchor, node);
                return open_node(reader, node);
        case YAML_SEQUENCE_END_EVENT:
        case YAML_MAPPING_END_EVENT:
                close_node(reader);
                return true;
        default:
                return true;
        }
}

/* What libyaml says, and what a person can do about it, where its words do not help. */
static const struct {
        const char *problem, *message, *hint;
} explanations[] = {
        { "mapping values are not allowed in this context", "a second \": \" on one line",
          "a text that holds \": \" needs quotes; a map begins on a line of its own" },
        { "did not find expected key", "expected a field, or the end of the map",
          "the fields of one map begin in the same column" },
        { "could not find expected ':'", "a field's name without a colon", NULL },
        { "did not find expected '-' indicator", "the items of one list begin in the same column", NULL },
        { "did not find expected ',' or ']'", "a list in brackets goes on without a comma, or is not closed",
          NULL },
        { "did not find expected ',' or '}'", "a map in braces goes on without a comma, or is not closed",
          NULL },
        { "found unexpected end of stream", "the file ends inside of a text: a quote is missing", NULL },
        { "found unexpected document indicator", "the document ends inside of a text: a quote is missing",
          NULL },
        { "did not find expected <document start>", "documents must be separated by ---", NULL },
        { "found unknown escape character", "unknown escape in a text with double quotes",
          "write \\\\ for a backslash, or use single quotes" },
};

/*
 * `base` is where the parser's text begins in the file. For bytes that are no text libyaml says an offset instead of
 * a line.
 */
static struct place place_of_problem(struct reader *reader, const char *base) {
        struct source *source = &reader->loading->sources[reader->file];
        struct place place = { .file = reader->file };

        if (reader->parser.error != YAML_READER_ERROR)
                return place_of_mark(reader, &reader->parser.problem_mark);
        source_locate(source, (size_t)(base - source->bytes.data) + reader->parser.problem_offset,
                      &place.line, &place.column);
        return place;
}

static char character_at(struct reader *reader, struct place place) {
        size_t length, at = 0;
        const char *line = source_line(&reader->loading->sources[reader->file], place.line, &length);

        for (uint32_t column = 1; line && at < length; at++) {
                if (((unsigned char)line[at] & 0xC0) == 0x80)
                        continue;
                if (column++ == place.column)
                        return line[at];
        }
        return '\0';
}

/* Where the text, list or map began that the parser was in; nothing where it was between two of them. */
static const char *context_hint(struct reader *reader) {
        const yaml_parser_t *parser = &reader->parser;

        if (!parser->context || strcmp(parser->context, "while scanning for the next token") == 0)
                return NULL;
        return arena_printf(reader->loading->arena, "%s that begins on line %zu", parser->context,
                            parser->context_mark.line + 1 + reader->line_offset);
}

/* Byte order marks at the begin of a document were taken out when the file was read: one that is left is a mistake. */
static bool begins_with_mark(struct reader *reader, uint32_t line) {
        size_t length;
        const char *text = source_line(&reader->loading->sources[reader->file], line, &length);

        return text && length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0;
}

static void report_syntax(struct reader *reader, const char *base) {
        const char *problem = reader->parser.problem ? reader->parser.problem : "not YAML";
        struct place place = place_of_problem(reader, base);
        const char *message = problem, *hint = context_hint(reader);

        for (size_t i = 0; i < sizeof(explanations) / sizeof(explanations[0]); i++) {
                if (strcmp(problem, explanations[i].problem) == 0) {
                        message = explanations[i].message;
                        hint = explanations[i].hint ? explanations[i].hint : hint;
                }
        }
        if (strcmp(problem, "found character that cannot start any token") == 0) {
                char character = character_at(reader, place);

                message = character == '\t' ? "a tab cannot indent" : "no text can begin with this character";
                hint = character == '\t' ? "use spaces" : "put the text in quotes";
        }
        if (strstr(problem, "tab character"))
                hint = "use spaces";
        if (begins_with_mark(reader, place.line)) {
                message = "a byte order mark (U+FEFF) in the middle of a document";
                hint = "remove it, or begin a document there with ---";
        }
        problem_error(reader->loading, place, hint, "not valid YAML: %s", message);
}

/*
 * Where reading can go on after an error: the next line of "---" from `line` on; NULL without one.
 */
static const char *next_document(struct source *source, const char *after, uint32_t line,
                                 uint32_t *ret_line) {
        for (;; line++) {
                size_t length;
                const char *text = source_line(source, line, &length);

                if (!text)
                        return NULL;
                if (text > after && length >= 3 && memcmp(text, "---", 3) == 0 &&
                    (length == 3 || text[3] == ' ')) {
                        *ret_line = line;
                        return text;
                }
        }
}

/* Reads from `start` on. NULL at the end of the file, else where to begin again after an error. */
static const char *read_part(struct reader *reader, const char *start) {
        struct source *source = &reader->loading->sources[reader->file];
        const char *end = source->bytes.data + source->bytes.length, *next = NULL;
        uint32_t line = 0;
        yaml_event_t event;
        bool ended = false;

        reader->document_line = reader->line_offset + 1;
        reader->document_first = reader->loading->diagnostics->count;
        if (!yaml_parser_initialize(&reader->parser))
                abort();
        yaml_parser_set_encoding(&reader->parser, YAML_UTF8_ENCODING);
        yaml_parser_set_input_string(&reader->parser,
                                     (const unsigned char *)reader->text + (start - source->bytes.data),
                                     (size_t)(end - start));
        while (!ended) {
                bool good = yaml_parser_parse(&reader->parser, &event);

                if (good) {
                        ended = event.type == YAML_STREAM_END_EVENT;
                        line = (uint32_t)event.start_mark.line + 1 + reader->line_offset;
                        good = take_yaml_event(reader, &event);
                        yaml_event_delete(&event);
                } else {
                        if (reader->parser.error == YAML_MEMORY_ERROR)
                                abort();
                        line = place_of_problem(reader, start).line;
                        report_syntax(reader, start);
                }
                if (!good) {
                        source->documents++;
                        next = next_document(source, start, line, &reader->line_offset);
                        problem_quote_nothing_unread(reader->loading, reader->file, reader->document_first,
                                                     reader->document_line,
                                                     next ? reader->line_offset : UINT32_MAX);
                        reader->line_offset -= next != NULL;
                        ended = true;
                }
        }
        yaml_parser_delete(&reader->parser);
        return next;
}

void document_read_all(struct loading *loading, uint16_t file) {
        struct reader *reader = arena_alloc(loading->arena, sizeof(*reader));
        struct source *source = &loading->sources[file];
        const struct strbuf *bytes = &source->bytes;
        struct strbuf changed STRBUF_CLEANUP = STRBUF_INIT;
        const char *next = bytes->data;

        reader->loading = loading;
        reader->file = file;
        reader->text = bytes->data;
        if (breaks_found(strbuf_text(bytes), bytes->length)) {
                strbuf_append_bytes(&changed, bytes->data, bytes->length);
                if (!breaks_hide(&changed, &reader->breaks)) {
                        problem_error(loading, (struct place){ .file = file },
                                      "remove them, or write \\N, \\L or \\P in double quotes",
                                      "this file has U+0085, U+2028 or U+2029 as characters");
                        source->documents++;
                        problem_quote_nothing_unread(loading, file, loading->diagnostics->count - 1, 1,
                                                     UINT32_MAX);
                        return;
                }
                reader->text = changed.data;
        }
        while (next)
                next = read_part(reader, next);
}
