/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that a manifest names: of credentials, keys, certificates. The loader knows fields alone;
 * what takes this machine (that a file is there, and can be read) is checked here, for programs
 * that have a manifest of their own. Faults are diagnostics with their lines.
 *
 *     named_files_begin(&files, path, elsewhere, arena, &diagnostics);
 *     key = named_files_member(&files, spec, "keyFile");
 *     result = named_files_end(&files, "Server", err);
 */
#ifndef BERTH_SCHEMA_NAMED_FILES_H
#define BERTH_SCHEMA_NAMED_FILES_H

#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "schema/diagnostics.h"
#include "schema/value.h"

#include <stdbool.h>

struct named_files {
        struct strbuf text; /* of the manifest's file; empty where it cannot be read twice */
        const char *path;   /* of that file, as it was named */
        const char *folder; /* that it lies in: "" for the present one, else ends in "/" */
        bool elsewhere;
        struct arena *arena;
        struct diagnostics *diagnostics;
};

/* `elsewhere`: the program runs on another machine; that a file is not here is a warning then, and nothing is an error. */
void named_files_begin(struct named_files *files, const char *path, bool elsewhere, struct arena *arena,
                       struct diagnostics *diagnostics);
/* -1 with ERROR_DIAGNOSED where the diagnostics have an error; `what` is the manifest's kind. */
int named_files_end(struct named_files *files, const char *what, struct error *err) MUST_USE;

/* A path as the manifest means it: a relative one begins at the manifest's folder. In the arena. */
const char *named_files_path(const struct named_files *files, const char *text);
/*
 * The path of a file that is there and can be read; NULL if absent, or `value` (which may be
 * NULL) is not a text.
 */
const char *named_files_check(struct named_files *files, const char *field, const struct value *value);
const char *named_files_member(struct named_files *files, const struct value *map, const char *field);

/* What the caller found wrong with `at`, or with what it names. `quote`: its line is shown. */
void named_files_add(struct named_files *files, const struct value *at, enum severity severity,
                     const char *message, bool quote);

#endif
