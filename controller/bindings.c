/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bindings are asked for by environment (who depends on it?), overrides by dependent (is it out of service?). Both
 * are sorted once for a plan and searched from then on.
 */
#include "controller/planning.h"

#include "base/sorted.h"

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

static int compare_to_binding(const void *environment, const void *binding) {
        return strcmp(environment, ((const struct binding *)binding)->environment);
}

const struct binding *bindings_of(const struct planning *planning, const char *environment,
                                  size_t *ret_count) {
        size_t start = sorted_first(planning->bindings, planning->binding_count, sizeof(*planning->bindings),
                                    environment, compare_to_binding),
               end = start;

        while (end < planning->binding_count && strcmp(planning->bindings[end].environment, environment) == 0)
                end++;
        *ret_count = end - start;
        return planning->bindings + start;
}

void bindings_add_observed(struct planning *planning) {
        const struct plan *plan = planning->plan;
        struct binding *added = arena_array(
                planning->arena, planning->binding_count + plan->subject_count + 1, sizeof(*added));
        size_t count = planning->binding_count;

        if (count > 0)
                memcpy(added, planning->bindings, count * sizeof(*added));
        for (size_t i = 0; i < plan->subject_count; i++) {
                const struct subject *subject = &plan->subjects[i];
                const char *seen, *recorded;

                if (!kind_binding(subject->kind) || !subject->observed->exists)
                        continue;
                seen = bound_environment(subject->kind, subject->observed->spec);
                recorded = subject->record ? bound_environment(subject->kind, subject->record->spec) : NULL;
                if (seen && (!recorded || strcmp(seen, recorded) != 0))
                        added[count++] =
                                (struct binding){ .environment = seen, .dependent = subject->address };
        }
        if (count == planning->binding_count)
                return;
        planning->bindings = added;
        planning->binding_count = count;
        bindings_sort(added, count);
}

static int compare_dependent(const void *dependent, const void *override) {
        return strcmp(dependent, ((const struct override *) override)->dependent);
}

const struct override *override_find(const struct override *overrides, size_t count, const char *dependent) {
        if (count == 0)
                return NULL;
        return bsearch(dependent, overrides, count, sizeof(*overrides), compare_dependent);
}
