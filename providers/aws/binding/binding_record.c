/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record is compared by its bytes (its ETag is their MD5), so that a spec must always give the same ones: members come in
 * the order of their names, an empty list or map is left out like an absent one, and a swarm's agents are sorted. What
 * follows from the spec and the place is written for readers, and checked, not believed, when it is read back.
 */
#include "providers/aws/binding/binding_record.h"

#include "base/json.h"
#include "providers/aws/client/aws_json.h"
#include "providers/aws/client/texts.h"
#include "providers/aws/shared/names.h"

#include <stdlib.h>

const char *binding_key(const struct binding_place *place, struct arena *arena) {
        const char *folder = place->kind == KIND_SWARM ? "swarms" : "agents";

        if (!place->name)
                return arena_printf(arena, "registry/%s/%s/", place->stack, folder);
        return arena_printf(arena, "registry/%s/%s/%s.json", place->stack, folder, place->name);
}

/* Nulls and empty lists say what their absence says, and must not make another record. */
static void set_if_some(struct value *map, const char *name, const struct value *member,
                        struct arena *arena) {
        bool counted = member && (member->type == VALUE_MAP || member->type == VALUE_LIST);

        if (member && !(counted && member->count == 0) && member->type != VALUE_NULL)
                value_set(arena, map, name, value_copy(arena, member));
}

struct value *binding_spec(const struct resource *resource, const char *lineage, struct arena *arena) {
        struct value *spec = value_new_map(arena);
        const struct value *agents = value_get(resource->spec, "agents");

        for (uint32_t i = 0; i < resource->spec->count; i++)
                set_if_some(spec, resource->spec->members[i].name, &resource->spec->members[i].value, arena);
        /* The members of a swarm matter, their order does not. */
        if (agents && agents->type == VALUE_LIST && agents->count > 0) {
                struct value sorted = value_copy(arena, agents);

                qsort(sorted.items, sorted.count, sizeof(*sorted.items), texts_compare);
                value_set(arena, spec, "agents", sorted);
        }
        set_if_some(spec, "labels", resource->labels, arena);
        value_set_text(arena, spec, "lineage", lineage);
        return spec;
}

static const char *function_name(const struct binding_place *place, const struct value *spec,
                                 struct arena *arena) {
        const char *environment = value_get_text(spec, "environment");

        return environment ? names_function(place->prefix, environment, arena) : NULL;
}

const char *binding_text(const struct binding_place *place, const struct value *spec, struct arena *arena) {
        json_t *record = value_to_json(spec, NULL);

        json_set_text(record, "formatVersion", BINDING_FORMAT);
        json_set_text(record, "kind", kinds[place->kind]->name);
        json_set_text(record, "name", place->name);
        json_set_text(record, "functionName", function_name(place, spec, arena));
        return aws_json_text(record, arena);
}

/* `expected` NULL: the member must not be a text. */
static bool has_member(const json_t *record, const char *name, const char *expected) {
        return expected ? aws_json_says(record, name, expected) : json_text(record, name) == NULL;
}

struct value *binding_parse(const struct binding_place *place, const char *text, size_t length,
                            struct arena *arena) {
        static const char *const derived[] = { "formatVersion", "kind", "name", "functionName" };
        json_t *record JSON_CLEANUP = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
        struct value *spec = value_new_map(arena);

        /*
         * Another writer's object of this name: an empty spec, which differs from all that can be
         * wanted.
         */
        if (!json_is_object(record) || !has_member(record, "formatVersion", BINDING_FORMAT) ||
            !has_member(record, "kind", kinds[place->kind]->name) || !has_member(record, "name", place->name))
                return spec;
        *spec = value_from_json(arena, record);
        /*
         * A runner of agents goes by the function's name: a record that names another function is
         * wrong.
         */
        if (!has_member(record, "functionName", function_name(place, spec, arena)))
                value_unset(spec, "environment");
        for (size_t i = 0; i < sizeof(derived) / sizeof(derived[0]); i++)
                value_unset(spec, derived[i]);
        return spec;
}
