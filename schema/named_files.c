/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/named_files.h"

#include "base/files.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX ((size_t)16 << 20)

/* A line of the file, NULL if absent. */
static const char *line_of(const struct named_files *files, uint32_t number) {
        const char *at = strbuf_text(&files->text);

        for (uint32_t line = 1; line < number && *at; line++) {
                at += strcspn(at, "\n");
                at += *at == '\n';
        }
        return *at ? arena_strndup(files->arena, at, strcspn(at, "\r\n")) : NULL;
}

static void add_diagnostic(struct named_files *files, const struct value *at, struct diagnostic diagnostic) {
        const char *text = value_text_of(at);

        diagnostic.file = files->path;
        diagnostic.line = at->line;
        diagnostic.column = at->column;
        diagnostic.span = text && *text ? (uint32_t)strlen(text) : 1;
        diagnostics_add(files->diagnostics, diagnostic);
}

void named_files_add(struct named_files *files, const struct value *at, enum severity severity,
                     const char *message, bool quote) {
        add_diagnostic(files, at,
                       (struct diagnostic){ .severity = severity,
                                            .message = message,
                                            .source_line = quote ? line_of(files, at->line) : NULL });
}

/* For the lines that diagnostics show; a pipe cannot be read once more. */
void named_files_begin(struct named_files *files, const char *path, bool elsewhere, struct arena *arena,
                       struct diagnostics *diagnostics) {
        const char *slash = strrchr(path, '/');
        struct error ignored;
        struct stat status;

        *files = (struct named_files){
                .path = path,
                .folder = slash ? arena_strndup(arena, path, (size_t)(slash - path) + 1) : "",
                .elsewhere = elsewhere,
                .arena = arena,
                .diagnostics = diagnostics,
        };
        if (stat(path, &status) == 0 && S_ISREG(status.st_mode) &&
            file_read(path, FILE_MAX, &files->text, &ignored) < 0)
                strbuf_release(&files->text);
}

int named_files_end(struct named_files *files, const char *what, struct error *err) {
        struct diagnostics *diagnostics = files->diagnostics;

        strbuf_release(&files->text);
        if (diagnostics->errors == 0)
                return 0;
        diagnostics_sort(diagnostics);
        return error_set_kind(err, ERROR_DIAGNOSED, "%zu error%s in the %s", diagnostics->errors,
                              diagnostics->errors == 1 ? "" : "s", what);
}

const char *named_files_path(const struct named_files *files, const char *text) {
        return *text == '/' ? text : arena_printf(files->arena, "%s%s", files->folder, text);
}

const char *named_files_check(struct named_files *files, const char *field, const struct value *value) {
        const char *text = value_text_of(value), *path;
        struct stat status;

        if (!text)
                return NULL;
        path = named_files_path(files, text);
        if (stat(path, &status) < 0 || access(path, R_OK) < 0)
                add_diagnostic(
                        files, value,
                        (struct diagnostic){
                                .severity = files->elsewhere && errno == ENOENT ? SEVERITY_WARNING
                                                                                : SEVERITY_ERROR,
                                .message = arena_printf(files->arena, "%s: %s: %s", field, path,
                                                        strerror(errno)),
                                .hint = *text == '/'
                                                ? NULL
                                                : arena_printf(files->arena,
                                                               "a relative path begins at the folder of %s",
                                                               files->path),
                                .source_line = line_of(files, value->line),
                        });
        else if (!S_ISREG(status.st_mode))
                named_files_add(files, value, SEVERITY_ERROR,
                                arena_printf(files->arena, "%s: %s is no file", field, path), true);
        else
                return path;
        return NULL;
}

const char *named_files_member(struct named_files *files, const struct value *map, const char *field) {
        return named_files_check(files, field, value_get(map, field));
}
