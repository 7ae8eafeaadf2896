/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/internal.h"

#include <stdlib.h>
#include <string.h>

const char *bound_environment(const struct kind *kind, const struct value *spec) {
        const struct kind_reference *binding = kind_binding(kind);

        return binding ? kind_reference_name(binding, spec) : NULL;
}

static int by_environment(const void *a, const void *b) {
        const struct binding *left = a, *right = b;
        int order = strcmp(left->environment, right->environment);

        return order ? order : strcmp(left->dependent, right->dependent);
}

void bindings_sort(struct binding *bindings, size_t count) {
        if (count > 1)
                qsort(bindings, count, sizeof(*bindings), by_environment);
}

/* The first binding whose environment is not before `environment`: they are sorted by it. */
static size_t first_not_before(const struct planning *planning, const char *environment) {
        size_t low = 0, high = planning->binding_count;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (strcmp(planning->bindings[middle].environment, environment) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

const struct binding *bindings_of(const struct planning *planning, const char *environment,
                                  size_t *ret_count) {
        size_t start = first_not_before(planning, environment), end = start;

        while (end < planning->binding_count && strcmp(planning->bindings[end].environment, environment) == 0)
                end++;
        *ret_count = end - start;
        return planning->bindings + start;
}

static int compare_dependent(const void *dependent, const void *override) {
        return strcmp(dependent, ((const struct override *) override)->dependent);
}

const struct override *override_find(const struct override *overrides, size_t count, const char *dependent) {
        if (count == 0)
                return NULL;
        return bsearch(dependent, overrides, count, sizeof(*overrides), compare_dependent);
}
