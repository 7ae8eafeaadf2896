/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which image an environment shall run, by digest, and whether Lambda would take it.
 *
 * A digest in the manifest is the image. A tag is resolved to a digest once, when it is first applied, and the environment
 * stays with that digest as long as repository and tag are the same; with follow: tag it takes what the tag names now.
 * So for most environments of a plan nothing has to be asked. Asked for are: tags that are not pinned or are followed,
 * digests that were never seen, and, as far as that costs few calls, pinned tags, to tell people where they lead now.
 *
 * A verdict on a digest never changes, so that it is kept with the observation and not asked for again (admission.h).
 */
#include "base/array.h"
#include "providers/aws/client/texts.h"
#include "providers/aws/environment/environment.h"
#include "providers/aws/environment/image_watch.h"
#include "providers/aws/registry/admission.h"
#include "providers/aws/registry/ecr_resolve.h"
#include "providers/aws/registry/ecr_uri.h"
#include "providers/aws/registry/image_use.h"
#include "providers/aws/shared/stage.h"
#include "providers/image_rules.h"

/* So many environments are named of those whose images could not be looked at. */
#define UNVERIFIED_NAMED 3

/* The manifest's image with repository and tag spelled out: the repository as ecr_uri.h knows it, its registry in front. */
static struct value *spell_out_image(const struct provider *provider, const struct value *image,
                                     struct arena *arena) {
        struct value *full = value_new_map(arena);
        const char *prebuilt = value_get_text(image, "prebuilt"),
                   *registry = value_get_text(image, "registry");

        if (image)
                *full = value_copy(arena, image);
        if (prebuilt) {
                value_set_text(arena, full, "repository",
                               arena_printf(arena, "%s/prebuilt/%s", provider->prefix, prebuilt));
                value_set_text(arena, full, "tag", "latest");
        }
        if (registry) {
                value_set_text(arena, full, "repository",
                               ecr_repository_known_as(provider, registry, value_get_text(full, "repository"),
                                                       arena));
                value_unset(full, "registry");
        }
        return full;
}

/* The digest to which this tag was pinned when it was applied; NULL where it names another image now. */
static const char *recorded_digest(const struct value *image, const struct value *recorded) {
        if (texts_same(value_get_text(image, "repository"), value_get_text(recorded, "repository")) &&
            texts_same(value_get_text(image, "tag"), value_get_text(recorded, "tag")))
                return value_get_text(recorded, "digest");
        return NULL;
}

static bool follows_tag(const struct value *image) {
        return texts_same(value_get_text(image, "follow"), "tag");
}

/*
 * Known facts about the digest that it shall run: as it was looked up now, or when it was applied.
 */
static void set_runtime(struct value *image, const struct value *resolved, const struct value *recorded,
                        struct arena *arena) {
        const char *digest = value_get_text(image, "digest");

        if (!digest)
                return;
        if (texts_same(digest, value_get_text(resolved, "digest")))
                value_set_text(arena, image, "runtime", value_get_text(resolved, "runtime"));
        else if (texts_same(digest, value_get_text(recorded, "digest")))
                value_set_text(arena, image, "runtime", value_get_text(recorded, "runtime"));
}

struct value *environment_desired_image(const struct provider *provider, const struct value *image,
                                        const struct value *resolved, const struct value *recorded,
                                        struct arena *arena) {
        struct value *full = spell_out_image(provider, image, arena);
        const char *pinned = recorded_digest(full, recorded), *now = value_get_text(resolved, "digest");

        if (!value_get_text(full, "digest"))
                value_set_text(arena, full, "digest", pinned && (!follows_tag(full) || !now) ? pinned : now);
        set_runtime(full, resolved, recorded, arena);
        return full;
}

/* Finds what to look up in the registry to know this environment's image; false for nothing. */
static bool needs_lookup(const struct provider *provider, const struct wanted *wanted,
                         const struct observation *observation, struct arena *arena,
                         struct ecr_reference *ret) {
        const struct value *recorded = value_get(wanted->recorded, "image"), *image;
        const char *given, *pinned;

        if (!wanted->desired)
                return false;
        image = spell_out_image(provider, value_get(wanted->desired->spec, "image"), arena);
        given = value_get_text(image, "digest");
        pinned = recorded_digest(image, recorded);
        *ret = (struct ecr_reference){ .repository = value_get_text(image, "repository"),
                                       .tag = value_get_text(image, "tag") };
        if (!ret->repository || (!ret->tag && !given))
                return false;
        if (given) {
                ret->digest = given;
                return !observation->exists || !texts_same(given, value_get_text(recorded, "digest")) ||
                       !texts_same(ret->repository, value_get_text(recorded, "repository"));
        }
        if (pinned && !follows_tag(image)) {
                ret->digest = pinned;
                return !observation->exists;
        }
        return true;
}

/* A pinned tag: nothing depends on where it leads now, but people want to know. */
static bool may_watch(const struct provider *provider, const struct wanted *wanted, struct arena *arena,
                      struct ecr_reference *ret) {
        const struct value *image;

        if (!wanted->desired)
                return false;
        image = spell_out_image(provider, value_get(wanted->desired->spec, "image"), arena);
        *ret = (struct ecr_reference){ .repository = value_get_text(image, "repository"),
                                       .tag = value_get_text(image, "tag"),
                                       .watched = true };
        return ret->repository && ret->tag && !value_get_text(image, "digest") &&
               recorded_digest(image, value_get(wanted->recorded, "image"));
}

/*
 * The digest that a function of ours runs and goes on to run: it may have been deleted from the
 * registry. A digest that this plan replaces needs no check.
 */
static bool may_be_gone(const struct provider *provider, const struct wanted *wanted,
                        const struct observation *observation, struct arena *arena,
                        struct ecr_reference *ret) {
        const struct value *runs = value_get(observation->spec, "image"), *desired;

        if (!wanted->desired || !wanted->recorded || !observation->exists ||
            observation->ownership != OWNER_SELF)
                return false;
        desired =
                environment_desired_image(provider, value_get(wanted->desired->spec, "image"),
                                          observation->resolved, value_get(wanted->recorded, "image"), arena);
        *ret = (struct ecr_reference){ .repository = value_get_text(runs, "repository"),
                                       .digest = value_get_text(runs, "digest"),
                                       .watched = true };
        return ret->repository && ret->digest && texts_same(ret->digest, value_get_text(desired, "digest")) &&
               texts_same(ret->repository, value_get_text(desired, "repository"));
}

static const struct value *resolution_of(const struct ecr_reference *reference, struct arena *arena) {
        struct value *resolved = value_new_map(arena);

        value_set_text(arena, resolved, "digest", reference->resolved);
        value_set_text(arena, resolved, "runtime", reference->runtime);
        value_set_text(arena, resolved, "problem", reference->problem);
        value_set_text(arena, resolved, "message", reference->message);
        return resolved;
}

/* Keeps the verdict on the image that it shall run, or what was known before; the same value where that is the same. */
static void keep_verdict(const struct wanted *wanted, const struct value *verdict,
                         struct observation *observation, struct arena *arena) {
        const struct value *known = value_get(wanted->notes, "image");
        struct value *extra;

        if (!verdict)
                verdict = known;
        if (value_equal(verdict, value_get(observation->extra, "image"), NULL))
                return;
        extra = value_new_map(arena);
        if (observation->extra)
                *extra = value_copy(arena, observation->extra);
        value_set(arena, extra, "image", *verdict);
        observation->extra = extra;
        /* Unmoved, it is the very value that came from the state. */
        if (value_equal(extra, wanted->notes, NULL))
                observation->extra = wanted->notes;
}

/* What this environment runs and what it shall run, for the guards of images. */
static void note_uses(struct provider *provider, const struct wanted *wanted,
                      const struct observation *observation, struct arena *arena) {
        const struct value *now = value_get(observation->spec, "image"), *desired;
        bool stays = wanted->desired != NULL;

        if (observation->exists)
                image_use(provider, wanted->name, value_get_text(now, "repository"),
                          value_get_text(now, "digest"), stays);
        if (!stays)
                return;
        desired =
                environment_desired_image(provider, value_get(wanted->desired->spec, "image"),
                                          observation->resolved, value_get(wanted->recorded, "image"), arena);
        image_use(provider, wanted->name, value_get_text(desired, "repository"),
                  value_get_text(desired, "digest"), true);
}

/* The digest that the environment stays with while its tag leads elsewhere, or nowhere; NULL where that is not so. */
static const char *left_behind(const struct provider *provider, const struct wanted *wanted,
                               const struct ecr_reference *reference, struct arena *arena) {
        const struct value *image;
        const char *pinned;

        if (reference->digest)
                return NULL;
        image = spell_out_image(provider, value_get(wanted->desired->spec, "image"), arena);
        pinned = recorded_digest(image, value_get(wanted->recorded, "image"));
        if (!reference->resolved)
                return pinned;
        return reference->watched && !texts_same(reference->resolved, pinned) ? pinned : NULL;
}

struct lookup {
        struct ecr_reference *references;
        size_t *whose;
        size_t count;
};

static struct lookup gather_lookups(struct provider *provider, const struct observe_args *args,
                                    const struct observation *observations) {
        struct arena *arena = args->arena;
        size_t most = 2 * args->count + 1;
        struct lookup lookup = { .references = arena_array(arena, most, sizeof(*lookup.references)),
                                 .whose = arena_array(arena, most, sizeof(*lookup.whose)) };

        for (size_t i = 0; i < args->count; i++) {
                struct ecr_reference *reference = &lookup.references[lookup.count];

                if (needs_lookup(provider, &args->wanted[i], &observations[i], arena, reference) ||
                    may_watch(provider, &args->wanted[i], arena, reference))
                        lookup.whose[lookup.count++] = i;
                reference = &lookup.references[lookup.count];
                if (may_be_gone(provider, &args->wanted[i], &observations[i], arena, reference))
                        lookup.whose[lookup.count++] = i;
        }
        lookup.count = image_watch_affordable(lookup.references, lookup.whose, lookup.count,
                                              args->refresh == REFRESH_FULL, arena);
        return lookup;
}

void environment_resolve_images_ahead(struct provider *provider, const struct observe_args *args) {
        struct observation *last = arena_array(args->arena, args->count, sizeof(*last));
        struct lookup lookup;

        for (size_t i = 0; i < args->count; i++) {
                if (args->wanted[i].last)
                        last[i] = *args->wanted[i].last;
        }
        lookup = gather_lookups(provider, args, last);
        ecr_resolve_ahead(provider, lookup.references, lookup.count, args->arena);
}

/* One line for all: whichever they are, it is the same host that cannot be reached. */
static void warn_of_unverified(const struct lookup *lookup, struct observation *observations,
                               struct arena *arena) {
        struct strbuf names STRBUF_CLEANUP = STRBUF_INIT;
        struct observation *first = NULL;
        const char *why = NULL;
        size_t count = 0;

        for (size_t i = 0; i < lookup->count; i++) {
                struct observation *observation = &observations[lookup->whose[i]];

                if (!lookup->references[i].unverified)
                        continue;
                if (!first) {
                        first = observation;
                        why = lookup->references[i].unverified;
                }
                if (count++ < UNVERIFIED_NAMED)
                        strbuf_printf(&names, "%sEnvironment/%s", count > 1 ? ", " : "", observation->name);
        }
        if (!first)
                return;
        if (count > UNVERIFIED_NAMED)
                strbuf_printf(&names, " and %zu more", count - UNVERIFIED_NAMED);
        aws_warn(
                first,
                arena_printf(
                        arena,
                        "the platform of the image%s of %s is not verified: %s (ECR keeps configurations in a "
                        "bucket of S3: a network of one's own needs a gateway endpoint to S3)",
                        count == 1 ? "" : "s", strbuf_text(&names), why),
                arena);
}

/* An image that a function is to get, and that is known to be one that Lambda runs, but says nothing of the runtime. */
static bool lacks_runtime(const struct ecr_reference *reference, const struct observation *observation) {
        const char *runs = value_get_text(value_get(observation->spec, "image"), "digest");

        return !reference->watched && !reference->problem && reference->platform && !reference->runtime &&
               !texts_same(reference->resolved, runs);
}

/* One line for all, and only as long as they are new to their functions. */
static void warn_of_runtime(const struct lookup *lookup, struct observation *observations,
                            struct arena *arena) {
        struct strbuf names STRBUF_CLEANUP = STRBUF_INIT;
        struct observation *first = NULL;
        const struct ecr_reference *image = NULL;
        size_t count = 0;

        for (size_t i = 0; i < lookup->count; i++) {
                struct observation *observation = &observations[lookup->whose[i]];

                if (!lacks_runtime(&lookup->references[i], observation))
                        continue;
                if (!first) {
                        first = observation;
                        image = &lookup->references[i];
                }
                if (count++ < UNVERIFIED_NAMED)
                        strbuf_printf(&names, "%sEnvironment/%s", count > 1 ? ", " : "", observation->name);
        }
        if (!first)
                return;
        if (count > UNVERIFIED_NAMED)
                strbuf_printf(&names, " and %zu more", count - UNVERIFIED_NAMED);
        aws_warn(first,
                 arena_printf(
                         arena,
                         "the image%s of %s %s no runtime of Berth's (label " IMAGE_RULES_RUNTIME
                         "): %s by %s own entry point, and no session can be opened there; to add it: berth "
                         "image runtime %s --push",
                         count == 1 ? "" : "s", strbuf_text(&names), count == 1 ? "has" : "have",
                         count == 1 ? "it runs" : "they run", count == 1 ? "its" : "their",
                         ecr_reference_name(image, arena)),
                 arena);
}

int environment_resolve_images(struct provider *provider, const struct observe_args *args,
                               struct observation *observations, struct error *err) {
        struct lookup lookup = gather_lookups(provider, args, observations);
        struct admission_memory memory = { .arena = args->arena };
        struct image_watch watch = { .arena = args->arena };

        for (size_t i = 0; i < args->count; i++)
                admission_remember(
                        &memory,
                        value_get(args->wanted[i].last ? args->wanted[i].last->extra : NULL, "image"));
        if (ecr_resolve(provider, lookup.references, lookup.count, args->arena, err) < 0 ||
            admission_check(provider, lookup.references, lookup.count, &memory, args->arena, err) < 0)
                return -1;
        for (size_t i = 0; i < args->count; i++)
                keep_verdict(&args->wanted[i], NULL, &observations[i], args->arena);
        for (size_t i = 0; i < lookup.count; i++) {
                const struct ecr_reference *reference = &lookup.references[i];
                const struct wanted *wanted = &args->wanted[lookup.whose[i]];
                struct observation *observation = &observations[lookup.whose[i]];

                if (reference->watched && reference->digest) {
                        struct ecr_reference now;

                        /*
                         * The tag of the same environment, which came first, may lead to another
                         * image now.
                         */
                        if (may_be_gone(provider, wanted, observation, args->arena, &now))
                                image_watch_gone(reference, value_get(wanted->desired->spec, "image"),
                                                 observation, args->arena);
                        continue;
                }
                image_watch_note(&watch, reference, left_behind(provider, wanted, reference, args->arena),
                                 observation);
                if (reference->watched)
                        continue;
                observation->resolved = resolution_of(reference, args->arena);
                keep_verdict(wanted, admission_verdict(reference, args->arena), observation, args->arena);
        }
        image_uses_forget(provider);
        for (size_t i = 0; i < args->count; i++)
                note_uses(provider, &args->wanted[i], &observations[i], args->arena);
        image_watch_warn(&watch, provider);
        warn_of_unverified(&lookup, observations, args->arena);
        warn_of_runtime(&lookup, observations, args->arena);
        return 0;
}

static const char *remedy_of(const struct provider *provider, const struct value *image, const char *problem,
                             struct arena *arena) {
        return admission_remedy(provider, value_get_text(image, "repository"), value_get_text(image, "tag"),
                                problem, arena);
}

static void refuse_image(struct change *change, const char *message, const char *what_to_do,
                         struct arena *arena) {
        aws_refuse(change,
                   (struct refusal){ .id = "image-unusable", .message = message, .remedy = what_to_do },
                   arena);
}

/* The guard image-in-use: a rule in force that deletes the image which it shall run. */
static int refuse_doomed(struct provider *provider, struct change *change, struct arena *arena,
                         struct error *err) {
        const struct value *image = value_get(change->desired, "image");
        const char *repository = value_get_text(image, "repository");
        const struct ecr_image *doomed;

        if (image_rule_dooms(provider, repository, value_get_text(image, "digest"), arena, &doomed, err) < 0)
                return -1;
        if (!doomed)
                return 0;
        aws_refuse(change,
                   (struct refusal){
                           .id = "image-in-use",
                           .message = arena_printf(
                                   arena,
                                   "the repository's retain rule deletes the image that it shall run: "
                                   "%s",
                                   image_fate(provider, doomed, arena)),
                           .remedy = arena_printf(
                                   arena,
                                   "run an image that the rule keeps, or let the rule of %s keep more, "
                                   "and apply that first",
                                   repository),
                   },
                   arena);
        return 0;
}

/* Whether carrying out the change hands an image to Lambda. */
static bool sets_image(const struct change *change) {
        if (change->action == ACTION_CREATE || change->action == ACTION_REPLACE)
                return true;
        return change->action != ACTION_DELETE &&
               (change_touches(change, "image.digest") || change_touches(change, "image.repository"));
}

int environment_ask_image(struct provider *provider, struct change *change, struct arena *arena,
                          struct error *err) {
        const struct value *image = value_get(change->desired, "image"),
                           *resolved = change->observed->resolved;
        const char *problem = value_get_text(resolved, "problem"), *tag = value_get_text(image, "tag");

        if (!sets_image(change))
                return 0;
        if (refuse_doomed(provider, change, arena, err) < 0)
                return -1;
        if (problem) {
                const char *what_to_do = remedy_of(provider, image, problem, arena);

                if (recorded_digest(image, value_get(change->recorded, "image")) && tag &&
                    !follows_tag(image))
                        what_to_do = arena_printf(arena,
                                                  "the environment is pinned to that digest: set follow: tag "
                                                  "once to take what the tag %s names now; or %s",
                                                  tag, what_to_do);
                refuse_image(change, value_get_text(resolved, "message"), what_to_do, arena);
        } else if (!value_get_text(image, "digest")) {
                refuse_image(change,
                             arena_printf(arena, "the digest of %s:%s is not known",
                                          value_get_text(image, "repository"), tag ? tag : ""),
                             "plan again with --refresh sweep, so that the registry is asked", arena);
        }
        return 0;
}
