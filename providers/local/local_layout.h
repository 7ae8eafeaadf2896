/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where things are below a stack's data root, {state folder}/local/{stack}. docs/local.md says it to users.
 *
 *     stack.json                     the Stack
 *     environments/NAME.json         one record for each resource, mode 0600: record.h
 *     registry/agents/NAME.json, registry/swarms/NAME.json, registry/images/NAME.json
 *     policies/NAME.json
 *     images/                        the image store, unless the Stack says local.images: images.h
 *     workspaces/sessions/ID/        session.json and workspace/, unless the Stack says local.workspaces: local_workspaces.h
 */
#ifndef BERTH_PROVIDERS_LOCAL_LOCAL_LAYOUT_H
#define BERTH_PROVIDERS_LOCAL_LOCAL_LAYOUT_H

#include "base/arena.h"
#include "schema/kind.h"
#include "schema/value.h"

/* The data root of a stack; `folder` is the state's folder, as in struct provider_config. */
const char *local_root(const char *folder, const char *stack, struct arena *arena);

/* The name of the stack that has this data root; points into it. */
const char *local_stack_of(const char *root);

/* The record's path below the root: "environments/NAME.json". */
const char *local_record_name(enum kind_id kind, const char *name, struct arena *arena);
/* The folder below the root that records of the kind are in: "environments"; "" for the Stack's. */
const char *local_record_folder(enum kind_id kind);

/*
 * The image store and the folder of workspaces, from the `images` and `workspaces` of a Stack's record; the defaults where
 * it is NULL. Relative paths are relative to the state's folder.
 */
const char *local_images_folder(const char *root, const struct value *stack, struct arena *arena);
const char *local_workspaces_folder(const char *root, const struct value *stack, struct arena *arena);

#endif
