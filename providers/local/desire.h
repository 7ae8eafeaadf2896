/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Specs of records: what a resource's shall be, and what is ours in one that is there. All pure.
 *
 * A desired spec has nulls for the fields that the manifest leaves out, so that one which somebody adds to the file is a
 * difference; variables are the exception, as on AWS: those that no manifest ever named are left as they are found.
 */
#ifndef BERTH_PROVIDERS_LOCAL_DESIRE_H
#define BERTH_PROVIDERS_LOCAL_DESIRE_H

#include "base/arena.h"
#include "schema/manifest.h"
#include "schema/value.h"

/* Of every kind; of an Environment all but the digest of its image. */
struct value *desire_spec(const struct resource *resource, struct arena *arena);

/* What is written over `present` (NULL: nothing that is ours): fields of others stay, fields of ours that were go. */
struct value *desire_merge(const struct value *present, const struct value *desired,
                           const struct value *recorded, struct arena *arena);

/* Marks the variables that must not be shown: recorded as secrets, or named neither by `desired` nor by `recorded`. */
void desire_mark_secrets(struct value *spec, const struct value *desired, const struct value *recorded,
                         struct arena *arena);

#endif
