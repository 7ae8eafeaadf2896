/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything happens in one folder of its own (build_folder.h): a system as a tar, an OCI layout made of it, and the import of
 * that layout. What can fail early is checked before the minutes of bootstrapping: the recipe's name, the machine, the place for
 * -o, the date, and the runtime.
 */
#include "providers/local/images/local_image_build.h"

#include "providers/local/images/bootstrap.h"
#include "providers/local/images/build_folder.h"
#include "providers/local/images/image_runtime.h"
#include "providers/local/images/image_write.h"
#include "providers/local/images/local_image_import.h"
#include "providers/local/images/prebuilt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define TAG "latest"

struct build {
        const struct image_build_request *request;
        const struct prebuilt *prebuilt;
        struct arena *arena;
        struct build_folder folder;
        struct image_layer runtime;
        int64_t dated_s;
};

static const char *build_path(const struct build *build, const char *name) {
        return build_folder_path(&build->folder, name, build->arena);
}

static void print_step(const struct build *build, const char *text) {
        if (build->request->messages >= 0)
                dprintf(build->request->messages, "%s\n", text);
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

int local_image_check_out(const char *out, struct arena *arena, struct error *err) {
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
                .folder = build_path(build, "system"),
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
                .runtime = &build->runtime,
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

        if (build_folder_open(store, &build->folder, err) < 0)
                return -1;
        tar = build_path(build, "system.tar");
        layout = build_path(build, "layout");
        if (make_system(build, tar, err) < 0 || write_image(build, tar, layout, err) < 0)
                return -1;
        print_step(build, "importing it into the store...");
        return local_image_import(store,
                                  arena_printf(build->arena, "prebuilt/%s:" TAG, build->prebuilt->name),
                                  layout, build->arena, ret, err);
}

static void end_build(struct build *build) {
        build_folder_close(&build->folder);
}

int local_image_build(const char *store, const struct image_build_request *request, struct arena *arena,
                      struct image_row *ret, struct error *err) {
        struct build build __attribute__((cleanup(end_build))) = {
                .request = request,
                .arena = arena,
                .folder = BUILD_FOLDER_INIT,
        };

        if (prebuilt_find(request->name, &build.prebuilt, err) < 0 || check_machine(err) < 0 ||
            local_image_check_out(request->out, arena, err) < 0 || choose_date(&build, err) < 0 ||
            image_runtime_layer(arena, &build.runtime, err) < 0)
                return -1;
        return run_build(&build, store, ret, err);
}
