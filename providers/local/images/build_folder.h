/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where an image is made: a folder below the store's `build`, named at random and locked by flock(2) until it is closed. The
 * folder of a dead process is removed by the next one that opens its own; nothing ever reads it.
 */
#ifndef BERTH_PROVIDERS_LOCAL_IMAGES_BUILD_FOLDER_H
#define BERTH_PROVIDERS_LOCAL_IMAGES_BUILD_FOLDER_H

#include "base/arena.h"
#include "base/error.h"

struct build_folder {
        const char *builds; /* the folder of all builds, absolute */
        char name[40];      /* of our folder in it; "" until it is made */
        int lock;           /* our folder, locked */
};
#define BUILD_FOLDER_INIT \
        { .lock = -1 }
#define BUILD_FOLDER_CLEANUP __attribute__((cleanup(build_folder_close)))

/* `store` is the folder of the store. Close it in any case. */
int build_folder_open(const char *store, struct build_folder *build, struct error *err) MUST_USE;
/* Removes it with all that is in it; what cannot be removed now, the next one removes or reports. */
void build_folder_close(struct build_folder *build);

/* The path of what is called `name` in it. */
const char *build_folder_path(const struct build_folder *folder, const char *name, struct arena *arena);

#endif
