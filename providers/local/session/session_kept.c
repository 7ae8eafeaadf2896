/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workspace that an agent has for an owner, which its containers for him share. It lies in
 *
 *     {workspaces}/agents/STACK/AGENT/OWNERHASH/
 *
 * or, where a launcher places the sandboxes, on the launcher's disk, by a name that stands for the folder of workspaces, the stack, the
 * agent and the owner: several stacks may have one folder, and agents of one name. What is in it, sandbox_kept.h says, and workspace.h.
 */
#include "base/clock.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/log.h"
#include "providers/local/sandbox/sandbox_kept.h"
#include "providers/local/sandbox/sandbox_launched.h"
#include "providers/local/session/session_parts.h"
#include "schema/kind.h"
#include "sessions/workspace_local.h"
#include "sessions/workspace_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define HASH_LENGTH 40
#define LETTING_GO 20

static const char *hash_of(const char *const *texts, size_t count, struct arena *arena) {
        struct strbuf all STRBUF_CLEANUP = STRBUF_INIT;
        uint8_t digest[SHA256_SIZE];
        char hex[2 * SHA256_SIZE + 1];

        for (size_t i = 0; i < count; i++)
                strbuf_append_bytes(&all, texts[i], strlen(texts[i]) + 1);
        digest_sha256(all.data, all.length, digest);
        digest_hex(digest, sizeof(digest), hex);
        return arena_strndup(arena, hex, HASH_LENGTH);
}

/* By whatever path the server was started with. */
static const char *name_of(const struct session_place *place, const struct place_shared *shared,
                           struct arena *arena) {
        char *whole TEXT_CLEANUP = realpath(place->workspaces, NULL);
        const char *const texts[] = { whole ? whole : place->workspaces, place->stack, shared->agent,
                                      shared->owner };

        return hash_of(texts, 4, arena);
}

static struct sandbox_kept kept_of(const struct session_place *place, const struct place_shared *shared,
                                   const struct sandbox_limits *limits, struct arena *arena) {
        return (struct sandbox_kept){
                .folder = arena_printf(arena, "%s/agents/%s/%s/%s", place->workspaces, place->stack,
                                       shared->agent, hash_of(&shared->owner, 1, arena)),
                .bytes = limits->workspace_bytes,
                .files = limits->workspace_files,
                .accept_degraded = place->accept_degraded,
                .remedy = "Start the server as root, or with a launcher that has a disk (berth launcher "
                          "--disk FOLDER), on a machine with loop devices",
        };
}

/* It becomes a part of a path, and may be anything that a client wrote. */
static bool is_agent(const char *name) {
        size_t length = strlen(name);

        return length > 0 && length <= NAME_LENGTH_MAX &&
               strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == length;
}

/* The limits are looked at where it is made alone. */
static int open_root(const struct session_place *place, const struct place_shared *shared,
                     const struct sandbox_limits *limits, int *ret, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const struct sandbox_keeping keeping = { .name = name_of(place, shared, arena),
                                                 .bytes = limits->workspace_bytes,
                                                 .files = limits->workspace_files,
                                                 .make = shared->environment };
        const struct sandbox_kept kept = kept_of(place, shared, limits, arena);
        int given DESCRIPTOR_CLEANUP = -1, root DESCRIPTOR_CLEANUP = -1;

        if (!is_agent(shared->agent))
                return error_set_kind(err, ERROR_NOT_FOUND, "there is no such workspace");
        if ((place->launcher
                     ? sandbox_launched_keep(place->launcher, &keeping, &given, err)
                     : sandbox_kept_open(&kept, shared->environment, geteuid(), getegid(), &given, err)) < 0)
                return -1;
        /* A mount's own descriptor names it, and does nothing else. */
        root = openat(given, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (root < 0)
                return error_set(err, "cannot open the workspace of Agent/%s: %s", shared->agent,
                                 strerror(errno));
        if (shared->environment) {
                const struct workspace_row row = { .owner = shared->owner,
                                                   .environment = shared->environment,
                                                   .agent = shared->agent,
                                                   .created_ms = clock_system.wall_ms(&clock_system) };

                if (workspace_local_recover_shared(root) < 0 ||
                    workspace_local_name_shared(root, place->stack, &row) < 0)
                        return error_set(err, "cannot write into the workspace of Agent/%s: %s",
                                         shared->agent, strerror(errno));
        }
        *ret = root;
        root = -1;
        return 0;
}

int session_kept_make(const struct session_place *place, const struct place_shared *shared,
                      const struct sandbox_limits *limits, struct error *err) {
        struct error why = { 0 };
        int root DESCRIPTOR_CLEANUP = -1;

        if (open_root(place, shared, limits, &root, &why) == 0)
                return 0;
        if (why.kind != ERROR_REFUSED || !place->accept_degraded) {
                *err = why;
                return -1;
        }
        log_warning("a container of Agent/%s has a workspace of its own, which goes with it: %s",
                    shared->agent, why.message);
        return 1;
}

void session_kept_describe(const struct session_place *place, const struct place_shared *shared,
                           const struct sandbox_limits *limits, struct arena *arena,
                           struct sandbox_spec *ret) {
        struct sandbox_kept *kept = arena_alloc(arena, sizeof(*kept));

        *kept = kept_of(place, shared, limits, arena);
        ret->kept = kept;
        ret->kept_name = name_of(place, shared, arena);
}

int session_kept_open(struct place *place, const struct place_shared *shared, int *ret_folder,
                      struct error *err) {
        const struct session_place *local = (const struct session_place *)place;
        struct arena *arena ARENA_CLEANUP = arena_new();
        /* Of one that is there they are what they are. */
        struct sandbox_spec spec = { .limits = { .workspace_bytes = 1, .workspace_files = 1 } };
        struct local_program program;
        const char *const *withheld;
        size_t count;

        if (!local->workspaces)
                return error_set_kind(err, ERROR_NOT_FOUND, "there is no such workspace");
        if (shared->environment) {
                if (local_program_load(local->root, shared->environment, NULL, arena, &program, err) < 0)
                        return -1;
                local_program_describe(&program, 1, arena, &spec, &withheld, &count);
        }
        return open_root(local, shared, &spec.limits, ret_folder, err);
}

int session_kept_remove(struct place *place, const struct place_shared *shared, struct error *err) {
        const struct session_place *local = (const struct session_place *)place;
        struct arena *arena ARENA_CLEANUP = arena_new();
        const struct sandbox_limits limits = { .workspace_bytes = 1, .workspace_files = 1 };
        const struct sandbox_kept kept = kept_of(local, shared, &limits, arena);
        const struct sandbox_keeping keeping = {
                .name = name_of(local, shared, arena), .bytes = 1, .files = 1, .remove = true
        };
        const struct place_shared there = { shared->agent, shared->owner, NULL };
        int root DESCRIPTOR_CLEANUP = -1;

        if (open_root(local, &there, &limits, &root, err) < 0)
                return -1;
        /* What lies in an image goes with that. */
        if (!local->launcher && !sandbox_kept_is_image(&kept) && workspace_tree_remove(root) < 0)
                return error_set(err, "cannot empty the workspace of Agent/%s: %s", shared->agent,
                                 strerror(errno));
        close_descriptor(&root);
        /* Until the kernel has let go of what was closed a moment ago, it is in use. */
        for (int attempt = 0;; attempt++) {
                static const struct timespec pause = { .tv_nsec = 50000000 };
                int result = local->launcher ? sandbox_launched_keep(local->launcher, &keeping, NULL, err)
                                             : sandbox_kept_remove(&kept, err);

                if (result == 0 || err->kind != ERROR_REFUSED || attempt == LETTING_GO)
                        return result;
                (void)nanosleep(&pause, NULL);
        }
}
