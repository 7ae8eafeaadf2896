/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list takes one call for a thousand repositories, one for a thousand images of each, and one for
 * a hundred manifests; the answers are asked for ahead, since each repository's are independent of
 * the others'. A fault of an image is told in its row: one that cannot be read does not end the
 * list.
 */
#include "providers/aws/image/image_catalog.h"

#include "base/array.h"
#include "base/json.h"
#include "providers/aws/image/image_runtime.h"
#include "providers/aws/registry/admission.h"
#include "providers/aws/registry/ecr_lifecycle.h"
#include "providers/aws/registry/ecr_resolve.h"
#include "providers/aws/registry/ecr_uri.h"
#include "providers/aws/services/ecr.h"
#include "providers/image_rules.h"

#include <stdlib.h>
#include <string.h>

#define PLATFORMS_MAX 50

/* As ecr_uri.h knows it; NULL where a registry of another kind stands in front: only they have dots or ports there. */
static const char *without_registry(const struct provider *provider, const char *text, struct arena *arena) {
        const char *registry = ecr_registry(provider, arena), *slash = strchr(text, '/');
        size_t length = strlen(registry), first = slash ? (size_t)(slash - text) : 0;

        if (first == length && strncmp(text, registry, length) == 0)
                return slash + 1;
        if (ecr_registry_in_front(text) && ecr_registry_is_near(provider, text, arena))
                return text;
        return memchr(text, '.', first) || memchr(text, ':', first) ? NULL : text;
}

int image_reference_parse(const struct provider *provider, const char *text, struct arena *arena,
                          struct ecr_reference *ret, struct error *err) {
        const char *name = without_registry(provider, text, arena), *mark;
        struct ecr_reference reference = { 0 };

        if (!name)
                return error_set(err,
                                 "%s is neither in this stack's registry, %s, nor in that of another account "
                                 "in the same region",
                                 text, ecr_registry(provider, arena));
        mark = strpbrk(name, ":@");
        reference.repository = mark ? arena_strndup(arena, name, (size_t)(mark - name)) : name;
        if (!mark)
                reference.tag = "latest";
        else if (*mark == ':')
                reference.tag = mark + 1;
        else
                reference.digest = mark + 1;
        if (!image_rules_is_repository(reference.repository) ||
            (reference.tag && !image_rules_is_tag(reference.tag)) ||
            (reference.digest && !image_rules_is_digest(reference.digest)))
                return error_set(err, "\"%s\" is no image: " IMAGE_RULES_REFERENCE_WORDS, text);
        *ret = reference;
        return 0;
}

/* What the registry's list said of size and type stays where the manifest says nothing. */
static void fill_verdict(const struct provider *provider, const struct ecr_reference *reference,
                         const char *tag, struct arena *arena, struct image_row *row) {
        row->digest = reference->resolved;
        row->media_type = reference->media_type ? reference->media_type : row->media_type;
        row->platform = reference->platform;
        row->runtime = reference->runtime;
        if (reference->size > 0)
                row->size = reference->size;
        row->problem = reference->problem;
        row->message = reference->message;
        row->unverified = reference->problem ? NULL : reference->unverified;
        if (reference->problem)
                row->remedy =
                        admission_remedy(provider, reference->repository, tag, reference->problem, arena);
}

static int registry_check(struct provider *provider, const char *text, struct arena *arena,
                          struct image_row *ret, struct error *err) {
        struct admission_memory memory = { .arena = arena };
        struct ecr_reference reference;
        struct image_row row = { 0 };

        if (image_reference_parse(provider, text, arena, &reference, err) < 0 ||
            ecr_resolve(provider, &reference, 1, arena, err) < 0 ||
            admission_check(provider, &reference, 1, &memory, arena, err) < 0)
                return -1;
        row.repository = reference.repository;
        row.tags = arena_array(arena, 1, sizeof(*row.tags));
        if (reference.tag)
                row.tags[row.tag_count++] = reference.tag;
        fill_verdict(provider, &reference, reference.tag, arena, &row);
        *ret = row;
        return 0;
}

struct catalog {
        struct provider *provider;
        struct arena *arena;
        struct image_row *rows;
        size_t count;
};

static void add_image(struct catalog *catalog, const char *repository, const struct ecr_image *image) {
        catalog->rows = array_grow(catalog->arena, catalog->rows, catalog->count, sizeof(*catalog->rows));
        catalog->rows[catalog->count++] = (struct image_row){
                .repository = repository,
                .tags = image->tags,
                .tag_count = image->tag_count,
                .digest = image->digest,
                .pushed_ms = image->pushed_ms,
                .size = image->size,
                .media_type = image->media_type,
        };
}

static int add_repository(struct catalog *catalog, const char *repository, struct error *err) {
        struct ecr_image *images;
        size_t count;

        if (ecr_list_images(catalog->provider, repository, catalog->arena, &images, &count, err) < 0)
                return -1;
        for (size_t i = 0; i < count; i++)
                add_image(catalog, repository, &images[i]);
        return 0;
}

static int add_repositories(struct catalog *catalog, const json_t *repositories, struct error *err) {
        const json_t *item;
        size_t i;

        json_array_foreach (repositories, i, item) {
                const char *name = json_text(item, "repositoryName");
                struct aws_request images;

                /* A repository without a name could not be asked for. */
                if (!name)
                        continue;
                images = ecr_describe_images(name, NULL, catalog->arena);
                aws_ahead_pages(catalog->provider->client, &images, ecr_next_page, NULL);
        }
        json_array_foreach (repositories, i, item) {
                const char *name = arena_strdup(catalog->arena, json_text(item, "repositoryName"));
                struct error failure;

                if (!name || add_repository(catalog, name, &failure) == 0)
                        continue;
                /* Deleted since it was listed. */
                if (failure.kind == ERROR_NOT_FOUND)
                        continue;
                *err = failure;
                return -1;
        }
        return 0;
}

static int add_all_repositories(struct catalog *catalog, struct error *err) {
        struct aws_paging paging = { 0 };

        do {
                struct aws_request request = ecr_describe_repositories(paging.token, catalog->arena);
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;

                if (aws_call(catalog->provider->client, &request, &response, err) < 0 ||
                    add_repositories(catalog, json_object_get(response.json, "repositories"), err) < 0)
                        return -1;
                if (aws_next_page(&response, "nextToken", &paging, catalog->arena, err) < 0)
                        return -1;
        } while (paging.token);
        return 0;
}

static int newest_first(const void *a, const void *b) {
        int64_t left = (*(const struct image_row *const *)a)->pushed_ms,
                right = (*(const struct image_row *const *)b)->pushed_ms;

        return left == right ? image_rows_newest_first(*(void *const *)a, *(void *const *)b)
                             : (left < right) - (left > right);
}

/* Manifests come by the hundred, but the platform of each image takes two calls: of a few it is looked at. */
static void leave_out_old(const struct catalog *catalog, struct ecr_reference *references) {
        const struct image_row **sorted = arena_array(catalog->arena, catalog->count + 1, sizeof(*sorted));

        for (size_t i = 0; i < catalog->count; i++)
                sorted[i] = &catalog->rows[i];
        qsort(sorted, catalog->count, sizeof(const struct image_row *), newest_first);
        for (size_t i = PLATFORMS_MAX; i < catalog->count; i++)
                references[sorted[i] - catalog->rows].unverified =
                        "a list looks at the platforms of the newest images only: berth image check tells it";
}

/* Rows are asked for by digest: their tags may have moved since the list, and several tags are one image. */
static int judge_rows(struct catalog *catalog, struct error *err) {
        struct ecr_reference *references =
                arena_array(catalog->arena, catalog->count + 1, sizeof(*references));
        struct admission_memory memory = { .arena = catalog->arena };

        for (size_t i = 0; i < catalog->count; i++)
                references[i] = (struct ecr_reference){ .repository = catalog->rows[i].repository,
                                                        .digest = catalog->rows[i].digest };
        leave_out_old(catalog, references);
        ecr_resolve_ahead(catalog->provider, references, catalog->count, catalog->arena);
        if (ecr_resolve(catalog->provider, references, catalog->count, catalog->arena, err) < 0 ||
            admission_check(catalog->provider, references, catalog->count, &memory, catalog->arena, err) < 0)
                return -1;
        for (size_t i = 0; i < catalog->count; i++) {
                struct image_row *row = &catalog->rows[i];

                fill_verdict(catalog->provider, &references[i], row->tag_count ? row->tags[0] : NULL,
                             catalog->arena, row);
                row->digest = references[i].digest;
        }
        return 0;
}

static int list_images(struct provider *provider, const char *repository, struct arena *arena,
                       struct image_row **ret, size_t *ret_count, struct error *err) {
        struct catalog catalog = { .provider = provider, .arena = arena };

        if (repository) {
                struct ecr_reference reference;

                if (image_reference_parse(provider, repository, arena, &reference, err) < 0)
                        return -1;
                if (strpbrk(repository, ":@"))
                        return error_set(
                                err,
                                "\"%s\" names one image: give a repository alone, or use berth image check",
                                repository);
                if (add_repository(&catalog, reference.repository, err) < 0)
                        return -1;
        } else if (add_all_repositories(&catalog, err) < 0) {
                return -1;
        }
        if (judge_rows(&catalog, err) < 0)
                return -1;
        if (catalog.count)
                qsort(catalog.rows, catalog.count, sizeof(*catalog.rows), image_rows_newest_first);
        *ret = catalog.rows;
        *ret_count = catalog.count;
        return 0;
}

const struct image_ops aws_image_registry = {
        .list = list_images,
        .check = registry_check,
        .instructions = image_instructions,
        .add_runtime = image_runtime_push,
};
