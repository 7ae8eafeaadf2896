/* SPDX-License-Identifier: Apache-2.0 */
/* A temporary folder and an arena as a test's state: cmocka_unit_test_setup_teardown(test, place_setup, place_teardown). */
#ifndef BERTH_TESTS_UNIT_PLACE_H
#define BERTH_TESTS_UNIT_PLACE_H

#include "folder.h"

#include "base/arena.h"

struct place {
        struct arena *arena;
        char folder[sizeof(FOLDER_TEMPLATE)];
};

static inline int place_setup(void **state) {
        struct place *place = calloc(1, sizeof(*place));

        if (!place)
                return -1;
        place->arena = arena_new();
        folder_make_temporary(place->folder);
        *state = place;
        return 0;
}

static inline int place_teardown(void **state) {
        struct place *place = *state;

        folder_remove(place->folder);
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

#endif
