/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything happens in one folder below the store's `build`, named at random and locked by flock(2) until the build ends: a
 * system as a tar, an OCI layout made of it, and the import of that layout. What can fail early is checked before the minutes
 * of bootstrapping: the recipe's name, the machine, the place for -o, the date.
 */
#include "providers/local/images/image_build.h"

#include "base/clock.h"
#include "base/digest.h"
#include "base/files.h"
#include "providers/local/images/bootstrap.h"
#include "providers/local/images/image_import.h"
#include "providers/local/images/image_write.h"
#include "providers/local/images/prebuilt.h"
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
#include <sys/utsname.h>
#include <unistd.h>

#define BUILDS "build"
#define TAG "latest"

struct build {
        const struct image_build_request *request;
        const struct prebuilt *prebuilt;
        struct arena *arena;
        const char *builds; /* the folder of all builds, absolute */
        char name[40];      /* of our folder in it; "" until it is made */
        int lock;           /* our folder, locked */
        int64_t dated_s;
};

static const char *path_of(const struct build *build, const char *name) {
        return arena_printf(build->arena, "%s/%s/%s", build->builds, build->name, name);
}

static void print_step(const struct build *build, const char *text) {
        if (build->request->messages >= 0)
                dprintf(build->request->messages, "%s\n", text);
}

/* --- the folder --- */

/* An ordinary user's build leaves files of users that exist only in a user namespace: then another one removes them. */
static int remove_one(int builds, const char *path, const char *name, struct error *err) {
        char *whole TEXT_CLEANUP = NULL;

        if (tree_remove(builds, name) == 0)
                return 0;
        whole = path_join(path, name);
        return bootstrap_remove(whole, err);
}

/* Removes the folders of dead processes, which nobody holds locked. The caller holds the lock of `builds`. */
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
                        result = remove_one(builds, path, entry->d_name, err);
        }
        closedir(folder);
        return result;
}

static int make_own(struct build *build, int builds) {
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

static int open_folder(struct build *build, const char *store, struct error *err) {
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

static void end_build(struct build *build) {
        int builds DESCRIPTOR_CLEANUP =
                build->builds ? open(build->builds, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        struct error ignored;

        /* What cannot be removed now, the next build removes or reports. */
        if (builds >= 0 && build->name[0])
                (void)!remove_one(builds, build->builds, build->name, &ignored);
        close_descriptor(&build->lock);
        free((void *)(uintptr_t)build->builds);
}

/* --- the steps --- */

/* A build runs the packages' own programs, so it works only on the machine's own architecture. */
static int check_machine(struct error *err) {
        struct utsname system;

        if (uname(&system) == 0 && strcmp(system.machine, "x86_64") != 0)
                return error_set(err,
                                 "environments run linux/amd64 only, and this machine is %s: build on an "
                                 "x86_64 machine with -o FILE, and berth image import that file here",
                                 system.machine);
        return 0;
}

/* What would else be known after minutes only. */
static int check_out(const char *out, struct arena *arena, struct error *err) {
        const char *slash = out ? strrchr(out, '/') : NULL;
        const char *folder = slash ? arena_strndup(arena, out, (size_t)(slash - out) + 1) : ".";
        struct stat status;

        if (!out)
                return 0;
        if (stat(out, &status) == 0 && S_ISDIR(status.st_mode))
                return error_set(err, "cannot write %s: it is a folder", out);
        if (faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) < 0)
                return error_set(err, "cannot write %s: %s", out, strerror(errno));
        return 0;
}

/* SOURCE_DATE_EPOCH as reproducible-builds.org defines it. */
static int choose_date(struct build *build, struct error *err) {
        const char *text = getenv("SOURCE_DATE_EPOCH");
        char *end;

        build->dated_s = build->prebuilt->dated_s;
        if (!text || !*text)
                return 0;
        errno = 0;
        build->dated_s = strtoll(text, &end, 10);
        if (errno || *end || build->dated_s < 0 || build->dated_s > INT64_C(253402300799))
                return error_set(err, "SOURCE_DATE_EPOCH is \"%s\": it must be seconds since 1970", text);
        return 0;
}

static int make_system(const struct build *build, const char *tar, struct error *err) {
        struct bootstrap bootstrap = {
                .prebuilt = build->prebuilt,
                .mirror = build->request->mirror,
                .folder = path_of(build, "system"),
                .tar = tar,
                .dated_s = build->dated_s,
                .messages = build->request->messages,
        };

        if (mkdir(bootstrap.folder, 0700) < 0)
                return error_set(err, "cannot make the folder %s: %s", bootstrap.folder, strerror(errno));
        return bootstrap_run(&bootstrap, build->arena, err);
}

static int write_image(const struct build *build, const char *tar, const char *layout, struct error *err) {
        struct image_writing writing = {
                .system = tar,
                .layout = layout,
                .reference = TAG,
                .title = arena_printf(build->arena, "prebuilt/%s", build->prebuilt->name),
                .description = build->prebuilt->doc,
                .dated_s = build->dated_s,
                .variables = build->prebuilt->variables,
                .command = build->prebuilt->command,
        };

        print_step(build, "writing the image...");
        if (image_write_layout(&writing, build->arena, err) < 0)
                return -1;
        unlink(tar);
        if (!build->request->out)
                return 0;
        print_step(build, "writing the archive...");
        return image_write_archive(layout, build->request->out, build->dated_s, build->arena, err);
}

static int run_build(struct build *build, const char *store, struct image_row *ret, struct error *err) {
        const char *tar, *layout;

        if (open_folder(build, store, err) < 0)
                return -1;
        tar = path_of(build, "system.tar");
        layout = path_of(build, "layout");
        if (make_system(build, tar, err) < 0 || write_image(build, tar, layout, err) < 0)
                return -1;
        print_step(build, "importing it into the store...");
        return local_image_import(store,
                                  arena_printf(build->arena, "prebuilt/%s:" TAG, build->prebuilt->name),
                                  layout, build->arena, ret, err);
}

int local_image_build(const char *store, const struct image_build_request *request, struct arena *arena,
                      struct image_row *ret, struct error *err) {
        struct build build __attribute__((cleanup(end_build))) = {
                .request = request,
                .arena = arena,
                .lock = -1,
        };

        if (prebuilt_find(request->name, &build.prebuilt, err) < 0 || check_machine(err) < 0 ||
            check_out(request->out, arena, err) < 0 || choose_date(&build, err) < 0)
                return -1;
        return run_build(&build, store, ret, err);
}
