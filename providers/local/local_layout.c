/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/local_layout.h"

#include "base/files.h"

#include <stdlib.h>
#include <string.h>

const char *local_root(const char *folder, const char *stack, struct arena *arena) {
        return path_join_in(path_join_in(folder, "local", arena), stack, arena);
}

const char *local_stack_of(const char *root) {
        const char *slash = strrchr(root, '/');

        return slash ? slash + 1 : root;
}

const char *local_record_folder(enum kind_id kind) {
        static const char *const folders[KIND_COUNT] = {
                [KIND_STACK] = "",
                [KIND_IMAGE] = "registry/images",
                [KIND_ENVIRONMENT] = "environments",
                [KIND_WORKSPACE_POLICY] = "policies",
                [KIND_AGENT] = "registry/agents",
                [KIND_SWARM] = "registry/swarms",
        };

        return folders[kind];
}

const char *local_record_name(enum kind_id kind, const char *name, struct arena *arena) {
        if (kind == KIND_STACK)
                return "stack.json";
        return arena_printf(arena, "%s/%s.json", local_record_folder(kind), name);
}

/* The root without its last two parts, "local" and the stack's name. */
static const char *state_folder(const char *root, struct arena *arena) {
        size_t length = strlen(root);

        for (int parts = 0; parts < 2; parts++) {
                while (length > 0 && root[length - 1] != '/')
                        length--;
                while (length > 1 && root[length - 1] == '/')
                        length--;
        }
        return arena_strndup(arena, root, length);
}

static const char *configured_folder(const char *root, const struct value *stack, const char *name,
                                     struct arena *arena) {
        const char *given = value_get_text(stack, name);

        if (!given || !*given)
                return path_join_in(root, name, arena);
        return given[0] == '/' ? arena_strdup(arena, given)
                               : path_join_in(state_folder(root, arena), given, arena);
}

const char *local_images_folder(const char *root, const struct value *stack, struct arena *arena) {
        return configured_folder(root, stack, "images", arena);
}

const char *local_workspaces_folder(const char *root, const struct value *stack, struct arena *arena) {
        return configured_folder(root, stack, "workspaces", arena);
}
