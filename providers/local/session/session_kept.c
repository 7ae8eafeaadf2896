/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workspace that an agent has for an owner, shared by its containers for that owner. It lies in
 *
 *     {workspaces}/agents/STACK/AGENT/OWNERHASH/
 *
 * or, where a launcher places the sandboxes, on the launcher's disk, by a name that stands for the
 * folder of workspaces, the stack, the agent and the owner: several stacks may have one folder, and
 * agents of one name. Its content is described in sandbox_kept.h and workspace.h.
 */
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/sorted.h"
#include "providers/local/local_agent_workspaces.h"
#include "providers/local/sandbox/sandbox_kept.h"
#include "providers/local/sandbox/sandbox_launched.h"
#include "providers/local/session/session_parts.h"
#include "sessions/workspace_local.h"
#include "sessions/workspace_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define MEGABYTE ((uint64_t)1 << 20)
#define LETTING_GO 20

/* By whatever path the server was started with. */
static const char *workspace_hash(const struct session_place *place, const struct place_shared *shared,
                                  struct arena *arena) {
        char *whole TEXT_CLEANUP = realpath(place->workspaces, NULL);
        const char *const texts[] = { whole ? whole : place->workspaces, place->stack, shared->agent,
                                      shared->owner };

        return local_hash(texts, 4, arena);
}

static struct sandbox_kept kept_of(const struct session_place *place, const struct place_shared *shared,
                                   const struct sandbox_limits *limits, struct arena *arena) {
        return (struct sandbox_kept){
                .folder = local_agent_folder(place->workspaces, place->stack, shared->agent,
                                             local_hash(&shared->owner, 1, arena), arena),
                .bytes = limits->workspace_bytes,
                .files = limits->workspace_files,
                .accept_degraded = place->accept_degraded,
                .remedy = "Start the server as root, or with a launcher that has a disk (berth launcher "
                          "--disk FOLDER), on a machine with loop devices",
        };
}

/* --- one at a time --- */

/*
 * Making and removing a workspace, each with its line in the index, are serialised: otherwise the
 * line of one that is made during a removal would be removed too. Work on another workspace does
 * not wait. One server has a stack's data: no other process makes any.
 */
struct turn {
        const char *folder;
        struct turn *next;
};

static pthread_mutex_t turns_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_ended = PTHREAD_COND_INITIALIZER;
static struct turn *turns; /* under the lock, as are those in it */

static bool is_taken(const char *folder) {
        for (const struct turn *turn = turns; turn; turn = turn->next) {
                if (strcmp(turn->folder, folder) == 0)
                        return true;
        }
        return false;
}

/* Waits while another has the workspace of that folder. */
static void turn_take(struct turn *turn, const char *folder) {
        pthread_mutex_lock(&turns_lock);
        while (is_taken(folder))
                pthread_cond_wait(&turn_ended, &turns_lock);
        *turn = (struct turn){ folder, turns };
        turns = turn;
        pthread_mutex_unlock(&turns_lock);
}

/* Ends a turn that was taken; otherwise does nothing. */
static void turn_end(struct turn *turn) {
        struct turn **link = &turns;

        if (!turn->folder)
                return;
        pthread_mutex_lock(&turns_lock);
        while (*link != turn)
                link = &(*link)->next;
        *link = turn->next;
        pthread_cond_broadcast(&turn_ended);
        pthread_mutex_unlock(&turns_lock);
}
#define TURN_CLEANUP __attribute__((cleanup(turn_end)))

/* --- the index --- */

/* 1: it is, as a launcher's are; 0; -1. */
static int is_image(const struct session_place *place, const struct sandbox_kept *kept, struct error *err) {
        enum sandbox_kept_kind kind = SANDBOX_KEPT_IMAGE;

        if (!place->launcher && sandbox_kept_find(kept, &kind, err) < 0)
                return -1;
        return kind == SANDBOX_KEPT_IMAGE;
}

/* What its files can take up, by the kernel's own count, which may be off by what the file system itself has. */
static uint64_t room_of(int root) {
        struct statfs status;

        if (fstatfs(root, &status) < 0)
                return 0;
        return ((uint64_t)(status.f_blocks - (status.f_bfree - status.f_bavail)) * (uint64_t)status.f_bsize +
                MEGABYTE / 2) /
               MEGABYTE * MEGABYTE;
}

/* What the workspace itself says; of an image alone, since a plain folder's own file is what the index has of it. */
static int write_index_line(const struct session_place *place, const struct place_shared *shared, int root,
                            struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct workspace_row there;
        int found = workspace_local_read_shared(root, place->stack, arena, &there);

        if (found < 0)
                return error_set(err, "cannot read whose the workspace of Agent/%s is: %s", shared->agent,
                                 strerror(errno));
        if (!found || strcmp(there.owner, shared->owner) != 0)
                return error_set_kind(err, ERROR_NOT_FOUND, "there is no such workspace");
        return local_agent_write(place->workspaces, place->stack,
                                 &(struct local_agent_workspace){ .agent = shared->agent,
                                                                  .owner = there.owner,
                                                                  .environment = there.environment,
                                                                  .created_ms = there.created_ms,
                                                                  .bytes = room_of(root) },
                                 err);
}

/* The limits are looked at where it is made alone. */
static int open_root(const struct session_place *place, const struct place_shared *shared,
                     const struct sandbox_limits *limits, int *ret, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const struct sandbox_keeping keeping = { .name = workspace_hash(place, shared, arena),
                                                 .bytes = limits->workspace_bytes,
                                                 .files = limits->workspace_files,
                                                 .make = shared->environment };
        const struct sandbox_kept kept = kept_of(place, shared, limits, arena);
        struct turn turn TURN_CLEANUP = { 0 };
        int given DESCRIPTOR_CLEANUP = -1, root DESCRIPTOR_CLEANUP = -1, image;

        if (!local_is_agent(shared->agent))
                return error_set_kind(err, ERROR_NOT_FOUND, "there is no such workspace");
        if (shared->environment)
                turn_take(&turn, kept.folder);
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
                                                   .created_ms = clock_wall_ms() };

                if (workspace_local_recover_shared(root) < 0 ||
                    workspace_local_name_shared(root, place->stack, &row) < 0)
                        return error_set(err, "cannot write into the workspace of Agent/%s: %s",
                                         shared->agent, strerror(errno));
                if ((image = is_image(place, &kept, err)) < 0 ||
                    (image && write_index_line(place, shared, root, err) < 0))
                        return -1;
        }
        *ret = root;
        root = -1;
        return 0;
}

int session_kept_make(const struct session_place *place, const struct place_shared *shared,
                      const struct sandbox_limits *limits, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct error why = { 0 };
        int root DESCRIPTOR_CLEANUP = -1;

        if (open_root(place, shared, limits, &root, &why) == 0)
                return 0;
        /*
         * An existing workspace that cannot be opened is not replaced: its owner expects its files.
         */
        if (why.kind != ERROR_REFUSED || !place->accept_degraded ||
            (!place->launcher && access(kept_of(place, shared, limits, arena).folder, F_OK) == 0)) {
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
        ret->kept_name = workspace_hash(place, shared, arena);
}

int session_kept_open(struct place *place, const struct place_shared *shared, int *ret_folder,
                      struct error *err) {
        const struct session_place *local = (const struct session_place *)place;
        struct arena *arena ARENA_CLEANUP = arena_new();
        /* An existing workspace keeps its limits. */
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

static const char *kept_folder(const struct session_place *place, const struct local_agent_workspace *row,
                               struct arena *arena) {
        return local_agent_folder(place->workspaces, place->stack, row->agent, row->hash, arena);
}

/*
 * Drops the index's line of a workspace that is gone. Files in the folder of a server that had no
 * launcher stay, and so does their line.
 */
static int forget_workspace(const struct session_place *place, const struct local_agent_workspace *row,
                            struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const struct sandbox_kept kept = { .folder = kept_folder(place, row, arena) };
        struct local_agent_workspace left = *row;
        enum sandbox_kept_kind kind;

        if (sandbox_kept_find(&kept, &kind, err) < 0)
                return -1;
        if (kind == SANDBOX_KEPT_NONE)
                return local_agent_forget(place->workspaces, place->stack, row->agent, row->hash, err);
        left.bytes = 0;
        return row->owner ? local_agent_write(place->workspaces, place->stack, &left, err) : 0;
}

static int forget_shared(const struct session_place *place, const struct place_shared *shared,
                         struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct local_agent_workspace row;
        struct error unknown;

        if (local_agent_read(place->workspaces, place->stack, shared->agent, shared->owner, arena, &row,
                             &unknown) < 0)
                row = (struct local_agent_workspace){ .agent = shared->agent,
                                                      .hash = local_hash(&shared->owner, 1, arena) };
        return forget_workspace(place, &row, err);
}

int session_kept_remove(struct place *place, const struct place_shared *shared, struct error *err) {
        const struct session_place *local = (const struct session_place *)place;
        struct arena *arena ARENA_CLEANUP = arena_new();
        const struct sandbox_limits limits = { .workspace_bytes = 1, .workspace_files = 1 };
        const struct sandbox_kept kept = kept_of(local, shared, &limits, arena);
        const struct sandbox_keeping keeping = {
                .name = workspace_hash(local, shared, arena), .bytes = 1, .files = 1, .remove = true
        };
        const struct place_shared there = { shared->agent, shared->owner, NULL };
        struct turn turn TURN_CLEANUP = { 0 };
        int root DESCRIPTOR_CLEANUP = -1, image;

        turn_take(&turn, kept.folder);
        if (open_root(local, &there, &limits, &root, err) < 0)
                return -1;
        /* An image goes with its content. */
        if ((image = is_image(local, &kept, err)) < 0)
                return -1;
        if (!image && workspace_tree_remove(root) < 0)
                return error_set(err, "cannot empty the workspace of Agent/%s: %s", shared->agent,
                                 strerror(errno));
        close_descriptor(&root);
        /* Until the kernel has let go of what was closed a moment ago, it is in use. */
        for (int attempt = 0;; attempt++) {
                static const struct timespec pause = { .tv_nsec = 50000000 };
                int result = local->launcher ? sandbox_launched_keep(local->launcher, &keeping, NULL, err)
                                             : sandbox_kept_remove(&kept, err);

                /* Last: of one that is there the index must say so. */
                if (result == 0)
                        return forget_shared(local, shared, err);
                if (err->kind != ERROR_LOCKED || attempt == LETTING_GO)
                        return result;
                (void)nanosleep(&pause, NULL);
        }
}

/* --- all of them --- */

/*
 * Images of a launcher lie where only that can look: the index is checked when the server starts,
 * and trusted from then on. Workspaces that lie here then are of a server without one. One that
 * cannot be checked is reported as the index has it.
 */
static bool has_workspace(const struct session_place *place, struct local_agent_workspace *row,
                          struct arena *arena) {
        const struct sandbox_kept kept = { .folder = kept_folder(place, row, arena) };
        enum sandbox_kept_kind kind;
        struct error why = { 0 };

        if (place->launcher)
                return row->bytes > 0;
        if (sandbox_kept_find(&kept, &kind, &why) < 0) {
                log_debug("a workspace of Agent/%s: %s", row->agent, why.message);
                return true;
        }
        if (kind != SANDBOX_KEPT_IMAGE)
                row->bytes = 0;
        return kind != SANDBOX_KEPT_NONE;
}

int session_kept_list(struct place *place, const char *owner, struct arena *arena, struct workspace_row **ret,
                      size_t *ret_count, struct error *err) {
        const struct session_place *local = (const struct session_place *)place;
        struct local_agent_workspace *all;
        struct workspace_row *rows;
        size_t all_count, count = 0;

        *ret_count = 0;
        if (!local->workspaces)
                return 0;
        if (local_agents_list(local->workspaces, local->stack, arena, &all, &all_count, err) < 0)
                return -1;
        rows = arena_array(arena, all_count + 1, sizeof(*rows));
        for (size_t i = 0; i < all_count; i++) {
                if (!all[i].owner || (owner && strcmp(owner, all[i].owner) != 0) ||
                    !has_workspace(local, &all[i], arena))
                        continue;
                rows[count++] = (struct workspace_row){
                        .id = arena_printf(arena, WORKSPACE_OF_AGENT "%s", all[i].agent),
                        .key = arena_printf(arena, WORKSPACE_OF_AGENT "%s/%s", all[i].agent, all[i].hash),
                        .owner = all[i].owner,
                        .environment = all[i].environment,
                        .agent = all[i].agent,
                        .created_ms = all[i].created_ms,
                        .bytes = all[i].bytes,
                };
        }
        *ret = rows;
        *ret_count = count;
        return 0;
}

/*
 * A workspace that the index does not know: its owner stands within. It is opened once, and known
 * from then on. By its place it is the row's, or a launcher has it by that name. *ret_others (NULL:
 * not wanted): by that name it can never be this stack's.
 */
static int learn_image(const struct session_place *place, int given, const struct local_agent_workspace *row,
                       const char *name, bool *ret_others, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        int root DESCRIPTOR_CLEANUP = openat(given, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct workspace_row there;
        struct place_shared shared;
        int found = root < 0 ? -1 : workspace_local_read_shared(root, NULL, arena, &there);
        bool others;

        if (found < 0)
                return error_set(err, "cannot read whose a workspace is: %s", strerror(errno));
        if (!found || !there.agent || !local_is_agent(there.agent))
                return 0; /* no owner yet */
        shared = (struct place_shared){ .agent = there.agent, .owner = there.owner };
        others = row ? strcmp(there.agent, row->agent) != 0 ||
                                 strcmp(local_hash(&there.owner, 1, arena), row->hash) != 0
                     : strcmp(workspace_hash(place, &shared, arena), name) != 0;
        if (ret_others)
                *ret_others = others;
        if (others)
                return 0;
        found = workspace_local_read_shared(root, place->stack, arena, &there);
        if (found < 0)
                return error_set(err, "cannot read whose a workspace is: %s", strerror(errno));
        return !found ? 0 : write_index_line(place, &shared, root, err);
}

static int learn_own(const struct session_place *place, const struct local_agent_workspace *row,
                     const struct sandbox_kept *kept, struct error *err) {
        int root DESCRIPTOR_CLEANUP = -1;

        if (sandbox_kept_open(kept, false, geteuid(), getegid(), &root, err) < 0)
                return err->kind == ERROR_NOT_FOUND ? 0 : -1;
        return learn_image(place, root, row, NULL, NULL, err);
}

static int learn_launchers(const struct session_place *place, const char *name, bool *ret_others,
                           struct error *err) {
        const struct sandbox_keeping keeping = { .name = name, .bytes = 1, .files = 1 };
        int root DESCRIPTOR_CLEANUP = -1;

        if (sandbox_launched_keep(place->launcher, &keeping, &root, err) < 0)
                return err->kind == ERROR_NOT_FOUND ? 0 : -1;
        return learn_image(place, root, NULL, name, ret_others, err);
}

/*
 * One that cannot be checked hides no other from the index: the first is reported in the end, the
 * others here.
 */
struct recovery {
        int result;
        struct error *err;
};

static void note_failure(struct recovery *recovery, int result, const struct error *err) {
        if (result < 0 && recovery->result < 0)
                log_warning("the index of agents' workspaces: %s", err->message);
        if (result < 0 && recovery->result == 0) {
                *recovery->err = *err;
                recovery->result = -1;
        }
}

/* Of an image the index says how large it is, unless a server with a launcher wrote it: nothing that lies here is one to that. */
static int recover_one(const struct session_place *place, const struct local_agent_workspace *row,
                       struct arena *arena, struct error *err) {
        const struct sandbox_kept kept = { .folder = kept_folder(place, row, arena), .bytes = 1, .files = 1 };
        enum sandbox_kept_kind kind;

        if (sandbox_kept_find(&kept, &kind, err) < 0)
                return -1;
        if (kind == SANDBOX_KEPT_NONE)
                return forget_workspace(place, row, err);
        if (kind != SANDBOX_KEPT_IMAGE || (row->owner && row->bytes > 0))
                return 0;
        return learn_own(place, row, &kept, err);
}

static int recover_own(const struct session_place *place, const struct local_agent_workspace *rows,
                       size_t count, struct arena *arena, struct error *err) {
        struct recovery recovery = { 0, err };

        for (size_t i = 0; i < count; i++) {
                struct error why = { 0 };

                note_failure(&recovery, recover_one(place, &rows[i], arena, &why), &why);
        }
        return recovery.result;
}

/* The names that the index does not know. Those of other stacks are opened once, and not with each start. */
static void recover_names(const struct session_place *place, const char *const *names, size_t count,
                          struct recovery *recovery) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char **known = NULL, **others = arena_array(arena, count + 1, sizeof(*others));
        size_t known_count, other_count = 0, new_count = 0;
        struct error ignored;

        local_others_read(place->workspaces, place->stack, arena, &known, &known_count);
        for (size_t i = 0; i < count; i++) {
                bool is_others = known_count > 0 &&
                                 bsearch(&names[i], known, known_count, sizeof(*known), sorted_compare_texts);
                struct error why = { 0 };

                if (!is_others) {
                        note_failure(recovery, learn_launchers(place, names[i], &is_others, &why), &why);
                        new_count += is_others;
                }
                if (is_others)
                        others[other_count++] = names[i];
        }
        if ((new_count > 0 || other_count < known_count) &&
            local_others_write(place->workspaces, place->stack, others, other_count, &ignored) < 0)
                log_debug("they are opened once more with the next start: %s", ignored.message);
}

static int recover_launchers(const struct session_place *place, const struct local_agent_workspace *rows,
                             size_t count, struct arena *arena, struct error *err) {
        const char **names, **unknown;
        size_t name_count, unknown_count = 0;
        bool *known;
        struct recovery recovery = { 0, err };

        if (sandbox_launched_names(place->launcher, arena, &names, &name_count, err) < 0)
                return -1;
        known = arena_array(arena, name_count + 1, sizeof(*known));
        for (size_t i = 0; i < name_count; i++)
                known[i] = false;
        for (size_t i = 0; i < count; i++) {
                const struct place_shared shared = { .agent = rows[i].agent, .owner = rows[i].owner };
                const char *name =
                        rows[i].owner && rows[i].bytes > 0 ? workspace_hash(place, &shared, arena) : NULL;
                const char **found = name && name_count > 0 ? bsearch(&name, names, name_count,
                                                                      sizeof(*names), sorted_compare_texts)
                                                            : NULL;
                struct error why = { 0 };

                if (found)
                        known[found - names] = true;
                else
                        note_failure(&recovery, forget_workspace(place, &rows[i], &why), &why);
        }
        unknown = arena_array(arena, name_count + 1, sizeof(*unknown));
        for (size_t i = 0; i < name_count; i++) {
                if (!known[i])
                        unknown[unknown_count++] = names[i];
        }
        recover_names(place, unknown, unknown_count, &recovery);
        return recovery.result;
}

int session_kept_recover(struct place *place, struct error *err) {
        const struct session_place *local = (const struct session_place *)place;
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct local_agent_workspace *rows;
        size_t count;

        if (!local->workspaces)
                return 0;
        if (local_agents_list(local->workspaces, local->stack, arena, &rows, &count, err) < 0)
                return -1;
        return local->launcher ? recover_launchers(local, rows, count, arena, err)
                               : recover_own(local, rows, count, arena, err);
}
