/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of the test's own, and an arena; values from JSON. */
#ifndef BERTH_TESTS_PROVIDERS_LOCAL_SUPPORT_H
#define BERTH_TESTS_PROVIDERS_LOCAL_SUPPORT_H

#include "place.h"

#include "schema/value.h"

#include <sys/stat.h>
#include <unistd.h>

/* JSON with single quotes for double ones. */
static inline struct value *place_json(struct place *place, const char *text) {
        char *copy = arena_strdup(place->arena, text);
        struct value *value = arena_alloc(place->arena, sizeof(*value));
        json_t *json;

        for (char *at = copy; *at; at++) {
                if (*at == '\'')
                        *at = '"';
        }
        json = json_loads(copy, 0, NULL);
        if (!json)
                abort();
        *value = value_from_json(place->arena, json);
        json_decref(json);
        return value;
}

#endif
