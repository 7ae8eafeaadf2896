/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Environment Map: which agents and swarms use which environment, by what was applied. From the state alone.
 */
#ifndef BERTH_CONTROLLER_MAP_H
#define BERTH_CONTROLLER_MAP_H

#include "base/arena.h"
#include "base/error.h"
#include "state/state.h"

#include <jansson.h>
#include <stdio.h>

struct map_dependent {
        const char *address; /* "Agent/x" */
        bool active;
};

struct map_environment {
        const char *name;
        int64_t memory_mb;
        struct map_dependent *dependents; /* by address */
        size_t dependent_count;
};

struct map {
        struct map_environment *environments; /* by name */
        size_t count;
};

/* `environment` NULL: all. ERROR_NOT_FOUND, with the nearest name, where the state has none of that name. */
int map_load(struct state *state, const char *environment, struct arena *arena, struct map *ret,
             struct error *err) MUST_USE;

void map_print_text(const struct map *map, FILE *stream);
void map_print_dot(const struct map *map, FILE *stream);
void map_print_mermaid(const struct map *map, FILE *stream);
/* {environments [{name, memoryMB, dependents [{address, active}]}]}: a new reference. */
json_t *map_json(const struct map *map);

#endif
