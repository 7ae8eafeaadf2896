/* SPDX-License-Identifier: Apache-2.0 */
/* The field tables turned into documentation: JSON Schema and explanations. */
#ifndef BERTH_SCHEMA_REFERENCE_H
#define BERTH_SCHEMA_REFERENCE_H

#include "base/error.h"
#include "schema/kind.h"

#include <jansson.h>
#include <stdio.h>

/* JSON Schema (2020-12) of one kind's documents, or of all kinds where `kind` is NULL; a new reference. */
json_t *schema_json(const struct kind *kind);

/* Whose JSON it is that a schema describes. */
enum schema_style {
        SCHEMA_MANIFEST, /* read from YAML: a text may be written as a number */
        SCHEMA_ASKED,    /* sent by programs: as json_check() takes it */
        /*
         * The same, for models, which pay for each word, by services that refuse what they do not know: types, choices, ranges of numbers,
         * words. A default is among the words; a map is a list of "NAME=VALUE". What else must hold, json_check() says.
         */
        SCHEMA_SHORT,
        SCHEMA_ANSWERED /* sent to programs: members may be added one day */
};
/*
 * JSON Schema of what a field holds, a new reference. Objects that have a name as a component are put into `components`, and referred
 * to as "#/components/schemas/NAME", as OpenAPI has it; NULL: they stand where they are.
 */
json_t *schema_json_field(const struct field *field, enum schema_style style, json_t *components);

/* A line of each kind, with what it is for. */
void explain_kinds(FILE *stream);
/* The same as data, [{kind, doc}]; a new reference. */
json_t *explain_kinds_json(void);

/*
 * "Environment", "Environment.memoryMB", "Environment.image.tag": type, unit, range, default, meaning and, for kinds
 * and objects, the fields below. `target` may leave out "spec.". -1 where nothing is meant; err has the nearest name.
 */
int explain(const char *target, FILE *stream, struct error *err) MUST_USE;
/* The same as data; a new reference. */
int explain_json(const char *target, json_t **ret, struct error *err) MUST_USE;

/* The rows of a Markdown table of fields, | field | type | default | meaning |, those below each with it. */
void reference_print_fields(FILE *stream, const struct field *fields);
/* A sentence each; `groups` may be NULL. */
void reference_print_groups(FILE *stream, const struct field_group *groups);

/* docs/manifests.md: every kind and field, as Markdown. */
void reference_markdown(FILE *stream);

#endif
