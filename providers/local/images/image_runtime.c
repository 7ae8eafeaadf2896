/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An image of a file is first imported into a store of its own, in the folder of this build: so its digests are checked, its
 * archive is read in the cage, and what no import takes, this does not take either. From then on both cases are one: a store in
 * which the image is. A layout is made of it whose layers are hard links, and that is written as an archive, or imported.
 */
#include "providers/local/images/image_runtime.h"

#include "base/files.h"
#include "base/json.h"
#include "providers/image_rules.h"
#include "providers/local/images/build_folder.h"
#include "providers/local/images/image_index.h"
#include "providers/local/images/image_write.h"
#include "providers/local/images/local_image_build.h"
#include "providers/local/images/local_image_import.h"
#include "providers/local/images/local_reference.h"
#include "providers/local/images/tarball_write.h"
#include "providers/runtime_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PROGRAM_MAX ((size_t)64 << 20)

/* --- the layer --- */

static int add_entries(struct tarball_writer *to, const struct strbuf *program, struct error *err) {
        struct tarball_entry entry = { .type = TARBALL_FOLDER, .name = "opt/", .mode = 0755 };

        if (tarball_writer_add(to, &entry, err) < 0)
                return -1;
        entry.name = &(IMAGE_RUNTIME_FOLDER "/")[1];
        if (tarball_writer_add(to, &entry, err) < 0)
                return -1;
        entry = (struct tarball_entry){
                .type = TARBALL_FILE, .name = &(IMAGE_RUNTIME_PATH)[1], .mode = 0755, .bytes = program->length
        };
        if (tarball_writer_add(to, &entry, err) < 0)
                return -1;
        return tarball_writer_bytes(to, strbuf_text(program), program->length, err);
}

static int pack(int memory, const struct strbuf *program, struct tarball_written *ret, struct error *err) {
        struct tarball_writer *to;
        int result;

        if (tarball_writer_open(memory, true, &to, err) < 0)
                return -1;
        result = add_entries(to, program, err);
        if (result == 0)
                result = tarball_writer_finish(to, ret, err);
        tarball_writer_close(to);
        return result;
}

int image_runtime_layer_of(const char *path, struct arena *arena, struct image_layer *ret,
                           struct error *err) {
        struct strbuf program STRBUF_CLEANUP = STRBUF_INIT, bytes STRBUF_CLEANUP = STRBUF_INIT;
        int memory DESCRIPTOR_CLEANUP = -1;
        struct tarball_written written;

        if (file_read(path, PROGRAM_MAX, &program, err) < 0)
                return error_context(err, "the runtime");
        memory = memfd_create("layer", MFD_CLOEXEC);
        if (memory < 0 || pack(memory, &program, &written, err) < 0)
                return memory < 0 ? error_set(err, "cannot make a layer: %s", strerror(errno)) : -1;
        if (lseek(memory, 0, SEEK_SET) < 0 || descriptor_read(memory, PROGRAM_MAX, &bytes) != 0)
                return error_set(err, "cannot read the layer that was made: %s", strerror(errno));
        *ret = (struct image_layer){
                .bytes = arena_strndup(arena, strbuf_text(&bytes), bytes.length),
                .length = bytes.length,
                .digest = arena_printf(arena, "sha256:%s", written.stored),
                .diff_id = arena_printf(arena, "sha256:%s", written.plain),
                .version = BERTH_VERSION,
        };
        return 0;
}

int image_runtime_layer(struct arena *arena, struct image_layer *ret, struct error *err) {
        return image_runtime_layer_of(runtime_file_find(arena), arena, ret, err);
}

/* --- on an image --- */

struct addition {
        const struct image_runtime_request *request;
        struct arena *arena;
        const char *store;  /* the store of the user */
        const char *from;   /* the store in which the image is: that one, or one of our own */
        const char *digest; /* of the image */
        const char *tag;    /* of the result */
        struct build_folder folder;
        struct image_layer layer;
        struct local_reference name; /* of an image of the store */
};

static void end_addition(struct addition *addition) {
        build_folder_close(&addition->folder);
}

/* An image that the rules refuse is a row with its problem, as in an import: 1. */
static int import_file(struct addition *addition, struct image_row *ret, struct error *err) {
        addition->from = build_folder_path(&addition->folder, "store", addition->arena);
        if (local_image_import(
                    addition->from,
                    arena_printf(addition->arena, "%s:%s", addition->name.repository, addition->tag),
                    addition->request->reference, addition->arena, ret, err) < 0)
                return -1;
        addition->digest = ret->digest;
        return ret->problem ? 1 : 0;
}

static int find_named(struct addition *addition, struct error *err) {
        const struct local_reference *name = &addition->name;
        struct local_images images;
        struct local_image found;

        if (local_images_open(addition->store, addition->arena, &images, err) < 0)
                return -1;
        if (!local_image_find(&images, name->repository, name->tag, name->digest, addition->arena, &found))
                return error_set_kind(
                        err, ERROR_NOT_FOUND,
                        "%s is not in the image store %s; %s (a file is named with a slash: ./%s)",
                        addition->request->reference, addition->store,
                        local_reference_remedy(name, "missing", addition->arena),
                        addition->request->reference);
        addition->from = addition->store;
        addition->digest = found.digest;
        return 0;
}

static int read_documents(const struct addition *addition, struct strbuf *manifest, struct strbuf *config,
                          struct error *err) {
        json_t *json JSON_CLEANUP = NULL;
        const char *named;

        if (image_index_blob(addition->from, addition->digest, manifest, err) < 0)
                return -1;
        json = json_loadb(strbuf_text(manifest), manifest->length, 0, NULL);
        named = json_text(json_object_get(json, "config"), "digest");
        if (!named)
                return error_set(err, "its manifest names no configuration: import it again");
        return image_index_blob(addition->from, named, config, err);
}

/* Layers of the store become layers of the layout without being copied. */
static int link_layers(const struct addition *addition, const struct image_layered *image, const char *layout,
                       struct error *err) {
        json_t *manifest JSON_CLEANUP = json_loads(image->manifest, 0, NULL);
        const json_t *layers = json_object_get(manifest, "layers"), *layer;
        size_t i;

        json_array_foreach (layers, i, layer) {
                const char *hex = json_text(layer, "digest") + strlen("sha256:");
                const char *from =
                        arena_printf(addition->arena, "%s/" LOCAL_IMAGES_BLOBS "/%s", addition->from, hex);

                if (strcmp(json_text(layer, "digest"), addition->layer.digest) == 0 ||
                    link(from, arena_printf(addition->arena, "%s/blobs/sha256/%s", layout, hex)) == 0 ||
                    errno == EEXIST)
                        continue;
                return error_set(err, "cannot take the layer %s: %s", from, strerror(errno));
        }
        return image_write_blob(layout, addition->layer.digest, addition->layer.bytes, addition->layer.length,
                                addition->arena, err);
}

static int write_layout(const struct addition *addition, const char *layout, struct image_layered *ret,
                        struct error *err) {
        struct strbuf manifest STRBUF_CLEANUP = STRBUF_INIT, config STRBUF_CLEANUP = STRBUF_INIT;
        struct image_documents documents = { 0 };

        if (read_documents(addition, &manifest, &config, err) < 0)
                return -1;
        documents.manifest = strbuf_text(&manifest);
        documents.manifest_length = manifest.length;
        documents.config = strbuf_text(&config);
        documents.config_length = config.length;
        if (image_layer_add(&documents, &addition->layer, addition->arena, ret, err) < 0 ||
            folder_make(arena_printf(addition->arena, "%s/blobs/sha256", layout), err) < 0 ||
            link_layers(addition, ret, layout, err) < 0)
                return -1;
        return image_write_documents(layout, addition->tag, ret, addition->arena, err);
}

static void fill_row(const struct addition *addition, const struct image_layered *image,
                     struct image_row *ret) {
        *ret = (struct image_row){ .repository = addition->name.repository,
                                   .tags = arena_array(addition->arena, 1, sizeof(*ret->tags)),
                                   .tag_count = 1,
                                   .digest = image->manifest_digest,
                                   .size = image->size,
                                   .media_type = image->type,
                                   .runtime = addition->layer.version,
                                   .platform = "linux/amd64" };
        ret->tags[0] = addition->tag;
}

static int write_runtime(struct addition *addition, struct image_row *ret, struct error *err) {
        const struct image_runtime_request *request = addition->request;
        const char *layout = NULL;
        struct image_layered image;
        int problem = 0;

        if (build_folder_open(addition->store, &addition->folder, err) < 0)
                return -1;
        problem = request->is_file ? import_file(addition, ret, err) : find_named(addition, err);
        if (problem != 0)
                return problem < 0 ? -1 : 0;
        layout = build_folder_path(&addition->folder, "layout", addition->arena);
        if (write_layout(addition, layout, &image, err) < 0)
                return error_context(err, "%s", request->reference);
        fill_row(addition, &image, ret);
        if (image.same)
                ret->note = "it had this runtime already";
        if (request->out)
                return image_write_archive(layout, request->out, 0, addition->arena, err);
        if (image.same &&
            (!request->tag || strcmp(request->tag, addition->name.tag ? addition->name.tag : "") == 0))
                return 0;
        return local_image_import(
                addition->store,
                arena_printf(addition->arena, "%s:%s", addition->name.repository, addition->tag), layout,
                addition->arena, ret, err);
}

int local_image_runtime(const char *store, const struct image_runtime_request *request, struct arena *arena,
                        struct image_row *ret, struct error *err) {
        struct addition addition __attribute__((cleanup(end_addition))) = {
                .request = request,
                .arena = arena,
                .store = store,
                .folder = BUILD_FOLDER_INIT,
                .name = { .repository = "image", .tag = "latest" },
        };

        if (!request->is_file && local_reference_parse(request->reference, arena, &addition.name, err) < 0)
                return -1;
        addition.tag = request->tag ? request->tag : addition.name.tag;
        if (!addition.tag && request->out)
                addition.tag = "latest";
        if (!addition.tag)
                return error_set(err,
                                 "%s is a digest: say under which tag the new image is kept: berth image "
                                 "runtime %s TAG",
                                 request->reference, request->reference);
        if (request->is_file && !request->out)
                return error_set(err, "%s is a file: name the archive to write, -o FILE", request->reference);
        if (!image_rules_is_tag(addition.tag))
                return error_set(err, "\"%s\" is no tag", addition.tag);
        if (local_image_check_out(request->out, arena, err) < 0 ||
            image_runtime_layer(arena, &addition.layer, err) < 0)
                return -1;
        return write_runtime(&addition, ret, err);
}
