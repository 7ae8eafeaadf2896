/* SPDX-License-Identifier: Apache-2.0 */
/* docs/manifests.md, written by the field tables. */
#include "schema/decode.h"
#include "schema/reference.h"

#include <string.h>

static const char introduction[] =
        "# Manifests\n"
        "\n"
        "<!-- Written from the field tables in schema/kind_*.c. Do not edit: change the tables, then run the test\n"
        "schema/reference, which says how to write this page again. -->\n"
        "\n"
        "A manifest is a YAML document with `apiVersion: berth/v1`, `kind`, `metadata` and `spec`. A file may hold many,\n"
        "separated by `---`; a folder may hold many files (`*.yaml`, `*.yml`, searched recursively; names that begin with a\n"
        "dot are skipped). Types are those of YAML 1.2: an unquoted `no` is a text, `0x800` and `0o4000` are integers. Text\n"
        "fields take a plain scalar as it is written, so `tag: 1.10` stays 1.10. An optional field without a value is\n"
        "the same as no field.\n"
        "\n"
        "`berth fmt` lays manifests out alike: two spaces a level, comments kept, nothing changed but whitespace; a\n"
        "file whose lines end with CRLF keeps that.\n"
        "`berth validate` reports everything that is wrong, in one run. `berth explain KIND.field` shows what stands here for\n"
        "one field, `berth schema` the same as JSON Schema for editors.\n";

static void print_cell(FILE *stream, const char *text) {
        for (; *text; text++) {
                if (*text == '<') {
                        fputs("&lt;", stream);
                        continue;
                }
                if (*text == '|')
                        fputc('\\', stream);
                fputc(*text, stream);
        }
}

static void print_field_row(FILE *stream, struct arena *arena, const char *prefix,
                            const struct field *field) {
        const char *range = field_facts_range(arena, field);

        fprintf(stream, "| `%s%s` | %s%s%s | ", prefix, field->name, field_facts_type(arena, field),
                field->unit ? ", " : "", field->unit ? field->unit : "");
        if (field->default_text)
                fprintf(stream, "`%s`", field->default_text);
        else
                fputs(field->required ? "required" : "", stream);
        fputs(" | ", stream);
        print_cell(stream, field->doc);
        if (field->choices_text || field->choices_integer)
                fprintf(stream, " Values: %s.", range);
        else if (*range)
                fprintf(stream, " Range: %s.", range);
        if (field->pattern_message) {
                fputs(" Form: ", stream);
                print_cell(stream, field->pattern_message);
                fputc('.', stream);
        }
        fputs(" |\n", stream);
}

static void print_rows(FILE *stream, struct arena *arena, const char *prefix, const struct field *fields) {
        for (const struct field *field = fields; field->name; field++) {
                const struct field *children = field_children(field);
                const char *step = field->type == FIELD_LIST  ? "[]."
                                   : field->type == FIELD_MAP ? ".NAME."
                                                              : ".";

                print_field_row(stream, arena, prefix, field);
                if (children)
                        print_rows(stream, arena, arena_printf(arena, "%s%s%s", prefix, field->name, step),
                                   children);
        }
}

void reference_print_fields(FILE *stream, const struct field *fields) {
        struct arena *arena ARENA_CLEANUP = arena_new();

        fputs("\n| field | type | default | meaning |\n|---|---|---|---|\n", stream);
        print_rows(stream, arena, "", fields);
}

void reference_print_groups(FILE *stream, const struct field_group *groups) {
        for (const struct field_group *group = groups; group && group->names; group++) {
                fprintf(stream, "\n%s of ", group->exactly_one ? "Exactly one" : "At least one");
                for (const char *const *name = group->names; *name; name++)
                        fprintf(stream, "%s`%s`",
                                name == group->names ? ""
                                : name[1]            ? ", "
                                                     : " and ",
                                *name);
                fputs(" must be given.\n", stream);
        }
}

void reference_markdown(FILE *stream) {
        fputs(introduction, stream);
        fputs("\n## metadata\n\nThe same for every kind.\n", stream);
        reference_print_fields(stream, metadata_fields);
        for (size_t i = 0; i < kind_count; i++) {
                fprintf(stream, "\n## %s\n\n%s Fields of `spec`:\n", kinds[i]->name, kinds[i]->doc);
                reference_print_fields(stream, kinds[i]->fields);
                reference_print_groups(stream, kinds[i]->groups);
        }
}
