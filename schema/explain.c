/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `berth explain`: one kind or field, in words or as data. A target is Kind, Kind.path or Kind.spec.path, or
 * Kind.metadata.name; the kind may be written in any of the ways that the command line takes.
 */
#include "base/json.h"
#include "base/suggest.h"
#include "base/terminal.h"
#include "base/text_utf8.h"
#include "schema/decode.h"
#include "schema/reference.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH_MAX 100
#define NAMES_MAX 40U

/* What a target means: a kind, or a field of it. */
struct target {
        const struct kind *kind;
        const struct field *field; /* NULL: the kind itself */
        const char *path;          /* without "spec." */
        bool in_metadata;
};

static void fail_unknown_kind(const char *name, size_t length, struct error *err) {
        struct strbuf names STRBUF_CLEANUP = STRBUF_INIT;
        const char *nearest;
        char typed[64];

        snprintf(typed, sizeof(typed), "%.*s", (int)length, name);
        nearest = length ? kind_nearest(typed) : NULL;
        kind_append_names(&names);
        if (length == 0)
                error_set_kind(err, ERROR_NOT_FOUND, "the kind is missing: the kinds are %s",
                               strbuf_text(&names));
        else if (nearest)
                error_set_kind(err, ERROR_NOT_FOUND, "there is no kind %s: did you mean %s?", typed, nearest);
        else
                error_set_kind(err, ERROR_NOT_FOUND, "there is no kind %s: the kinds are %s", typed,
                               strbuf_text(&names));
}

/* Follows the path as far as it is known; the step that is not is compared to the names that stand there. */
static void fail_unknown_field(const struct target *target, const struct field *fields, struct error *err) {
        const char *names[NAMES_MAX], *typed = target->path, *nearest;
        size_t count = 0;
        char step[64];

        if (target->in_metadata)
                typed += strlen("metadata.");
        for (const char *dot = typed; !target->in_metadata && (dot = strchr(dot, '.')); dot++) {
                struct strbuf prefix STRBUF_CLEANUP = STRBUF_INIT;
                const struct field *parent;

                strbuf_append_bytes(&prefix, target->path, (size_t)(dot - target->path));
                parent = kind_field(target->kind, strbuf_text(&prefix));
                if (!parent)
                        break;
                fields = field_children(parent);
                typed = dot + 1;
        }
        snprintf(step, sizeof(step), "%.*s", (int)strcspn(typed, "."), typed);
        for (const struct field *field = fields; field && field->name && count < NAMES_MAX; field++)
                names[count++] = field->name;
        nearest = suggest_nearest(step, names, count);
        error_set_kind(err, ERROR_NOT_FOUND, "%s has no field %s%s%s%s", target->kind->name, target->path,
                       nearest ? ": did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
}

static int find_target(const char *text, struct target *ret, struct error *err) {
        size_t length = strcspn(text, ".");
        struct target target = { 0 };
        char kind_name[64];

        snprintf(kind_name, sizeof(kind_name), "%.*s", (int)length, text);
        target.kind = kind_find_loosely(kind_name);
        if (!target.kind) {
                fail_unknown_kind(text, length, err);
                return -1;
        }
        target.path = text[length] == '.' ? text + length + 1 : text + length;
        if (strncmp(target.path, "spec", 4) == 0 && (target.path[4] == '.' || target.path[4] == '\0'))
                target.path += target.path[4] == '.' ? 5 : 4;
        if (strncmp(target.path, "metadata.", 9) == 0) {
                target.in_metadata = true;
                target.field = field_find(metadata_fields, target.path + 9);
        } else if (*target.path) {
                target.field = kind_field(target.kind, target.path);
        }
        if (*target.path && !target.field) {
                fail_unknown_field(&target, target.in_metadata ? metadata_fields : target.kind->fields, err);
                return -1;
        }
        *ret = target;
        return 0;
}

/* The text in lines of the terminal's width, each indented; the first goes on where the stream stands. */
static void print_wrapped(FILE *stream, const char *text, int indent) {
        struct strbuf lines STRBUF_CLEANUP = STRBUF_INIT;
        int width = terminal_width(stream);

        text_append_wrapped(&lines, text, width > WIDTH_MAX ? WIDTH_MAX : width, indent, indent);
        fprintf(stream, "%s\n", strbuf_text(&lines));
}

static void print_fact(FILE *stream, const char *name, const char *text) {
        fprintf(stream, "  %s%-10s%s ", terminal_style(stream, STYLE_DIM), name,
                terminal_style(stream, STYLE_PLAIN));
        print_wrapped(stream, text, 13);
}

static void print_fields(FILE *stream, const struct field *fields) {
        for (const struct field *field = fields; field->name; field++) {
                fprintf(stream, "  %s%s%s (%s%s)\n      ", terminal_style(stream, STYLE_BOLD), field->name,
                        terminal_style(stream, STYLE_PLAIN), field_type_name(field),
                        field->required ? ", required" : "");
                print_wrapped(stream, field->doc, 6);
        }
}

/* The one number that follows from a field and is never set. */
static void print_computed(FILE *stream, const struct target *target, struct arena *arena) {
        if (target->kind->id != KIND_ENVIRONMENT || strcmp(target->field->name, "memoryMB") != 0 ||
            !target->field->default_text)
                return;
        print_fact(stream, "computed",
                   arena_printf(arena, "vCPU = memoryMB / %d: %.2f with the default, %.2f at most",
                                MEMORY_MB_PER_VCPU,
                                strtod(target->field->default_text, NULL) / MEMORY_MB_PER_VCPU,
                                (double)target->field->maximum / MEMORY_MB_PER_VCPU));
}

static void print_field(FILE *stream, const struct target *target, struct arena *arena) {
        const struct field *field = target->field, *children = field_children(field);
        const char *range = field_facts_range(arena, field);

        fprintf(stream, "%s%s.%s%s\n  ", terminal_style(stream, STYLE_BOLD), target->kind->name, target->path,
                terminal_style(stream, STYLE_PLAIN));
        print_wrapped(stream, field->doc, 2);
        fputc('\n', stream);
        print_fact(stream, "type", field_facts_type(arena, field));
        if (field->required)
                print_fact(stream, "required", "yes");
        if (field->unit)
                print_fact(stream, "unit", field->unit);
        if (*range)
                print_fact(stream, field->choices_text || field->choices_integer ? "one of" : "range", range);
        if (field->pattern_message)
                print_fact(stream, "form", field->pattern_message);
        if (field->default_text)
                print_fact(stream, "default", field->default_text);
        if (field->reference)
                print_fact(stream, "names", arena_printf(arena, "a resource of kind %s", field->reference));
        if (field->needs)
                print_fact(stream, "only with", field->needs);
        print_computed(stream, target, arena);
        if (children) {
                fputs("\nFields\n", stream);
                print_fields(stream, children);
        }
}

int explain(const char *target, FILE *stream, struct error *err) {
        struct arena *arena ARENA_CLEANUP = NULL;
        struct target found = { 0 };

        if (find_target(target, &found, err) < 0)
                return -1;
        arena = arena_new();
        if (found.field) {
                print_field(stream, &found, arena);
                return 0;
        }
        fprintf(stream, "%s%s%s  apiVersion: %s\n  ", terminal_style(stream, STYLE_BOLD), found.kind->name,
                terminal_style(stream, STYLE_PLAIN), API_VERSION);
        print_wrapped(stream, found.kind->doc, 2);
        fputs("\nFields of spec\n", stream);
        print_fields(stream, found.kind->fields);
        return 0;
}

void explain_kinds(FILE *stream) {
        for (size_t i = 0; i < kind_count; i++) {
                fprintf(stream, "%s%s%s\n  ", terminal_style(stream, STYLE_BOLD), kinds[i]->name,
                        terminal_style(stream, STYLE_PLAIN));
                print_wrapped(stream, kinds[i]->doc, 2);
        }
        fputs("\nberth explain KIND has a kind's fields, berth explain KIND.FIELD one of them.\n", stream);
}

json_t *explain_kinds_json(void) {
        json_t *list = json_array();

        for (size_t i = 0; i < kind_count; i++)
                json_add(list,
                         json_checked(json_pack("{ss, ss}", "kind", kinds[i]->name, "doc", kinds[i]->doc)));
        return list;
}

static json_t *fields_json(const struct field *fields);

static json_t *choices_json(const struct field *field) {
        json_t *choices = json_array();

        for (size_t i = 0; field->choices_text && field->choices_text[i]; i++)
                json_add(choices, json_string(field->choices_text[i]));
        for (size_t i = 0; field->choices_integer && field->choices_integer[i] >= 0; i++)
                json_add(choices, json_integer(field->choices_integer[i]));
        return choices;
}

static json_t *field_json(const struct field *field) {
        json_t *json = json_object();
        const struct field *children = field_children(field);

        json_put(json, "name", json_string(field->name));
        json_put(json, "type", json_string(field_type_name(field)));
        json_put(json, "required", json_boolean(field->required));
        json_put(json, "doc", json_string(field->doc));
        if (field->minimum != 0 || field->maximum != 0) {
                json_put(json, field->type == FIELD_INTEGER ? "minimum" : "minLength",
                         json_integer(field->minimum));
                json_put(json, field->type == FIELD_INTEGER ? "maximum" : "maxLength",
                         json_integer(field->maximum));
        }
        if (field->choices_text || field->choices_integer)
                json_put(json, "choices", choices_json(field));
        if (field->default_text) {
                struct value value = decode_default(field);

                json_put(json, "default", value_to_json(&value, NULL));
        }
        if (field->unit)
                json_put(json, "unit", json_string(field->unit));
        if (field->pattern)
                json_put(json, "pattern", json_string(field->pattern));
        if (field->reference)
                json_put(json, "reference", json_string(field->reference));
        if (children)
                json_put(json, "fields", fields_json(children));
        return json;
}

static json_t *fields_json(const struct field *fields) {
        json_t *list = json_array();

        for (const struct field *field = fields; field->name; field++)
                json_add(list, field_json(field));
        return list;
}

int explain_json(const char *target, json_t **ret, struct error *err) {
        struct target found = { 0 };
        json_t *json;

        if (find_target(target, &found, err) < 0)
                return -1;
        if (found.field) {
                json = field_json(found.field);
                json_put(json, "path", json_string(found.path));
        } else {
                json = json_pack("{s:s, s:o}", "doc", found.kind->doc, "fields",
                                 fields_json(found.kind->fields));
        }
        json_put(json, "kind", json_string(found.kind->name));
        *ret = json;
        return 0;
}
