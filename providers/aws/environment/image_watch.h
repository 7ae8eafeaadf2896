/* SPDX-License-Identifier: Apache-2.0 */
/* Tags that have moved away from what environments are pinned to: nothing changes by it, but people are told. */
#ifndef BERTH_PROVIDERS_AWS_ENVIRONMENT_IMAGE_WATCH_H
#define BERTH_PROVIDERS_AWS_ENVIRONMENT_IMAGE_WATCH_H

#include "providers/aws/registry/ecr_reference.h"
#include "providers/aws/shared/aws_provider.h"

/* One environment that stays with `pinned` while its tag means `now`, or nothing (NULL). */
struct image_left {
        const char *repository, *tag, *pinned, *now;
        struct observation *observation;
};

struct image_watch {
        struct image_left *left;
        size_t count;
        struct arena *arena;
};

/* `pinned` NULL: this one is where its tag is. */
void image_watch_note(struct image_watch *watch, const struct ecr_reference *reference, const char *pinned,
                      struct observation *observation);
/* One warning for each tag and digest, on the first environment of those that it is about. */
void image_watch_warn(struct image_watch *watch, const struct provider *provider);

/*
 * Watched references are dropped, with their entry in `whose`, where looking at them would take more than a handful of
 * calls and no full refresh was asked for. Returns how many are left. Pure.
 */
size_t image_watch_affordable(struct ecr_reference *references, size_t *whose, size_t count, bool full,
                              struct arena *arena);

/*
 * Whether a digest that runs is still there, by what `reference` came to: if not, a drift of the observation that stays. `image`
 * is what the environment shall run.
 */
void image_watch_gone(const struct ecr_reference *reference, const struct value *image,
                      struct observation *observation, struct arena *arena);

#endif
