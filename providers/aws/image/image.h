/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An Image as a repository in ECR: what the files image*.c share.
 *
 * image.c: the table, desire, ask. image_observe.c: reading by lists. image_step.c: changing. image_policy.c: `retain`
 * as a lifecycle policy. Tags to digests is ecr_resolve.c: environments run digests, each pinned on its own.
 *
 * With createRepository the repository itself is Berth's, by its tags. Without it only the settings given are: then
 * the repository counts as ours wherever it exists, and nothing but those settings is ever touched.
 */
#ifndef BERTH_PROVIDERS_AWS_IMAGE_IMAGE_H
#define BERTH_PROVIDERS_AWS_IMAGE_IMAGE_H

#include "providers/aws/shared/aws_provider.h"

extern const struct kind_ops aws_image_ops;

/* `retain` as the text of a lifecycle policy. Pure. */
const char *image_policy_text(const struct value *retain, struct arena *arena);
/*
 * A lifecycle policy as `retain`, whatever the order and the priorities of its rules; if `retain`
 * could not have made it, {policy: TEXT}. Pure.
 */
struct value *image_policy_read(const char *text, struct arena *arena);

void image_read_ahead(struct provider *provider, const struct observe_args *args);
int image_observe(struct provider *provider, const struct observe_args *args, struct observation *ret,
                  struct error *err);
int image_step(struct provider *provider, const struct change *change, struct progress *progress,
               struct observation *ret, struct error *err);
void image_cost(const struct provider *provider, const struct change *change, struct cost *ret);

/* Whether the change lets go of a repository that Berth had made: deletes it if it is empty. */
bool image_releases_repository(const struct change *change);
/* The repository that a change lets go of, wholly or its settings; NULL where it lets go of none. */
const char *image_released(const struct change *change);
/* The repository of a manifest's spec, as ecr_uri.h knows it. */
const char *image_repository(const struct provider *provider, const struct value *spec, struct arena *arena);

/* In one order: which one they stand in means nothing. */
struct value image_sorted_tags(const struct value *tags, struct arena *arena);

#endif
