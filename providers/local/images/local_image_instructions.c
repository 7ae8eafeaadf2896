/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/images/local_image_instructions.h"

#include "providers/image_rules.h"
#include "providers/local/images/image_index.h"
#include "providers/local/images/local_images.h"
#include "providers/local/images/local_reference.h"

#include <string.h>

/* Whether skopeo can find it by name: in an OCI layout it looks for manifests of OCI's type only. */
static bool is_found_by_skopeo(const char *store, const struct image_target *target, struct arena *arena) {
        struct local_images images;
        struct local_image found;
        struct error ignored;
        json_t *manifest JSON_CLEANUP = NULL;
        const char *type;

        if (local_images_open(store, arena, &images, &ignored) < 0 ||
            !local_image_find(&images, target->repository, target->tag, NULL, arena, &found))
                return false;
        manifest = image_index_manifest(store, found.digest);
        type = json_text(manifest, "mediaType");
        return manifest && (!type || strcmp(type, image_rules_oci_manifest) == 0);
}

static void add_recipes(struct image_instructions *instructions, const struct image_target *target,
                        struct arena *arena) {
        const char *import = arena_printf(arena, "berth image import %s image.tar", target->uri);
        const char *repository = target->repository;
        struct image_recipe *recipe;

        if (strncmp(repository, "prebuilt/", 9) == 0) {
                recipe = image_recipe_add(instructions, arena, "berth", repository,
                                          "make it from Debian's packages");
                image_recipe_command(recipe, arena, "berth image build %s", repository + 9);
        }
        recipe = image_recipe_add(instructions, arena, "docker", repository, "build and import");
        image_recipe_command(recipe, arena, "%s", local_build_command);
        image_recipe_command(recipe, arena, "%s", import);
        recipe = image_recipe_add(instructions, arena, "podman", repository, "build and import");
        image_recipe_command(recipe, arena, "podman build --platform linux/amd64 -t %s .", target->uri);
        image_recipe_command(recipe, arena, "podman save --format oci-archive -o image.tar %s", target->uri);
        image_recipe_command(recipe, arena, "%s", import);
        recipe = image_recipe_add(instructions, arena, "skopeo", repository,
                                  "import an image from a registry: SOURCE is REGISTRY/REPOSITORY:TAG");
        image_recipe_command(recipe, arena,
                             "skopeo copy --override-os linux --override-arch amd64 docker://SOURCE "
                             "oci-archive:image.tar");
        image_recipe_command(recipe, arena, "%s", import);
        if (!target->exists || !is_found_by_skopeo(instructions->registry, target, arena))
                return;
        recipe = image_recipe_add(instructions, arena, "skopeo", repository,
                                  "push it from here to a registry: TARGET is REGISTRY/REPOSITORY:TAG");
        image_recipe_command(recipe, arena,
                             "skopeo copy --dest-compress-format gzip oci:%s:%s docker://TARGET",
                             instructions->registry, target->uri);
}

static void add_target(struct image_instructions *instructions, const struct local_images *images,
                       const char *repository, const char *tag, struct arena *arena) {
        struct local_image found;

        if (image_target_is_listed(instructions, repository, tag))
                return;
        instructions->targets[instructions->target_count++] = (struct image_target){
                .repository = repository,
                .tag = tag,
                .uri = arena_printf(arena, "%s:%s", repository, tag),
                .exists = local_image_find(images, repository, tag, NULL, arena, &found),
        };
}

/* The images that the manifests' environments name by tag; prebuilt/python without any. */
static void add_targets(const struct manifests *manifests, const struct local_images *images,
                        struct arena *arena, struct image_instructions *ret) {
        for (size_t i = 0; i < manifests->count; i++) {
                const struct resource *resource = &manifests->resources[i];
                struct local_image_name name;

                if (resource->kind->id != KIND_ENVIRONMENT)
                        continue;
                name = local_image_name(value_get(resource->spec, "image"), arena);
                if (name.repository && name.tag)
                        add_target(ret, images, name.repository, name.tag, arena);
        }
        if (ret->target_count == 0)
                add_target(ret, images, "prebuilt/python", "latest", arena);
}

int local_instructions(const char *store, const struct manifests *manifests, const char *repository,
                       struct arena *arena, struct image_instructions *ret, struct error *err) {
        struct image_instructions instructions = { .registry = store };
        struct local_reference reference = { 0 };
        struct local_images images;

        if ((repository && local_reference_parse(repository, arena, &reference, err) < 0) ||
            local_images_open(store, arena, &images, err) < 0)
                return -1;
        instructions.targets = arena_array(arena, manifests->count + 1, sizeof(*instructions.targets));
        if (repository)
                add_target(&instructions, &images, reference.repository,
                           reference.tag ? reference.tag : "latest", arena);
        else
                add_targets(manifests, &images, arena, &instructions);
        for (size_t i = 0; i < instructions.target_count; i++)
                add_recipes(&instructions, &instructions.targets[i], arena);
        *ret = instructions;
        return 0;
}
