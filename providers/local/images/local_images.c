/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/images/local_images.h"

#include "base/beneath.h"
#include "base/files.h"
#include "base/json.h"
#include "providers/image_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define INDEX_BYTES_MAX (16u << 20)

int local_images_open(const char *folder, struct arena *arena, struct local_images *ret, struct error *err) {
        const char *path = path_join_in(folder, LOCAL_IMAGES_INDEX, arena);
        struct local_images images = { .folder = arena_strdup(arena, folder) };
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        json_t *json JSON_CLEANUP = NULL;
        const json_t *tags;
        struct value *read;
        struct error failure = { 0 };

        if (file_read(path, INDEX_BYTES_MAX, &text, &failure) < 0) {
                if (failure.kind == ERROR_NOT_FOUND) {
                        *ret = images;
                        return 0;
                }
                *err = failure;
                return -1;
        }
        json = json_loadb(strbuf_text(&text), text.length, JSON_REJECT_DUPLICATES, NULL);
        tags = json_object_get(json, "images");
        if (!json_is_object(tags))
                return error_set(err,
                                 "%s is damaged: it is not an index of images; restore it, or remove it and "
                                 "import the images again",
                                 path);
        if (!json_text(json, "formatVersion") || strcmp(json_text(json, "formatVersion"), "1") != 0)
                return error_set(err, "%s was written by another version of berth: use that version", path);
        read = arena_alloc(arena, sizeof(*read));
        *read = value_from_json(arena, tags);
        images.tags = read;
        *ret = images;
        return 0;
}

bool local_image_find(const struct local_images *images, const char *repository, const char *tag,
                      const char *digest, struct arena *arena, struct local_image *ret) {
        struct stat status;
        const char *root;

        if (!digest && repository && tag)
                digest = value_get_text(images->tags, arena_printf(arena, "%s:%s", repository, tag));
        if (!digest || !image_rules_is_digest(digest))
                return false;
        root = path_join_in(path_join_in(images->folder, LOCAL_IMAGES_ROOTS, arena), digest + 7, arena);
        if (lstat(root, &status) < 0 || !S_ISDIR(status.st_mode))
                return false;
        *ret = (struct local_image){ .digest = arena_strdup(arena, digest), .root = root };
        return true;
}

/* Takes over `root`, -1 with errno where it could not be opened. */
static int lock_root(int root, const char *name, struct error *err) {
        struct stat status;

        /* A file system without locks stops no run. A folder that was removed after we opened it has no link left. */
        if (root >= 0 && (flock(root, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK) &&
            fstat(root, &status) == 0 && status.st_nlink > 0)
                return root;
        (void)error_set(err, "the image's folder %s %s", name,
                        root < 0 ? strerror(errno) : "is being removed: import the image again");
        close_descriptor(&root);
        return -1;
}

int local_image_hold(const char *image_root, struct error *err) {
        return lock_root(open(image_root, O_RDONLY | O_DIRECTORY | O_CLOEXEC), image_root, err);
}

int local_image_hold_in(const char *folder, const char *digest, struct error *err) {
        int store DESCRIPTOR_CLEANUP = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
        char path[sizeof(LOCAL_IMAGES_ROOTS) + 65];

        if (store < 0)
                return error_set(err, "cannot open the image store %s: %s", folder, strerror(errno));
        if (!image_rules_is_digest(digest))
                return error_set(err, "an image's digest is sha256: and 64 digits");
        snprintf(path, sizeof(path), LOCAL_IMAGES_ROOTS "/%s", digest + strlen("sha256:"));
        return lock_root(beneath_open(store, path, O_RDONLY | O_DIRECTORY), digest, err);
}

struct local_image_name local_image_name(const struct value *image, struct arena *arena) {
        const char *prebuilt = value_get_text(image, "prebuilt");
        struct local_image_name name = {
                .repository = value_get_text(image, "repository"),
                .tag = value_get_text(image, "tag"),
                .digest = value_get_text(image, "digest"),
        };

        if (prebuilt) {
                name.prebuilt = prebuilt;
                name.repository = arena_printf(arena, "prebuilt/%s", prebuilt);
                name.tag = "latest";
                name.host_without = strcmp(prebuilt, "python") == 0;
        }
        name.text =
                arena_printf(arena, "%s%s%s", name.repository ? name.repository : "?", name.tag ? ":" : "@",
                             name.tag      ? name.tag
                             : name.digest ? name.digest
                                           : "?");
        return name;
}

const char *local_image_remedy(const struct local_image_name *name, struct arena *arena) {
        if (name->tag)
                return arena_printf(arena, "berth image import %s PATH, then berth apply", name->text);
        return arena_printf(arena, "berth image import %s:TAG PATH, with the image of that digest",
                            name->repository);
}
