/* SPDX-License-Identifier: Apache-2.0 */
/* The seam of base/object_store.h on S3: where a state lies that many machines share. */
#ifndef BERTH_PROVIDERS_AWS_STATE_OBJECTS_H
#define BERTH_PROVIDERS_AWS_STATE_OBJECTS_H

#include "base/clock.h"
#include "base/object_store.h"
#include "schema/state_place.h"
#include "schema/value.h"

/*
 * Opens it; makes no call. Credentials, region and endpoints are found as for everything in AWS; `stack_aws` is the Stack's `aws`
 * map, or NULL. The clock is borrowed for the store's life. -1 also where the prefix is one of Berth's own.
 */
int state_objects_open(const struct state_place *place, const struct value *stack_aws,
                       const struct clock *clock, struct object_store **ret, struct error *err) MUST_USE;

#endif
