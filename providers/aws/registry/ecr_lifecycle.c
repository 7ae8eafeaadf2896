/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two rules that `retain` makes, over one list. They never meet in one image: the one selects the untagged ones, the
 * other those with a tag. So each image has one date at the most, and no order of priorities is needed.
 */
#include "providers/aws/registry/ecr_lifecycle.h"

#include "base/array.h"
#include "base/json.h"
#include "providers/aws/registry/ecr_uri.h"
#include "providers/aws/services/ecr.h"

#include <stdlib.h>

#define DAY_MS (INT64_C(24) * 3600 * 1000)

/* A time that no clock shows is no time: the image's age is then not known, and it counts as the oldest. */
static void read_image(const json_t *detail, struct arena *arena, struct ecr_image *ret) {
        const json_t *tags = json_object_get(detail, "imageTags"), *tag;
        double pushed = json_number_value(json_object_get(detail, "imagePushedAt"));
        size_t i;

        *ret = (struct ecr_image){
                .digest = arena_strdup(arena, json_text(detail, "imageDigest")),
                .tags = arena_array(arena, json_array_size(tags) + 1, sizeof(*ret->tags)),
                .pushed_ms = pushed > 0 && pushed < 1e12 ? (int64_t)(pushed * 1000) : 0,
                .size = json_integer_or(detail, "imageSizeInBytes", 0),
                .media_type = arena_strdup(arena, json_text(detail, "imageManifestMediaType")),
                .expires_ms = ECR_NEVER,
        };
        json_array_foreach (tags, i, tag) {
                if (json_is_string(tag))
                        ret->tags[ret->tag_count++] = arena_strdup(arena, json_string_value(tag));
        }
}

static void append_page(const json_t *details, struct arena *arena, struct ecr_image **images,
                        size_t *count) {
        const json_t *detail;
        size_t i;

        json_array_foreach (details, i, detail) {
                /* An image without a digest can be neither run nor named. */
                if (!json_text(detail, "imageDigest"))
                        continue;
                *images = array_grow(arena, *images, *count, sizeof(**images));
                read_image(detail, arena, &(*images)[(*count)++]);
        }
}

int ecr_list_images(struct provider *provider, const char *repository, struct arena *arena,
                    struct ecr_image **ret, size_t *ret_count, struct error *err) {
        struct ecr_image *images = NULL;
        struct aws_paging paging = { 0 };
        size_t count = 0;

        do {
                struct aws_request request = ecr_describe_images(repository, paging.token, arena);
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;

                if (aws_call(provider->client, &request, &response, err) < 0) {
                        if (aws_failed_with(&response, "RepositoryNotFoundException"))
                                return error_set_kind(err, ERROR_NOT_FOUND,
                                                      "the repository %s does not exist in %s", repository,
                                                      ecr_registry(provider, arena));
                        return -1;
                }
                append_page(json_object_get(response.json, "imageDetails"), arena, &images, &count);
                if (aws_next_page(&response, "nextToken", &paging, arena, err) < 0)
                        return -1;
        } while (paging.token);
        *ret = images;
        *ret_count = count;
        return 0;
}

static int newest_first(const void *a, const void *b) {
        int64_t left = (*(struct ecr_image *const *)a)->pushed_ms,
                right = (*(struct ecr_image *const *)b)->pushed_ms;

        return left == right ? 0 : left > right ? -1 : 1;
}

/*
 * Newest first, those of one moment are a group. Where the group ends beyond the last that is kept, any of its images may be
 * the one that goes, so that all of them are said to.
 */
static void expire_all_but_last(struct ecr_image *images, size_t count, int64_t last, struct arena *arena) {
        struct ecr_image **tagged = arena_array(arena, count + 1, sizeof(*tagged));
        size_t tagged_count = 0;

        for (size_t i = 0; i < count; i++) {
                if (images[i].tag_count > 0)
                        tagged[tagged_count++] = &images[i];
        }
        qsort(tagged, tagged_count, sizeof(struct ecr_image *), newest_first);
        for (size_t start = 0, end; start < tagged_count; start = end) {
                end = start + 1;
                while (end < tagged_count && tagged[end]->pushed_ms == tagged[start]->pushed_ms)
                        end++;
                for (size_t i = start; i < end && end > (size_t)last; i++)
                        tagged[i]->expires_ms = 0;
        }
}

/* A policy may say any number of days; ECR takes fewer. */
static int64_t days_after(int64_t since_ms, int64_t days) {
        int64_t span, sum;

        return __builtin_mul_overflow(days, DAY_MS, &span) || __builtin_add_overflow(since_ms, span, &sum)
                       ? ECR_NEVER
                       : sum;
}

void ecr_lifecycle_evaluate(const struct value *retain, struct ecr_image *images, size_t count,
                            struct arena *arena) {
        int64_t days = value_get_integer(retain, "untaggedDays", 0),
                last = value_get_integer(retain, "lastTagged", 0);

        for (size_t i = 0; i < count; i++) {
                images[i].expires_ms = ECR_NEVER;
                if (days > 0 && images[i].tag_count == 0)
                        images[i].expires_ms = days_after(images[i].pushed_ms, days);
        }
        if (last > 0)
                expire_all_but_last(images, count, last, arena);
}
