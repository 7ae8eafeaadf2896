/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads what a run needs from up to three records: the environment's, the Stack's (where images and workspaces are), and for
 * `exec --agent` the agent's. Numbers in records are checked here, since anybody may have edited the files.
 */
#include "providers/local/environment.h"

#include "providers/local/images/image_index.h"
#include "providers/local/images/images.h"
#include "providers/local/record.h"

#include <string.h>

/* Names come from command lines too, and become paths here. */
static bool is_name(const char *name) {
        size_t length = strlen(name);

        return length > 0 && length <= NAME_LENGTH_MAX &&
               strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == length;
}

/* Reads a record that must exist and be this stack's. */
static int load_record(const char *root, enum kind_id kind, const char *name, struct arena *arena,
                       struct local_record *ret, struct error *err) {
        struct record_place place = { root, local_stack_of(root), kind, name };

        if (!is_name(name))
                return error_set_kind(err, ERROR_NOT_FOUND, "\"%s\" cannot be the name of an %s", name,
                                      kinds[kind]->name);
        if (record_read(&place, arena, ret, err) < 0)
                return -1;
        if (!ret->exists)
                return error_set_kind(err, ERROR_NOT_FOUND,
                                      "%s/%s does not exist here (%s): declare it, and run berth apply",
                                      kinds[kind]->name, name, ret->path);
        if (ret->ownership != OWNER_SELF)
                return error_set(err, "%s does not belong to the stack %s: run berth plan", ret->path,
                                 place.stack);
        return 0;
}

static void load_variables(const struct value *variables, struct arena *arena,
                           struct local_environment *ret) {
        struct local_variable *list;
        const char **elsewhere;

        if (!variables || variables->type != VALUE_MAP || variables->count == 0)
                return;
        list = arena_array(arena, variables->count, sizeof(*list));
        elsewhere = arena_array(arena, variables->count, sizeof(*elsewhere));
        for (uint32_t i = 0; i < variables->count; i++) {
                const struct value *text = &variables->members[i].value;

                if (text->type == VALUE_MAP)
                        elsewhere[ret->elsewhere_count++] = variables->members[i].name;
                if (text->type != VALUE_TEXT)
                        continue;
                list[ret->variable_count++] = (struct local_variable){
                        .name = variables->members[i].name,
                        .text = text->text,
                        .sensitive = text->sensitive,
                };
        }
        ret->variables = list;
        ret->elsewhere = elsewhere;
}

static void set_image_problem(const struct local_image_name *name, bool imported_since, struct arena *arena,
                              struct local_environment *ret) {
        if (imported_since)
                ret->image_problem = arena_printf(
                        arena, "the image %s was imported since the environment was applied: run berth apply",
                        name->text);
        else
                ret->image_problem = arena_printf(arena, "the image %s is not in the local store: %s",
                                                  name->text, local_image_remedy(name, arena));
}

/* The image of the digest that was applied, never the one that a tag leads to by now. */
static int load_image(const char *folder, const struct value *image, struct arena *arena,
                      struct local_environment *ret, struct error *err) {
        struct local_image_name name = local_image_name(image, arena);
        struct local_images images;
        struct local_image found;

        ret->image = name.text;
        if (!name.digest && name.host_without)
                return 0;
        if (local_images_open(folder, arena, &images, err) < 0)
                return -1;
        if (name.digest && local_image_find(&images, NULL, NULL, name.digest, arena, &found)) {
                ret->image_digest = found.digest;
                ret->image_root = found.root;
                if (image_index_variables(folder, found.digest, arena, &ret->image_variables,
                                          &ret->image_variable_count, err) < 0)
                        return error_context(err, "the image %s", name.text);
                return 0;
        }
        set_image_problem(&name,
                          !name.digest &&
                                  local_image_find(&images, name.repository, name.tag, NULL, arena, &found),
                          arena, ret);
        return 0;
}

/* Where images and workspaces are: as the Stack's record says, or at their default places. */
static int load_places(const char *root, struct arena *arena, const char **ret_images,
                       const char **ret_workspaces, struct error *err) {
        struct record_place place = { root, local_stack_of(root), KIND_STACK, local_stack_of(root) };
        struct local_record stack;

        if (record_read(&place, arena, &stack, err) < 0)
                return -1;
        *ret_images = local_images_folder(root, stack.spec, arena);
        *ret_workspaces = local_workspaces_folder(root, stack.spec, arena);
        return 0;
}

/*
 * -1 where there is none. Capped, because a record may hold any number and these are multiplied later: no machine has more
 * than that anyway.
 */
static int64_t read_number(const struct value *map, const char *name) {
        int64_t given = value_get_integer(map, name, -1);

        return given > INT32_MAX ? INT32_MAX : given;
}

static int check_sizes(const struct local_environment *environment, const char *path, struct error *err) {
        if (environment->memory_mb > 0 && environment->storage_mb > 0 && environment->timeout_s > 0)
                return 0;
        return error_set(err,
                         "%s has no valid memoryMB, workspaceStorageMB or timeoutSeconds: run berth apply, "
                         "which mends it",
                         path);
}

int local_environment_load(const char *root, const char *name, struct arena *arena,
                           struct local_environment *ret, struct error *err) {
        struct local_environment environment = { 0 };
        struct local_record record;
        const char *images;

        if (load_record(root, KIND_ENVIRONMENT, name, arena, &record, err) < 0)
                return -1;
        environment.stack = arena_strdup(arena, local_stack_of(root));
        environment.name = arena_strdup(arena, name);
        environment.memory_mb = read_number(record.spec, "memoryMB");
        environment.storage_mb = read_number(record.spec, "workspaceStorageMB");
        environment.timeout_s = read_number(record.spec, "timeoutSeconds");
        environment.reserved_concurrency = read_number(record.spec, "reservedConcurrency");
        environment.tenant_isolation = value_get_boolean(record.spec, "tenantIsolation", false);
        load_variables(value_get(record.spec, "variables"), arena, &environment);
        if (check_sizes(&environment, record.path, err) < 0 ||
            load_places(root, arena, &images, &environment.workspaces, err) < 0 ||
            load_image(images, value_get(record.spec, "image"), arena, &environment, err) < 0)
                return -1;
        *ret = environment;
        return 0;
}

int local_agent_load(const char *root, const char *name, struct arena *arena, struct local_agent *ret,
                     struct error *err) {
        struct local_record record;
        const struct value *limits;
        const char *type, *on_limit;

        if (load_record(root, KIND_AGENT, name, arena, &record, err) < 0)
                return -1;
        limits = value_get(record.spec, "limits");
        type = value_get_text(record.spec, "type");
        on_limit = value_get_text(limits, "onLimit");
        *ret = (struct local_agent){
                .stack = arena_strdup(arena, local_stack_of(root)),
                .name = arena_strdup(arena, name),
                .environment = value_get_text(record.spec, "environment"),
                .specialist = type && strcmp(type, "specialist") == 0,
                .active = value_get_boolean(record.spec, "active", false),
                .cpus = read_number(limits, "cpus"),
                .memory_mb = read_number(limits, "memoryMB"),
                .containers = read_number(limits, "containers"),
                .reject = on_limit && strcmp(on_limit, "reject") == 0,
        };
        return 0;
}
