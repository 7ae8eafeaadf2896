/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/fields.h"
#include "schema/loading.h"

static const struct field swarm_fields[] = {
        {
                .name = "agents",
                .type = FIELD_LIST,
                .required = true,
                .minimum = 1,
                .maximum = 10000,
                .item = &agent_name_field,
                .doc = "The agents that work together, each named once.",
        },
        {
                .name = "environment",
                .type = FIELD_TEXT,
                .reference = "Environment",
                .doc = "The environment that the swarm shares. As long as it stands here, the environment cannot be "
                       "deleted (has-dependents).",
        },
        { 0 },
};

static void check_swarm(struct loading *loading, const struct draft *draft) {
        check_names_once(loading, typed_member(draft->resource.spec, "agents", VALUE_LIST));
}

static void summarise_swarm(const struct value *spec, const struct value *wish, struct strbuf *out) {
        const struct value *agents = value_get(spec, "agents");
        const char *environment = value_get_text(spec, "environment");

        (void)wish;
        strbuf_printf(out, "%u %s%s%s", agents ? agents->count : 0,
                      agents && agents->count == 1 ? "agent" : "agents", environment ? " -> " : "",
                      environment ? environment : "");
}

static const struct kind_reference references[] = {
        { .path = "environment", .kind = KIND_ENVIRONMENT, .orders = true, .binds = true, .late = true },
        { .path = "agents[]", .kind = KIND_AGENT },
        { 0 },
};

const struct kind swarm_kind = {
        .id = KIND_SWARM,
        .name = "Swarm",
        .doc = "Agents that work together, in an environment that they share.",
        .fields = swarm_fields,
        .schema_rules = "{\"properties\": {\"agents\": {\"uniqueItems\": true}}}",
        .managed = true,
        .lane = 5,
        .references = references,
        .check = check_swarm,
        .summarise = summarise_swarm,
};
