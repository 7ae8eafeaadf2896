/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables are merged name by name and everything else field by field, always by the same rule: what is there, less what we
 * applied before, plus what is desired now. So what others added stays, and what the manifest dropped goes.
 */
#include "providers/local/desire.h"

#include <stdlib.h>
#include <string.h>

static bool is_empty(const struct value *value) {
        return !value || value->type == VALUE_NULL ||
               ((value->type == VALUE_MAP || value->type == VALUE_LIST) && value->count == 0);
}

/*
 * An empty or missing field is a null, so that a value that was added to the file shows as a
 * difference.
 */
static void set_field(struct value *spec, const char *name, const struct value *member, struct arena *arena) {
        value_set(arena, spec, name, is_empty(member) ? value_null() : value_copy(arena, member));
}

static int compare_texts(const void *a, const void *b) {
        const char *left = value_text_of(a), *right = value_text_of(b);

        return strcmp(left ? left : "", right ? right : "");
}

/* The order of a swarm's agents means nothing: sorted, another order is no difference. */
static void set_agents(struct value *spec, const struct value *agents, struct arena *arena) {
        struct value sorted = value_copy(arena, agents);

        if (sorted.count > 1)
                qsort(sorted.items, sorted.count, sizeof(*sorted.items), compare_texts);
        value_set(arena, spec, "agents", sorted);
}

/* The fields of a Stack that mean something on this machine. */
static struct value *stack_spec(const struct resource *resource, struct arena *arena) {
        const struct value *local = value_get(resource->spec, "local");
        struct value *spec = value_new_map(arena);

        set_field(spec, "images", value_get(local, "images"), arena);
        set_field(spec, "workspaces", value_get(local, "workspaces"), arena);
        set_field(spec, "tags", value_get(resource->spec, "tags"), arena);
        return spec;
}

struct value *desire_spec(const struct resource *resource, struct arena *arena) {
        struct value *spec = value_new_map(arena);

        if (resource->kind->id == KIND_STACK)
                return stack_spec(resource, arena);
        for (const struct field *field = resource->kind->fields; field->name; field++) {
                const struct value *member = value_get(resource->spec, field->name);

                if (strcmp(field->name, "agents") == 0 && member && member->type == VALUE_LIST)
                        set_agents(spec, member, arena);
                else if (field->type != FIELD_MAP || !is_empty(member))
                        set_field(spec, field->name, member, arena);
        }
        if (resource->kind->id == KIND_WORKSPACE_POLICY)
                set_field(spec, "environments", value_get(resource->spec, "environments"), arena);
        if (resource->kind->id == KIND_AGENT || resource->kind->id == KIND_SWARM)
                set_field(spec, "labels", resource->labels, arena);
        return spec;
}

/* The members that are there, without those that were applied before, with those that are desired now. */
static struct value *merge_maps(const struct value *present, const struct value *desired,
                                const struct value *recorded, struct arena *arena) {
        struct value *merged = value_new_map(arena);

        if (present && present->type == VALUE_MAP)
                *merged = value_copy(arena, present);
        for (uint32_t i = 0; recorded && recorded->type == VALUE_MAP && i < recorded->count; i++)
                value_unset(merged, recorded->members[i].name);
        for (uint32_t i = 0; desired && desired->type == VALUE_MAP && i < desired->count; i++)
                value_set(arena, merged, desired->members[i].name, desired->members[i].value);
        return merged;
}

struct value *desire_merge(const struct value *present, const struct value *desired,
                           const struct value *recorded, struct arena *arena) {
        struct value *merged = merge_maps(present, desired, recorded, arena);
        struct value *variables = merge_maps(value_get(present, "variables"), value_get(desired, "variables"),
                                             value_get(recorded, "variables"), arena);

        if (variables->count > 0)
                value_set(arena, merged, "variables", *variables);
        return merged;
}

void desire_mark_secrets(struct value *spec, const struct value *desired, const struct value *recorded,
                         struct arena *arena) {
        const struct value *variables = value_get(spec, "variables");
        struct value *marked = value_new_map(arena);

        if (!variables || variables->type != VALUE_MAP)
                return;
        for (uint32_t i = 0; i < variables->count; i++) {
                const char *name = variables->members[i].name;
                const struct value *wanted = value_get(value_get(desired, "variables"), name);
                const struct value *was = value_get(value_get(recorded, "variables"), name);
                struct value text = variables->members[i].value;

                if (text.type == VALUE_TEXT &&
                    ((!wanted && !was) || (was && (was->type == VALUE_SECRET || was->sensitive))))
                        text.sensitive = true;
                value_set(arena, marked, name, text);
        }
        value_set(arena, spec, "variables", *marked);
}
