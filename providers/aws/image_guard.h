/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The refusal image-in-use: no rule of this stack deletes an image that one of its environments runs, now or when the
 * image has aged, and no repository is let go of while they run what it holds.
 *
 * Observing fills in what is known for the whole plan: image_observe() the rules that the manifests declare,
 * environment_observe() the digests in use. ask() then compares the two. Images are observed before environments.
 */
#ifndef BERTH_PROVIDERS_AWS_IMAGE_GUARD_H
#define BERTH_PROVIDERS_AWS_IMAGE_GUARD_H

#include "providers/aws/provider_aws.h"

/*
 * The digests in use are noted anew at each observation. NULL digests and repositories are left out; `stays` where a
 * manifest declares the environment, which is then not on its way out.
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

/* For an Image: a rule that is new or changed, a repository let go of. */
int image_guard_rules(struct provider *provider, struct change *change, struct arena *arena,
                      struct error *err) MUST_USE;
/* For an Environment that will run another digest: the rules that are in force already. */
int image_guard_digest(struct provider *provider, struct change *change, struct arena *arena,
                       struct error *err) MUST_USE;

#endif
