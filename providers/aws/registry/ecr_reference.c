/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/registry/ecr_reference.h"

const char *ecr_reference_name(const struct ecr_reference *reference, struct arena *arena) {
        if (reference->digest)
                return arena_printf(arena, "%s@%s", reference->repository, reference->digest);
        return arena_printf(arena, "%s:%s", reference->repository, reference->tag);
}

void ecr_reference_refuse(struct ecr_reference *reference, const char *problem, const char *seen,
                          struct arena *arena) {
        reference->seen = seen;
        reference->problem = problem;
        reference->message = arena_printf(arena, "%s %s", ecr_reference_name(reference, arena), seen);
}
