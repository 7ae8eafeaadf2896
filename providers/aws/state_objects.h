/* SPDX-License-Identifier: Apache-2.0 */
/* The seam of base/object_store.h on S3: where a state lies that many machines share. */
#ifndef BERTH_PROVIDERS_AWS_STATE_OBJECTS_H
#define BERTH_PROVIDERS_AWS_STATE_OBJECTS_H

#include "base/clock.h"
#include "base/object_store.h"
#include "schema/value.h"

#define STATE_OBJECTS_SCHEME "s3://"

/* -1 where the text is no "s3://BUCKET/PREFIX", and says what is wrong with it. Pure. */
int state_objects_check(const char *url, struct error *err) MUST_USE;

/*
 * Opens it; makes no call. Credentials, region and endpoints are found as for everything in AWS; `stack_aws` is the Stack's `aws`
 * map, or NULL. The clock is borrowed for the store's life.
 */
int state_objects_open(const char *url, const struct value *stack_aws, const struct clock *clock,
                       struct object_store **ret, struct error *err) MUST_USE;

#endif
