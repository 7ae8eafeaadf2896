/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading repositories by lists: settings from DescribeRepositories, tags from the tag index. Lifecycle policies are in
 * no list; a few are read each time, many only where nothing is known of them yet, or by a full refresh.
 */
#include "base/array.h"
#include "base/json.h"
#include "base/sorted.h"
#include "providers/aws/image/image.h"
#include "providers/aws/registry/ecr_uri.h"
#include "providers/aws/registry/image_use.h"
#include "providers/aws/services/ecr.h"
#include "providers/aws/services/tagging.h"
#include "providers/aws/shared/aws_tags.h"
#include "providers/aws/shared/lineage.h"

#include <stdlib.h>
#include <string.h>

/* So many lifecycle policies are read in a sweep, however well known. */
#define POLICIES_ALWAYS 8

struct sight {
        const struct wanted *wanted;
        const char *repository;
        /*
         * in another registry, where nothing is Berth's: only environments' images are looked at
         * there
         */
        bool elsewhere;
        bool owns; /* createRepository, now or when it was applied */
        bool found;
        bool scan_on_push, immutable_tags;
        const struct value *mutable_tags; /* exceptions to immutable_tags; NULL: no exceptions */
        const struct value *tags;         /* as the repository has them; NULL: not read */
        const struct value *retain;       /* NULL: no policy, or not read */
};

struct sweep {
        struct provider *provider;
        const struct observe_args *args;
        struct arena *arena;
        struct sight *sights;  /* in the order of `wanted` */
        struct sight **sorted; /* by repository */
        const char **listed;   /* the names of all repositories */
        size_t listed_count;
};

static int by_repository(const void *a, const void *b) {
        return strcmp((*(struct sight *const *)a)->repository, (*(struct sight *const *)b)->repository);
}

/* Which repository each Image stands for: by the manifest, else as it was recorded, else as it was last seen. */
static void prepare_sights(struct sweep *sweep) {
        for (size_t i = 0; i < sweep->args->count; i++) {
                const struct wanted *wanted = &sweep->args->wanted[i];
                const struct value *desired = wanted->desired ? wanted->desired->spec : NULL;
                const char *repository = desired ? image_repository(sweep->provider, desired, sweep->arena)
                                                 : value_get_text(wanted->recorded, "repository");

                if (!repository && wanted->last)
                        repository = value_get_text(wanted->last->spec, "repository");
                sweep->sights[i] = (struct sight){
                        .wanted = wanted,
                        .repository = repository ? repository : "",
                        .elsewhere = (desired || wanted->recorded) && repository &&
                                     ecr_registry_in_front(repository),
                        .owns = value_get_boolean(desired, "createRepository", false) ||
                                value_get_boolean(wanted->recorded, "createRepository", false),
                };
                if (sweep->sights[i].elsewhere)
                        sweep->sights[i].owns = false;
                sweep->sorted[i] = &sweep->sights[i];
        }
        qsort(sweep->sorted, sweep->args->count, sizeof(struct sight *), by_repository);
}

static int compare_to_repository(const void *name, const void *item) {
        return strcmp(name, (*(struct sight *const *)item)->repository);
}

/* The index lags behind deletions: only what ECR itself lists is there. */
static bool lists_repository(const struct sweep *sweep, const char *name) {
        for (size_t i = 0; i < sweep->listed_count; i++) {
                if (strcmp(sweep->listed[i], name) == 0)
                        return true;
        }
        return false;
}

/* Two Images may stand for one repository. */
static void note_repository(struct sweep *sweep, const json_t *repository) {
        const char *name = json_text(repository, "repositoryName");
        const json_t *scanning = json_object_get(repository, "imageScanningConfiguration");
        size_t at;

        if (!name)
                return;
        sweep->listed = array_grow(sweep->arena, sweep->listed, sweep->listed_count, sizeof(*sweep->listed));
        sweep->listed[sweep->listed_count++] = arena_strdup(sweep->arena, name);
        at = sorted_first(sweep->sorted, sweep->args->count, sizeof(struct sight *), name,
                          compare_to_repository);
        for (; at < sweep->args->count && strcmp(sweep->sorted[at]->repository, name) == 0; at++) {
                struct sight *sight = sweep->sorted[at];

                if (sight->elsewhere)
                        continue;
                sight->found = true;
                sight->scan_on_push = json_is_true(json_object_get(scanning, "scanOnPush"));
                sight->immutable_tags = ecr_read_mutability(repository, sweep->arena, &sight->mutable_tags);
        }
}

static int list_repositories(struct sweep *sweep, struct error *err) {
        struct aws_paging paging = { 0 };

        do {
                struct aws_request request = ecr_describe_repositories(paging.token, sweep->arena);
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                const json_t *repository;
                size_t i;

                if (aws_call(sweep->provider->client, &request, &response, err) < 0)
                        return -1;
                json_array_foreach (json_object_get(response.json, "repositories"), i, repository)
                        note_repository(sweep, repository);
                if (aws_next_page(&response, "nextToken", &paging, sweep->arena, err) < 0)
                        return -1;
        } while (paging.token);
        return 0;
}

static struct value *tags_of_ours(const struct sweep *sweep, const struct sight *sight,
                                  const struct value *tags) {
        return aws_tags_of_ours(tags,
                                aws_tags_of(sweep->provider, "Image", sight->wanted->name,
                                            sight->wanted->desired ? sight->wanted->desired->labels : NULL,
                                            sweep->arena),
                                value_get(sight->wanted->recorded, "tags"), sweep->arena);
}

static int read_repository_tags(struct sweep *sweep, struct sight *sight, const char *arn,
                                struct error *err) {
        struct aws_request request = ecr_list_tags(arn, sweep->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;

        if (aws_call(sweep->provider->client, &request, &response, err) < 0)
                return -1;
        sight->tags = aws_tags_from_json(json_object_get(response.json, "tags"), sweep->arena);
        return 0;
}

/* Repositories that Berth made for Images which no manifest and no record of the state names. */
static void note_orphan_repositories(const struct sweep *sweep, const struct tagged_resource *resources,
                                     size_t count) {
        for (size_t i = 0; i < count; i++) {
                const char *name = value_get_text(resources[i].tags, "berth:name"),
                           *repository = strstr(resources[i].arn, ":repository/");
                size_t known = 0;

                if (!name || !repository || !aws_tags_name(resources[i].tags, "Image", name))
                        continue;
                while (known < sweep->args->count && strcmp(sweep->args->wanted[known].name, name) != 0)
                        known++;
                if (known == sweep->args->count && lists_repository(sweep, strchr(repository, '/') + 1))
                        lineage_orphan(sweep->provider,
                                       &(struct orphan){ .kind = KIND_IMAGE,
                                                         .name = name,
                                                         .id = resources[i].arn,
                                                         .lineage = aws_lineage_of(resources[i].tags) });
        }
}

/* The index lags: what it says is taken where it is what we last saw, and asked of ECR itself where it is not. */
static int find_tags(struct sweep *sweep, struct error *err) {
        struct tagged_resource *resources;
        size_t count, owned = 0;

        for (size_t i = 0; i < sweep->args->count; i++)
                owned += sweep->sights[i].found && sweep->sights[i].owns;
        if (owned == 0 && sweep->args->refresh != REFRESH_FULL)
                return 0;
        if (tagging_list(sweep->provider->client, "ecr:repository", sweep->provider->stack_name, sweep->arena,
                         &resources, &count, err) < 0)
                return -1;
        note_orphan_repositories(sweep, resources, count);
        for (size_t i = 0; i < sweep->args->count; i++) {
                struct sight *sight = &sweep->sights[i];
                const struct observation *last = sight->wanted->last;
                const char *arn = ecr_repository_arn(sweep->provider, sight->repository, sweep->arena);

                if (!sight->found || !sight->owns)
                        continue;
                sight->tags = tagging_find(resources, count, arn);
                if (sight->tags && last && last->spec && !sight->wanted->must_read &&
                    sweep->args->refresh == REFRESH_SWEEP &&
                    aws_tags_same(tags_of_ours(sweep, sight, sight->tags), value_get(last->spec, "tags")))
                        continue;
                if (read_repository_tags(sweep, sight, arn, err) < 0)
                        return -1;
        }
        return 0;
}

/* If `retain` is neither declared nor recorded, the repository's policy does not concern Berth. */
static bool wants_policy(const struct sight *sight) {
        const struct value *desired = sight->wanted->desired ? sight->wanted->desired->spec : NULL;

        return sight->found && (value_get(desired, "retain") || value_get(sight->wanted->recorded, "retain"));
}

static int read_lifecycle_policy(struct sweep *sweep, struct sight *sight, struct error *err) {
        struct aws_request request = ecr_get_lifecycle_policy(sight->repository, sweep->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct error failure;
        const char *text;

        if (aws_call(sweep->provider->client, &request, &response, &failure) < 0) {
                if (aws_failed_with(&response, "LifecyclePolicyNotFoundException"))
                        return 0;
                *err = failure;
                return -1;
        }
        text = json_text(response.json, "lifecyclePolicyText");
        if (text)
                sight->retain = image_policy_read(text, sweep->arena);
        return 0;
}

/* Whether the last sight of it will do, of as many that are wanted. */
static bool knows_policy(const struct sweep *sweep, const struct sight *sight, size_t wanted) {
        const struct observation *last = sight->wanted->last;

        return last && last->exists && value_get(last->spec, "retain") && !sight->wanted->must_read &&
               wanted > POLICIES_ALWAYS && sweep->args->refresh == REFRESH_SWEEP;
}

static int find_policies(struct sweep *sweep, struct error *err) {
        size_t wanted = 0;

        for (size_t i = 0; i < sweep->args->count; i++)
                wanted += wants_policy(&sweep->sights[i]);
        for (size_t i = 0; i < sweep->args->count; i++) {
                struct sight *sight = &sweep->sights[i];

                if (!wants_policy(sight))
                        continue;
                if (knows_policy(sweep, sight, wanted))
                        sight->retain = value_get(sight->wanted->last->spec, "retain");
                else if (read_lifecycle_policy(sweep, sight, err) < 0)
                        return -1;
        }
        return 0;
}

static void conclude_image(struct sweep *sweep, const struct sight *sight, struct observation *ret) {
        const struct observation *last = sight->wanted->last;
        struct value *spec;

        *ret = (struct observation){ .name = sight->wanted->name,
                                     .exists = sight->found || sight->elsewhere };
        if (!ret->exists)
                return;
        spec = value_new_map(sweep->arena);
        value_set_text(sweep->arena, spec, "repository", sight->repository);
        if (sight->found) {
                value_set_boolean(sweep->arena, spec, "scanOnPush", sight->scan_on_push);
                value_set_boolean(sweep->arena, spec, "immutableTags", sight->immutable_tags);
                if (sight->mutable_tags)
                        value_set(sweep->arena, spec, "mutableTags",
                                  image_sorted_tags(sight->mutable_tags, sweep->arena));
        }
        if (sight->retain)
                value_set(sweep->arena, spec, "retain", *sight->retain);
        /* Neither a manifest nor a record says who made it: its marks do. */
        if (sight->owns && !sight->wanted->desired && !sight->wanted->recorded)
                value_set_boolean(sweep->arena, spec, "createRepository", true);
        if (sight->owns)
                value_set(sweep->arena, spec, "tags", *tags_of_ours(sweep, sight, sight->tags));
        ret->id = ecr_repository_arn(sweep->provider, sight->repository, sweep->arena);
        ret->ownership = OWNER_SELF;
        ret->unmarked = !sight->owns;
        if (sight->owns)
                aws_set_ownership(sweep->provider,
                                  arena_printf(sweep->arena, "Image/%s", sight->wanted->name), sight->tags,
                                  sweep->arena, ret);
        if (sight->owns && sight->wanted->desired) {
                ret->over_quota = aws_too_many_tags(sight->tags,
                                                    aws_tags_of(sweep->provider, "Image", sight->wanted->name,
                                                                sight->wanted->desired->labels, sweep->arena),
                                                    sweep->arena);
                ret->over_quota_remedy = AWS_FEWER_TAGS;
        }
        ret->spec = last && value_equal(last->spec, spec, NULL) &&
                                    aws_tags_same(value_get(last->spec, "tags"), value_get(spec, "tags"))
                            ? last->spec
                            : spec;
}

/* The declared rules, for the guard of images in use. */
static void note_rules(struct provider *provider, const struct observe_args *args,
                       const struct observation *observations) {
        image_retains_forget(provider);
        for (size_t i = 0; i < args->count; i++) {
                const struct resource *desired = args->wanted[i].desired;
                const struct value *retain = desired ? value_get(desired->spec, "retain") : NULL;

                if (retain)
                        image_retain(provider, value_get_text(desired->spec, "repository"), retain,
                                     value_equal(retain, value_get(observations[i].spec, "retain"), NULL));
        }
}

static struct sweep prepare_sweep(struct provider *provider, const struct observe_args *args) {
        struct sweep sweep = { .provider = provider, .args = args, .arena = args->arena };

        sweep.sights = arena_array(args->arena, args->count + 1, sizeof(*sweep.sights));
        sweep.sorted = arena_array(args->arena, args->count + 1, sizeof(*sweep.sorted));
        prepare_sights(&sweep);
        return sweep;
}

/* A repository that existed the last time is assumed to exist. */
void image_read_ahead(struct provider *provider, const struct observe_args *args) {
        struct sweep sweep = prepare_sweep(provider, args);
        struct aws_request repositories = ecr_describe_repositories(NULL, args->arena);
        size_t owned = 0, wanted = 0;

        if (args->count == 0)
                return;
        aws_ahead_pages(provider->client, &repositories, ecr_next_page, NULL);
        for (size_t i = 0; i < args->count; i++) {
                struct sight *sight = &sweep.sights[i];

                sight->found = !sight->elsewhere && sight->wanted->last && sight->wanted->last->exists;
                owned += sight->found && sight->owns;
                wanted += wants_policy(sight);
        }
        if (owned > 0)
                tagging_read_ahead(provider->client, "ecr:repository", provider->stack_name, args->arena);
        for (size_t i = 0; i < args->count; i++) {
                const struct sight *sight = &sweep.sights[i];
                struct aws_request policy;

                if (!wants_policy(sight) || knows_policy(&sweep, sight, wanted))
                        continue;
                policy = ecr_get_lifecycle_policy(sight->repository, args->arena);
                aws_ahead(provider->client, &policy);
        }
}

/* For an orphan that is adopted, only its tags tell which repository it is. */
static int find_nameless(struct sweep *sweep, struct error *err) {
        struct tagged_resource *resources;
        size_t count, nameless = 0;

        for (size_t i = 0; i < sweep->args->count; i++)
                nameless += !*sweep->sights[i].repository;
        if (nameless == 0)
                return 0;
        if (tagging_list(sweep->provider->client, "ecr:repository", sweep->provider->stack_name, sweep->arena,
                         &resources, &count, err) < 0)
                return -1;
        for (size_t i = 0; i < sweep->args->count; i++) {
                struct sight *sight = &sweep->sights[i];

                for (size_t k = 0; k < count && !*sight->repository; k++) {
                        const char *name = strstr(resources[k].arn, ":repository/");

                        if (!name || !aws_tags_name(resources[k].tags, "Image", sight->wanted->name))
                                continue;
                        sight->repository = strchr(name, '/') + 1;
                        sight->owns = true;
                }
        }
        qsort(sweep->sorted, sweep->args->count, sizeof(struct sight *), by_repository);
        return 0;
}

int image_observe(struct provider *provider, const struct observe_args *args, struct observation *ret,
                  struct error *err) {
        struct sweep sweep;

        if (args->count == 0 && args->refresh != REFRESH_FULL)
                return 0;
        sweep = prepare_sweep(provider, args);
        if (find_nameless(&sweep, err) < 0 || list_repositories(&sweep, err) < 0 ||
            find_tags(&sweep, err) < 0 || find_policies(&sweep, err) < 0)
                return -1;
        for (size_t i = 0; i < args->count; i++)
                conclude_image(&sweep, &sweep.sights[i], &ret[i]);
        aws_warn_of_old_marks(provider, "Image", "tags", ret, args->count, args->arena);
        note_rules(provider, args, ret);
        return 0;
}
