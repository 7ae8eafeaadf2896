/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index is read and replaced whole: `images` is what Berth itself reads, `manifests` makes the same file an OCI layout's
 * index, for skopeo. What images there are is told by the folders of roots alone, since an image may have no name.
 */
#include "providers/local/images/image_index.h"

#include "base/array.h"
#include "base/files.h"
#include "base/sorted.h"
#include "providers/image_rules.h"
#include "providers/local/images/image_source.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int image_index_blob(const char *folder, const char *digest, struct strbuf *ret, struct error *err) {
        char *blobs TEXT_CLEANUP = path_join(folder, LOCAL_IMAGES_BLOBS);
        char *path TEXT_CLEANUP = NULL;

        if (!image_rules_is_digest(digest))
                return error_set(err, "\"%s\" is not a digest", digest);
        path = path_join(blobs, digest + 7);
        return file_read(path, IMAGE_SOURCE_JSON_MAX, ret, err);
}

json_t *image_index_manifest(const char *folder, const char *digest) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct error ignored;

        if (image_index_blob(folder, digest, &text, &ignored) < 0)
                return NULL;
        return json_loadb(strbuf_text(&text), text.length, 0, NULL);
}

#define VARIABLES_MAX 1000

static int copy_variables(const json_t *list, struct arena *arena, const char *const **ret, size_t *ret_count,
                          struct error *err) {
        const char **texts = arena_array(arena, json_array_size(list) + 1, sizeof(*texts));
        const json_t *item;
        size_t count = 0, i;

        if (json_array_size(list) > VARIABLES_MAX)
                return error_set(err, "its configuration sets more than %d variables", VARIABLES_MAX);
        json_array_foreach (list, i, item) {
                if (json_is_string(item) && strchr(json_string_value(item), '='))
                        texts[count++] = arena_strdup(arena, json_string_value(item));
        }
        *ret = texts;
        *ret_count = count;
        return 0;
}

int image_index_variables(const char *folder, const char *digest, struct arena *arena,
                          const char *const **ret, size_t *ret_count, struct error *err) {
        json_t *manifest JSON_CLEANUP = image_index_manifest(folder, digest), *config JSON_CLEANUP = NULL;
        const char *config_digest = json_text(json_object_get(manifest, "config"), "digest");
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        if (manifest) {
                if (!config_digest || image_index_blob(folder, config_digest, &text, err) < 0)
                        return error_set(err, "its configuration cannot be read: import it again");
                config = json_loadb(strbuf_text(&text), text.length, 0, NULL);
        }
        return copy_variables(json_object_get(json_object_get(config, "config"), "Env"), arena, ret,
                              ret_count, err);
}

/* --- the list of images --- */

int image_index_digests(const char *folder, struct arena *arena, const char ***ret, size_t *ret_count,
                        struct error *err) {
        const char *path = path_join_in(folder, LOCAL_IMAGES_ROOTS, arena), **list = NULL;
        DIR *roots = opendir(path);
        const struct dirent *entry;
        size_t count = 0;

        if (!roots && errno != ENOENT)
                return error_set(err, "cannot read %s: %s", path, strerror(errno));
        while (roots && (entry = readdir(roots))) {
                const char *digest = arena_printf(arena, "sha256:%s", entry->d_name);

                if (!image_rules_is_digest(digest))
                        continue;
                list = array_grow(arena, list, count, sizeof(*list));
                list[count++] = digest;
        }
        if (roots)
                closedir(roots);
        if (count)
                qsort(list, count, sizeof(*list), sorted_compare_texts);
        *ret = list;
        *ret_count = count;
        return 0;
}

/* --- the index --- */

/* An entry of the index as an OCI layout has it: by these, skopeo finds images by name. NULL where there is no manifest. */
static json_t *oci_descriptor(const char *folder, const char *name, const char *digest) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        json_t *manifest JSON_CLEANUP = NULL;
        struct error ignored;
        const char *type;

        if (image_index_blob(folder, digest, &text, &ignored) < 0)
                return NULL;
        manifest = json_loadb(strbuf_text(&text), text.length, 0, NULL);
        type = json_text(manifest, "mediaType");
        return json_pack("{s:s, s:s, s:I, s:{s:s}}", "mediaType", type ? type : image_rules_oci_manifest,
                         "digest", digest, "size", (json_int_t)text.length, "annotations",
                         "org.opencontainers.image.ref.name", name);
}

static json_t *index_of(const char *folder, const struct value *tags) {
        json_t *images = json_object(), *manifests = json_array();

        for (uint32_t i = 0; i < tags->count; i++) {
                const struct member *member = &tags->members[i];
                json_t *row = oci_descriptor(folder, member->name, member->value.text);

                json_object_set_new(images, member->name, json_string(member->value.text));
                if (row)
                        json_array_append_new(manifests, row);
        }
        return json_pack("{s:s, s:i, s:s, s:o, s:o}", "formatVersion", "1", "schemaVersion", 2, "mediaType",
                         image_rules_oci_index, "images", images, "manifests", manifests);
}

static struct value *tags_with(const struct local_images *images, const char *name, const char *digest,
                               struct arena *arena) {
        struct value *tags = value_new_map(arena);
        struct local_image found;

        for (uint32_t i = 0; images->tags && i < images->tags->count; i++) {
                const struct member *member = &images->tags->members[i];

                if (member->value.type == VALUE_TEXT && strcmp(member->name, name) != 0 &&
                    local_image_find(images, NULL, NULL, member->value.text, arena, &found))
                        value_set(arena, tags, member->name, member->value);
        }
        if (digest)
                value_set_text(arena, tags, name, digest);
        return tags;
}

const char *image_index_name_of(const struct local_images *images, const char *digest, const char *but) {
        for (uint32_t i = 0; images->tags && i < images->tags->count; i++) {
                const struct member *member = &images->tags->members[i];
                const char *leads_to = value_text_of(&member->value);

                if (leads_to && strcmp(leads_to, digest) == 0 && (!but || strcmp(member->name, but) != 0))
                        return member->name;
        }
        return NULL;
}

int image_index_set(const char *folder, const char *name, const char *digest, struct arena *arena,
                    struct error *err) {
        const char *path = path_join_in(folder, LOCAL_IMAGES_INDEX, arena);
        struct local_images images;
        json_t *index JSON_CLEANUP = NULL;
        char *text TEXT_CLEANUP = NULL;

        if (local_images_open(folder, arena, &images, err) < 0)
                return -1;
        index = index_of(folder, tags_with(&images, name, digest, arena));
        text = json_dumps(index, JSON_INDENT(2));
        if (!text)
                abort();
        return file_write_atomic(path, text, strlen(text), 0600, err);
}

/* --- blobs that no image needs --- */

static void add_needed(json_t *needed, const json_t *descriptor) {
        const char *digest = json_text(descriptor, "digest");

        if (digest)
                json_object_set_new(needed, digest, json_true());
}

/* The blobs that the images need, as the members of an object; NULL where one image's manifest cannot be read. */
static json_t *needed_blobs(const char *folder, struct arena *arena) {
        json_t *needed = json_object();
        struct error ignored;
        const char **digests;
        size_t count;

        if (image_index_digests(folder, arena, &digests, &count, &ignored) < 0) {
                json_decref(needed);
                return NULL;
        }
        for (size_t i = 0; i < count; i++) {
                json_t *manifest JSON_CLEANUP = image_index_manifest(folder, digests[i]);
                const json_t *layer;
                size_t k;

                if (!manifest) {
                        json_decref(needed);
                        return NULL;
                }
                json_object_set_new(needed, digests[i], json_true());
                add_needed(needed, json_object_get(manifest, "config"));
                json_array_foreach (json_object_get(manifest, "layers"), k, layer)
                        add_needed(needed, layer);
        }
        return needed;
}

void image_index_prune(const char *folder, int top, struct arena *arena) {
        json_t *needed JSON_CLEANUP = needed_blobs(folder, arena);
        int blobs = openat(top, LOCAL_IMAGES_BLOBS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        DIR *stream = blobs < 0 ? NULL : fdopendir(blobs);
        const struct dirent *entry;

        if (!stream || !needed) {
                if (stream)
                        closedir(stream);
                else
                        close_descriptor(&blobs);
                return;
        }
        while ((entry = readdir(stream))) {
                const char *digest = arena_printf(arena, "sha256:%s", entry->d_name);

                if (image_rules_is_digest(digest) && !json_object_get(needed, digest))
                        unlinkat(blobs, entry->d_name, 0);
        }
        closedir(stream);
}
