/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults of manifests: gathered over all files, shown in one go. Everything lives in the arena
 * given.
 */
#ifndef BERTH_SCHEMA_DIAGNOSTICS_H
#define BERTH_SCHEMA_DIAGNOSTICS_H

#include "base/arena.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

enum severity { SEVERITY_ERROR, SEVERITY_WARNING };

struct diagnostic {
        enum severity severity;
        const char *file;        /* as the user named it, or NULL */
        uint32_t line, column;   /* 1-based, 0 for the file as a whole; columns count characters */
        const char *message;     /* what was found */
        const char *hint;        /* what to do, "did you mean ...", or NULL */
        const char *source_line; /* without its newline, or NULL */
        uint32_t span;           /* characters to underline, at least 1 */
        const char *address;     /* "Kind/name" where known, or NULL */
};

struct diagnostics {
        struct arena *arena;
        struct diagnostic *items;
        size_t count;
        size_t errors; /* how many are errors */
};

void diagnostics_init(struct diagnostics *diagnostics, struct arena *arena);
/* Copies nothing but the struct: the texts must live in the arena or be static. */
void diagnostics_add(struct diagnostics *diagnostics, struct diagnostic diagnostic);
/* By file, line, column; the same order in every run. */
void diagnostics_sort(struct diagnostics *diagnostics);
/*
 *   agents.yaml:12:17: error: memoryMB must be 1769 to 10240, found 1768
 *      12 |       memoryMB: 1768
 *         |                 ^~~~
 *         = hint
 */
void diagnostics_print(const struct diagnostics *diagnostics, FILE *stream);
/* [{severity, file, line, column, message, hint, address}]: a new reference. Bytes that are not UTF-8 become \xNN. */
json_t *diagnostics_to_json(const struct diagnostics *diagnostics);

#endif
