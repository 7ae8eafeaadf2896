/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/image_catalog.h"

#include "base/array.h"
#include "base/files.h"
#include "base/json.h"
#include "providers/image_rules.h"
#include "providers/local/image_build.h"
#include "providers/local/image_import.h"
#include "providers/local/image_index.h"
#include "providers/local/image_instructions.h"
#include "providers/local/image_remove.h"
#include "providers/local/provider_local.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* An image that no name leads to any more. */
#define NO_REPOSITORY "-"

int local_reference_parse(const char *text, struct arena *arena, struct local_reference *ret,
                          struct error *err) {
        const char *mark = strpbrk(text, ":@");
        struct local_reference reference = {
                .repository =
                        mark ? arena_strndup(arena, text, (size_t)(mark - text)) : arena_strdup(arena, text),
                .tag = !mark          ? "latest"
                       : *mark == ':' ? arena_strdup(arena, mark + 1)
                                      : NULL,
                .digest = mark && *mark == '@' ? arena_strdup(arena, mark + 1) : NULL,
        };

        if (!image_rules_is_repository(reference.repository) ||
            (reference.tag && !image_rules_is_tag(reference.tag)) ||
            (reference.digest && !image_rules_is_digest(reference.digest)))
                return error_set(err, "\"%s\" is no image: " IMAGE_RULES_REFERENCE_WORDS, text);
        *ret = reference;
        return 0;
}

const char *local_catalog_remedy(const struct local_reference *reference, const char *problem,
                                 struct arena *arena) {
        const char *name =
                arena_printf(arena, "%s:%s", reference->repository, reference->tag ? reference->tag : "TAG");
        const char *prebuilt =
                strncmp(reference->repository, "prebuilt/", 9) == 0 ? reference->repository + 9 : NULL;

        if (strcmp(problem, "missing") == 0 || strcmp(problem, "unread") == 0)
                return prebuilt ? arena_printf(arena, "berth image build %s, or berth image import %s PATH",
                                               prebuilt, name)
                                : arena_printf(
                                          arena,
                                          "berth image import %s PATH; berth image instructions tells how "
                                          "to make one",
                                          name);
        if (strcmp(problem, "index") == 0)
                return arena_printf(
                        arena,
                        "take the one for linux/amd64 out of it, and import that:\n"
                        "  skopeo copy --override-os linux --override-arch amd64 oci-archive:PATH "
                        "oci-archive:image.tar\n"
                        "  berth image import %s image.tar\n"
                        "or build a single one:\n"
                        "  %s",
                        name, local_build_command);
        return arena_printf(arena, "%s:\n  %s\n  berth image import %s image.tar",
                            strcmp(problem, "size") == 0 ? "make it smaller, build it and import it"
                                                         : "build it and import it",
                            local_build_command, name);
}

/* --- rows --- */

static const char *store_of(const struct provider *provider, struct arena *arena) {
        return local_images_folder(provider->root, value_get(provider->stack, "local"), arena);
}

static void set_problem(struct image_row *row, const char *problem, const char *message,
                        const struct local_reference *reference, struct arena *arena) {
        row->problem = problem;
        row->message = message;
        row->remedy = local_catalog_remedy(reference, problem, arena);
}

static int64_t blob_time_ms(const char *store, const char *digest) {
        char *blobs TEXT_CLEANUP = path_join(store, LOCAL_IMAGES_BLOBS);
        char *path TEXT_CLEANUP = path_join(blobs, digest + 7);
        struct stat status;

        return lstat(path, &status) < 0
                       ? 0
                       : (int64_t)status.st_mtim.tv_sec * 1000 + status.st_mtim.tv_nsec / 1000000;
}

/* What the image's own manifest and configuration say; they were judged when it was imported, and are here again. */
static void judge(const char *store, const struct local_reference *reference, struct arena *arena,
                  struct image_row *row) {
        json_t *manifest JSON_CLEANUP = image_index_manifest(store, row->digest);
        const char *name = arena_printf(arena, "%s%s%s", reference->repository, reference->tag ? ":" : "@",
                                        reference->tag ? reference->tag : row->digest);
        struct image_verdict verdict = { 0 };
        struct strbuf config STRBUF_CLEANUP = STRBUF_INIT;
        struct error failure = { 0 };

        if (manifest)
                image_rules_judge_manifest(manifest, NULL, &verdict, arena);
        if (!manifest || (!verdict.problem && (!verdict.config || image_index_blob(store, verdict.config,
                                                                                   &config, &failure) < 0))) {
                set_problem(
                        row, "unread",
                        arena_printf(arena, "the manifest or configuration of %s is not in the store", name),
                        reference, arena);
                return;
        }
        if (!verdict.problem)
                image_rules_judge_config(strbuf_text(&config), config.length, &verdict, arena);
        row->media_type = verdict.media_type;
        row->platform = verdict.platform;
        row->size = verdict.size;
        row->pushed_ms = blob_time_ms(store, row->digest);
        if (verdict.problem)
                set_problem(row, verdict.problem, arena_printf(arena, "%s %s", name, verdict.seen), reference,
                            arena);
}

static int check(struct provider *provider, const char *text, struct arena *arena, struct image_row *ret,
                 struct error *err) {
        const char *store = store_of(provider, arena);
        struct local_reference reference;
        struct local_images images;
        struct local_image found;
        struct image_row row = { 0 };

        if (local_reference_parse(text, arena, &reference, err) < 0 ||
            local_images_open(store, arena, &images, err) < 0)
                return -1;
        row.repository = reference.repository;
        row.tags = arena_array(arena, 1, sizeof(*row.tags));
        if (reference.tag)
                row.tags[row.tag_count++] = reference.tag;
        if (local_image_find(&images, reference.repository, reference.tag, reference.digest, arena, &found)) {
                row.digest = found.digest;
                judge(store, &reference, arena, &row);
        } else {
                set_problem(&row, "missing",
                            arena_printf(arena, "%s is not in the image store %s", text, store), &reference,
                            arena);
        }
        *ret = row;
        return 0;
}

/* --- the list --- */

struct catalog {
        struct arena *arena;
        struct local_images images;
        const char *repository; /* only this; NULL: all */
        struct image_row *rows;
        size_t count;
};

static struct image_row *row_for(struct catalog *catalog, const char *repository, const char *digest) {
        for (size_t i = 0; i < catalog->count; i++) {
                if (strcmp(catalog->rows[i].repository, repository) == 0 &&
                    strcmp(catalog->rows[i].digest, digest) == 0)
                        return &catalog->rows[i];
        }
        catalog->rows = array_grow(catalog->arena, catalog->rows, catalog->count, sizeof(*catalog->rows));
        catalog->rows[catalog->count] = (struct image_row){ .repository = repository, .digest = digest };
        return &catalog->rows[catalog->count++];
}

static void add_tag(struct catalog *catalog, struct image_row *row, const char *tag) {
        row->tags = array_grow(catalog->arena, row->tags, row->tag_count, sizeof(*row->tags));
        row->tags[row->tag_count++] = tag;
}

static void add_named(struct catalog *catalog) {
        const struct value *tags = catalog->images.tags;

        for (uint32_t i = 0; tags && i < tags->count; i++) {
                const struct value *digest = &tags->members[i].value;
                struct local_reference reference;
                struct error ignored;

                if (digest->type != VALUE_TEXT || !image_rules_is_digest(digest->text) ||
                    local_reference_parse(tags->members[i].name, catalog->arena, &reference, &ignored) < 0 ||
                    !reference.tag ||
                    (catalog->repository && strcmp(reference.repository, catalog->repository) != 0))
                        continue;
                add_tag(catalog, row_for(catalog, reference.repository, digest->text), reference.tag);
        }
}

static int add_nameless(struct catalog *catalog, struct error *err) {
        const char **digests;
        size_t count;

        if (image_index_digests(catalog->images.folder, catalog->arena, &digests, &count, err) < 0)
                return -1;
        for (size_t i = 0; i < count; i++) {
                bool named = false;

                for (size_t k = 0; k < catalog->count && !named; k++)
                        named = strcmp(catalog->rows[k].digest, digests[i]) == 0;
                if (!named)
                        row_for(catalog, NO_REPOSITORY, digests[i]);
        }
        return 0;
}

static void judge_row(const struct catalog *catalog, struct image_row *row) {
        struct local_reference reference = { row->repository, row->tag_count ? row->tags[0] : NULL,
                                             row->digest };
        struct local_image found;

        if (local_image_find(&catalog->images, NULL, NULL, row->digest, catalog->arena, &found))
                judge(catalog->images.folder, &reference, catalog->arena, row);
        else
                set_problem(row, "missing",
                            arena_printf(catalog->arena, "%s:%s leads to %s, which is not in the store",
                                         row->repository, reference.tag, row->digest),
                            &reference, catalog->arena);
}

void local_catalog_describe(const struct local_images *images, const char *name, const char *digest,
                            struct arena *arena, struct image_row *ret) {
        struct catalog catalog = { .arena = arena, .images = *images };
        const char *mark = name ? strchr(name, ':') : NULL;
        const char *repository = mark ? arena_strndup(arena, name, (size_t)(mark - name)) : NO_REPOSITORY;
        struct image_row *row = row_for(&catalog, repository, digest);

        if (mark)
                add_tag(&catalog, row, arena_strdup(arena, mark + 1));
        judge_row(&catalog, row);
        *ret = *row;
}

static int list(struct provider *provider, const char *repository, struct arena *arena,
                struct image_row **ret, size_t *ret_count, struct error *err) {
        struct catalog catalog = { .arena = arena, .repository = repository };

        if (repository && !image_rules_is_repository(repository))
                return error_set(err, "\"%s\" is no repository; berth image check tells of one image",
                                 repository);
        if (local_images_open(store_of(provider, arena), arena, &catalog.images, err) < 0)
                return -1;
        add_named(&catalog);
        if (!repository && add_nameless(&catalog, err) < 0)
                return -1;
        if (repository && catalog.count == 0)
                return error_set_kind(err, ERROR_NOT_FOUND, "the image store %s has no repository %s",
                                      catalog.images.folder, repository);
        for (size_t i = 0; i < catalog.count; i++)
                judge_row(&catalog, &catalog.rows[i]);
        if (catalog.count)
                qsort(catalog.rows, catalog.count, sizeof(*catalog.rows), image_rows_newest_first);
        *ret = catalog.rows;
        *ret_count = catalog.count;
        return 0;
}

/* --- the table --- */

static int instructions(struct provider *provider, const struct manifests *manifests, const char *repository,
                        struct arena *arena, struct image_instructions *ret, struct error *err) {
        return local_instructions(store_of(provider, arena), manifests, repository, arena, ret, err);
}

static int import(struct provider *provider, const char *name, const char *path, struct arena *arena,
                  struct image_row *ret, struct error *err) {
        return local_image_import(store_of(provider, arena), name, path, arena, ret, err);
}

static int build(struct provider *provider, const struct image_build_request *request, struct arena *arena,
                 struct image_row *ret, struct error *err) {
        return local_image_build(store_of(provider, arena), request, arena, ret, err);
}

static int remove_one(struct provider *provider, const char *reference, struct arena *arena,
                      struct image_row *ret, struct error *err) {
        return local_image_remove(provider->root, store_of(provider, arena), reference, arena, ret, err);
}

static int prune(struct provider *provider, bool remove, struct arena *arena, struct image_row **ret,
                 size_t *ret_count, struct error *err) {
        return local_image_prune(provider->root, store_of(provider, arena), remove, arena, ret, ret_count,
                                 err);
}

const struct image_ops local_image_registry = {
        .list = list,
        .check = check,
        .instructions = instructions,
        .import = import,
        .build = build,
        .remove = remove_one,
        .prune = prune,
};
