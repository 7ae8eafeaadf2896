/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether Lambda would run an image: a verdict on its manifest, and on the configuration that the manifest names. The
 * rules themselves are every provider's: image_rules.h.
 *
 * A digest's content never changes, so that a verdict stands forever and is worth keeping: the
 * Environment keeps its own in observation.extra as {image: {digest, platform, runtime?, problem?,
 * seen?}}, and all of them together are the memory of the next run. Whether a name still leads to
 * that digest is another question, asked of ECR each time (ecr_resolve()).
 */
#ifndef BERTH_PROVIDERS_AWS_REGISTRY_ADMISSION_H
#define BERTH_PROVIDERS_AWS_REGISTRY_ADMISSION_H

#include "providers/aws/client/aws_json.h"
#include "providers/aws/registry/ecr_reference.h"
#include "providers/aws/shared/aws_provider.h"

/*
 * What one image of BatchGetImage's answer means: fills in digest, problem, seen, media_type, config and size. A
 * manifest without a problem is not yet a verdict: the platform stands in the configuration. Pure.
 */
void admission_judge_manifest(const json_t *image, struct ecr_reference *reference, struct arena *arena);

/* The configuration's bytes: fills in platform, runtime, problem, seen. Pure. */
void admission_judge_config(const char *bytes, size_t length, struct ecr_reference *reference,
                            struct arena *arena);

/* Verdicts of earlier runs, by digest. */
struct admission_memory {
        const struct value **verdicts; /* {digest, platform?, runtime?, problem?, seen?} */
        size_t count;
        /* why configurations cannot be fetched, once that has come up; it is not tried again */
        const char *unreachable;
        struct arena *arena;
};
/* Takes a verdict into the memory; NULL, and anything that is not a verdict, is left out. */
void admission_remember(struct admission_memory *memory, const struct value *verdict);
/* A verdict that stands forever, for keeping; NULL where the reference has none. */
const struct value *admission_verdict(const struct ecr_reference *reference, struct arena *arena);

/*
 * For each reference that ecr_resolve() found well: the verdict on its digest, from memory, or else
 * by GetDownloadUrlForLayer and a GET of the configuration, once a digest. A failure to read is a
 * problem of that reference ("denied", "unread") and no verdict; but where ECR's URLs lead to a
 * host that cannot be reached, as in a network without a way to S3, the image is `unverified` and
 * no more. References with `watched` set, and those that are unverified beforehand, are passed
 * over.
 */
int admission_check(struct provider *provider, struct ecr_reference *references, size_t count,
                    struct admission_memory *memory, struct arena *arena, struct error *err) MUST_USE;

/* What to do about the reference's problem, commands and all; several lines. */
const char *admission_remedy(const struct provider *provider, const char *repository, const char *tag,
                             const char *problem, struct arena *arena);
/* "docker buildx build --platform ... --push -t URI .": what makes an image that Lambda takes. */
const char *admission_build_command(const struct provider *provider, const char *repository, const char *tag,
                                    struct arena *arena);

#endif
