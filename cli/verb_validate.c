/* SPDX-License-Identifier: Apache-2.0 */
/* validate: everything that can be said of manifests without a provider; of a Controller's file as well. */
#include "base/files.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "gitops/config.h"

#include <string.h>
#include <sys/stat.h>

#define SNIFF_MAX ((size_t)16 << 20)

/*
 * Whether the file is a Controller's, which is no part of any stack: by a line of its own, as everybody writes it. What
 * looks otherwise is loaded as a stack, and the loader says where it belongs.
 */
static bool is_controller_file(const char *path) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct error ignored;
        struct stat status;
        const char *at;
        size_t length;

        /* What comes from a pipe can be read once only. */
        if (stat(path, &status) < 0 || !S_ISREG(status.st_mode) ||
            file_read(path, SNIFF_MAX, &text, &ignored) < 0)
                return false;
        for (at = strbuf_text(&text); *at; at += length + (at[length] == '\n')) {
                length = strcspn(at, "\n");
                if (strncmp(at, "kind:", 5) == 0) {
                        at += 5 + strspn(at + 5, " ");
                        return strncmp(at, "Controller", 10) == 0 && strchr(" \r\n", at[10]);
                }
        }
        return false;
}

static int validate_controller(struct session *session, const struct options *options, struct error *err) {
        struct controller_config config;
        int result = controller_config_load(options->path, true, session->arena, &config,
                                            &session->diagnostics, err);

        if (result == 0 || err->kind == ERROR_DIAGNOSED)
                session_report(session, options, result < 0);
        if (result < 0)
                return -1;
        if (options->json)
                print_json(json_pack("{s:b, s:i, s:{s:i}, s:o}", "valid", 1, "files", 1, "resources",
                                     "Controller", 1, "diagnostics",
                                     diagnostics_to_json(&session->diagnostics)));
        else
                printf("Valid: a Controller of %zu %s.\n", config.source_count,
                       config.source_count == 1 ? "source" : "sources");
        return EXIT_DONE;
}

static json_t *count_kinds(const struct manifests *manifests) {
        json_t *counts = json_object();

        for (size_t kind = 0; kind < kind_count; kind++) {
                size_t count;

                manifests_of_kind(manifests, (enum kind_id)kind, &count);
                if (count)
                        json_object_set_new(counts, kinds[kind]->name, json_integer((json_int_t)count));
        }
        return counts;
}

int verb_validate(const struct options *options, struct error *err) {
        struct session session SESSION_CLEANUP;
        const struct manifests *manifests = &session.manifests;

        session_init(&session);
        if (is_controller_file(options->path))
                return validate_controller(&session, options, err);
        if (session_load(&session, options, false, err) < 0)
                return -1;
        if (options->json)
                print_json(json_pack("{s:b, s:i, s:o, s:o}", "valid", 1, "files", (int)manifests->file_count,
                                     "resources", count_kinds(manifests), "diagnostics",
                                     diagnostics_to_json(&session.diagnostics)));
        else
                printf("Valid: %zu %s in %zu %s.\n", manifests->count,
                       manifests->count == 1 ? "resource" : "resources", manifests->file_count,
                       manifests->file_count == 1 ? "file" : "files");
        return EXIT_DONE;
}
