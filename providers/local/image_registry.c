/* SPDX-License-Identifier: Apache-2.0 */
/* The provider's table of operations on images: each finds the store and calls the module that does the work. */
#include "providers/local/images/image_runtime.h"
#include "providers/local/images/local_catalog.h"
#include "providers/local/images/local_image_build.h"
#include "providers/local/images/local_image_import.h"
#include "providers/local/images/local_image_instructions.h"
#include "providers/local/local_image_remove.h"
#include "providers/local/provider_local.h"

static const char *store_of(const struct provider *provider, struct arena *arena) {
        return local_images_folder(provider->root, value_get(provider->stack, "local"), arena);
}

static int list_images(struct provider *provider, const char *repository, struct arena *arena,
                       struct image_row **ret, size_t *ret_count, struct error *err) {
        return local_catalog_list(store_of(provider, arena), repository, arena, ret, ret_count, err);
}

static int registry_check(struct provider *provider, const char *reference, struct arena *arena,
                          struct image_row *ret, struct error *err) {
        return local_catalog_check(store_of(provider, arena), reference, arena, ret, err);
}

static int make_instructions(struct provider *provider, const struct manifests *manifests,
                             const char *repository, struct arena *arena, struct image_instructions *ret,
                             struct error *err) {
        return local_instructions(store_of(provider, arena), manifests, repository, arena, ret, err);
}

static int registry_import(struct provider *provider, const char *name, const char *path, struct arena *arena,
                           struct image_row *ret, struct error *err) {
        return local_image_import(store_of(provider, arena), name, path, arena, ret, err);
}

static int build_image(struct provider *provider, const struct image_build_request *request,
                       struct arena *arena, struct image_row *ret, struct error *err) {
        return local_image_build(store_of(provider, arena), request, arena, ret, err);
}

static int registry_add_runtime(struct provider *provider, const struct image_runtime_request *request,
                                struct arena *arena, struct image_row *ret, struct error *err) {
        return local_image_runtime(store_of(provider, arena), request, arena, ret, err);
}

static int remove_image(struct provider *provider, const char *reference, struct arena *arena,
                        struct image_row *ret, struct error *err) {
        return local_image_remove(provider->root, store_of(provider, arena), reference, arena, ret, err);
}

static int prune_images(struct provider *provider, bool remove, struct arena *arena, struct image_row **ret,
                        size_t *ret_count, struct error *err) {
        return local_image_prune(provider->root, store_of(provider, arena), remove, arena, ret, ret_count,
                                 err);
}

const struct image_ops local_image_registry = {
        .list = list_images,
        .check = registry_check,
        .instructions = make_instructions,
        .import = registry_import,
        .build = build_image,
        .add_runtime = registry_add_runtime,
        .remove = remove_image,
        .prune = prune_images,
};
