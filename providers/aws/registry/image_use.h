/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which images environments run, and which of them a declared `retain` deletes: what the kinds Image and Environment must
 * know of each other.
 *
 * Observing fills it in for the whole plan: image_observe() the rules that the manifests declare, environment_observe()
 * the digests in use. ask() then compares the two. Images are observed before environments.
 */
#ifndef BERTH_PROVIDERS_AWS_REGISTRY_IMAGE_USE_H
#define BERTH_PROVIDERS_AWS_REGISTRY_IMAGE_USE_H

#include "providers/aws/registry/ecr_lifecycle.h"
#include "providers/aws/shared/aws_provider.h"

/*
 * The digests in use are noted again at each observation. NULL digests and repositories are left
 * out; `stays` where a manifest declares the environment, which is then not on its way out.
 */
void image_uses_forget(struct provider *provider);
void image_use(struct provider *provider, const char *environment, const char *repository, const char *digest,
               bool stays);

/* A declared `retain`; `in_force` where the repository has it already. */
void image_retains_forget(struct provider *provider);
void image_retain(struct provider *provider, const char *repository, const struct value *retain,
                  bool in_force);
/* After how many days untagged images of the repository go by a declared rule; 0: never. */
int64_t image_untagged_days(const struct provider *provider, const char *repository);

/* Whether an environment runs the digest, or any of the repository where that is NULL. */
bool image_is_used(const struct provider *provider, const char *repository, const char *digest);
/* Addresses of the environments that do so, sorted, each once; with `staying_only` those that a manifest declares. */
const char **image_users(const struct provider *provider, const char *repository, const char *digest,
                         bool staying_only, struct arena *arena, size_t *ret_count);

/*
 * The image, where a declared rule that is in force already deletes it, now or as it ages; else *ret is NULL. The list of
 * the repository's images is read once for the plan, which `arena` must outlive.
 */
int image_rule_dooms(struct provider *provider, const char *repository, const char *digest,
                     struct arena *arena, const struct ecr_image **ret, struct error *err) MUST_USE;
/* "sha256:... now (untagged, pushed 2026-01-31)": when it goes. */
const char *image_fate(const struct provider *provider, const struct ecr_image *image, struct arena *arena);

#endif
