/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binding records: which environment an agent or a swarm uses, as an object that an agent's runner
 * can read. Their form is a contract, said in docs/aws.md. Pure.
 *
 * The spec, as desired and observed: the manifest's (type, environment, active, limits; or agents,
 * environment), labels, and the lineage of the writer. What follows from it (formatVersion, kind,
 * name, functionName) stands in the record only.
 */
#ifndef BERTH_PROVIDERS_AWS_BINDING_BINDING_RECORD_H
#define BERTH_PROVIDERS_AWS_BINDING_BINDING_RECORD_H

#include "base/arena.h"
#include "schema/kind.h"
#include "schema/manifests.h"
#include "schema/value.h"

#include <stddef.h>

#define BINDING_FORMAT "1"

/* What a record says beside the spec. */
struct binding_place {
        enum kind_id kind;
        const char *stack, *prefix, *name;
};

/* "registry/STACK/agents/NAME.json"; with a NULL name the folder, with its slash. */
const char *binding_key(const struct binding_place *place, struct arena *arena);

/* `lineage`: of the state that it is applied from, or NULL. */
struct value *binding_spec(const struct resource *resource, const char *lineage, struct arena *arena);
/* Compact JSON, members in byte order of their names: equal specs give equal bytes. Lives in the arena. */
const char *binding_text(const struct binding_place *place, const struct value *spec, struct arena *arena);
/*
 * The spec that a record's text holds. A text that is not a record of this format and name reads as
 * an empty map; one whose functionName is not its environment's reads as without environment.
 */
struct value *binding_parse(const struct binding_place *place, const char *text, size_t length,
                            struct arena *arena);

#endif
