/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/image_guard.h"

#include "base/array.h"
#include "providers/aws/client/texts.h"
#include "providers/aws/ecr.h"
#include "providers/aws/ecr_lifecycle.h"
#include "providers/aws/ecr_preview.h"
#include "providers/aws/image.h"
#include "providers/aws/stages.h"

#include <stdlib.h>
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

static int compare_text(const void *a, const void *b) {
        return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorted, each once. Returns how many are left. */
static size_t sort_unique(const char **texts, size_t count) {
        size_t unique = 0;

        if (count > 1)
                qsort(texts, count, sizeof(*texts), compare_text);
        for (size_t i = 0; i < count; i++) {
                if (unique == 0 || strcmp(texts[unique - 1], texts[i]) != 0)
                        texts[unique++] = texts[i];
        }
        return unique;
}

/* Whether it is a use of the digest, or of any of the repository where that is NULL. */
static bool is_use_of(const struct image_use *use, const char *repository, const char *digest) {
        return texts_same(use->repository, repository) && (!digest || texts_same(use->digest, digest));
}

static bool is_used(const struct provider *provider, const char *repository, const char *digest) {
        for (const struct image_use *use = provider->image_uses; use; use = use->next) {
                if (is_use_of(use, repository, digest))
                        return true;
        }
        return false;
}

/* Addresses of the environments that do so, each once. */
static const char **users(const struct provider *provider, const char *repository, const char *digest,
                          bool staying_only, struct arena *arena, size_t *ret_count) {
        const char **found = NULL;
        size_t count = 0;

        for (const struct image_use *use = provider->image_uses; use; use = use->next) {
                if (!is_use_of(use, repository, digest) || (staying_only && !use->stays))
                        continue;
                found = array_grow(arena, found, count, sizeof(*found));
                found[count++] = arena_printf(arena, "Environment/%s", use->environment);
        }
        *ret_count = sort_unique(found, count);
        return found;
}

static const char *day_of(int64_t ms, struct arena *arena) {
        char text[32];

        clock_format(ms, text, sizeof(text));
        return arena_strndup(arena, text, 10);
}

/* "sha256:... now (untagged, pushed 2026-01-31)" */
static const char *fate(const struct provider *provider, const struct ecr_image *image, bool previewed,
                        struct arena *arena) {
        const struct clock *clock = aws_client_clock(provider->client);
        bool now = previewed || image->expires_ms <= clock->wall_ms(clock);

        return arena_printf(arena, "%s %s%s (%s%s, pushed %s)", image->digest, now ? "now" : "on ",
                            now ? "" : day_of(image->expires_ms, arena),
                            image->tag_count ? "tagged " : "untagged", image->tag_count ? image->tags[0] : "",
                            day_of(image->pushed_ms, arena));
}

/* A rule that is in force and dooms it sooner is no better for being kept. */
static bool is_mended(const struct ecr_image *image, int64_t before_ms) {
        return before_ms < image->expires_ms;
}

struct verdict {
        struct strbuf doomed;
        const char **dependents;
        size_t count, dependent_count;
        bool previewed; /* ECR itself named one of them */
};

static void condemn(const struct provider *provider, const char *repository, const struct ecr_image *image,
                    bool previewed, struct arena *arena, struct verdict *verdict) {
        size_t count;
        const char **named = users(provider, repository, image->digest, false, arena, &count);

        strbuf_printf(&verdict->doomed, "%s%s", verdict->count++ ? "; " : "",
                      fate(provider, image, previewed, arena));
        verdict->previewed |= previewed;
        for (size_t i = 0; i < count; i++) {
                verdict->dependents = array_grow(arena, verdict->dependents, verdict->dependent_count,
                                                 sizeof(*verdict->dependents));
                verdict->dependents[verdict->dependent_count++] = named[i];
        }
}

static void refuse_rules(const struct provider *provider, struct change *change, const char *repository,
                         const struct verdict *verdict, const struct ecr_preview *preview,
                         struct arena *arena) {
        const char *registry = ecr_registry(provider, arena);
        const char *source =
                preview->missing
                        ? arena_printf(arena,
                                       "by Berth's own evaluation of the rules, as ECR gave no preview: %s",
                                       preview->missing)
                : verdict->previewed ? "by ECR's own preview, and Berth's evaluation of what ages"
                                     : "by Berth's own evaluation of what ages; ECR's preview deletes none "
                                       "of them today";

        aws_refuse(change,
                   (struct refusal){
                           .id = "image-in-use",
                           .message = arena_printf(arena,
                                                   "the retain rule of %s would delete %zu %s that "
                                                   "environments run: %s (%s)",
                                                   repository, verdict->count,
                                                   verdict->count == 1 ? "image" : "images",
                                                   strbuf_text(&verdict->doomed), source),
                           .remedy = arena_printf(
                                   arena,
                                   "keep more (untaggedDays, lastTagged); or give an untagged one a tag: "
                                   "skopeo copy --preserve-digests docker://%s/%s@DIGEST docker://%s/%s:TAG; "
                                   "or point the environments at another image, and apply that first",
                                   registry, repository, registry, repository),
                           .dependents = verdict->dependents,
                           .dependent_count = verdict->dependent_count,
                   },
                   arena);
}

static int judge_rules(struct provider *provider, struct change *change, const char *repository,
                       struct arena *arena, struct error *err) {
        const struct value *retain = value_get(change->desired, "retain"),
                           *before = value_get(change->observed->spec, "retain");
        struct verdict verdict = { .doomed = STRBUF_INIT };
        struct ecr_preview preview;
        struct ecr_image *images, *earlier;
        size_t count;
        struct error failure;

        if (ecr_list_images(provider, repository, arena, &images, &count, &failure) < 0) {
                if (failure.kind == ERROR_NOT_FOUND)
                        return 0;
                *err = failure;
                return -1;
        }
        if (ecr_preview(provider, repository, image_policy_text(retain, arena), arena, &preview, err) < 0)
                return -1;
        earlier = arena_array(arena, count + 1, sizeof(*earlier));
        if (count)
                memcpy(earlier, images, count * sizeof(*earlier));
        ecr_lifecycle_evaluate(before, earlier, count, arena);
        ecr_lifecycle_evaluate(retain, images, count, arena);
        for (size_t i = 0; i < count; i++) {
                bool previewed = ecr_preview_deletes(&preview, images[i].digest);

                if (!is_used(provider, repository, images[i].digest) ||
                    (!previewed && images[i].expires_ms == ECR_NEVER) ||
                    is_mended(&images[i], earlier[i].expires_ms))
                        continue;
                condemn(provider, repository, &images[i], previewed, arena, &verdict);
        }
        if (verdict.count > 0) {
                verdict.dependent_count = sort_unique(verdict.dependents, verdict.dependent_count);
                refuse_rules(provider, change, repository, &verdict, &preview, arena);
        }
        strbuf_release(&verdict.doomed);
        return 0;
}

static void guard_release(const struct provider *provider, struct change *change, struct arena *arena) {
        const char *repository = image_released(change);
        const char **named;
        size_t count;

        if (!repository || !image_releases_repository(change))
                return;
        named = users(provider, repository, NULL, true, arena, &count);
        if (count == 0)
                return;
        aws_refuse(
                change,
                (struct refusal){
                        .id = "image-in-use",
                        .message = arena_printf(arena,
                                                "%zu %s %s what the repository %s holds, which this stack "
                                                "made and would let go of",
                                                count, count == 1 ? "environment" : "environments",
                                                count == 1 ? "runs" : "run", repository),
                        .remedy = arena_printf(arena,
                                               "point them at another image and apply that first, or remove "
                                               "them too; or let go of the repository, its images stay: "
                                               "--allow image-in-use:%s",
                                               change->address),
                        .dependents = named,
                        .dependent_count = count,
                },
                arena);
}

int image_guard_rules(struct provider *provider, struct change *change, struct arena *arena,
                      struct error *err) {
        const char *repository = value_get_text(change->desired, "repository");

        guard_release(provider, change, arena);
        if (change->action == ACTION_DELETE || !change->observed->exists || !repository ||
            !value_get(change->desired, "retain") ||
            (!change_touches(change, "retain") && !change_touches(change, "repository")) ||
            !is_used(provider, repository, NULL))
                return 0;
        return judge_rules(provider, change, repository, arena, err);
}

int image_guard_digest(struct provider *provider, struct change *change, struct arena *arena,
                       struct error *err) {
        const struct value *image = value_get(change->desired, "image");
        const char *repository = value_get_text(image, "repository"),
                   *digest = value_get_text(image, "digest");
        struct image_rules *rules = rules_of(provider, repository);
        struct error failure;

        if (!rules || !rules->in_force || !digest)
                return 0;
        if (!rules->listed) {
                if (ecr_list_images(provider, repository, arena, &rules->images, &rules->count, &failure) <
                    0) {
                        if (failure.kind == ERROR_NOT_FOUND)
                                return 0;
                        *err = failure;
                        return -1;
                }
                rules->listed = true;
                ecr_lifecycle_evaluate(rules->retain, rules->images, rules->count, arena);
        }
        for (size_t i = 0; i < rules->count; i++) {
                const struct ecr_image *found = &rules->images[i];

                if (!texts_same(found->digest, digest) || found->expires_ms == ECR_NEVER)
                        continue;
                aws_refuse(
                        change,
                        (struct refusal){
                                .id = "image-in-use",
                                .message = arena_printf(
                                        arena,
                                        "the repository's retain rule deletes the image that it shall run: "
                                        "%s (by Berth's own evaluation of the rules)",
                                        fate(provider, found, false, arena)),
                                .remedy = arena_printf(
                                        arena,
                                        "run an image that the rule keeps, or let the rule of %s keep more, "
                                        "and apply that first",
                                        repository),
                        },
                        arena);
        }
        return 0;
}
