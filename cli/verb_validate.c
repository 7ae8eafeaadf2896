/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/session.h"
#include "cli/verbs.h"

static json_t *count_kinds(const struct manifests *manifests) {
        json_t *counts = json_object();

        for (int kind = 0; kind < KIND_COUNT; kind++) {
                size_t count;

                manifests_of_kind(manifests, (enum kind_id)kind, &count);
                if (count)
                        json_object_set_new(counts, kinds[kind].name, json_integer((json_int_t)count));
        }
        return counts;
}

int verb_validate(const struct options *options, struct error *err) {
        struct session session SESSION_CLEANUP;
        const struct manifests *manifests = &session.manifests;

        session_init(&session);
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
