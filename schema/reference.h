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

/*
 * "Environment", "Environment.memoryMB", "Environment.image.tag": type, unit, range, default, meaning and, for kinds
 * and objects, the fields below. `target` may leave out "spec.". -1 where nothing is meant; err has the nearest name.
 */
int explain(const char *target, FILE *stream, struct error *err) MUST_USE;
/* The same as data; a new reference. */
int explain_json(const char *target, json_t **ret, struct error *err) MUST_USE;

/* docs/manifests.md: every kind and field, as Markdown. */
void reference_markdown(FILE *stream);

#endif
