/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whoever holds an AWS resource may tag it, and many tools do. So Berth compares only tags that it wants or once set, and
 * what is not among those neither makes a difference nor is removed.
 */
#include "providers/aws/shared/tags.h"

#include <string.h>

#define TAG_STACK "berth:stack"
#define TAG_KIND "berth:kind"
#define TAG_NAME "berth:name"

struct value *aws_tags_for(const struct provider *provider, const char *kind, const char *name,
                           struct arena *arena) {
        const struct value *stack_tags = value_get(provider->stack, "tags");
        struct value *tags = value_new_map(arena);

        for (uint32_t i = 0; stack_tags && stack_tags->type == VALUE_MAP && i < stack_tags->count; i++)
                value_set_text(arena, tags, stack_tags->members[i].name,
                               value_text_of(&stack_tags->members[i].value));
        value_set_text(arena, tags, TAG_STACK, provider->stack_name);
        value_set_text(arena, tags, TAG_KIND, kind);
        value_set_text(arena, tags, TAG_NAME, name);
        return tags;
}

enum ownership aws_ownership(const struct provider *provider, const struct value *tags, struct arena *arena,
                             const char **ret_owner) {
        const char *stack = value_get_text(tags, TAG_STACK);

        if (!stack) {
                *ret_owner = NULL;
                return OWNER_NONE;
        }
        *ret_owner = arena_printf(arena, "stack %s", stack);
        return strcmp(stack, provider->stack_name) == 0 ? OWNER_SELF : OWNER_OTHER;
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
