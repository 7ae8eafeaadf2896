/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same packages must give the same bytes. So the system's tar is copied entry by entry: in the order of mmdebstrap, which
 * sorts, without owners, set-uid bits and times later than the date of the build, and without the files that differ from
 * build to build. Configuration, manifest and index are compact JSON with members in a fixed order.
 *
 * The layer is written first under a name of its own, since a blob's name is the digest of what was written.
 */
#include "providers/local/images/image_write.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/sorted.h"
#include "base/text.h"
#include "providers/local/images/tarball.h"
#include "providers/local/images/tarball_write.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYSTEM_BYTES_MAX (UINT64_C(10) << 30)
#define BLOBS_MAX (IMAGE_LAYERS_MAX + 2)
#define TYPE_LAYER "application/vnd.oci.image.layer.v1.tar+gzip"
#define TYPE_CONFIG "application/vnd.oci.image.config.v1+json"
#define TYPE_MANIFEST "application/vnd.oci.image.manifest.v1+json"
#define TYPE_INDEX "application/vnd.oci.image.index.v1+json"

/* --- which files go into the image --- */

/* Their content belongs to the build, the machine or a run: the folders stay, empty. */
static bool is_in_emptied(const char *name) {
        static const char *const folders[] = { "dev/",         "proc/",    "sys/",     "run/",
                                               "tmp/",         "var/tmp/", "var/log/", "var/cache/",
                                               "var/lib/apt/", "etc/apt/" };

        for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
                if (text_begins_with(name, folders[i]) && name[strlen(folders[i])])
                        return true;
        }
        return false;
}

/* The host's name and resolver, our settings for apt and dpkg, and the copies that dpkg keeps. */
static bool is_left_out(const struct tarball_entry *entry, const char *name) {
        static const char *const files[] = { "etc/hostname",
                                             "etc/resolv.conf",
                                             "etc/machine-id",
                                             "etc/dpkg/dpkg.cfg.d/99mmdebstrap",
                                             "etc/passwd-",
                                             "etc/group-",
                                             "etc/shadow-",
                                             "etc/gshadow-",
                                             "etc/.pwd.lock",
                                             "var/lib/dpkg/lock",
                                             "var/lib/dpkg/lock-frontend",
                                             "var/lib/dpkg/status-old",
                                             "var/lib/dpkg/available",
                                             "var/lib/dpkg/diversions-old",
                                             "var/lib/dpkg/statoverride-old",
                                             "var/lib/dpkg/triggers/Lock",
                                             NULL };

        return entry->type == TARBALL_DEVICE || entry->type == TARBALL_SPECIAL || is_in_emptied(name) ||
               text_is_among(name, files);
}

static const char *without_dot(const char *name) {
        return text_begins_with(name, "./") ? name + 2 : name;
}

static int copy_bytes(struct tarball *from, struct tarball_writer *to, uint64_t bytes, struct error *err) {
        static const char zeros[4096];
        uint64_t at = 0, offset;
        const void *piece;
        size_t length;
        int more;

        while ((more = tarball_block(from, &piece, &length, &offset, err)) > 0) {
                /* A hole is written as zeros. */
                while (at < offset) {
                        size_t gap = offset - at < sizeof(zeros) ? (size_t)(offset - at) : sizeof(zeros);

                        if (tarball_writer_bytes(to, zeros, gap, err) < 0)
                                return -1;
                        at += gap;
                }
                if (tarball_writer_bytes(to, piece, length, err) < 0)
                        return -1;
                at += length;
        }
        if (more == 0 && at > bytes)
                return error_set(err, "it changed while it was read");
        return more;
}

static int copy_entry(struct tarball *from, struct tarball_writer *to, const struct tarball_entry *found,
                      int64_t dated_s, struct error *err) {
        struct tarball_entry entry = *found;

        entry.name = without_dot(found->name);
        if (!entry.name[0] || is_left_out(found, entry.name))
                return 0;
        if (entry.type == TARBALL_HARD_LINK)
                entry.target = without_dot(found->target);
        entry.mode &= 01777;
        entry.written = (struct timespec){ .tv_sec = found->written.tv_sec < dated_s ? found->written.tv_sec
                                                                                     : (time_t)dated_s };
        if (tarball_writer_add(to, &entry, err) < 0)
                return -1;
        return entry.type == TARBALL_FILE ? copy_bytes(from, to, entry.bytes, err) : 0;
}

static int copy_system(struct tarball *from, struct tarball_writer *to, int64_t dated_s, struct error *err) {
        struct tarball_entry entry;
        int more;

        while ((more = tarball_next(from, &entry, err)) > 0) {
                if (interrupt_level(interrupt_of_user()) > 0)
                        return error_set_kind(err, ERROR_INTERRUPTED, "interrupted");
                if (copy_entry(from, to, &entry, dated_s, err) < 0)
                        return -1;
        }
        return more;
}

static int write_layer(const struct image_writing *writing, const char *path, struct tarball_written *ret,
                       struct error *err) {
        int source DESCRIPTOR_CLEANUP = open(writing->system, O_RDONLY | O_CLOEXEC);
        int file DESCRIPTOR_CLEANUP = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        struct tarball *from = NULL;
        struct tarball_writer *to = NULL;
        int result = -1;

        if (source < 0 || file < 0)
                return error_set(err, "cannot open %s: %s", source < 0 ? writing->system : path,
                                 strerror(errno));
        if (tarball_open(source, SYSTEM_BYTES_MAX, &from, err) == 0 &&
            tarball_writer_open(file, true, &to, err) == 0 &&
            copy_system(from, to, writing->dated_s, err) == 0)
                result = tarball_writer_finish(to, ret, err);
        tarball_writer_close(to);
        tarball_close(from);
        return result < 0 ? error_context(err, "the image's layer") : 0;
}

/* --- the layout --- */

static const char *blob_path(const char *layout, const char *hex, struct arena *arena) {
        return arena_printf(arena, "%s/blobs/sha256/%s", layout, hex);
}

int image_write_blob(const char *layout, const char *digest, const void *bytes, size_t length,
                     struct arena *arena, struct error *err) {
        return file_write_atomic(blob_path(layout, digest + strlen("sha256:"), arena), bytes, length, 0600,
                                 err);
}

static json_t *descriptor_of(const char *type, const char *digest, uint64_t bytes) {
        return json_pack("{s:s, s:s, s:I}", "mediaType", type, "digest", digest, "size", (json_int_t)bytes);
}

static const char *digest_of(const char *text, struct arena *arena) {
        char hex[SHA256_HEX_SIZE];

        digest_sha256_hex(text, strlen(text), hex);
        return arena_printf(arena, "sha256:%s", hex);
}

static json_t *texts(const char *const *list) {
        json_t *json = json_array();

        for (; *list; list++)
                json_array_append_new(json, json_string(*list));
        return json;
}

static json_t *config_of(const struct image_writing *writing, const struct tarball_written *layer,
                         struct arena *arena) {
        char created[32];

        clock_format(writing->dated_s * 1000, created, sizeof(created));
        return json_pack("{s:s, s:s, s:s, s:{s:o, s:o, s:{s:s, s:s}}, s:{s:s, s:[s]}, s:[{s:s, s:s}]}",
                         "architecture", "amd64", "os", "linux", "created", created, "config", "Env",
                         texts(writing->variables), "Cmd", texts(writing->command), "Labels",
                         "org.opencontainers.image.title", writing->title,
                         "org.opencontainers.image.description", writing->description, "rootfs", "type",
                         "layers", "diff_ids", arena_printf(arena, "sha256:%s", layer->plain), "history",
                         "created", created, "created_by", "berth image build");
}

static int write_layout_index(const char *layout, const char *reference, const struct image_layered *image,
                              struct arena *arena, struct error *err) {
        static const char version[] = "{\"imageLayoutVersion\":\"1.0.0\"}";
        json_t *entry = descriptor_of(image->type, image->manifest_digest, strlen(image->manifest));
        json_t *index JSON_CLEANUP = NULL;
        char *text TEXT_CLEANUP = NULL;

        json_object_set_new(entry, "platform",
                            json_pack("{s:s, s:s}", "architecture", "amd64", "os", "linux"));
        json_object_set_new(entry, "annotations",
                            json_pack("{s:s}", "org.opencontainers.image.ref.name", reference));
        index = json_pack("{s:i, s:s, s:[o]}", "schemaVersion", 2, "mediaType", TYPE_INDEX, "manifests",
                          entry);
        text = json_compact(index);
        if (file_write_atomic(arena_printf(arena, "%s/oci-layout", layout), version, strlen(version), 0600,
                              err) < 0)
                return -1;
        return file_write_atomic(arena_printf(arena, "%s/index.json", layout), text, strlen(text), 0600, err);
}

int image_write_documents(const char *layout, const char *reference, const struct image_layered *image,
                          struct arena *arena, struct error *err) {
        if (image_write_blob(layout, image->config_digest, image->config, strlen(image->config), arena, err) <
                    0 ||
            image_write_blob(layout, image->manifest_digest, image->manifest, strlen(image->manifest), arena,
                             err) < 0)
                return -1;
        return write_layout_index(layout, reference, image, arena, err);
}

/* The image of the one layer that has been written. */
static struct image_layered compose_image(const struct image_writing *writing,
                                          const struct tarball_written *layer, struct arena *arena) {
        json_t *config JSON_CLEANUP = config_of(writing, layer, arena), *manifest JSON_CLEANUP = NULL;
        char *config_text TEXT_CLEANUP = json_compact(config), *manifest_text TEXT_CLEANUP = NULL;
        struct image_layered image = { .type = TYPE_MANIFEST, .config = arena_strdup(arena, config_text) };

        image.config_digest = digest_of(image.config, arena);
        manifest =
                json_pack("{s:i, s:s, s:o, s:[o]}", "schemaVersion", 2, "mediaType", TYPE_MANIFEST, "config",
                          descriptor_of(TYPE_CONFIG, image.config_digest, strlen(image.config)), "layers",
                          descriptor_of(TYPE_LAYER, arena_printf(arena, "sha256:%s", layer->stored),
                                        layer->stored_bytes));
        manifest_text = json_compact(manifest);
        image.manifest = arena_strdup(arena, manifest_text);
        image.manifest_digest = digest_of(image.manifest, arena);
        return image;
}

static int add_runtime_layer(const struct image_writing *writing, struct arena *arena,
                             struct image_layered *image, struct error *err) {
        struct image_documents documents = { .manifest = image->manifest,
                                             .config = image->config,
                                             .manifest_length = strlen(image->manifest),
                                             .config_length = strlen(image->config),
                                             .type = image->type };

        if (image_layer_add(&documents, writing->runtime, arena, image, err) < 0)
                return -1;
        return image_write_blob(writing->layout, writing->runtime->digest, writing->runtime->bytes,
                                writing->runtime->length, arena, err);
}

int image_write_layout(const struct image_writing *writing, struct arena *arena, struct error *err) {
        const char *blobs = arena_printf(arena, "%s/blobs/sha256", writing->layout);
        const char *path = arena_printf(arena, "%s/layer", blobs);
        struct tarball_written layer;
        struct image_layered image;

        if (folder_make(blobs, err) < 0 || write_layer(writing, path, &layer, err) < 0)
                return -1;
        if (rename(path, blob_path(writing->layout, layer.stored, arena)) < 0)
                return error_set(err, "cannot rename %s: %s", path, strerror(errno));
        image = compose_image(writing, &layer, arena);
        if (writing->runtime && add_runtime_layer(writing, arena, &image, err) < 0)
                return -1;
        return image_write_documents(writing->layout, writing->reference, &image, arena, err);
}

/* --- the archive --- */

static int add_file(struct tarball_writer *to, const char *layout, const char *name, int64_t dated_s,
                    struct arena *arena, struct error *err) {
        const char *path = arena_printf(arena, "%s/%s", layout, name);
        int file DESCRIPTOR_CLEANUP = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        struct tarball_entry entry = {
                .type = TARBALL_FILE, .name = name, .mode = 0644, .written = { .tv_sec = (time_t)dated_s }
        };
        struct stat status;
        char piece[65536];
        ssize_t count;

        if (file < 0 || fstat(file, &status) < 0)
                return error_set(err, "cannot open %s: %s", path, strerror(errno));
        entry.bytes = (uint64_t)status.st_size;
        if (tarball_writer_add(to, &entry, err) < 0)
                return -1;
        while ((count = read(file, piece, sizeof(piece))) > 0) {
                if (tarball_writer_bytes(to, piece, (size_t)count, err) < 0)
                        return -1;
        }
        return count < 0 ? error_set(err, "cannot read %s: %s", path, strerror(errno)) : 0;
}

static int list_blobs(const char *layout, struct arena *arena, const char **names, size_t *ret_count,
                      struct error *err) {
        const char *path = arena_printf(arena, "%s/blobs/sha256", layout);
        DIR *folder = opendir(path);
        const struct dirent *entry;
        size_t count = 0;

        if (!folder)
                return error_set(err, "cannot read %s: %s", path, strerror(errno));
        while ((entry = readdir(folder)) && count < BLOBS_MAX) {
                if (entry->d_name[0] != '.')
                        names[count++] = arena_printf(arena, "blobs/sha256/%s", entry->d_name);
        }
        closedir(folder);
        qsort(names, count, sizeof(*names), sorted_compare_texts);
        *ret_count = count;
        return 0;
}

static int add_all(struct tarball_writer *to, const char *layout, int64_t dated_s, struct arena *arena,
                   struct error *err) {
        const char *names[BLOBS_MAX];
        size_t count;

        if (list_blobs(layout, arena, names, &count, err) < 0 ||
            add_file(to, layout, "oci-layout", dated_s, arena, err) < 0 ||
            add_file(to, layout, "index.json", dated_s, arena, err) < 0)
                return -1;
        for (size_t i = 0; i < count; i++) {
                if (add_file(to, layout, names[i], dated_s, arena, err) < 0)
                        return -1;
        }
        return 0;
}

static int write_archive(const char *layout, int file, int64_t dated_s, struct arena *arena,
                         struct error *err) {
        struct tarball_written written;
        struct tarball_writer *to;
        int result;

        if (tarball_writer_open(file, false, &to, err) < 0)
                return -1;
        result = add_all(to, layout, dated_s, arena, err);
        if (result == 0)
                result = tarball_writer_finish(to, &written, err);
        tarball_writer_close(to);
        return result;
}

int image_write_archive(const char *layout, const char *path, int64_t dated_s, struct arena *arena,
                        struct error *err) {
        struct file_replacement file FILE_REPLACEMENT_CLEANUP = FILE_REPLACEMENT_INIT;

        if (file_replace_begin(path, 0644, &file, err) < 0)
                return -1;
        if (write_archive(layout, file.descriptor, dated_s, arena, err) < 0)
                return error_context(err, "%s", path);
        return file_replace_finish(&file, err);
}
