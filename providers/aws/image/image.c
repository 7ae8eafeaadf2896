/* SPDX-License-Identifier: Apache-2.0 */
/* The Image kind on AWS: its table, what is desired, and what stands against a change. */
#include "providers/aws/image/image.h"

#include "base/json.h"
#include "providers/aws/client/texts.h"
#include "providers/aws/image/image_guard.h"
#include "providers/aws/registry/ecr_uri.h"
#include "providers/aws/services/ecr.h"
#include "providers/aws/shared/aws_tags.h"

#include <stdlib.h>
#include <string.h>

const char *image_repository(const struct provider *provider, const struct value *spec, struct arena *arena) {
        return ecr_repository_known_as(provider, value_get_text(spec, "registry"),
                                       value_get_text(spec, "repository"), arena);
}

struct value image_sorted_tags(const struct value *tags, struct arena *arena) {
        struct value sorted = value_copy(arena, tags);

        if (sorted.count > 1)
                qsort(sorted.items, sorted.count, sizeof(*sorted.items), texts_compare);
        return sorted;
}

static int image_desire(const struct provider *provider, const struct resource *resource,
                        const struct observation *observed, const struct value *recorded, struct arena *arena,
                        struct value **ret, struct error *err) {
        static const char *const as_written[] = { "repository",       "tag",        "digest",
                                                  "createRepository", "scanOnPush", "immutableTags",
                                                  "mutableTags",      "retain",     NULL };
        struct value *spec = value_new_map(arena);

        (void)observed;
        (void)recorded;
        (void)err;
        aws_copy_members(spec, resource->spec, as_written, arena);
        if (value_get(spec, "mutableTags"))
                value_set(arena, spec, "mutableTags",
                          image_sorted_tags(value_get(spec, "mutableTags"), arena));
        value_set_text(arena, spec, "repository", image_repository(provider, resource->spec, arena));
        if (value_get_boolean(spec, "createRepository", false))
                value_set(arena, spec, "tags",
                          *aws_tags_of(provider, resource->kind->name, resource->name, resource->labels,
                                       arena));
        *ret = spec;
        return 0;
}

static bool both_differ(const char *a, const char *b) {
        return a && b && strcmp(a, b) != 0;
}

const char *image_released(const struct change *change) {
        const char *recorded = value_get_text(change->recorded, "repository");

        if (change->action == ACTION_DELETE)
                return recorded ? recorded : value_get_text(change->observed->spec, "repository");
        return both_differ(recorded, value_get_text(change->desired, "repository")) ? recorded : NULL;
}

bool image_releases_repository(const struct change *change) {
        if (!image_released(change))
                return false;
        if (change->recorded)
                return value_get_boolean(change->recorded, "createRepository", false);
        /* Left by a run that died before it could record: its tags say that Berth made it. */
        return value_get(change->observed->spec, "tags") && change->observed->ownership == OWNER_SELF;
}

/* There is nothing to create: without createRepository the settings are those of a repository that must be there. */
static void refuse_missing(const struct provider *provider, struct change *change, struct arena *arena) {
        const char *repository = value_get_text(change->desired, "repository");

        aws_refuse(change,
                   (struct refusal){
                           .id = "image-unusable",
                           .message = arena_printf(arena, "the repository %s does not exist in %s",
                                                   repository, ecr_registry(provider, arena)),
                           .remedy = arena_printf(
                                   arena,
                                   "set createRepository: true, or make it: aws ecr create-repository "
                                   "--region %s --repository-name %s",
                                   provider->region, repository),
                   },
                   arena);
}

/* A lifecycle policy is one document: to set ours is to throw away another's. */
static void refuse_foreign_policy(struct change *change, struct arena *arena) {
        const struct value *found = value_get(change->observed->spec, "retain");
        const struct value *wanted = value_get(change->desired, "retain");

        if (!wanted || !found || found->count == 0 || value_equal(found, wanted, NULL))
                return;
        if (value_get(change->recorded, "retain") && !image_released(change))
                return;
        aws_refuse(change,
                   (struct refusal){
                           .id = "not-owned",
                           .message = arena_printf(
                                   arena,
                                   "the repository %s has a lifecycle policy that this stack did "
                                   "not put there",
                                   value_get_text(change->desired, "repository")),
                           .remedy = arena_printf(arena,
                                                  "leave retain out of the manifest, or replace that policy: "
                                                  "--allow not-owned:%s",
                                                  change->address),
                   },
                   arena);
}

/* For people: what will become of a repository that cannot be deleted. */
static int tell_if_repository_stays(struct provider *provider, struct change *change, struct arena *arena,
                                    struct error *err) {
        const char *repository = image_released(change);
        struct aws_request request = ecr_list_one_image(repository, arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct error failure;

        if (aws_call(provider->client, &request, &response, &failure) < 0) {
                if (aws_failed_with(&response, "RepositoryNotFoundException"))
                        return 0;
                *err = failure;
                return -1;
        }
        if (json_array_size(json_object_get(response.json, "imageIds")) > 0)
                change->reason =
                        arena_printf(arena,
                                     "the repository %s holds images: it is kept with them, and no longer "
                                     "this stack's",
                                     repository);
        return 0;
}

static int image_ask(struct provider *provider, struct change *change, struct arena *arena,
                     struct error *err) {
        if (change->action == ACTION_CREATE && !value_get_boolean(change->desired, "createRepository", false))
                refuse_missing(provider, change, arena);
        refuse_foreign_policy(change, arena);
        if (image_guard_rules(provider, change, arena, err) < 0)
                return -1;
        return image_releases_repository(change) ? tell_if_repository_stays(provider, change, arena, err) : 0;
}

static const char *const recorded_only[] = { "repository", "tag", "digest", "createRepository", NULL };
static const char *const free_maps[] = { "tags", NULL };

const struct kind_ops aws_image_ops = {
        .kind = KIND_IMAGE,
        .recorded_only = recorded_only,
        .free_maps = free_maps,
        .desire = image_desire,
        .cost = image_cost,
        .read_ahead = image_read_ahead,
        .page_size = 1000,
        .observe = image_observe,
        .ask = image_ask,
        .step = image_step,
};
