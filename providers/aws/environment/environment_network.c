/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a function's network leads: "open" (Lambda's own, to everywhere), "isolated" (the VPC that the Stack makes, which is
 * known by its subnets and group), or the subnets and security groups that a manifest names. As lists of ids these are sorted, since Lambda gives them back in any order.
 *
 * A function whose manifests say nothing of its network keeps the one it has: another one is told, and stays.
 */
#include "base/json.h"
#include "providers/aws/client/texts.h"
#include "providers/aws/environment/environment.h"

#include <stdlib.h>

static const struct value *said(const struct provider *provider, const struct value *spec) {
        const struct value *own = value_get(spec, "network");

        return own ? own : value_path(provider->stack, "aws.network");
}

bool environment_says_network(const struct provider *provider, const struct value *spec) {
        return said(provider, spec) != NULL;
}

static struct value sorted_list(struct value list) {
        if (list.count > 1)
                qsort(list.items, list.count, sizeof(*list.items), texts_compare);
        return list;
}

void environment_desire_network(const struct provider *provider, const struct value *spec,
                                const struct value *recorded, struct arena *arena, struct value *ret) {
        const struct value *wanted = said(provider, spec);
        struct value *network;

        if (!wanted)
                wanted = value_get(recorded, "network");
        if (!wanted)
                return;
        if (wanted->type != VALUE_MAP) {
                value_set(arena, ret, "network", *wanted);
                return;
        }
        network = value_new_map(arena);
        for (uint32_t i = 0; i < wanted->count; i++)
                value_set(arena, network, wanted->members[i].name,
                          sorted_list(value_copy(arena, &wanted->members[i].value)));
        value_set(arena, ret, "network", *network);
}

/* The ids that stand for "isolated", as a function's configuration would show them. */
static const struct value *isolated(const struct provider *provider, struct arena *arena) {
        struct value *network = value_new_map(arena), *subnets = value_new_list(arena),
                     *groups = value_new_list(arena);

        for (size_t i = 0; i < ISOLATED_SUBNETS; i++)
                value_append(arena, subnets, value_text(arena, provider->isolated.subnets[i]));
        value_append(arena, groups, value_text(arena, provider->isolated.group));
        value_set(arena, network, "subnets", sorted_list(*subnets));
        value_set(arena, network, "securityGroups", *groups);
        return network;
}

bool environment_knows_network(const struct provider *provider, const struct value *spec) {
        return !texts_same(value_get_text(spec, "network"), ENVIRONMENT_ISOLATED) ||
               *provider->isolated.group;
}

/* Items of AWS's answer that are not texts are left out. */
static struct value sorted_texts(const struct value *list, struct arena *arena) {
        struct value *texts = value_new_list(arena);

        for (uint32_t i = 0; list && list->type == VALUE_LIST && i < list->count; i++) {
                if (value_text_of(&list->items[i]))
                        value_append(arena, texts, list->items[i]);
        }
        return sorted_list(*texts);
}

struct value environment_network_of_vpc(const struct provider *provider, const struct value *vpc,
                                        struct arena *arena) {
        struct value *network = value_new_map(arena);

        if (!vpc)
                return value_text(arena, ENVIRONMENT_OPEN);
        value_set(arena, network, "subnets", sorted_texts(value_get(vpc, "subnets"), arena));
        value_set(arena, network, "securityGroups", sorted_texts(value_get(vpc, "securityGroups"), arena));
        if (*provider->isolated.group && value_equal(network, isolated(provider, arena), NULL))
                return value_text(arena, ENVIRONMENT_ISOLATED);
        return *network;
}

static json_t *list_json(const struct value *list) {
        json_t *array = json_array();

        for (uint32_t i = 0; list && i < list->count; i++)
                json_array_append_new(array, json_string(value_text_of(&list->items[i])));
        return array;
}

json_t *environment_network_json(const struct provider *provider, const struct value *network) {
        struct arena *arena ARENA_CLEANUP = arena_new();

        if (texts_same(value_text_of(network), ENVIRONMENT_ISOLATED))
                network = isolated(provider, arena);
        return json_pack("{s:o, s:o}", "SubnetIds", list_json(value_get(network, "subnets")),
                         "SecurityGroupIds", list_json(value_get(network, "securityGroups")));
}
