/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/images/local_catalog.h"

#include "base/array.h"
#include "base/files.h"
#include "base/json.h"
#include "providers/image_rules.h"
#include "providers/local/images/image_index.h"
#include "providers/local/images/local_reference.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Shown for an image without a name. */
#define NO_REPOSITORY "-"

/* --- rows --- */

static void set_problem(struct image_row *row, const char *problem, const char *message,
                        const struct local_reference *reference, struct arena *arena) {
        row->problem = problem;
        row->message = message;
        row->remedy = local_reference_remedy(reference, problem, arena);
}

static int64_t blob_time_ms(const char *store, const char *digest) {
        char *blobs TEXT_CLEANUP = path_join(store, LOCAL_IMAGES_BLOBS);
        char *path TEXT_CLEANUP = path_join(blobs, digest + 7);
        struct stat status;

        return lstat(path, &status) < 0
                       ? 0
                       : (int64_t)status.st_mtim.tv_sec * 1000 + status.st_mtim.tv_nsec / 1000000;
}

/*
 * Fills the row from the image's manifest and configuration, and judges them again: the rules may
 * have changed since the import.
 */
static void describe_image(const char *store, const struct local_reference *reference, struct arena *arena,
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
        row->runtime = verdict.runtime;
        row->size = verdict.size;
        row->pushed_ms = blob_time_ms(store, row->digest);
        if (verdict.problem)
                set_problem(row, verdict.problem, arena_printf(arena, "%s %s", name, verdict.seen), reference,
                            arena);
}

int local_catalog_check(const char *store, const char *text, struct arena *arena, struct image_row *ret,
                        struct error *err) {
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
                describe_image(store, &reference, arena, &row);
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

static void describe_listed_row(const struct catalog *catalog, struct image_row *row) {
        struct local_reference reference = { row->repository, row->tag_count ? row->tags[0] : NULL,
                                             row->digest };
        struct local_image found;

        if (local_image_find(&catalog->images, NULL, NULL, row->digest, catalog->arena, &found))
                describe_image(catalog->images.folder, &reference, catalog->arena, row);
        else
                set_problem(row, "missing",
                            arena_printf(catalog->arena, "%s:%s means %s, which is not in the store",
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
        describe_listed_row(&catalog, row);
        *ret = *row;
}

int local_catalog_list(const char *store, const char *repository, struct arena *arena, struct image_row **ret,
                       size_t *ret_count, struct error *err) {
        struct catalog catalog = { .arena = arena, .repository = repository };

        if (repository && !image_rules_is_repository(repository))
                return error_set(err, "\"%s\" is not a repository; for one image: berth image check",
                                 repository);
        if (local_images_open(store, arena, &catalog.images, err) < 0)
                return -1;
        add_named(&catalog);
        if (!repository && add_nameless(&catalog, err) < 0)
                return -1;
        if (repository && catalog.count == 0)
                return error_set_kind(err, ERROR_NOT_FOUND, "the image store %s has no repository %s",
                                      catalog.images.folder, repository);
        for (size_t i = 0; i < catalog.count; i++)
                describe_listed_row(&catalog, &catalog.rows[i]);
        if (catalog.count)
                qsort(catalog.rows, catalog.count, sizeof(*catalog.rows), image_rows_newest_first);
        *ret = catalog.rows;
        *ret_count = catalog.count;
        return 0;
}
