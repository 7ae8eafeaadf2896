/* SPDX-License-Identifier: Apache-2.0 */
/* What things of a stack are called in AWS: for who manages them, and for who only uses them. Pure; all in the arena. */
#ifndef BERTH_PROVIDERS_AWS_SHARED_NAMES_H
#define BERTH_PROVIDERS_AWS_SHARED_NAMES_H

#include "base/arena.h"
#include "schema/value.h"

/* The Stack's `aws.namePrefix`, of its spec; never NULL. */
const char *names_prefix(const struct value *stack);
const char *names_bucket(const char *prefix, const char *account, const char *region, struct arena *arena);
const char *names_function(const char *prefix, const char *environment, struct arena *arena);

#endif
