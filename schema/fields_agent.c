/* SPDX-License-Identifier: Apache-2.0 */
/* Agent and Swarm: those who use environments. */
#include "schema/fields.h"

static const char *const types[] = { "specialist", "general", NULL };
static const char *const on_limits[] = { "queue", "reject", NULL };

static const struct field limit_fields[] = {
        {
                .name = "cpus",
                .type = FIELD_INTEGER,
                .unit = "vCPU",
                .minimum = 1,
                .maximum = 100000,
                .doc = "The most CPUs that the agent's containers use together.",
        },
        {
                .name = "memoryMB",
                .type = FIELD_INTEGER,
                .unit = "MB",
                .minimum = 1,
                .maximum = 1000000000,
                .doc = "The most memory that the agent's containers use together.",
        },
        {
                .name = "containers",
                .type = FIELD_INTEGER,
                .minimum = 1,
                .maximum = 100000,
                .doc = "The most containers that the agent runs at the same time.",
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

const struct field agent_fields[] = {
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

const struct field swarm_fields[] = {
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
