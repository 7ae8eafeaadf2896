/* SPDX-License-Identifier: Apache-2.0 */
/* All resources together: put in order, duplicates reported, references replaced by what they mean. */
#include "base/array.h"
#include "schema/decode.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTION_NAME_MAX 64U     /* Lambda's */
#define LIFECYCLE_RULES_MAX 1000U /* S3's, a bucket */

/* The drafts of one kind; what they resolve to is changed in place. */
struct slice {
        struct draft *drafts;
        size_t count;
};

static struct slice slice_of(struct loading *loading, enum kind_id kind) {
        struct slice slice;
        const struct resource *first = manifests_of_kind(loading->manifests, kind, &slice.count);

        slice.drafts = &loading->drafts[first - loading->manifests->resources];
        return slice;
}

/* Specs are the load's own until it returns. */
static struct value *spec_of(const struct draft *draft) {
        return (struct value *)draft->resource.spec;
}

static int compare_drafts(const void *a, const void *b) {
        const struct draft *left = a, *right = b;
        int order;

        if (left->resource.kind != right->resource.kind)
                return left->resource.kind < right->resource.kind ? -1 : 1;
        order = strcmp(left->resource.name, right->resource.name);
        if (order != 0)
                return order;
        if (left->name.file != right->name.file)
                return left->name.file < right->name.file ? -1 : 1;
        if (left->name.line != right->name.line)
                return left->name.line < right->name.line ? -1 : 1;
        return left->name.column < right->name.column ? -1 : left->name.column > right->name.column;
}

/* Of resources with one address the first stays. */
static void drop_duplicates(struct loading *loading) {
        struct draft *drafts = loading->drafts;
        size_t kept = 0;

        for (size_t i = 0; i < loading->draft_count; i++) {
                const struct draft *draft = &drafts[i], *before = kept > 0 ? &drafts[kept - 1] : NULL;

                if (before && before->resource.kind == draft->resource.kind &&
                    strcmp(before->resource.name, draft->resource.name) == 0) {
                        loading->address = draft->resource.address;
                        problem_error(loading, draft->name, NULL, "%s is declared twice, first at %s",
                                      draft->resource.address, problem_place_text(loading, before->name));
                        continue;
                }
                drafts[kept++] = *draft;
        }
        loading->draft_count = kept;
}

static void sort_drafts(struct loading *loading) {
        struct manifests *manifests = loading->manifests;

        if (loading->draft_count > 1)
                qsort(loading->drafts, loading->draft_count, sizeof(*loading->drafts), compare_drafts);
        drop_duplicates(loading);
        manifests->count = loading->draft_count;
        manifests->resources =
                arena_array(loading->arena, loading->draft_count, sizeof(*manifests->resources));
        for (size_t i = 0; i < loading->draft_count; i++)
                manifests->resources[i] = loading->drafts[i].resource;
}

static const struct resource *default_stack(struct loading *loading) {
        struct resource *stack = arena_alloc(loading->arena, sizeof(*stack));
        struct value *spec = value_new_map(loading->arena);

        value_set(loading->arena, spec, "provider",
                  decode_default(kind_field(&kinds[KIND_STACK], "provider")));
        *stack = (struct resource){
                .kind = &kinds[KIND_STACK],
                .name = "default",
                .address = "Stack/default",
                .spec = spec,
        };
        return stack;
}

/* The provider's settings stand in the spec even where the manifest says nothing of them. */
static void fill_stack(struct loading *loading, struct value *spec) {
        struct value aws = { .type = VALUE_MAP };
        const char *provider;

        if (loading->options->provider)
                value_set_text(loading->arena, spec, "provider", loading->options->provider);
        provider = value_get_text(spec, "provider");
        if (value_get(spec, "aws") || !provider || strcmp(provider, "aws") != 0)
                return;
        for (const struct field *field = kind_field(&kinds[KIND_STACK], "aws")->fields; field->name;
             field++) {
                if (field->default_text)
                        value_set(loading->arena, &aws, field->name, decode_default(field));
        }
        value_set(loading->arena, spec, "aws", aws);
}

static void resolve_stack(struct loading *loading) {
        struct slice stacks = slice_of(loading, KIND_STACK);
        struct manifests *manifests = loading->manifests;

        for (size_t i = 1; i < stacks.count; i++) {
                loading->address = stacks.drafts[i].resource.address;
                problem_error(loading, stacks.drafts[i].name, NULL,
                              "a second Stack: there can be one, and %s is at %s",
                              stacks.drafts[0].resource.address,
                              problem_place_text(loading, stacks.drafts[0].name));
        }
        manifests->stack = stacks.count > 0 ? &manifests->resources[0] : default_stack(loading);
        fill_stack(loading, (struct value *)manifests->stack->spec);
}

static const char *suggest_of_kind(struct loading *loading, enum kind_id kind, const char *typed) {
        struct slice slice = slice_of(loading, kind);
        const char **names = calloc(slice.count + 1, sizeof(*names)), *hint;

        if (!names)
                abort();
        for (size_t i = 0; i < slice.count; i++)
                names[i] = slice.drafts[i].resource.name;
        hint = problem_suggest(loading, typed, names, slice.count);
        free(names);
        return hint;
}

static void add_missing(struct loading *loading, const struct draft *dependent, const char *environment,
                        struct diagnostic diagnostic) {
        struct manifests *manifests = loading->manifests;

        manifests->missing = array_grow(loading->arena, manifests->missing, manifests->missing_count,
                                        sizeof(*manifests->missing));
        manifests->missing[manifests->missing_count++] = (struct missing_reference){
                .dependent = dependent->resource.address,
                .environment = environment,
                .diagnostic = diagnostic,
        };
}

static void resolve_environment_name(struct loading *loading, const struct draft *dependent,
                                     const struct value *reference) {
        const char *name = value_text_of(reference);

        if (!name || manifests_find(loading->manifests, KIND_ENVIRONMENT, name))
                return;
        if (!loading->options->missing_environments) {
                problem_error(loading, place_of(reference), suggest_of_kind(loading, KIND_ENVIRONMENT, name),
                              "no Environment is named \"%.100s\"", name);
                return;
        }
        add_missing(loading, dependent, name,
                    problem_make(loading, place_of(reference),
                                 suggest_of_kind(loading, KIND_ENVIRONMENT, name),
                                 "no Environment is named \"%.100s\"", name));
}

/* What the reference to an Image stands for: the shape that an environment's own image would have. */
static struct value image_of(struct loading *loading, const struct resource *image) {
        const char *tag = value_get_text(image->spec, "tag");
        struct value resolved = { .type = VALUE_MAP };

        value_set_text(loading->arena, &resolved, "repository", value_get_text(image->spec, "repository"));
        value_set_text(loading->arena, &resolved, "tag", tag);
        value_set_text(loading->arena, &resolved, "digest", value_get_text(image->spec, "digest"));
        if (tag)
                value_set_text(loading->arena, &resolved, "follow", "pin");
        value_set_text(loading->arena, &resolved, "image", image->name);
        return resolved;
}

static void resolve_image(struct loading *loading, const struct draft *environment) {
        struct value *reference = (struct value *)value_get(environment->resource.spec, "image");
        const char *name = value_text_of(reference), *hint;
        const struct resource *image;
        struct value resolved;

        if (!name)
                return;
        image = manifests_find(loading->manifests, KIND_IMAGE, name);
        if (!image) {
                hint = suggest_of_kind(loading, KIND_IMAGE, name);
                problem_error(
                        loading, place_of(reference),
                        hint ? hint
                             : "the name of an Image, or {prebuilt: NAME}, or {repository: NAME, tag: TAG}",
                        "no Image is named \"%.100s\"", name);
                return;
        }
        resolved = image_of(loading, image);
        resolved.file = reference->file;
        resolved.line = reference->line;
        resolved.column = reference->column;
        *reference = resolved;
}

static void resolve_environments(struct loading *loading) {
        struct slice environments = slice_of(loading, KIND_ENVIRONMENT);
        const char *prefix = value_get_text(value_get(loading->manifests->stack->spec, "aws"), "namePrefix");
        size_t prefix_length;

        if (!prefix)
                prefix = kind_field(&kinds[KIND_STACK], "aws.namePrefix")->default_text;
        prefix_length = strlen(prefix) + strlen("-env-");
        for (size_t i = 0; i < environments.count; i++) {
                const struct draft *environment = &environments.drafts[i];
                size_t length = prefix_length + strlen(environment->resource.name);

                loading->address = environment->resource.address;
                /* A name that is too long in itself was reported with its field. */
                if (length > FUNCTION_NAME_MAX && strlen(environment->resource.name) <= NAME_LENGTH_MAX)
                        problem_error(
                                loading, environment->name, "shorten the name, or the Stack's aws.namePrefix",
                                "the function would be named %s-env-%s: %zu characters, AWS Lambda allows %u",
                                prefix, environment->resource.name, length, FUNCTION_NAME_MAX);
                resolve_image(loading, environment);
        }
}

static void resolve_dependents(struct loading *loading) {
        struct slice agents = slice_of(loading, KIND_AGENT), swarms = slice_of(loading, KIND_SWARM);

        for (size_t i = 0; i < agents.count; i++) {
                loading->address = agents.drafts[i].resource.address;
                resolve_environment_name(loading, &agents.drafts[i],
                                         value_get(agents.drafts[i].resource.spec, "environment"));
        }
        for (size_t i = 0; i < swarms.count; i++) {
                const struct draft *swarm = &swarms.drafts[i];
                const struct value *members = typed_member(swarm->resource.spec, "agents", VALUE_LIST);

                loading->address = swarm->resource.address;
                resolve_environment_name(loading, swarm, value_get(swarm->resource.spec, "environment"));
                for (uint32_t j = 0; members && j < members->count; j++) {
                        const char *name = value_text_of(&members->items[j]);

                        if (name && !manifests_find(loading->manifests, KIND_AGENT, name))
                                problem_error(loading, place_of(&members->items[j]),
                                              suggest_of_kind(loading, KIND_AGENT, name),
                                              "no Agent is named \"%.100s\"", name);
                }
        }
}

static int compare_names(const void *a, const void *b) {
        return strcmp(((const struct value *)a)->text, ((const struct value *)b)->text);
}

/* The environments that a policy's selector names, declared or not; sorted. */
static struct value selected_by_name(struct loading *loading, const struct draft *policy,
                                     const struct value *names) {
        struct value selected = { .type = VALUE_LIST };

        for (uint32_t i = 0; i < names->count; i++) {
                if (!value_text_of(&names->items[i]))
                        continue;
                resolve_environment_name(loading, policy, &names->items[i]);
                value_append(loading->arena, &selected, names->items[i]);
        }
        if (selected.count > 1)
                qsort(selected.items, selected.count, sizeof(*selected.items), compare_names);
        return selected;
}

static struct value selected_by_labels(struct loading *loading, const struct value *labels) {
        struct slice environments = slice_of(loading, KIND_ENVIRONMENT);
        struct value selected = { .type = VALUE_LIST };

        for (size_t i = 0; i < environments.count; i++) {
                const struct resource *environment = &environments.drafts[i].resource;

                if (labels_match(environment->labels, labels))
                        value_append(loading->arena, &selected,
                                     value_text(loading->arena, environment->name));
        }
        return selected;
}

/* How many lifecycle rules a policy becomes: one for all or one for each environment, and one for unfinished uploads. */
static size_t count_rules(const struct value *spec) {
        bool acts = value_get(spec, "transitions") || value_get(spec, "expireAfterDays") ||
                    value_get(spec, "noncurrentExpireAfterDays");
        const struct value *environments = value_get(spec, "environments");
        size_t each = environments ? environments->count : 1;

        return (acts ? each : 0) + (value_get(spec, "abortIncompleteUploadDays") ? 1 : 0);
}

static void resolve_selector(struct loading *loading, const struct draft *policy) {
        const struct value *selector = typed_member(policy->resource.spec, "selector", VALUE_MAP);
        const struct value *names = typed_member(selector, "environments", VALUE_LIST);
        const struct value *labels = typed_member(selector, "matchLabels", VALUE_MAP);
        struct value selected;

        if (!names && !labels)
                return;
        selected = names ? selected_by_name(loading, policy, names) : selected_by_labels(loading, labels);
        /* Where something could not be read, it may be what has them. */
        if (selected.count == 0 && labels && loading->diagnostics->errors == 0)
                problem_warning(loading, place_of(labels), NULL, "no Environment has these labels");
        value_set(loading->arena, spec_of(policy), "environments", selected);
}

static void resolve_policies(struct loading *loading) {
        struct slice policies = slice_of(loading, KIND_WORKSPACE_POLICY);
        const struct draft *beyond = NULL;
        size_t rules = 0;

        for (size_t i = 0; i < policies.count; i++) {
                loading->address = policies.drafts[i].resource.address;
                resolve_selector(loading, &policies.drafts[i]);
                rules += count_rules(policies.drafts[i].resource.spec);
                if (rules > LIFECYCLE_RULES_MAX && !beyond)
                        beyond = &policies.drafts[i];
        }
        if (!beyond)
                return;
        loading->address = beyond->resource.address;
        problem_error(loading, beyond->name,
                      "selector {all: true} takes one rule, any other one for each environment",
                      "the workspace policies become %zu lifecycle rules, S3 takes %u a bucket", rules,
                      LIFECYCLE_RULES_MAX);
}

static int compare_repositories(const void *a, const void *b) {
        const struct draft *const *left = a, *const *right = b;
        int order = strcmp(value_get_text((*left)->resource.spec, "repository"),
                           value_get_text((*right)->resource.spec, "repository"));

        if (order != 0)
                return order;
        return *left < *right ? -1 : *left > *right;
}

static void check_setting(struct loading *loading, const struct draft *first, const struct draft *other,
                          const char *name) {
        const struct value *a = value_get(first->resource.spec, name),
                           *b = value_get(other->resource.spec, name);

        if (!a || !b || a->type == VALUE_NULL || b->type == VALUE_NULL || value_equal(a, b, NULL))
                return;
        loading->address = other->resource.address;
        problem_error(loading, place_of(b), "set it in one of them",
                      "%s of this repository differs from what %s says (%s)", name, first->resource.address,
                      problem_place_text(loading, place_of(a)));
}

/* Images may share a repository, not quarrel over its settings. */
static void resolve_images(struct loading *loading) {
        static const char *const settings[] = { "scanOnPush", "immutableTags", "retain" };
        struct slice images = slice_of(loading, KIND_IMAGE);
        const struct draft **sorted = calloc(images.count + 1, sizeof(const struct draft *));
        size_t count = 0;

        if (!sorted)
                abort();
        for (size_t i = 0; i < images.count; i++) {
                if (value_get_text(images.drafts[i].resource.spec, "repository"))
                        sorted[count++] = &images.drafts[i];
        }
        qsort(sorted, count, sizeof(const struct draft *), compare_repositories);
        for (size_t i = 1, first = 0; i < count; i++) {
                if (strcmp(value_get_text(sorted[first]->resource.spec, "repository"),
                           value_get_text(sorted[i]->resource.spec, "repository")) != 0) {
                        first = i;
                        continue;
                }
                for (size_t s = 0; s < sizeof(settings) / sizeof(settings[0]); s++) {
                        for (size_t j = first; j < i; j++) {
                                if (value_get(sorted[j]->resource.spec, settings[s])) {
                                        check_setting(loading, sorted[j], sorted[i], settings[s]);
                                        break;
                                }
                        }
                }
        }
        free(sorted);
}

void resolve_all(struct loading *loading) {
        sort_drafts(loading);
        resolve_stack(loading);
        resolve_images(loading);
        resolve_environments(loading);
        ranges_apply(loading);
        resolve_policies(loading);
        resolve_dependents(loading);
        loading->address = NULL;
}
