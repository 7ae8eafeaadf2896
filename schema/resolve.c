/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All resources together, once each has been read by itself.
 *
 * The order of the steps matters. Drafts are sorted first, since everything after looks resources up by kind and name. Then
 * comes the Stack: others take prefixes and the provider from it. References are checked while they still stand as people
 * wrote them, all in one pass over the rows' lists; only after that may a kind's own resolve() put something else in their
 * place, as an Environment puts what its Image says where its name stood. The kinds resolve in their own order, so that one
 * may rely on those before it.
 *
 * Whatever is wrong is reported and passed over: a user sees all mistakes of all files in one run. So nothing here may take
 * for granted that a reference led anywhere, or that a field which should have been a text is one.
 *
 * Drafts and manifests->resources hold the same specs: what is changed through one is changed in the other. Neither array
 * may be sorted again once both exist.
 */
#include "base/array.h"
#include "schema/decode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct drafts drafts_of(struct loading *loading, enum kind_id kind) {
        struct drafts drafts;
        const struct resource *first = manifests_of_kind(loading->manifests, kind, &drafts.count);

        drafts.items = &loading->drafts[first - loading->manifests->resources];
        return drafts;
}

struct value *draft_spec(const struct draft *draft) {
        return (struct value *)draft->resource.spec;
}

static bool is_earlier_place(struct place a, struct place b) {
        if (a.file != b.file)
                return a.file < b.file;
        return a.line != b.line ? a.line < b.line : a.column < b.column;
}

/* By kind and name, as they are looked up; of one address by place, so that "first" is the first in the files. */
static int compare_drafts(const void *a, const void *b) {
        const struct draft *left = a, *right = b;
        int order;

        if (left->resource.kind != right->resource.kind)
                return left->resource.kind->id < right->resource.kind->id ? -1 : 1;
        order = strcmp(left->resource.name, right->resource.name);
        if (order != 0)
                return order;
        return is_earlier_place(left->name, right->name) ? -1 : is_earlier_place(right->name, left->name);
}

/* Of resources with one address the first stays; each further one is told where that is. */
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

/*
 * The Stack that no manifest declared. It has what its fields would have by default, and no place
 * in a file. It is not among the resources: `validate` counts what people wrote.
 */
static const struct resource *default_stack(struct loading *loading) {
        struct resource *stack = arena_alloc(loading->arena, sizeof(*stack));
        struct value *spec = value_new_map(loading->arena);

        value_set(loading->arena, spec, "provider",
                  decode_default(kind_field(kinds[KIND_STACK], "provider")));
        *stack = (struct resource){
                .kind = kinds[KIND_STACK],
                .name = "default",
                .address = "Stack/default",
                .spec = spec,
        };
        return stack;
}

/*
 * --provider takes the place of what the Stack names. The settings of AWS stand in the spec even where the manifest says
 * nothing of them, with their defaults: a manifest that spells the defaults out must not be a change.
 */
static void fill_stack(struct loading *loading, struct value *spec) {
        struct value aws = { .type = VALUE_MAP };
        const char *provider;

        if (loading->options->provider)
                value_set_text(loading->arena, spec, "provider", loading->options->provider);
        provider = value_get_text(spec, "provider");
        if (value_get(spec, "aws") || !provider || strcmp(provider, "aws") != 0)
                return;
        for (const struct field *field = kind_field(kinds[KIND_STACK], "aws")->fields; field->name; field++) {
                if (field->default_text)
                        value_set(loading->arena, &aws, field->name, decode_default(field));
        }
        value_set(loading->arena, spec, "aws", aws);
}

static void resolve_stack(struct loading *loading) {
        struct drafts stacks = drafts_of(loading, KIND_STACK);
        struct manifests *manifests = loading->manifests;
        size_t own = 0;

        /* The stack's own is in the files that come first, whatever it is called. */
        for (size_t i = 1; i < stacks.count; i++) {
                if (is_earlier_place(stacks.items[i].name, stacks.items[own].name))
                        own = i;
        }
        for (size_t i = 0; i < stacks.count; i++) {
                if (i == own)
                        continue;
                loading->address = stacks.items[i].resource.address;
                problem_error(loading, stacks.items[i].name,
                              stacks.items[i].name.file >= loading->own_count
                                      ? "what is included is part of the stack that includes it"
                                      : NULL,
                              "a second Stack: there can be one, and %s is at %s",
                              stacks.items[own].resource.address,
                              problem_place_text(loading, stacks.items[own].name));
        }
        manifests->stack = stacks.count > 0 ? &manifests->resources[0] : default_stack(loading);
        fill_stack(loading, (struct value *)manifests->stack->spec);
}

/* Names are offered from what is declared alone: those of the state are not known here. */
static const char *suggest_of_kind(struct loading *loading, enum kind_id kind, const char *typed) {
        struct drafts drafts = drafts_of(loading, kind);
        const char **names = calloc(drafts.count + 1, sizeof(*names)), *hint;

        if (!names)
                abort();
        for (size_t i = 0; i < drafts.count; i++)
                names[i] = drafts.items[i].resource.name;
        hint = problem_suggest(loading, typed, names, drafts.count);
        free(names);
        return hint;
}

/*
 * No manifest declares it, but the state may know it: an environment whose manifest was removed
 * while it is still used. That is a guard's to say, who sees both (has-dependents). The diagnostic
 * is kept for the case that the state knows it no more than the manifests do.
 */
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

/* One name that stands at a reference: some manifest declares it, or, where it may be late, the state will be asked. */
static void check_name(struct loading *loading, const struct draft *draft,
                       const struct kind_reference *reference, const struct value *value) {
        const char *name = value_text_of(value), *kind = kinds[reference->kind]->name, *hint;

        if (!name || manifests_find(loading->manifests, reference->kind, name) ||
            problem_is_unread(loading, name))
                return;
        hint = suggest_of_kind(loading, reference->kind, name);
        if (!hint)
                hint = reference->otherwise;
        if (reference->late && loading->options->missing_environments)
                add_missing(loading, draft, name,
                            problem_make(loading, place_of(value), hint, "no %s is named \"%.100s\"", kind,
                                         name));
        else
                problem_error(loading, place_of(value), hint, "no %s is named \"%.100s\"", kind, name);
}

/* Down the rest of a reference's path, into each item where it says "[]". What a manifest leaves out names nothing. */
static void check_names_at(struct loading *loading, const struct draft *draft,
                           const struct kind_reference *reference, const struct value *value,
                           const char *path) {
        char name[64];
        size_t length;

        if (!value)
                return;
        if (*path == '\0') {
                check_name(loading, draft, reference, value);
                return;
        }
        if (*path == '[') {
                for (uint32_t i = 0; value->type == VALUE_LIST && i < value->count; i++)
                        check_names_at(loading, draft, reference, &value->items[i], path + strlen("[]"));
                return;
        }
        path += *path == '.';
        length = strcspn(path, ".[");
        snprintf(name, sizeof(name), "%.*s", (int)length, path);
        check_names_at(loading, draft, reference, value_get(value, name), path + length);
}

static void check_references(struct loading *loading) {
        for (size_t i = 0; i < loading->draft_count; i++) {
                const struct draft *draft = &loading->drafts[i];

                loading->address = draft->resource.address;
                for (const struct kind_reference *reference = draft->resource.kind->references;
                     reference && reference->path; reference++)
                        check_names_at(loading, draft, reference, draft->resource.spec, reference->path);
        }
}

void resolve_all(struct loading *loading) {
        sort_drafts(loading);
        resolve_stack(loading);
        check_references(loading);
        /* In the kinds' order: what is resolved may look at what comes before it. */
        for (size_t i = 0; i < kind_count; i++) {
                if (kinds[i]->resolve)
                        kinds[i]->resolve(loading);
        }
        loading->address = NULL;
}
