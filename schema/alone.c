/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds that stand in a file of their own, one document, which is no part of a stack; and that a stack's manifests have none. */
#include "schema/loading.h"

bool alone_takes(struct loading *loading, const struct kind *kind, struct place place) {
        const struct kind *wanted = loading->options->alone;
        struct arena *arena = loading->arena;

        if (wanted ? kind == wanted : !kind->started_by)
                return true;
        if (wanted)
                problem_error(loading, place,
                              "the manifests of a stack, and other programs', stand in files of their own",
                              "the file of a %s holds nothing else, found %s", wanted->name, kind->name);
        else
                problem_error(
                        loading, place,
                        arena_printf(arena,
                                     "it stands in a file of its own, outside of the stack's: %s -f FILE",
                                     kind->started_by),
                        "a %s is no part of a stack", kind->name);
        return false;
}

void alone_check(struct loading *loading) {
        const struct kind *wanted = loading->options->alone;
        const struct draft *first = NULL;

        for (size_t i = 0; i < loading->draft_count; i++) {
                const struct draft *draft = &loading->drafts[i];

                if (first) {
                        problem_error(
                                loading, draft->name,
                                arena_printf(loading->arena, "start one %s for each", wanted->started_by),
                                "a second %s, %s: the first stands on line %u", wanted->name,
                                draft->resource.name, first->resource.line);
                        return;
                }
                first = draft;
        }
        if (!first && loading->diagnostics->errors == 0)
                problem_error(loading, (struct place){ 0 },
                              arena_printf(loading->arena,
                                           "write kind: %s; berth explain %s shows its fields", wanted->name,
                                           wanted->name),
                              "no %s stands in this file", wanted->name);
}
