/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The INI dialect of Python's configparser, since botocore reads these files by it: "=" or ":", comments on lines of
 * their own, a value that goes on in lines indented deeper than its key, a section [DEFAULT] for all others. A
 * section or key that stands twice is an error, as there.
 *
 * Values may be secrets. None is ever quoted, and each is overwritten before its memory is given back.
 */
#include "providers/aws/client/config_file.h"

#include "base/files.h"
#include "base/strbuf.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FILE_LIMIT (4U * 1024U * 1024U)

struct span {
        const char *text;
        size_t length;
};

struct parser {
        const char *path;
        unsigned line;
        struct config_file *file;
        struct config_section *section; /* NULL before the first header */
        bool in_option;                 /* the section's last option may go on */
        size_t indent;                  /* of the last header or key */
};

static const char spaces[] = " \t\r\n\v\f";

static struct span trim(struct span span) {
        while (span.length && strchr(spaces, span.text[0]))
                span.text++, span.length--;
        while (span.length && strchr(spaces, span.text[span.length - 1]))
                span.length--;
        return span;
}

static char *copy_span(struct span span) {
        char *copy = malloc(span.length + 1);

        if (!copy)
                abort();
        if (span.length)
                memcpy(copy, span.text, span.length);
        copy[span.length] = '\0';
        return copy;
}

static void free_secret(char *text) {
        if (text)
                explicit_bzero(text, strlen(text));
        free(text);
}

static int fail_at_line(const struct parser *parser, struct error *err, const char *problem) {
        /* The line itself is not shown: it may hold a secret. */
        return error_set(err, "%s:%u: %s", parser->path, parser->line, problem);
}

static void *grow_list(void *array, size_t count, size_t size) {
        void *longer = reallocarray(array, count + 1, size);

        if (!longer)
                abort();
        return longer;
}

static int add_section(struct parser *parser, struct span name, struct error *err) {
        struct config_file *file = parser->file;
        char *copy = copy_span(name);

        if (config_file_section(file, copy)) {
                free(copy);
                return fail_at_line(parser, err, "this section stands twice in the file");
        }
        file->sections = grow_list(file->sections, file->count, sizeof(*file->sections));
        parser->section = &file->sections[file->count++];
        *parser->section = (struct config_section){ .name = copy };
        parser->in_option = false;
        return 0;
}

static const char *find_option(const struct config_section *section, const char *name) {
        for (size_t i = 0; i < section->count; i++) {
                if (strcmp(section->options[i].name, name) == 0)
                        return section->options[i].value;
        }
        return NULL;
}

static int add_option(struct parser *parser, struct span line, struct error *err) {
        struct config_section *section = parser->section;
        size_t at = 0;
        struct span name;
        char *copy;

        while (at < line.length && line.text[at] != '=' && line.text[at] != ':')
                at++;
        name = trim((struct span){ line.text, at });
        if (at == line.length || name.length == 0)
                return fail_at_line(parser, err, "not a line of the form \"key = value\"");
        copy = copy_span(name);
        for (char *letter = copy; *letter; letter++)
                *letter = (char)tolower((unsigned char)*letter);
        if (find_option(section, copy)) {
                free(copy);
                return fail_at_line(parser, err, "this key stands twice in its section");
        }
        section->options = grow_list(section->options, section->count, sizeof(*section->options));
        section->options[section->count++] = (struct config_option){
                .name = copy,
                .value = copy_span(trim((struct span){ line.text + at + 1, line.length - at - 1 })),
        };
        parser->in_option = true;
        return 0;
}

/* One more line of the last option's value. Empty lines at its end are taken off again by trim_values(). */
static void continue_option(struct parser *parser, struct span line) {
        struct config_option *option = &parser->section->options[parser->section->count - 1];
        size_t length = strlen(option->value);
        char *longer = malloc(length + 1 + line.length + 1);

        if (!longer)
                abort();
        memcpy(longer, option->value, length);
        longer[length] = '\n';
        if (line.length)
                memcpy(longer + length + 1, line.text, line.length);
        longer[length + 1 + line.length] = '\0';
        free_secret(option->value);
        option->value = longer;
}

static int parse_line(struct parser *parser, struct span raw, struct error *err) {
        struct span line = trim(raw);
        size_t indent = (size_t)(line.text - raw.text);

        if (line.length && (line.text[0] == '#' || line.text[0] == ';'))
                return 0;
        if (line.length == 0) {
                if (parser->in_option)
                        continue_option(parser, line);
                return 0;
        }
        if (parser->in_option && indent > parser->indent) {
                continue_option(parser, line);
                return 0;
        }
        parser->indent = indent;
        if (line.text[0] == '[') {
                const char *end = memrchr(line.text, ']', line.length);

                if (end && end > line.text + 1)
                        return add_section(
                                parser, (struct span){ line.text + 1, (size_t)(end - line.text - 1) }, err);
        }
        if (!parser->section)
                return fail_at_line(parser, err, "a [section] must come first");
        return add_option(parser, line, err);
}

/* Takes off white space, and with it empty lines, at the end of each value. */
static void trim_values(struct config_file *file) {
        for (size_t i = 0; i < file->count; i++) {
                for (size_t j = 0; j < file->sections[i].count; j++) {
                        char *value = file->sections[i].options[j].value;

                        for (size_t end = strlen(value); end > 0 && strchr(spaces, value[end - 1]); end--)
                                value[end - 1] = '\0';
                }
        }
}

int config_file_parse(const char *text, size_t length, const char *path, struct config_file **ret,
                      struct error *err) {
        struct parser parser = { .path = path, .file = calloc(1, sizeof(*parser.file)) };
        size_t at = 0;

        if (!parser.file)
                abort();
        if (length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
                at = 3;
        while (at < length) {
                const char *end = memchr(text + at, '\n', length - at);
                size_t taken = end ? (size_t)(end - text) - at : length - at;

                parser.line++;
                if (memchr(text + at, '\0', taken)
                            ? fail_at_line(&parser, err, "a NUL byte in a text file") < 0
                            : parse_line(&parser, (struct span){ text + at, taken }, err) < 0) {
                        config_file_free(parser.file);
                        return -1;
                }
                at += taken + 1;
        }
        trim_values(parser.file);
        *ret = parser.file;
        return 0;
}

int config_file_read(const char *path, struct config_file **ret, struct error *err) {
        struct strbuf text = STRBUF_SECRET;
        int result = file_read(path, FILE_LIMIT, &text, err);

        if (result == 0)
                result = config_file_parse(strbuf_text(&text), text.length, path, ret, err);
        strbuf_release(&text);
        return result;
}

void config_file_free(struct config_file *file) {
        if (!file)
                return;
        for (size_t i = 0; i < file->count; i++) {
                struct config_section *section = &file->sections[i];

                for (size_t j = 0; j < section->count; j++) {
                        free(section->options[j].name);
                        free_secret(section->options[j].value);
                }
                free(section->options);
                free(section->name);
        }
        free(file->sections);
        free(file);
}

const struct config_section *config_file_section(const struct config_file *file, const char *name) {
        for (size_t i = 0; file && i < file->count; i++) {
                if (strcmp(file->sections[i].name, name) == 0)
                        return &file->sections[i];
        }
        return NULL;
}

const char *config_file_get(const struct config_file *file, const struct config_section *section,
                            const char *name) {
        const struct config_section *defaults;
        const char *value = section ? find_option(section, name) : NULL;

        if (value || !section)
                return value;
        defaults = config_file_section(file, "DEFAULT");
        return defaults ? find_option(defaults, name) : NULL;
}

bool config_file_nested(const char *block, const char *name, const char **ret, size_t *ret_length) {
        if (!block || *block != '\n')
                return false;
        while (*block) {
                size_t length = strcspn(block, "\n");
                const char *equals = memchr(block, '=', length);

                if (equals) {
                        struct span key = trim((struct span){ block, (size_t)(equals - block) });

                        if (key.length == strlen(name) && strncasecmp(key.text, name, key.length) == 0) {
                                struct span value = trim(
                                        (struct span){ equals + 1, length - (size_t)(equals + 1 - block) });

                                *ret = value.text;
                                *ret_length = value.length;
                                return true;
                        }
                }
                block += length + (block[length] == '\n');
        }
        return false;
}
