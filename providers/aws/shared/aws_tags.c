/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any user of an AWS resource may tag it, and many tools do. So Berth compares only tags that it
 * wants or once set, and what is not among those neither makes a difference nor is removed.
 */
#include "providers/aws/shared/aws_tags.h"

#include "base/array.h"
#include "providers/aws/shared/lineage.h"

#include <string.h>

#define TAG_STACK "berth:stack"
#define TAG_KIND "berth:kind"
#define TAG_NAME "berth:name"
#define TAG_LINEAGE "berth:lineage"
#define TAGS_MAX 50

struct value *aws_tags_for(const struct provider *provider, const char *kind, const char *name,
                           struct arena *arena) {
        return aws_tags_of(provider, kind, name, provider->stack_labels, arena);
}

struct value *aws_tags_of(const struct provider *provider, const char *kind, const char *name,
                          const struct value *labels, struct arena *arena) {
        const struct value *stack_tags = value_get(provider->stack, "tags"),
                           *names = value_get(provider->stack, "tagLabels");
        struct value *tags = value_new_map(arena);

        for (uint32_t i = 0; stack_tags && stack_tags->type == VALUE_MAP && i < stack_tags->count; i++)
                value_set_text(arena, tags, stack_tags->members[i].name,
                               value_text_of(&stack_tags->members[i].value));
        /* A label says it of this resource, the Stack's tag of all of them. */
        for (uint32_t i = 0; names && i < names->count; i++) {
                const char *key = value_text_of(&names->items[i]);

                if (key)
                        value_set_text(arena, tags, key,
                                       value_get(labels, key) ? value_get_text(labels, key)
                                                              : value_get_text(tags, key));
        }
        value_set_text(arena, tags, TAG_STACK, provider->stack_name);
        value_set_text(arena, tags, TAG_KIND, kind);
        value_set_text(arena, tags, TAG_NAME, name);
        value_set_text(arena, tags, TAG_LINEAGE, provider->lineage.id);
        return tags;
}

const char *aws_lineage_of(const struct value *tags) {
        return value_get_text(tags, TAG_LINEAGE);
}

enum ownership aws_ownership(const struct provider *provider, const struct value *tags, struct arena *arena,
                             const char **ret_owner) {
        const char *stack = value_get_text(tags, TAG_STACK), *lineage = aws_lineage_of(tags);

        if (!stack) {
                *ret_owner = NULL;
                return OWNER_NONE;
        }
        *ret_owner = arena_printf(arena, "stack %s", stack);
        if (strcmp(stack, provider->stack_name) != 0)
                return OWNER_OTHER;
        if (!lineage || lineage_is_ours(provider, lineage))
                return OWNER_SELF;
        *ret_owner = lineage_owner(stack, lineage, arena);
        return OWNER_OTHER;
}

bool aws_is_of_stack(const struct provider *provider, const struct value *tags) {
        const char *stack = value_get_text(tags, TAG_STACK);

        return stack && strcmp(stack, provider->stack_name) == 0;
}

bool aws_is_of_lineage(const struct provider *provider, const struct value *tags) {
        const char *lineage = aws_lineage_of(tags);

        return lineage && aws_is_of_stack(provider, tags) && !lineage_is_ours(provider, lineage);
}

bool aws_tags_name(const struct value *tags, const char *kind, const char *name) {
        const char *own_kind = value_get_text(tags, TAG_KIND), *own_name = value_get_text(tags, TAG_NAME);

        return own_kind && own_name && strcmp(own_kind, kind) == 0 && strcmp(own_name, name) == 0;
}

void aws_set_lineage(const char *address, const char *lineage, struct arena *arena, struct observation *ret) {
        ret->lineage = lineage;
        ret->claim_remedy = arena_printf(arena, "give %s another name" AWS_LOST_STATE, address);
}

void aws_set_ownership(const struct provider *provider, const char *address, const struct value *tags,
                       struct arena *arena, struct observation *ret) {
        ret->ownership = aws_ownership(provider, tags, arena, &ret->owner);
        if (aws_is_of_lineage(provider, tags))
                aws_set_lineage(address, aws_lineage_of(tags), arena, ret);
}

/* Ours by the stack's name alone: only what the next apply would mark is told. */
static bool has_old_marks(const struct observation *seen, const char *path) {
        if (!seen->exists || seen->ownership != OWNER_SELF)
                return false;
        if (!path)
                return !value_get(seen->spec, "lineage");
        return value_path(seen->spec, path) && !aws_lineage_of(value_path(seen->spec, path));
}

void aws_warn_of_old_marks(const struct provider *provider, const char *kind, const char *path,
                           struct observation *observations, size_t count, struct arena *arena) {
        struct strbuf list STRBUF_CLEANUP = STRBUF_INIT;
        struct observation *first = NULL;
        size_t old = 0;

        for (size_t i = 0; provider->lineage.id && i < count; i++) {
                if (!has_old_marks(&observations[i], path))
                        continue;
                if (!first)
                        first = &observations[i];
                strbuf_printf(&list, "\n%s/%s", kind, observations[i].name);
                old++;
        }
        if (!first)
                return;
        first->warnings = array_grow(arena, first->warnings, first->warning_count, sizeof(*first->warnings));
        first->warnings[first->warning_count++] = arena_printf(
                arena,
                "%zu %s with marks of an older Berth, without a lineage, %s adopted: an apply marks %s as "
                "this state's (berth:lineage)%s",
                old, old == 1 ? "resource" : "resources", old == 1 ? "is" : "are", old == 1 ? "it" : "them",
                strbuf_text(&list));
}

struct value *aws_tags_of_ours(const struct value *observed, const struct value *desired,
                               const struct value *recorded, struct arena *arena) {
        struct value *tags = value_new_map(arena);

        for (uint32_t i = 0; observed && observed->type == VALUE_MAP && i < observed->count; i++) {
                const struct member *tag = &observed->members[i];

                if (value_get(desired, tag->name) || value_get(recorded, tag->name))
                        value_set(arena, tags, tag->name, tag->value);
        }
        return tags;
}

/* Whether `than` lacks the tag, or (unless only keys count) gives it another text. */
static bool is_beyond(const struct member *tag, const struct value *than, bool keys_only) {
        const struct value *other = value_get(than, tag->name);

        return !other || (!keys_only && !value_equal(&tag->value, other, NULL));
}

struct value *aws_tags_beyond(const struct value *from, const struct value *than, bool keys_only,
                              struct arena *arena) {
        struct value *tags = value_new_map(arena);

        for (uint32_t i = 0; from && from->type == VALUE_MAP && i < from->count; i++) {
                if (is_beyond(&from->members[i], than, keys_only))
                        value_set(arena, tags, from->members[i].name, from->members[i].value);
        }
        return tags;
}

bool aws_any_tag_beyond(const struct value *from, const struct value *than, bool keys_only) {
        for (uint32_t i = 0; from && from->type == VALUE_MAP && i < from->count; i++) {
                if (is_beyond(&from->members[i], than, keys_only))
                        return true;
        }
        return false;
}

bool aws_tags_same(const struct value *a, const struct value *b) {
        return !aws_any_tag_beyond(a, b, false) && !aws_any_tag_beyond(b, a, true);
}

const char *aws_too_many_tags(const struct value *there, const struct value *desired, struct arena *arena) {
        uint32_t others = 0, missing = 0;

        for (uint32_t i = 0; there && i < there->count; i++) {
                const char *key = there->members[i].name;

                others += !value_get(desired, key) && strncmp(key, "aws:", 4) != 0;
        }
        for (uint32_t i = 0; i < desired->count; i++)
                missing += !value_get(there, desired->members[i].name);
        if (missing == 0 || others + desired->count <= TAGS_MAX)
                return NULL;
        return arena_printf(
                arena,
                "tags: it would carry %u, and AWS takes %d on one resource: %u there are not this stack's",
                others + desired->count, TAGS_MAX, others);
}
