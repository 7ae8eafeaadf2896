/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/kind.h"

#include "schema/fields.h"

#include <string.h>
#include <strings.h>

const struct kind kinds[KIND_COUNT] = {
        [KIND_STACK] = {
                .id = KIND_STACK,
                .name = "Stack",
                .doc = "One set of manifests with one provider and one state: where everything lives, and what holds "
                       "for all of it. At most one; without any, a stack named default on this machine.",
                .fields = stack_fields,
                .managed = true,
        },
        [KIND_RESOURCE_RANGE] = {
                .id = KIND_RESOURCE_RANGE,
                .name = "ResourceRange",
                .doc = "What the platform team allows environments to ask for. It can only narrow the limits of the "
                       "Environment's own fields. Several that match intersect.",
                .fields = resource_range_fields,
                .groups = resource_range_groups,
        },
        [KIND_IMAGE] = {
                .id = KIND_IMAGE,
                .name = "Image",
                .doc = "A container image that environments name, and the settings of its repository.",
                .fields = image_fields,
                .groups = image_groups,
                .managed = true,
        },
        [KIND_ENVIRONMENT] = {
                .id = KIND_ENVIRONMENT,
                .name = "Environment",
                .doc = "A sandboxed Linux computer in which agents run Python and shell. In AWS, one Lambda function "
                       "from a container image.",
                .fields = environment_fields,
                .managed = true,
        },
        [KIND_WORKSPACE_POLICY] = {
                .id = KIND_WORKSPACE_POLICY,
                .name = "WorkspacePolicy",
                .doc = "How long the files of sessions are kept, and where. In AWS, lifecycle rules of the workspace "
                       "bucket.",
                .fields = workspace_policy_fields,
                .groups = workspace_policy_groups,
                .managed = true,
        },
        [KIND_AGENT] = {
                .id = KIND_AGENT,
                .name = "Agent",
                .doc = "One who uses an environment: a dependent of it.",
                .fields = agent_fields,
                .managed = true,
        },
        [KIND_SWARM] = {
                .id = KIND_SWARM,
                .name = "Swarm",
                .doc = "Agents that work together, in an environment that they share.",
                .fields = swarm_fields,
                .managed = true,
        },
        [KIND_CONTROLLER] = {
                .id = KIND_CONTROLLER,
                .name = "Controller",
                .doc = "The program that follows Git repositories and keeps their stacks true: berth controller -f FILE. "
                       "It stands in a file of its own, one a file, and is no part of a stack.",
                .fields = controller_fields,
        },
};

const struct kind *kind_find(const char *name) {
        for (size_t i = 0; i < KIND_COUNT; i++) {
                if (strcmp(kinds[i].name, name) == 0)
                        return &kinds[i];
        }
        return NULL;
}

static const struct {
        const char *name;
        enum kind_id id;
} short_names[] = {
        { "env", KIND_ENVIRONMENT },
        { "range", KIND_RESOURCE_RANGE },
        { "policy", KIND_WORKSPACE_POLICY },
        { "policies", KIND_WORKSPACE_POLICY },
        { "workspacepolicies", KIND_WORKSPACE_POLICY },
};

/* Whether `name` is `known` in any case, with or without a plural's s. */
static bool is_loosely(const char *name, const char *known) {
        size_t length = strlen(known);

        if (strncasecmp(name, known, length) != 0)
                return false;
        return name[length] == '\0' || strcasecmp(name + length, "s") == 0;
}

const struct kind *kind_find_loosely(const char *name) {
        for (size_t i = 0; i < KIND_COUNT; i++) {
                if (is_loosely(name, kinds[i].name))
                        return &kinds[i];
        }
        for (size_t i = 0; i < sizeof(short_names) / sizeof(short_names[0]); i++) {
                if (is_loosely(name, short_names[i].name))
                        return &kinds[short_names[i].id];
        }
        return NULL;
}

const struct field *field_find(const struct field *fields, const char *name) {
        for (const struct field *field = fields; field && field->name; field++) {
                if (strcmp(field->name, name) == 0)
                        return field;
        }
        return NULL;
}

/* One step of a path below a field; `length` bytes of `step`. */
static const struct field *step_down(const struct field *fields, const struct field *parent, const char *step,
                                     size_t length) {
        for (const struct field *field = fields; field && field->name; field++) {
                if (strncmp(field->name, step, length) == 0 && field->name[length] == '\0')
                        return field;
        }
        return parent && parent->type == FIELD_MAP ? parent->item : NULL;
}

const struct field *kind_field(const struct kind *kind, const char *path) {
        const struct field *fields = kind->fields, *field = NULL;

        for (;;) {
                size_t length = strcspn(path, ".[");

                if (length > 0) {
                        field = step_down(fields, field, path, length);
                        if (!field)
                                return NULL;
                        path += length;
                }
                while (*path == '[') {
                        /* "transitions[0].afterDays", as plans write it. */
                        path += strcspn(path, "]");
                        path += *path == ']';
                }
                if (*path == '\0')
                        return field;
                while (field && field->type == FIELD_LIST)
                        field = field->item;
                fields = field ? field->fields : NULL;
                path++;
        }
}
