/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/image/image_guard.h"

#include "base/array.h"
#include "providers/aws/client/texts.h"
#include "providers/aws/image/image.h"
#include "providers/aws/registry/ecr_lifecycle.h"
#include "providers/aws/registry/ecr_preview.h"
#include "providers/aws/registry/ecr_uri.h"
#include "providers/aws/registry/image_use.h"
#include "providers/aws/shared/stages.h"

#include <string.h>

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
        const char **named = image_users(provider, repository, image->digest, false, arena, &count);

        strbuf_printf(&verdict->doomed, "%s%s", verdict->count++ ? "; " : "",
                      image_fate(provider, image, previewed, arena));
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

                if (!image_is_used(provider, repository, images[i].digest) ||
                    (!previewed && images[i].expires_ms == ECR_NEVER) ||
                    is_mended(&images[i], earlier[i].expires_ms))
                        continue;
                condemn(provider, repository, &images[i], previewed, arena, &verdict);
        }
        if (verdict.count > 0) {
                verdict.dependent_count = texts_sort_unique(verdict.dependents, verdict.dependent_count);
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
        named = image_users(provider, repository, NULL, true, arena, &count);
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
            !image_is_used(provider, repository, NULL))
                return 0;
        return judge_rules(provider, change, repository, arena, err);
}
