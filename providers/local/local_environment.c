/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads what a run needs from up to three records: the environment's, the Stack's (where images and
 * workspaces are), and for `exec --agent` the agent's. Numbers in records are checked here, since
 * any user may have edited the files.
 */
#include "providers/local/local_environment.h"

#include "base/suggest.h"
#include "providers/local/images/image_index.h"
#include "providers/local/images/local_images.h"
#include "providers/local/local_program.h"
#include "providers/local/record.h"

#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Where the record, written by hand perhaps, says none: as schema/kind_environment.c has it. */
#define TRANSFER_MB 10240

/* Names come from command lines too, and become paths here. */
static bool is_environment_name(const char *name) {
        size_t length = strlen(name);

        return length > 0 && length <= NAME_LENGTH_MAX &&
               strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == length;
}

/* A mistyped name is as probable as one that was not applied yet. */
static int fail_missing(const char *root, enum kind_id kind, const char *name, const char *path,
                        struct arena *arena, struct error *err) {
        const char **names, *near = NULL;
        struct error ignored;
        size_t count;

        if (kind != KIND_STACK && record_list(root, kind, arena, &names, &count, &ignored) == 0)
                near = suggest_nearest(name, names, count);
        if (near)
                return error_set_kind(
                        err, ERROR_NOT_FOUND,
                        "%s/%s does not exist here (%s); did you mean %s? Else declare it, and run "
                        "berth apply",
                        kinds[kind]->name, name, path, near);
        return error_set_kind(err, ERROR_NOT_FOUND,
                              "%s/%s does not exist here (%s): declare it, and run berth apply",
                              kinds[kind]->name, name, path);
}

/* Reads a record that must exist and be this stack's. */
static int load_record(const char *root, enum kind_id kind, const char *name, struct arena *arena,
                       struct local_record *ret, struct error *err) {
        struct record_place place = { root, local_stack_of(root), kind, name };

        if (!is_environment_name(name))
                return error_set_kind(err, ERROR_NOT_FOUND, "\"%s\" cannot be the name of an %s", name,
                                      kinds[kind]->name);
        if (record_read(&place, arena, ret, err) < 0)
                return -1;
        if (!ret->exists)
                return fail_missing(root, kind, name, ret->path, arena, err);
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

/* Images are for linux/amd64 (image_rules.h). Where the kernel starts their programs in an emulator, it is told so here. */
static void check_machine(const struct local_image_name *name, struct arena *arena,
                          struct local_environment *ret) {
        struct utsname system;

        if (uname(&system) == 0 && strcmp(system.machine, "x86_64") != 0 &&
            access("/proc/sys/fs/binfmt_misc/qemu-x86_64", F_OK) < 0)
                ret->image_problem = arena_printf(
                        arena,
                        "the image %s is for linux/amd64, and this machine is %s: without an image in the store, "
                        "{prebuilt: python} is the machine's own Python",
                        name->text, system.machine);
}

/* The image of the applied digest, never the one that a tag leads to now. */
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
                check_machine(&name, arena, ret);
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
 * -1 if there is no number. Capped, because a record may hold any number and these are multiplied
 * later: no machine has more than that anyway.
 */
static int64_t read_capped(const struct value *map, const char *name) {
        int64_t given = value_get_integer(map, name, -1);

        return given > INT32_MAX ? INT32_MAX : given;
}

/* Checked again: what a person wrote into the record may be no host. A network of any other form is one of AWS's, or none. */
static int load_network(const struct value *network, const char *path, struct arena *arena,
                        struct allow_list *ret, struct error *err) {
        const struct value *allow = value_get(network, "allow");
        int64_t megabytes = value_get_integer(network, "transferMB", TRANSFER_MB);
        const char **entries;

        if (!allow || allow->type != VALUE_LIST || allow->count == 0)
                return 0;
        entries = arena_array(arena, allow->count, sizeof(*entries));
        for (uint32_t i = 0; i < allow->count; i++) {
                entries[i] = value_text_of(&allow->items[i]);
                if (!entries[i] || !allow_is_entry(entries[i]) || allow->count > ALLOW_ENTRIES_MAX)
                        return error_set(err, "%s allows an invalid host: run berth apply, which mends it",
                                         path);
        }
        if (megabytes < 1 || megabytes > INT32_MAX)
                megabytes = TRANSFER_MB;
        *ret = (struct allow_list){ entries, allow->count, (uint64_t)megabytes * LOCAL_BYTES_PER_MB };
        return 0;
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
        environment.memory_mb = read_capped(record.spec, "memoryMB");
        environment.storage_mb = read_capped(record.spec, "workspaceStorageMB");
        environment.timeout_s = read_capped(record.spec, "timeoutSeconds");
        environment.reserved_concurrency = read_capped(record.spec, "reservedConcurrency");
        environment.tenant_isolation = value_get_boolean(record.spec, "tenantIsolation", false);
        load_variables(value_get(record.spec, "variables"), arena, &environment);
        if (check_sizes(&environment, record.path, err) < 0 ||
            load_network(value_get(record.spec, "network"), record.path, arena, &environment.network, err) <
                    0 ||
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
                .cpus = read_capped(limits, "cpus"),
                .memory_mb = read_capped(limits, "memoryMB"),
                .containers = read_capped(limits, "containers"),
                .reject = on_limit && strcmp(on_limit, "reject") == 0,
        };
        return 0;
}
