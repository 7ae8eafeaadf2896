/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that build and push images which Lambda takes: one of linux/amd64, no index, layers in gzip. */
#include "base/files.h"
#include "base/json.h"
#include "providers/aws/image/image_catalog.h"
#include "providers/aws/registry/admission.h"
#include "providers/aws/registry/ecr_uri.h"
#include "providers/aws/services/ecr.h"
#include "providers/image_layer.h"
#include "providers/image_rules.h"
#include "providers/runtime_file.h"

#include <stdlib.h>
#include <string.h>

/* `repository` NULL: to the stack's own registry. */
static void add_login(const struct provider *provider, struct arena *arena, const char *tool,
                      const char *repository, struct image_instructions *instructions) {
        struct image_recipe *recipe =
                image_recipe_add(instructions, arena, tool, repository, "log in, for 12 hours");

        image_recipe_command(
                recipe, arena,
                "aws ecr get-login-password --region %s | %s login --username AWS --password-stdin %s",
                provider->region, tool,
                repository ? ecr_registry_of(provider, repository, arena) : instructions->registry);
}

static void add_logins(const struct provider *provider, struct arena *arena, const char *repository,
                       struct image_instructions *instructions) {
        static const char *const tools[] = { "docker", "podman", "skopeo" };

        for (size_t i = 0; i < sizeof(tools) / sizeof(*tools); i++)
                add_login(provider, arena, tools[i], repository, instructions);
}

/*
 * The other account's part: this account's users may read the repository, and so may Lambda for
 * functions of this stack (Amazon ECR User Guide, "Lambda cross-account permissions"). The quotes
 * around it are the shell's: no part of it has one.
 */
static const char *repository_policy(const struct provider *provider, struct arena *arena) {
        static const char actions[] = "\"Action\":[\"ecr:BatchGetImage\",\"ecr:GetDownloadUrlForLayer\"]";
        const char *account = provider->account ? provider->account : "ACCOUNT";

        return arena_printf(arena,
                            "{\"Version\":\"2012-10-17\",\"Statement\":["
                            "{\"Sid\":\"BerthReads\",\"Effect\":\"Allow\","
                            "\"Principal\":{\"AWS\":\"arn:%s:iam::%s:root\"},%s},"
                            "{\"Sid\":\"LambdaReads\",\"Effect\":\"Allow\","
                            "\"Principal\":{\"Service\":\"lambda.amazonaws.com\"},%s,"
                            "\"Condition\":{\"StringLike\":{\"aws:sourceArn\":"
                            "\"arn:%s:lambda:%s:%s:function:%s-env-*\"}}}]}",
                            provider->partition, account, actions, actions, provider->partition,
                            provider->region, account, provider->prefix);
}

static void add_policy(const struct provider *provider, struct arena *arena,
                       const struct image_target *target, struct image_instructions *instructions) {
        const char *other = ecr_other_account(target->repository, arena);
        struct image_recipe *recipe = image_recipe_add(
                instructions, arena, "aws", target->repository,
                arena_printf(arena,
                             "with credentials of account %s, as all that follows: let this stack read the "
                             "repository (where it has a policy, add these statements to that: the command "
                             "replaces it)",
                             other));

        image_recipe_command(
                recipe, arena,
                "aws ecr set-repository-policy --region %s --registry-id %s --repository-name %s "
                "--policy-text '%s'",
                provider->region, other, ecr_name_in_registry(target->repository),
                repository_policy(provider, arena));
}

/* The one that `berth image build` can make (providers/local/images/prebuilt.c), on any machine. */
static void add_prebuilt(const struct provider *provider, struct arena *arena,
                         const struct image_target *target, struct image_instructions *instructions) {
        struct image_recipe *recipe;

        if (strcmp(target->repository, arena_printf(arena, "%s/prebuilt/python", provider->prefix)) != 0)
                return;
        recipe = image_recipe_add(instructions, arena, "berth", target->repository,
                                  "make it of Debian's packages, and push");
        image_recipe_command(recipe, arena, "berth image build python -o python.tar");
        image_recipe_command(recipe, arena, "skopeo copy oci-archive:python.tar docker://%s", target->uri);
}

/* Where it lies on this machine, as a word of a shell's; in capitals where that cannot be one. */
static const char *runtime_as_word(struct arena *arena) {
        const char *found = runtime_file_find(arena);
        char *whole TEXT_CLEANUP = realpath(found, NULL);

        if (whole)
                found = arena_strdup(arena, whole);
        if (strchr(found, '\''))
                return "PATH/berth-runtime";
        return strcspn(found, " \t\n\"\\$`&|;<>()*?[]#~!{}") == strlen(found)
                       ? found
                       : arena_printf(arena, "'%s'", found);
}

/*
 * Into a Dockerfile of one's own: the line that copies it, and the label by which admission knows it. `after` an image is there, it is one
 * command.
 */
static void add_runtime_recipe(struct arena *arena, const struct image_target *target, bool after,
                               struct image_instructions *instructions) {
        struct image_recipe *recipe;

        if (after) {
                recipe = image_recipe_add(
                        instructions, arena, "berth", target->repository,
                        "or put the runtime of sessions on an image that was pushed without it");
                image_recipe_command(recipe, arena, "berth image runtime %s:%s --push", target->repository,
                                     target->tag);
                return;
        }
        recipe = image_recipe_add(
                instructions, arena, "berth", target->repository,
                "for sessions the Dockerfile says: COPY --chmod=0755 berth-runtime " IMAGE_RUNTIME_PATH
                ", and: LABEL " IMAGE_RULES_RUNTIME "=" BERTH_VERSION);
        image_recipe_command(recipe, arena, "cp %s .", runtime_as_word(arena));
}

static void add_target(const struct provider *provider, struct arena *arena,
                       const struct image_target *target, struct image_instructions *instructions) {
        struct image_recipe *recipe;

        if (ecr_other_account(target->repository, arena)) {
                add_policy(provider, arena, target, instructions);
                add_logins(provider, arena, target->repository, instructions);
        } else if (!target->exists) {
                recipe = image_recipe_add(instructions, arena, "aws", target->repository,
                                          "make the repository");
                image_recipe_command(recipe, arena,
                                     "aws ecr create-repository --region %s --repository-name %s",
                                     provider->region, target->repository);
        }
        add_prebuilt(provider, arena, target, instructions);
        add_runtime_recipe(arena, target, false, instructions);
        recipe = image_recipe_add(instructions, arena, "docker", target->repository, "build and push");
        image_recipe_command(recipe, arena, "%s",
                             admission_build_command(provider, target->repository, target->tag, arena));
        recipe = image_recipe_add(instructions, arena, "podman", target->repository, "build and push");
        image_recipe_command(recipe, arena, "podman build --platform linux/amd64 -t %s .", target->uri);
        image_recipe_command(recipe, arena, "podman push --format v2s2 --compression-format gzip %s",
                             target->uri);
        recipe = image_recipe_add(instructions, arena, "skopeo", target->repository,
                                  "copy what is elsewhere: SOURCE is REGISTRY/REPOSITORY:TAG");
        image_recipe_command(
                recipe, arena,
                "skopeo copy --override-os linux --override-arch amd64 --dest-compress-format gzip "
                "docker://SOURCE docker://%s",
                target->uri);
        if (!ecr_other_account(target->repository, arena))
                add_runtime_recipe(arena, target, true, instructions);
}

void image_recipes(const struct provider *provider, struct arena *arena, struct image_instructions *ret) {
        bool own = false;

        ret->registry = ecr_registry(provider, arena);
        ret->recipe_count = 0;
        ret->recipes = NULL;
        for (size_t i = 0; i < ret->target_count; i++)
                own = own || !ecr_other_account(ret->targets[i].repository, arena);
        if (own)
                add_logins(provider, arena, NULL, ret);
        for (size_t i = 0; i < ret->target_count; i++) {
                struct image_target *target = &ret->targets[i];

                target->uri =
                        arena_printf(arena, "%s/%s:%s", ecr_registry_of(provider, target->repository, arena),
                                     ecr_name_in_registry(target->repository), target->tag);
                add_target(provider, arena, target, ret);
        }
}

/* The caller's array has room for one target a resource. */
static void list_target(struct image_instructions *instructions, const char *repository, const char *tag) {
        if (image_target_is_listed(instructions, repository, tag))
                return;
        instructions->targets[instructions->target_count++] =
                (struct image_target){ .repository = repository, .tag = tag };
}

/* What the manifests' environments run by tag; python where they say nothing. */
static void list_targets(const struct provider *provider, const struct manifests *manifests,
                         struct arena *arena, struct image_instructions *ret) {
        ret->targets = arena_array(arena, manifests->count + 1, sizeof(*ret->targets));
        for (size_t i = 0; i < manifests->count; i++) {
                const struct resource *resource = &manifests->resources[i];
                const struct value *image = value_get(resource->spec, "image");
                const char *prebuilt = value_get_text(image, "prebuilt"), *tag = value_get_text(image, "tag");
                const char *repository = value_get_text(image, "repository");

                if (resource->kind->id != KIND_ENVIRONMENT)
                        continue;
                if (prebuilt)
                        list_target(ret, arena_printf(arena, "%s/prebuilt/%s", provider->prefix, prebuilt),
                                    "latest");
                else if (repository && tag)
                        list_target(ret,
                                    ecr_repository_known_as(provider, value_get_text(image, "registry"),
                                                            repository, arena),
                                    tag);
        }
        if (ret->target_count == 0)
                list_target(ret, arena_printf(arena, "%s/prebuilt/python", provider->prefix), "latest");
}

/* Whether the recipe must begin with making the repository; in another registry that is not ours to ask. */
static int look_up_repository(struct provider *provider, struct image_target *target, struct arena *arena,
                              struct error *err) {
        struct aws_request request = ecr_describe_repository(target->repository, arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct error failure;

        if (ecr_other_account(target->repository, arena)) {
                target->exists = true;
                return 0;
        }
        if (aws_call(provider->client, &request, &response, &failure) == 0) {
                target->exists = true;
                return 0;
        }
        if (aws_failed_with(&response, "RepositoryNotFoundException"))
                return 0;
        *err = failure;
        return -1;
}

int image_instructions(struct provider *provider, const struct manifests *manifests, const char *repository,
                       struct arena *arena, struct image_instructions *ret, struct error *err) {
        struct image_instructions instructions = { 0 };
        struct ecr_reference reference;

        if (repository) {
                if (image_reference_parse(provider, repository, arena, &reference, err) < 0)
                        return -1;
                instructions.targets = arena_array(arena, 1, sizeof(*instructions.targets));
                list_target(&instructions, reference.repository, reference.tag ? reference.tag : "latest");
        } else {
                list_targets(provider, manifests, arena, &instructions);
        }
        for (size_t i = 0; i < instructions.target_count; i++) {
                if (look_up_repository(provider, &instructions.targets[i], arena, err) < 0)
                        return -1;
        }
        image_recipes(provider, arena, &instructions);
        *ret = instructions;
        return 0;
}
