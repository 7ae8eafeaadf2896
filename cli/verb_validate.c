/* SPDX-License-Identifier: Apache-2.0 */
/* validate: everything that can be said of manifests without a provider; of a Controller's or a Server's file as well. */
#include "base/files.h"
#include "broker/auth/config.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "gitops/config.h"

#include <string.h>
#include <sys/stat.h>

#define SNIFF_MAX ((size_t)16 << 20)

/*
 * The kind of a file that belongs to no stack (a Controller's, a Server's), read from a line of its
 * own, as is customary; else NULL. Any other file is loaded as a stack, and the loader reports
 * where it belongs.
 */
static const struct kind *kind_alone(const char *path) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct error ignored;
        struct stat status;
        const char *at;
        size_t length;

        /* A pipe can be read only once. */
        if (stat(path, &status) < 0 || !S_ISREG(status.st_mode) ||
            file_read(path, SNIFF_MAX, &text, &ignored) < 0)
                return NULL;
        for (at = strbuf_text(&text); strncmp(at, "kind:", 5) != 0; at += length + (at[length] == '\n')) {
                if (!*at)
                        return NULL;
                length = strcspn(at, "\n");
        }
        at += 5 + strspn(at + 5, " ");
        for (size_t i = 0; i < kind_count; i++) {
                length = strlen(kinds[i]->name);
                if (kinds[i]->started_by && strncmp(at, kinds[i]->name, length) == 0 &&
                    strchr(" \r\n", at[length]))
                        return kinds[i];
        }
        return NULL;
}

/* As for the program that it is written for, which may run on another machine. */
static int load_alone(struct session *session, const struct options *options, const struct kind *kind,
                      const char **ret_says, struct error *err) {
        struct controller_config controller;
        struct broker_config server;

        if (kind->id == KIND_SERVER) {
                if (broker_config_load(options->path, true, session->arena, &server, &session->diagnostics,
                                       err) < 0)
                        return -1;
                *ret_says = arena_printf(session->arena, "a Server with %zu %s", server.client_count,
                                         server.client_count == 1 ? "client" : "clients");
                return 0;
        }
        if (controller_config_load(options->path, true, session->arena, &controller, &session->diagnostics,
                                   err) < 0)
                return -1;
        *ret_says = arena_printf(session->arena, "a Controller of %zu %s", controller.source_count,
                                 controller.source_count == 1 ? "source" : "sources");
        return 0;
}

static int validate_alone(struct session *session, const struct options *options, const struct kind *kind,
                          struct error *err) {
        const char *says;
        int result = load_alone(session, options, kind, &says, err);

        if (result == 0 || err->kind == ERROR_DIAGNOSED)
                session_report(session, options, result < 0);
        if (result < 0)
                return -1;
        if (options->json)
                print_json(json_pack("{s:b, s:i, s:{s:i}, s:o}", "valid", 1, "files", 1, "resources",
                                     kind->name, 1, "diagnostics",
                                     diagnostics_to_json(&session->diagnostics)));
        else
                printf("Valid: %s.\n", says);
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
        const struct kind *alone;

        session_init(&session);
        if (options->more_count == 0 && (alone = kind_alone(options->path)))
                return validate_alone(&session, options, alone, err);
        if (session_load_offline(&session, options, err) < 0)
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
