/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON that programs send, held against field tables: what they take, JSON Schema says by the same tables (schema_json_field()). Members
 * that no table has are refused; null is as if the member were not there.
 */
#ifndef BERTH_SCHEMA_JSON_CHECK_H
#define BERTH_SCHEMA_JSON_CHECK_H

#include "base/arena.h"
#include "schema/kind.h"

#include <jansson.h>

/*
 * NULL where the object is as the fields say (ended by a NULL name; `groups` may be NULL);
 * otherwise its fault, for the sender, in the arena: "timeoutSeconds must be 1 to 900, found 0". A
 * whole number that was written as 5.0 becomes 5, and a text of a field that has `plain` becomes
 * what that gives.
 */
const char *json_check(json_t *object, const struct field *fields, const struct field_group *groups,
                       struct arena *arena);

#endif
