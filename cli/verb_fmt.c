/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fmt: lays manifests out in the one common form. A file that is not YAML, or cannot be laid out,
 * is left as it is; the others are still written.
 */
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "schema/format.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIZE_MOST ((size_t)16 << 20)

struct formatting {
        const struct options *options;
        json_t *changed; /* [path] */
        size_t count, failures;
};

/* Lays out `text`, and whether that changed it: 1, 0, or -1. */
static int format_text(const struct strbuf *text, struct strbuf *result, struct error *err) {
        if (format_yaml(strbuf_text(text), text->length, result, err) < 0)
                return -1;
        return text->length != result->length ||
               memcmp(strbuf_text(text), strbuf_text(result), text->length) != 0;
}

static int format_input(const struct options *options, struct error *err) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT, result STRBUF_CLEANUP = STRBUF_INIT;
        int changed;

        if (descriptor_read(STDIN_FILENO, SIZE_MOST, &text) != 0)
                return error_set(err, "standard input cannot be read, or is larger than 16 MiB");
        changed = format_text(&text, &result, err);
        if (changed < 0 || options->check)
                return changed > 0 ? EXIT_CHANGES : changed;
        fwrite(strbuf_text(&result), 1, result.length, stdout);
        return EXIT_DONE;
}

/* 1: it is laid out otherwise now, or would be. */
static int format_file(const char *path, bool check, struct error *err) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT, result STRBUF_CLEANUP = STRBUF_INIT;
        struct stat status;
        int changed;

        if (lstat(path, &status) < 0)
                return error_set(err, "%s", strerror(errno));
        if (!S_ISREG(status.st_mode))
                return error_set(err, "this is no regular file: fmt writes to none but those");
        if (file_read(path, SIZE_MOST, &text, err) < 0)
                return -1;
        changed = format_text(&text, &result, err);
        if (changed > 0 && !check &&
            file_write_atomic(path, strbuf_text(&result), result.length, status.st_mode & 07777, err) < 0)
                return -1;
        return changed;
}

static void format_path(struct formatting *formatting, const char *path) {
        const struct options *options = formatting->options;
        struct error why;
        int result = format_file(path, options->check, &why);

        formatting->count++;
        if (result < 0) {
                formatting->failures++;
                log_error("%s: %s", path, why.message);
        } else if (result > 0) {
                json_array_append_new(formatting->changed, json_string(path));
                if (!options->json)
                        puts(path);
        }
}

static int take_paths(struct formatting *formatting, const char *const *paths, size_t count,
                      struct arena *arena, struct error *err) {
        const char *const *files;
        size_t file_count;

        for (size_t i = 0; i < count; i++) {
                if (manifests_list_files(paths[i], arena, &files, &file_count, err) < 0)
                        return -1;
                if (file_count == 0)
                        return error_set(err, "no manifests in %s: they are files named *.yaml or *.yml",
                                         paths[i]);
                for (size_t at = 0; at < file_count; at++)
                        format_path(formatting, files[at]);
        }
        return 0;
}

static void print_summary(const struct formatting *formatting) {
        size_t changed = json_array_size(formatting->changed);

        if (formatting->options->json)
                print_json(json_pack("{s:i, s:i, s:O}", "files", (int)formatting->count, "failed",
                                     (int)formatting->failures, "changed", formatting->changed));
        else if (changed > 0)
                fprintf(stderr, "%zu of %zu files %s.\n", changed, formatting->count,
                        formatting->options->check ? "would change" : "laid out anew");
        else if (formatting->failures == 0)
                fprintf(stderr, "Nothing to do: %zu %s laid out as %s should be.\n", formatting->count,
                        formatting->count == 1 ? "file is" : "files are",
                        formatting->count == 1 ? "it" : "they");
}

int verb_fmt(const struct options *options, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        json_t *changed JSON_CLEANUP = json_array();
        struct formatting formatting = { .options = options, .changed = changed };
        bool has_operands = options->operand_count > 0;

        if (has_operands && options->has_path)
                return error_set(err, "berth fmt takes paths behind it, or by -f, and here are both");
        if (has_operands ? options->operand_count == 1 && strcmp(options->operands[0], "-") == 0
                         : options->more_count == 0 && strcmp(options->path, "-") == 0)
                return format_input(options, err);
        if (has_operands
                    ? take_paths(&formatting, options->operands, options->operand_count, arena, err) < 0
                    : take_paths(&formatting, &options->path, 1, arena, err) < 0 ||
                              take_paths(&formatting, options->more, options->more_count, arena, err) < 0)
                return -1;
        print_summary(&formatting);
        if (formatting.failures > 0)
                return EXIT_ERROR;
        return options->check && json_array_size(changed) > 0 ? EXIT_CHANGES : EXIT_DONE;
}
