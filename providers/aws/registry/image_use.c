/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two lists in the provider's arena, made again by each plan: which environment runs which digest,
 * and which repository has which declared rule. They are short, or walked once a change that asks
 * for them, so that nothing is sorted but what people read. What a repository holds is read when
 * the first environment asks, and evaluated by the rule that is in force.
 */
#include "providers/aws/registry/image_use.h"

#include "base/array.h"
#include "providers/aws/client/texts.h"

#include <string.h>

struct image_use {
        const char *environment, *repository, *digest;
        bool stays;
        struct image_use *next;
};

struct image_rules {
        const char *repository;
        const struct value *retain;
        bool in_force;
        struct image_rules *next;
        /* What the repository holds, once it was asked for; the rules are evaluated. */
        bool listed;
        struct ecr_image *images;
        size_t count;
};

void image_uses_forget(struct provider *provider) {
        provider->image_uses = NULL;
}

void image_use(struct provider *provider, const char *environment, const char *repository, const char *digest,
               bool stays) {
        struct image_use *use;

        if (!repository || !digest)
                return;
        use = arena_alloc(provider->arena, sizeof(*use));
        *use = (struct image_use){
                .environment = arena_strdup(provider->arena, environment),
                .repository = arena_strdup(provider->arena, repository),
                .digest = arena_strdup(provider->arena, digest),
                .stays = stays,
                .next = provider->image_uses,
        };
        provider->image_uses = use;
}

void image_retains_forget(struct provider *provider) {
        provider->image_rules = NULL;
}

void image_retain(struct provider *provider, const char *repository, const struct value *retain,
                  bool in_force) {
        struct image_rules *rules = arena_alloc(provider->arena, sizeof(*rules));
        struct value *copy = arena_alloc(provider->arena, sizeof(*copy));

        *copy = value_copy(provider->arena, retain);
        *rules = (struct image_rules){
                .repository = arena_strdup(provider->arena, repository),
                .retain = copy,
                .in_force = in_force,
                .next = provider->image_rules,
        };
        provider->image_rules = rules;
}

/* Among declared ones: of a repository that no manifest declares Berth knows no rules. */
static struct image_rules *rules_of(const struct provider *provider, const char *repository) {
        for (struct image_rules *rules = provider->image_rules; rules; rules = rules->next) {
                if (texts_same(rules->repository, repository))
                        return rules;
        }
        return NULL;
}

int64_t image_untagged_days(const struct provider *provider, const char *repository) {
        const struct image_rules *rules = rules_of(provider, repository);

        return rules ? value_get_integer(rules->retain, "untaggedDays", 0) : 0;
}

/* Whether it is a use of the digest, or of any of the repository where that is NULL. */
static bool is_use_of(const struct image_use *use, const char *repository, const char *digest) {
        return texts_same(use->repository, repository) && (!digest || texts_same(use->digest, digest));
}

bool image_is_used(const struct provider *provider, const char *repository, const char *digest) {
        for (const struct image_use *use = provider->image_uses; use; use = use->next) {
                if (is_use_of(use, repository, digest))
                        return true;
        }
        return false;
}

const char **image_users(const struct provider *provider, const char *repository, const char *digest,
                         bool staying_only, struct arena *arena, size_t *ret_count) {
        const char **found = NULL;
        size_t count = 0;

        for (const struct image_use *use = provider->image_uses; use; use = use->next) {
                if (!is_use_of(use, repository, digest) || (staying_only && !use->stays))
                        continue;
                found = array_grow(arena, found, count, sizeof(*found));
                found[count++] = arena_printf(arena, "Environment/%s", use->environment);
        }
        *ret_count = texts_sort_unique(found, count);
        return found;
}

static const char *day_of(int64_t ms, struct arena *arena) {
        char text[32];

        clock_format(ms, text, sizeof(text));
        return arena_strndup(arena, text, 10);
}

const char *image_fate(const struct provider *provider, const struct ecr_image *image, struct arena *arena) {
        const struct clock *clock = aws_client_clock(provider->client);
        bool now = image->expires_ms <= clock->wall_ms(clock);

        return arena_printf(arena, "%s %s%s (%s%s, pushed %s)", image->digest, now ? "now" : "on ",
                            now ? "" : day_of(image->expires_ms, arena),
                            image->tag_count ? "tagged " : "untagged", image->tag_count ? image->tags[0] : "",
                            day_of(image->pushed_ms, arena));
}

int image_rule_dooms(struct provider *provider, const char *repository, const char *digest,
                     struct arena *arena, const struct ecr_image **ret, struct error *err) {
        struct image_rules *rules = rules_of(provider, repository);
        struct error failure;

        *ret = NULL;
        if (!rules || !rules->in_force || !digest)
                return 0;
        if (!rules->listed) {
                /* A repository that went since it was observed holds nothing that a rule could delete. */
                if (ecr_list_images(provider, repository, arena, &rules->images, &rules->count, &failure) <
                            0 &&
                    failure.kind != ERROR_NOT_FOUND) {
                        *err = failure;
                        return -1;
                }
                rules->listed = true;
                ecr_lifecycle_evaluate(rules->retain, rules->images, rules->count, arena);
        }
        for (size_t i = 0; i < rules->count && !*ret; i++) {
                if (texts_same(rules->images[i].digest, digest) && rules->images[i].expires_ms != ECR_NEVER)
                        *ret = &rules->images[i];
        }
        return 0;
}
