/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/images/build_folder.h"

#include "base/digest.h"
#include "base/files.h"
#include "providers/local/images/bootstrap.h"
#include "providers/local/images/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUILDS "build"

const char *build_folder_path(const struct build_folder *folder, const char *name, struct arena *arena) {
        return arena_printf(arena, "%s/%s/%s", folder->builds, folder->name, name);
}

/* An ordinary user's build leaves files of users that exist only in a user namespace: then another one removes them. */
static int remove_build(int builds, const char *path, const char *name, struct error *err) {
        char *whole TEXT_CLEANUP = NULL;

        if (tree_remove(builds, name) == 0)
                return 0;
        whole = path_join(path, name);
        return bootstrap_remove(whole, err);
}

/*
 * Removes the folders of dead processes, which are not locked. The caller holds the lock of
 * `builds`.
 */
static int remove_dead(int builds, const char *path, struct error *err) {
        int again = openat(builds, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *folder = again < 0 ? NULL : fdopendir(again);
        const struct dirent *entry;
        int result = 0;

        if (!folder) {
                close_descriptor(&again);
                return error_set(err, "cannot read %s: %s", path, strerror(errno));
        }
        while (result == 0 && (entry = readdir(folder))) {
                int one DESCRIPTOR_CLEANUP = -1;

                if (entry->d_name[0] == '.')
                        continue;
                one = openat(builds, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (one < 0 || flock(one, LOCK_EX | LOCK_NB) == 0)
                        result = remove_build(builds, path, entry->d_name, err);
        }
        closedir(folder);
        return result;
}

static int make_own(struct build_folder *build, int builds) {
        uint64_t random;

        random_bytes(&random, sizeof(random));
        snprintf(build->name, sizeof(build->name), "%016" PRIx64, random);
        if (mkdirat(builds, build->name, 0700) < 0) {
                build->name[0] = '\0';
                return -1;
        }
        build->lock = openat(builds, build->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return build->lock < 0 ? -1 : flock(build->lock, LOCK_EX | LOCK_NB);
}

int build_folder_open(const char *store, struct build_folder *build, struct error *err) {
        int builds DESCRIPTOR_CLEANUP = -1;
        char *path TEXT_CLEANUP = path_join(store, BUILDS);

        if (folder_make(path, err) < 0)
                return -1;
        builds = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        /* Under this lock no other build can take our new folder for a dead one before we have locked it. */
        if (builds < 0 || descriptor_lock(builds, interrupt_of_user()) < 0)
                return error_set_kind(err, errno == EINTR ? ERROR_INTERRUPTED : ERROR_FAILED,
                                      "cannot lock %s: %s", path, strerror(errno));
        build->builds = realpath(path, NULL);
        if (!build->builds)
                return error_set(err, "cannot find %s: %s", path, strerror(errno));
        if (remove_dead(builds, build->builds, err) < 0)
                return error_context(err, "cannot remove what an earlier build left in %s", path);
        return make_own(build, builds) < 0
                       ? error_set(err, "cannot make a folder in %s: %s", path, strerror(errno))
                       : 0;
}

void build_folder_close(struct build_folder *build) {
        int builds DESCRIPTOR_CLEANUP =
                build->builds ? open(build->builds, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        struct error ignored;

        /* What cannot be removed now, the next build removes or reports. */
        if (builds >= 0 && build->name[0])
                (void)!remove_build(builds, build->builds, build->name, &ignored);
        close_descriptor(&build->lock);
        free((void *)(uintptr_t)build->builds);
}
