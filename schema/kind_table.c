/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds that there are. Nothing else stands in this file: kind.h says why. */
#include "schema/fields.h"

const struct kind *const kinds[] = {
        [KIND_STACK] = &stack_kind,
        [KIND_RESOURCE_RANGE] = &resource_range_kind,
        [KIND_IMAGE] = &image_kind,
        [KIND_ENVIRONMENT] = &environment_kind,
        [KIND_WORKSPACE_POLICY] = &workspace_policy_kind,
        [KIND_AGENT] = &agent_kind,
        [KIND_SWARM] = &swarm_kind,
        [KIND_CONTROLLER] = &controller_kind,
        [KIND_SERVER] = &server_kind,
};
const size_t kind_count = sizeof(kinds) / sizeof(kinds[0]);

_Static_assert(sizeof(kinds) / sizeof(kinds[0]) == KIND_COUNT, "each kind's id has a row");
