/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of the test's own, and an arena; values from JSON. */
#ifndef BERTH_TESTS_PROVIDERS_LOCAL_SUPPORT_H
#define BERTH_TESTS_PROVIDERS_LOCAL_SUPPORT_H

#include "base/arena.h"
#include "base/files.h"
#include "schema/value.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct place {
        struct arena *arena;
        char folder[64];
};

static inline int place_setup(void **state) {
        struct place *place = calloc(1, sizeof(*place));

        if (!place)
                return -1;
        place->arena = arena_new();
        strcpy(place->folder, "/tmp/berth-local-XXXXXX");
        *state = place;
        return mkdtemp(place->folder) ? 0 : -1;
}

static inline int place_remove_one(const char *path, const struct stat *status, int type, struct FTW *ftw) {
        (void)status;
        (void)type;
        (void)ftw;
        return remove(path);
}

static inline int place_teardown(void **state) {
        struct place *place = *state;

        nftw(place->folder, place_remove_one, 16, FTW_DEPTH | FTW_PHYS);
        arena_free(place->arena);
        free(place);
        return 0;
}

/* Path of `name` in the test's folder; the folders above it are made. */
static inline const char *place_path(struct place *place, const char *name) {
        char *path = arena_printf(place->arena, "%s/%s", place->folder, name);
        char *folder = arena_strdup(place->arena, path);
        struct error err;

        *strrchr(folder, '/') = '\0';
        if (folder_make(folder, &err) < 0)
                abort();
        return path;
}

static inline const char *place_write(struct place *place, const char *name, const char *text) {
        const char *path = place_path(place, name);
        FILE *file = fopen(path, "w");

        if (!file || fputs(text, file) < 0 || fclose(file) != 0)
                abort();
        return path;
}

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
