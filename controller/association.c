/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An override is a note in the state that a dependent is out of service. Taking out writes one for each dependent of
 * the environment that has none yet; putting back deletes those that name the environment, also of dependents that
 * are gone since. Nothing is done here to the dependents themselves: the plan that follows sees the overrides and
 * changes the bindings.
 */
#include "controller/association.h"

#include "controller/map.h"
#include "controller/planning.h"

#include <string.h>

static void add_dependent(struct association *association, const char *dependent, struct state_op op) {
        association->dependents[association->count] = dependent;
        association->ops[association->count++] = op;
}

static void take_out(struct association *association, const struct map_environment *environment,
                     const struct override *overrides, size_t override_count, struct arena *arena) {
        for (size_t i = 0; i < environment->dependent_count; i++) {
                const char *dependent = environment->dependents[i].address;
                struct override *override = arena_alloc(arena, sizeof(*override));

                if (override_find(overrides, override_count, dependent))
                        continue;
                *override = (struct override){ .dependent = dependent, .environment = environment->name };
                add_dependent(association, dependent,
                              (struct state_op){ .type = STATE_PUT_OVERRIDE, .override = override });
        }
}

static void put_back(struct association *association, const char *environment,
                     const struct override *overrides, size_t override_count) {
        for (size_t i = 0; i < override_count; i++) {
                if (strcmp(overrides[i].environment, environment) == 0)
                        add_dependent(association, overrides[i].dependent,
                                      (struct state_op){ .type = STATE_DELETE_OVERRIDE,
                                                         .address = overrides[i].dependent });
        }
}

int association_find(struct state *state, const char *environment, bool out, struct arena *arena,
                     struct association *ret, struct error *err) {
        struct association association = { 0 };
        struct override *overrides;
        size_t override_count;
        struct map map;

        if (map_load(state, environment, arena, &map, err) < 0 ||
            state_load_overrides(state, arena, &overrides, &override_count, err) < 0)
                return -1;
        association.dependents = arena_array(arena, map.environments[0].dependent_count + override_count + 1,
                                             sizeof(*association.dependents));
        association.ops = arena_array(arena, map.environments[0].dependent_count + override_count + 1,
                                      sizeof(*association.ops));
        if (out)
                take_out(&association, &map.environments[0], overrides, override_count, arena);
        else
                put_back(&association, environment, overrides, override_count);
        if (association.count > 0) {
                *ret = association;
                return 0;
        }
        if (!out)
                return error_set(err, "nothing is disassociated from %s", environment);
        if (map.environments[0].dependent_count == 0)
                return error_set(err, "%s has no users: there is nothing to disassociate", environment);
        return error_set(err, "all dependents of %s are disassociated already", environment);
}
