/* SPDX-License-Identifier: Apache-2.0 */
/* Which image an environment shall run, by digest, and whether Lambda would take it. */
#include "providers/aws/ecr.h"
#include "providers/aws/environment.h"
#include "providers/aws/stages.h"

#include <string.h>

static bool same(const char *a, const char *b) {
        return a && b && strcmp(a, b) == 0;
}

/* The manifest's image with repository and tag spelled out. */
static struct value *spell_out(const struct provider *provider, const struct value *image,
                               struct arena *arena) {
        struct value *full = value_new_map(arena);
        const char *prebuilt = value_get_text(image, "prebuilt");

        if (image)
                *full = value_copy(arena, image);
        if (prebuilt) {
                value_set_text(arena, full, "repository",
                               arena_printf(arena, "%s/prebuilt/%s", provider->prefix, prebuilt));
                value_set_text(arena, full, "tag", "latest");
        }
        return full;
}

/* The digest to which this tag was pinned when it was applied; NULL where it names another image now. */
static const char *recorded_digest(const struct value *image, const struct value *recorded) {
        if (same(value_get_text(image, "repository"), value_get_text(recorded, "repository")) &&
            same(value_get_text(image, "tag"), value_get_text(recorded, "tag")))
                return value_get_text(recorded, "digest");
        return NULL;
}

static bool follows_tag(const struct value *image) {
        return same(value_get_text(image, "follow"), "tag");
}

struct value *environment_desired_image(const struct provider *provider, const struct value *image,
                                        const struct value *resolved, const struct value *recorded,
                                        struct arena *arena) {
        struct value *full = spell_out(provider, image, arena);
        const char *pinned = recorded_digest(full, recorded), *now = value_get_text(resolved, "digest");

        if (value_get_text(full, "digest"))
                return full;
        if (pinned && (!follows_tag(full) || !now))
                value_set_text(arena, full, "digest", pinned);
        else
                value_set_text(arena, full, "digest", now);
        return full;
}

/* What has to be looked up in the registry to know this environment's image; false for nothing. */
static bool needs_lookup(const struct provider *provider, const struct wanted *wanted,
                         const struct observation *observation, struct arena *arena,
                         struct ecr_reference *ret) {
        const struct value *recorded = value_get(wanted->recorded, "image"), *image;
        const char *given, *pinned;

        if (!wanted->desired)
                return false;
        image = spell_out(provider, value_get(wanted->desired->spec, "image"), arena);
        given = value_get_text(image, "digest");
        pinned = recorded_digest(image, recorded);
        *ret = (struct ecr_reference){ .repository = value_get_text(image, "repository"),
                                       .tag = value_get_text(image, "tag") };
        if (!ret->repository || (!ret->tag && !given))
                return false;
        if (given) {
                ret->digest = given;
                return !observation->exists || !same(given, value_get_text(recorded, "digest")) ||
                       !same(ret->repository, value_get_text(recorded, "repository"));
        }
        if (pinned && !follows_tag(image)) {
                ret->digest = pinned;
                return !observation->exists;
        }
        return true;
}

static const struct value *resolution(const struct ecr_reference *reference, struct arena *arena) {
        struct value *resolved = value_new_map(arena);

        value_set_text(arena, resolved, "digest", reference->resolved);
        value_set_text(arena, resolved, "problem", reference->problem);
        value_set_text(arena, resolved, "message", reference->message);
        return resolved;
}

int environment_resolve_images(struct provider *provider, const struct observe_args *args,
                               struct observation *observations, struct error *err) {
        struct ecr_reference *references = arena_array(args->arena, args->count + 1, sizeof(*references));
        size_t *whose = arena_array(args->arena, args->count + 1, sizeof(*whose)), count = 0;

        for (size_t i = 0; i < args->count; i++) {
                if (needs_lookup(provider, &args->wanted[i], &observations[i], args->arena,
                                 &references[count]))
                        whose[count++] = i;
        }
        if (ecr_resolve(provider, references, count, args->arena, err) < 0)
                return -1;
        for (size_t i = 0; i < count; i++)
                observations[whose[i]].resolved = resolution(&references[i], args->arena);
        return 0;
}

static const char *remedy(const struct provider *provider, const struct value *image, const char *problem,
                          struct arena *arena) {
        const char *repository = value_get_text(image, "repository"), *tag = value_get_text(image, "tag");
        const char *registry = ecr_registry(provider, arena);
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        if (same(problem, "denied"))
                return "let these credentials call ecr:BatchGetImage on the repository";
        if (!tag)
                return "name a digest that the repository holds (berth images lists them), or a tag";
        strbuf_append(&text, "build and push it:\n");
        if (same(problem, "repository"))
                strbuf_printf(&text, "  aws ecr create-repository --region %s --repository-name %s\n",
                              provider->region, repository);
        strbuf_printf(
                &text,
                "  aws ecr get-login-password --region %s | docker login --username AWS --password-stdin %s\n",
                provider->region, registry);
        strbuf_printf(&text,
                      "  docker buildx build --platform linux/amd64 --provenance=false --sbom=false "
                      "-t %s/%s:%s --push .",
                      registry, repository, tag);
        return arena_strdup(arena, strbuf_text(&text));
}

static void refuse(struct change *change, const char *message, const char *what_to_do, struct arena *arena) {
        aws_refuse(change,
                   (struct refusal){ .id = "image-unusable", .message = message, .remedy = what_to_do },
                   arena);
}

/* Whether carrying out the change hands an image to Lambda. */
static bool sets_image(const struct change *change) {
        if (change->action == ACTION_CREATE || change->action == ACTION_REPLACE)
                return true;
        return change->action != ACTION_DELETE &&
               (change_touches(change, "image.digest") || change_touches(change, "image.repository"));
}

int environment_ask(struct provider *provider, struct change *change, struct arena *arena,
                    struct error *err) {
        const struct value *image = value_get(change->desired, "image"),
                           *resolved = change->observed->resolved;
        const char *problem = value_get_text(resolved, "problem"), *tag = value_get_text(image, "tag");

        (void)err;
        if (!sets_image(change))
                return 0;
        if (problem) {
                const char *what_to_do = remedy(provider, image, problem, arena);

                if (value_get_text(image, "digest") && tag && !follows_tag(image))
                        what_to_do = arena_printf(arena,
                                                  "the environment is pinned to that digest: set follow: tag "
                                                  "once to take what the tag %s names now; or %s",
                                                  tag, what_to_do);
                refuse(change, value_get_text(resolved, "message"), what_to_do, arena);
        } else if (!value_get_text(image, "digest")) {
                refuse(change,
                       arena_printf(arena, "the digest of %s:%s is not known",
                                    value_get_text(image, "repository"), tag ? tag : ""),
                       "plan again with --refresh sweep, so that the registry is asked", arena);
        }
        return 0;
}
