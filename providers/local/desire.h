/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The specs of records: what a record should say, and which part of an existing one is ours. All pure.
 *
 * A desired spec has nulls for the fields that the manifest leaves out. A field that was added to
 * the file is then a difference. Variables are the exception, as on AWS: those that no manifest
 * ever named stay as they are found.
 */
#ifndef BERTH_PROVIDERS_LOCAL_DESIRE_H
#define BERTH_PROVIDERS_LOCAL_DESIRE_H

#include "base/arena.h"
#include "schema/manifests.h"
#include "schema/value.h"

/* For every kind. An Environment's lacks the digest of its image. */
struct value *desire_spec(const struct resource *resource, struct arena *arena);

/* What replaces `present` (NULL: nothing of ours is there): others' fields stay, our earlier fields that are no longer desired go. */
struct value *desire_merge(const struct value *present, const struct value *desired,
                           const struct value *recorded, struct arena *arena);

/* Marks the variables that must not be shown: recorded as secrets, or named neither by `desired` nor by `recorded`. */
void desire_mark_secrets(struct value *spec, const struct value *desired, const struct value *recorded,
                         struct arena *arena);

#endif
