/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Berth evaluates the rules itself. ECR's lifecycle preview tells only what would go today, while an image that a rule ends
 * in two weeks is lost as surely; and of the two kinds of rule that `retain` makes, what goes today is part of what this
 * evaluation finds: images pushed in the same moment, of which ECR keeps some, count as gone here.
 */
#include "providers/aws/image/image_guard.h"

#include "base/array.h"
#include "providers/aws/client/texts.h"
#include "providers/aws/image/image.h"
#include "providers/aws/registry/ecr_lifecycle.h"
#include "providers/aws/registry/ecr_uri.h"
#include "providers/aws/registry/image_use.h"
#include "providers/aws/shared/stage.h"

#include <string.h>

/*
 * A new or changed rule against the images that environments run. Both rules are evaluated over the same list: a rule that
 * lets an image live longer than the one in force does is no harm, though it still ends it.
 */
static int refuse_rules(struct provider *provider, struct change *change, const char *repository,
                        struct arena *arena, struct error *err) {
        const struct value *retain = value_get(change->desired, "retain"),
                           *in_force = value_get(change->observed->spec, "retain");
        const char *registry = ecr_registry(provider, arena), **dependents = NULL;
        struct strbuf doomed STRBUF_CLEANUP = STRBUF_INIT;
        struct ecr_image *images, *before;
        size_t count, doomed_count = 0, dependent_count = 0;
        struct error failure;

        if (ecr_list_images(provider, repository, arena, &images, &count, &failure) < 0) {
                if (failure.kind == ERROR_NOT_FOUND)
                        return 0;
                *err = failure;
                return -1;
        }
        before = arena_array(arena, count + 1, sizeof(*before));
        if (count)
                memcpy(before, images, count * sizeof(*before));
        ecr_lifecycle_evaluate(in_force, before, count, arena);
        ecr_lifecycle_evaluate(retain, images, count, arena);
        for (size_t i = 0; i < count; i++) {
                const char **users;
                size_t user_count;

                if (!image_is_used(provider, repository, images[i].digest) ||
                    images[i].expires_ms == ECR_NEVER || before[i].expires_ms < images[i].expires_ms)
                        continue;
                strbuf_printf(&doomed, "%s%s", doomed_count++ ? "; " : "",
                              image_fate(provider, &images[i], arena));
                users = image_users(provider, repository, images[i].digest, false, arena, &user_count);
                for (size_t k = 0; k < user_count; k++) {
                        dependents = array_grow(arena, dependents, dependent_count, sizeof(*dependents));
                        dependents[dependent_count++] = users[k];
                }
        }
        if (doomed_count == 0)
                return 0;
        aws_refuse(
                change,
                (struct refusal){
                        .id = "image-in-use",
                        .message = arena_printf(arena,
                                                "the retain rule of %s would delete %zu %s that "
                                                "environments run: %s",
                                                repository, doomed_count,
                                                doomed_count == 1 ? "image" : "images", strbuf_text(&doomed)),
                        .remedy = arena_printf(
                                arena,
                                "keep more (untaggedDays, lastTagged); or give an untagged one a tag: "
                                "skopeo copy --preserve-digests docker://%s/%s@DIGEST docker://%s/%s:TAG; "
                                "or point the environments at another image, and apply that first",
                                registry, repository, registry, repository),
                        .dependents = dependents,
                        .dependent_count = texts_sort_unique(dependents, dependent_count),
                },
                arena);
        return 0;
}

static void refuse_release(const struct provider *provider, struct change *change, struct arena *arena) {
        const char *repository = image_released(change);
        const char **named;
        size_t count;

        if (!repository || !image_releases_repository(change))
                return;
        named = image_users(provider, repository, NULL, true, arena, &count);
        if (count == 0)
                return;
        aws_refuse(change,
                   (struct refusal){
                           .id = "image-in-use",
                           .message = arena_printf(
                                   arena,
                                   "%zu %s %s images of the repository %s, which this stack made and would "
                                   "give up",
                                   count, count == 1 ? "environment" : "environments",
                                   count == 1 ? "runs" : "run", repository),
                           .remedy = arena_printf(
                                   arena,
                                   "point them at another image and apply that first, or remove "
                                   "them too; or give the repository up, and its images stay there: --allow "
                                   "image-in-use:%s",
                                   change->address),
                           .dependents = named,
                           .dependent_count = count,
                   },
                   arena);
}

int image_guard_rules(struct provider *provider, struct change *change, struct arena *arena,
                      struct error *err) {
        const char *repository = value_get_text(change->desired, "repository");

        refuse_release(provider, change, arena);
        if (change->action == ACTION_DELETE || !change->observed->exists || !repository ||
            !value_get(change->desired, "retain") ||
            (!change_touches(change, "retain") && !change_touches(change, "repository")) ||
            !image_is_used(provider, repository, NULL))
                return 0;
        return refuse_rules(provider, change, repository, arena, err);
}
