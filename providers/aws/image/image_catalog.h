/* SPDX-License-Identifier: Apache-2.0 */
/* What people ask about the registry: what it holds, whether one image is of use, how to fill it. */
#ifndef BERTH_PROVIDERS_AWS_IMAGE_IMAGE_CATALOG_H
#define BERTH_PROVIDERS_AWS_IMAGE_IMAGE_CATALOG_H

#include "providers/aws/registry/ecr_reference.h"
#include "providers/aws/shared/aws_provider.h"
#include "providers/images.h"

extern const struct image_ops aws_image_registry;

/*
 * "REPOSITORY[:TAG|@DIGEST]", with or without the stack's own registry in front, or with another of ECR's, into repository, tag ("latest" where
 * nothing is said) and digest. Pure.
 */
int image_reference_parse(const struct provider *provider, const char *text, struct arena *arena,
                          struct ecr_reference *ret, struct error *err) MUST_USE;

/* image_instructions.c */
int image_instructions(struct provider *provider, const struct manifests *manifests, const char *repository,
                       struct arena *arena, struct image_instructions *ret, struct error *err) MUST_USE;
/* The recipes for targets whose `exists` is known. Pure. */
void image_recipes(const struct provider *provider, struct arena *arena, struct image_instructions *ret);

#endif
