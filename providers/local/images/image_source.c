/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The three forms in which an image lies in a folder or a tar archive: an OCI layout (`oci:`, `oci-archive:`), what
 * `docker save` writes (`docker-archive:`), and what `skopeo copy ... dir:` writes. They differ in where the manifest
 * is and what blobs are called; behind image_source_manifest() and image_source_blob() they are one. docker-archive
 * has no manifest of OCI's kind: one is made from its list, and the same archive must give the same digest each time.
 *
 * All of it comes from strangers. Paths are opened beneath the folder only, names are quoted before they are printed,
 * and a digest is computed, never believed.
 */
#include "providers/local/images/image_source.h"

#include "base/beneath.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"
#include "providers/image_rules.h"
#include "providers/local/images/image_path.h"
#include "providers/local/images/image_unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ARCHIVE_ENTRIES_MAX 20000
#define NAMES_SHOWN 8
#define LISTED_LAYERS_MAX 1000

#define NAME_ANNOTATION "org.opencontainers.image.ref.name"

/* --- files of the folder --- */

/* A regular file. Links are followed as long as they stay in the folder: docker save makes some. */
static int open_within(const struct image_source *source, const char *path) {
        int file = beneath_open_linked(source->folder, path, O_RDONLY);
        struct stat status;

        if (file >= 0 && (fstat(file, &status) < 0 || !S_ISREG(status.st_mode))) {
                close(file);
                errno = EINVAL;
                return -1;
        }
        return file;
}

static const char *open_failure(int error) {
        switch (error) {
        case ENOENT:
                return "it is not there";
        case EXDEV:
                return "it leads out of the image";
        case EINVAL:
                return "it is no file";
        default:
                return strerror(error);
        }
}

/* Bounded: a file of a stranger's may claim any size. */
static int read_json(const struct image_source *source, const char *name, struct strbuf *ret,
                     struct error *err) {
        int file DESCRIPTOR_CLEANUP = open_within(source, name);
        struct strbuf quoted STRBUF_CLEANUP = STRBUF_INIT;
        int result;

        image_path_quote(&quoted, name);
        if (file < 0)
                return error_set(err, "%s cannot be read: %s", strbuf_text(&quoted), open_failure(errno));
        result = descriptor_read(file, IMAGE_SOURCE_JSON_MAX, ret);
        if (result < 0)
                return error_set(err, "%s cannot be read: %s", strbuf_text(&quoted), strerror(errno));
        if (result > 0)
                return error_set(err, "%s has more than %zu bytes", strbuf_text(&quoted),
                                 IMAGE_SOURCE_JSON_MAX);
        return 0;
}

static json_t *parse_json(const struct strbuf *text, const char *name, struct error *err) {
        json_error_t failure;
        json_t *json = json_loadb(strbuf_text(text), text->length, JSON_REJECT_DUPLICATES, &failure);

        if (!json)
                (void)error_set(err, "%s is no JSON (line %d)", name, failure.line);
        return json;
}

/* --- what it is --- */

/* By the files that only one of them has. docker-archive's manifest.json is a list, dir:'s an object. */
static int find_form(struct image_source *source, struct error *err) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        json_t *json JSON_CLEANUP = NULL;
        int file DESCRIPTOR_CLEANUP = open_within(source, "oci-layout");

        if (file >= 0) {
                source->form = SOURCE_OCI;
                return 0;
        }
        file = open_within(source, "manifest.json");
        if (file < 0)
                return error_set(
                        err,
                        "%s is no image: neither an OCI layout (oci-layout, index.json), nor what docker "
                        "save or skopeo's docker-archive: and dir: write (manifest.json)",
                        source->path);
        if (read_json(source, "manifest.json", &text, err) < 0 ||
            !(json = parse_json(&text, "manifest.json", err)))
                return -1;
        source->form = json_is_array(json) ? SOURCE_DOCKER_ARCHIVE : SOURCE_DIR;
        return 0;
}

/*
 * A tar archive goes into the stage, a folder that is gone afterwards. An archive holds the whole image, so that its
 * one file may be as large as that.
 */
static int unpack_archive(int file, int stage, struct error *err) {
        struct unpack unpack = { .root = stage,
                                 .limits = { .entries = ARCHIVE_ENTRIES_MAX,
                                             .bytes = IMAGE_RULES_SIZE_MAX + (UINT64_C(1) << 30),
                                             .file_bytes = IMAGE_RULES_SIZE_MAX + (UINT64_C(1) << 30) } };

        return image_unpack_archive(&unpack, file, err);
}

/* What who writes such a path seems to think of. */
static const char *path_hint(const char *path) {
        static const char *const transports[] = { "oci:", "oci-archive:", "docker-archive:", "dir:" };

        if (strncmp(path, "docker://", 9) == 0)
                return "; what is in a registry is fetched first: skopeo copy --override-os linux --override-arch "
                       "amd64 docker://... oci-archive:image.tar";
        for (size_t i = 0; i < sizeof(transports) / sizeof(transports[0]); i++) {
                if (strncmp(path, transports[i], strlen(transports[i])) == 0)
                        return "; the path alone is wanted here, without the word before it and the tag behind it";
        }
        return "";
}

int image_source_find(const char *path, int *ret, struct error *err) {
        int given = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

        if (given < 0)
                return error_set_kind(err, errno == ENOENT ? ERROR_NOT_FOUND : ERROR_FAILED,
                                      "cannot read %s: %s%s", path, strerror(errno), path_hint(path));
        *ret = given;
        return 0;
}

int image_source_open(int given, const char *path, int stage, struct image_source *ret, struct error *err) {
        struct image_source source = { .path = path, .folder = -1 };
        struct stat status;

        if (fstat(given, &status) < 0)
                return error_set(err, "cannot read %s: %s", path, strerror(errno));
        if (S_ISREG(status.st_mode)) {
                if (unpack_archive(given, stage, err) < 0)
                        return error_context(err, "%s", path);
                source.folder = openat(stage, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        } else if (S_ISDIR(status.st_mode)) {
                source.folder = openat(given, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        } else {
                return error_set(err, "%s is neither a file nor a folder", path);
        }
        if (source.folder < 0)
                return error_set(err, "cannot read %s: %s", path, strerror(errno));
        if (find_form(&source, err) < 0) {
                image_source_close(&source);
                return -1;
        }
        *ret = source;
        return 0;
}

void image_source_close(struct image_source *source) {
        close_descriptor(&source->folder);
        source->folder = -1;
}

/* --- which image --- */

/* Whether what an image calls itself ("stable", "data/etl:stable", "host/data/etl:stable") is what is wanted. */
static bool names_image(const char *called, const char *repository, const char *tag, struct arena *arena) {
        const char *full = arena_printf(arena, "%s:%s", repository, tag);
        size_t length = strlen(called), full_length = strlen(full);

        if (strcmp(called, tag) == 0 || strcmp(called, full) == 0)
                return true;
        return length > full_length && called[length - full_length - 1] == '/' &&
               strcmp(called + length - full_length, full) == 0;
}

/* The names under which an item of either kind of list goes; counts them. */
static size_t names_of(const json_t *item, const char **names, size_t max) {
        const char *annotated = json_text(json_object_get(item, "annotations"), NAME_ANNOTATION);
        const json_t *tags = json_object_get(item, "RepoTags"), *tag;
        size_t count = 0, i;

        if (annotated)
                names[count++] = annotated;
        json_array_foreach (tags, i, tag) {
                if (count < max && json_is_string(tag))
                        names[count++] = json_string_value(tag);
        }
        return count;
}

/* For the message: the first few, so that the user can say which. */
static void list_names(const json_t *list, struct strbuf *to) {
        const char *names[NAMES_SHOWN];
        const json_t *item;
        size_t i, shown = 0;

        json_array_foreach (list, i, item) {
                size_t count = names_of(item, names, NAMES_SHOWN);

                for (size_t k = 0; k < count && shown <= NAMES_SHOWN; k++, shown++) {
                        strbuf_append(to, shown ? ", " : "");
                        if (shown < NAMES_SHOWN)
                                image_path_quote(to, names[k]);
                        else
                                strbuf_append(to, "...");
                }
        }
        if (shown == 0)
                strbuf_append(to, "none has a name");
}

/* Of a list of images, the wanted one; NULL with err where that is not clear. */
static const json_t *choose_image(const json_t *list, const char *repository, const char *tag,
                                  struct arena *arena, struct error *err) {
        struct strbuf names STRBUF_CLEANUP = STRBUF_INIT;
        const json_t *item, *found = NULL;
        size_t i, matches = 0;

        if (json_array_size(list) == 1)
                return json_array_get(list, 0);
        json_array_foreach (list, i, item) {
                const char *called[NAMES_SHOWN];
                size_t count = names_of(item, called, NAMES_SHOWN);

                for (size_t k = 0; k < count; k++) {
                        if (!names_image(called[k], repository, tag, arena))
                                continue;
                        /* The same image under two names is one. */
                        if (!found ||
                            !json_equal(json_object_get(found, "digest"), json_object_get(item, "digest")))
                                matches++;
                        found = item;
                        break;
                }
        }
        if (matches == 1)
                return found;
        list_names(list, &names);
        if (json_array_size(list) == 0)
                (void)error_set(err, "it holds no image");
        else
                (void)error_set(
                        err,
                        "it holds %zu images (%s), and %s is called %s or %s:%s: import it under the tag "
                        "of the one that is meant",
                        json_array_size(list), strbuf_text(&names), matches ? "more than one" : "none", tag,
                        repository, tag);
        return NULL;
}

static const char *digest_of(const void *bytes, size_t length, struct arena *arena) {
        char hex[SHA256_HEX_SIZE];

        digest_sha256_hex(bytes, length, hex);
        return arena_printf(arena, "sha256:%s", hex);
}

static void set_manifest(const struct strbuf *text, struct arena *arena, struct image_source_manifest *ret) {
        ret->bytes = arena_strndup(arena, strbuf_text(text), text->length);
        ret->length = text->length;
        ret->digest = digest_of(ret->bytes, ret->length, arena);
}

/* --- OCI layout --- */

/* Any 1.x: its first number changes when old readers would misread it. */
static int check_layout(const struct image_source *source, struct error *err) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        json_t *json JSON_CLEANUP = NULL;
        const char *version;

        if (read_json(source, "oci-layout", &text, err) < 0 || !(json = parse_json(&text, "oci-layout", err)))
                return -1;
        version = json_text(json, "imageLayoutVersion");
        if (version && strncmp(version, "1.", 2) == 0)
                return 0;
        return error_set(err, "it is an OCI layout of another version than 1");
}

/* A manifest must be what its digest says before anything in it is believed. */
static int read_pinned(const struct image_source *source, const json_t *descriptor, struct arena *arena,
                       struct image_source_manifest *ret, struct error *err) {
        const char *digest = json_text(descriptor, "digest");
        json_int_t size = json_integer_or(descriptor, "size", -1);
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct image_source_manifest manifest = { .type = arena_strdup(arena,
                                                                       json_text(descriptor, "mediaType")) };

        if (!digest || !image_rules_is_digest(digest))
                return error_set(err, "index.json names its manifest by no digest of SHA-256");
        if (read_json(source, arena_printf(arena, "blobs/sha256/%s", digest + 7), &text, err) < 0)
                return -1;
        set_manifest(&text, arena, &manifest);
        if (strcmp(manifest.digest, digest) != 0)
                return error_set(err, "its manifest has the digest %s, and index.json says %s",
                                 manifest.digest, digest);
        if (size != (json_int_t)manifest.length)
                return error_set(err, "its manifest has %zu bytes, and index.json says %lld", manifest.length,
                                 (long long)size);
        *ret = manifest;
        return 0;
}

static int oci_manifest(const struct image_source *source, const char *repository, const char *tag,
                        struct arena *arena, struct image_source_manifest *ret, struct error *err) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        json_t *index JSON_CLEANUP = NULL;
        const json_t *descriptor;

        if (check_layout(source, err) < 0 || read_json(source, "index.json", &text, err) < 0 ||
            !(index = parse_json(&text, "index.json", err)))
                return -1;
        descriptor = choose_image(json_object_get(index, "manifests"), repository, tag, arena, err);
        return descriptor ? read_pinned(source, descriptor, arena, ret, err) : -1;
}

/* --- dir: --- */

/* skopeo's dir: keeps the manifest as it came from the registry, and blobs by their digests. */
static int dir_manifest(const struct image_source *source, struct arena *arena,
                        struct image_source_manifest *ret, struct error *err) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        if (read_json(source, "manifest.json", &text, err) < 0)
                return -1;
        *ret = (struct image_source_manifest){ 0 };
        set_manifest(&text, arena, ret);
        return 0;
}

/* --- docker-archive --- */

/* Its digest and size, and what compression it begins with. */
static int measure_file(const struct image_source *source, const char *path, struct arena *arena,
                        const char **ret_digest, int64_t *ret_size, const char **ret_compression,
                        struct error *err) {
        struct strbuf quoted STRBUF_CLEANUP = STRBUF_INIT;
        int file DESCRIPTOR_CLEANUP = open_within(source, path);
        struct digest_stream *stream;
        unsigned char piece[65536];
        char hex[SHA256_HEX_SIZE];
        ssize_t count;

        image_path_quote(&quoted, path);
        if (file < 0)
                return error_set(err, "%s cannot be read: %s", strbuf_text(&quoted), open_failure(errno));
        *ret_size = 0;
        *ret_compression = "";
        stream = digest_stream_new();
        while ((count = read(file, piece, sizeof(piece))) > 0) {
                if (*ret_size == 0 && count > 4)
                        *ret_compression = memcmp(piece, "\x1f\x8b", 2) == 0           ? "+gzip"
                                           : memcmp(piece, "\x28\xb5\x2f\xfd", 4) == 0 ? "+zstd"
                                                                                       : "";
                digest_stream_add(stream, piece, (size_t)count);
                *ret_size += count;
        }
        digest_stream_end(stream, hex);
        if (count < 0)
                return error_set(err, "%s cannot be read: %s", strbuf_text(&quoted), strerror(errno));
        *ret_digest = arena_printf(arena, "sha256:%s", hex);
        return 0;
}

/* A descriptor of a file; where `layer`, of the compression that it has. */
static json_t *describe_file(struct image_source *source, const char *path, bool layer, struct arena *arena,
                             struct error *err) {
        const char *digest, *compression, *type = "application/vnd.oci.image.config.v1+json";
        int64_t size;

        if (measure_file(source, path, arena, &digest, &size, &compression, err) < 0)
                return NULL;
        if (layer)
                type = arena_printf(arena, "application/vnd.oci.image.layer.v1.tar%s", compression);
        source->files[source->file_count++] = (struct image_source_file){ digest, arena_strdup(arena, path) };
        return json_pack("{s:s, s:s, s:I}", "mediaType", type, "digest", digest, "size", (json_int_t)size);
}

/* What the archive would have as its manifest. Only what is there goes in, so that the same archive gives the same digest. */
static json_t *make_manifest(struct image_source *source, const json_t *image, struct arena *arena,
                             struct error *err) {
        const char *config_path = json_text(image, "Config");
        const json_t *paths = json_object_get(image, "Layers"), *path;
        json_t *layers = json_array(), *config = NULL;
        size_t i;

        if (!config_path || !json_is_array(paths) || json_array_size(paths) > LISTED_LAYERS_MAX)
                (void)error_set(err, "manifest.json names no configuration, or no layers that could be");
        else
                config = describe_file(source, config_path, false, arena, err);
        json_array_foreach (paths, i, path) {
                json_t *layer = config && json_is_string(path)
                                        ? describe_file(source, json_string_value(path), true, arena, err)
                                        : NULL;

                if (config && !json_is_string(path))
                        (void)error_set(err, "manifest.json names a layer by no text");
                if (!layer) {
                        json_decref(layers);
                        json_decref(config);
                        return NULL;
                }
                json_array_append_new(layers, layer);
        }
        if (!config) {
                json_decref(layers);
                return NULL;
        }
        return json_pack("{s:i, s:s, s:o, s:o}", "schemaVersion", 2, "mediaType", image_rules_oci_manifest,
                         "config", config, "layers", layers);
}

static int docker_manifest(struct image_source *source, const char *repository, const char *tag,
                           struct arena *arena, struct image_source_manifest *ret, struct error *err) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        json_t *list JSON_CLEANUP = NULL, *manifest JSON_CLEANUP = NULL;
        char *compact TEXT_CLEANUP = NULL;
        const json_t *image;

        if (read_json(source, "manifest.json", &text, err) < 0 ||
            !(list = parse_json(&text, "manifest.json", err)) ||
            !(image = choose_image(list, repository, tag, arena, err)))
                return -1;
        source->files = arena_array(arena, LISTED_LAYERS_MAX + 1, sizeof(*source->files));
        if (!(manifest = make_manifest(source, image, arena, err)))
                return -1;
        compact = json_compact(manifest);
        *ret = (struct image_source_manifest){ .type = image_rules_oci_manifest,
                                               .bytes = arena_strdup(arena, compact),
                                               .length = strlen(compact) };
        ret->digest = digest_of(ret->bytes, ret->length, arena);
        return 0;
}

int image_source_manifest(struct image_source *source, const char *repository, const char *tag,
                          struct arena *arena, struct image_source_manifest *ret, struct error *err) {
        switch (source->form) {
        case SOURCE_OCI:
                return oci_manifest(source, repository, tag, arena, ret, err);
        case SOURCE_DIR:
                return dir_manifest(source, arena, ret, err);
        case SOURCE_DOCKER_ARCHIVE:
        default:
                return docker_manifest(source, repository, tag, arena, ret, err);
        }
}

int image_source_blob(const struct image_source *source, const char *digest, int *ret, struct error *err) {
        struct strbuf path STRBUF_CLEANUP = STRBUF_INIT;

        if (!image_rules_is_digest(digest))
                return error_set(err, "it is named by no digest of SHA-256");
        if (source->form != SOURCE_DOCKER_ARCHIVE)
                strbuf_printf(&path, "%s%s", source->form == SOURCE_OCI ? "blobs/sha256/" : "", digest + 7);
        for (size_t i = 0; i < source->file_count && path.length == 0; i++) {
                if (strcmp(source->files[i].digest, digest) == 0)
                        strbuf_append(&path, source->files[i].path);
        }
        *ret = open_within(source, strbuf_text(&path));
        if (*ret < 0)
                return error_set(err, "it cannot be read: %s", open_failure(errno));
        return 0;
}
