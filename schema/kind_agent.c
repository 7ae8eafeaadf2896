/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/fields.h"
#include "schema/loading.h"

#include <string.h>

static const char *const types[] = { "specialist", "general", NULL };
static const char *const on_limits[] = { "queue", "reject", NULL };

static const struct field limit_fields[] = {
        {
                .name = "cpus",
                .type = FIELD_INTEGER,
                .unit = "vCPU",
                .minimum = 1,
                .maximum = 100000,
                .doc = "The most CPUs that all that runs for the agent uses together: its containers, its runs, its sessions. "
                       "Nothing waits for it.",
        },
        {
                .name = "memoryMB",
                .type = FIELD_INTEGER,
                .unit = "MB",
                .minimum = 1,
                .maximum = 1000000000,
                .doc = "The most memory that any one of the agent's sandboxes gets: a container, a session, a run of `berth exec`.",
        },
        {
                .name = "containers",
                .type = FIELD_INTEGER,
                .minimum = 1,
                .maximum = 100000,
                .doc = "The most containers that the agent runs at the same time; its sessions that have a sandbox count as well.",
        },
        {
                .name = "onLimit",
                .type = FIELD_TEXT,
                .default_text = "queue",
                .choices_text = on_limits,
                .doc = "What happens to work beyond a limit: it waits (queue), or is turned away (reject).",
        },
        { 0 },
};

static const struct field agent_fields[] = {
        {
                .name = "type",
                .type = FIELD_TEXT,
                .default_text = "general",
                .choices_text = types,
                .doc = "A specialist always works in its own environment; a general agent chooses one with each task.",
        },
        {
                .name = "environment",
                .type = FIELD_TEXT,
                .reference = "Environment",
                .doc = "The environment that the agent works in, or, for a general agent, starts in. As long as it "
                       "stands here, the environment cannot be deleted (has-dependents).",
        },
        {
                .name = "active",
                .type = FIELD_BOOLEAN,
                .default_text = "true",
                .doc = "Whether the agent is in service. A specialist without an environment cannot be. An inactive "
                       "agent's reference still guards its environment.",
        },
        {
                .name = "limits",
                .type = FIELD_OBJECT,
                .fields = limit_fields,
                .doc = "What the agent may use at the same time. Absent: no limit of its own.",
        },
        { 0 },
};

static bool is_active_specialist(const struct value *spec) {
        const char *type = value_get_text(spec, "type");

        return type && strcmp(type, "specialist") == 0 && value_get_boolean(spec, "active", false);
}

/*
 * Reported where `active` is written; where it is not, the default is what is wrong, and the name the place to say
 * so.
 */
static void check_specialist(struct loading *loading, const struct draft *draft) {
        const struct value *spec = draft->resource.spec;
        const struct value *active = value_get(spec, "active");
        struct place place = draft->name;

        if (!is_active_specialist(spec) || value_get(spec, "environment"))
                return;
        if (active->line > 0)
                place = place_of(active);
        problem_error(loading, place, "name its environment, or write active: false",
                      "a specialist without an environment cannot be active");
}

static void summarise_agent(const struct value *spec, const struct value *wish, struct strbuf *out) {
        const char *type = value_get_text(spec, "type"), *environment = value_get_text(spec, "environment");

        (void)wish;
        strbuf_printf(out, "%s%s%s", type ? type : "agent", environment ? " -> " : "",
                      environment ? environment : "");
        if (!value_get_boolean(spec, "active", true))
                strbuf_append(out, " (inactive)");
}

static const struct kind_reference references[] = {
        { .path = "environment", .kind = KIND_ENVIRONMENT, .orders = true, .binds = true, .late = true },
        { 0 },
};

const struct kind agent_kind = {
        .id = KIND_AGENT,
        .name = "Agent",
        .doc = "An agent that works in an environment, and so depends on it.",
        .fields = agent_fields,
        .schema_rules =
                "{\"if\": {\"properties\": {\"type\": {\"const\": \"specialist\"}}, \"required\": [\"type\"], "
                "\"not\": {\"required\": [\"environment\"]}}, "
                "\"then\": {\"properties\": {\"active\": {\"const\": false}}, \"required\": [\"active\"]}}",
        .managed = true,
        .lane = 4,
        .references = references,
        .check = check_specialist,
        .needs_binding = is_active_specialist,
        .summarise = summarise_agent,
};
