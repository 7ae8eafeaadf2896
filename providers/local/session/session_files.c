/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workspace of a session and the sandbox's copy of it (sessions/workspace_sync.h), brought to agree before each execution and after
 * it, and once more when the sandbox is dead: its worker, and we, still have its files.
 *
 * It takes as long as files are large, so it is done by a thread of its own, whose end makes a descriptor readable. Until then
 * nobody else looks at what it works on.
 */
#include "base/files.h"
#include "providers/local/sandbox/sandbox_files.h"
#include "providers/local/session/session_parts.h"
#include "sessions/workspace_sync.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

struct session_sync {
        pthread_t thread;
        struct interrupt interrupt;
        int over; /* an eventfd */
        bool after;
        bool fresh; /* the copy is empty: what an earlier one agreed on is of no use */
        int copy;   /* its folder; borrowed */
        struct workspaces workspaces;
        const char *owner, *id;
        struct workspace_limits limits;
        struct workspace_bounds bounds;
        struct arena *arena;
        struct workspace_changes changes;
        /* Of a file that could not be put in. */
        struct place_file *left;
        size_t left_count;
        bool failed;
        struct problem problem;
};

static int read_copy(struct session_sync *sync, struct workspace_tree *ret) {
        struct error err;

        if (workspace_tree_read(sync->copy, LOCAL_FILES_MAX, &sync->interrupt, sync->arena, ret, &err) < 0)
                return problem_from_error(&sync->problem, PROBLEM_WORKSPACE_FAILED, &err);
        return 0;
}

static int bring_out(struct session_sync *sync, struct workspace *workspace, struct workspace_tree *tree,
                     struct workspace_base *base) {
        struct workspace_source source = { .tree = tree,
                                           .open = workspace_source_open,
                                           .context = &sync->copy };

        return workspace_outgoing(workspace, &source, &sync->limits, &sync->interrupt, sync->arena, base,
                                  &sync->changes, &sync->problem);
}

/* What cannot be put in is said with the execution, which goes on without it. */
static void leave(struct session_sync *sync, size_t most, const char *path, const char *reason) {
        if (!sync->left)
                sync->left = arena_array(sync->arena, most, sizeof(*sync->left));
        sync->left[sync->left_count++] =
                (struct place_file){ .path = path, .reason = arena_strdup(sync->arena, reason) };
}

static int put_in(struct session_sync *sync, const struct workspace *workspace,
                  const struct workspace_arrival *arrival, const struct stat *folder, struct error *err) {
        const struct workspace_entry *entry = &arrival->entry;
        struct stat status;
        int from DESCRIPTOR_CLEANUP = -1;

        if (arrival->removed)
                return sandbox_files_remove(sync->copy, entry->path, err);
        if (entry->folder)
                return sandbox_files_make_folder(sync->copy, entry->path, folder->st_uid, folder->st_gid,
                                                 err);
        from = workspace_open_regular(workspace->files, entry->path, &status);
        if (from < 0)
                return errno == ENOENT ? 0 : error_set(err, "cannot read it: %s", strerror(errno));
        return sandbox_files_replace(sync->copy, entry->path, entry->executable, from, folder->st_uid,
                                     folder->st_gid, err);
}

static int bring_in(struct session_sync *sync, struct workspace *workspace, const struct workspace_tree *tree,
                    struct workspace_base *base) {
        struct workspace_arrival *arrivals;
        struct workspace_tree now;
        struct stat folder;
        size_t count;

        if (workspace_incoming(workspace, base, tree, &sync->interrupt, sync->arena, &arrivals, &count,
                               &sync->problem) < 0)
                return -1;
        if (count == 0)
                return 0;
        if (fstat(sync->copy, &folder) < 0)
                return problem_set(&sync->problem, PROBLEM_WORKSPACE_FAILED, "cannot look at the copy: %s",
                                   strerror(errno));
        for (size_t i = 0; i < count; i++) {
                struct error err = { 0 };

                if (interrupt_level(&sync->interrupt) > INTERRUPT_NONE)
                        return problem_set(&sync->problem, PROBLEM_STOPPING, "it was interrupted");
                if (put_in(sync, workspace, &arrivals[i], &folder, &err) < 0)
                        leave(sync, count, arrivals[i].entry.path, err.message);
        }
        if (read_copy(sync, &now) < 0)
                return -1;
        workspace_settle(arrivals, count, &now, sync->arena, base);
        return 0;
}

static int work(struct session_sync *sync) {
        struct workspace workspace WORKSPACE_CLEANUP = WORKSPACE_INIT;
        struct workspace_base base = { 0 };
        struct workspace_tree tree;
        struct problem ignored;
        int result;

        if (workspace_open(&sync->workspaces, sync->owner, sync->id, &workspace, &sync->problem) < 0 ||
            workspace_bound(&sync->workspaces, sync->owner, sync->id, &sync->bounds, &sync->interrupt,
                            &sync->limits, &sync->problem) < 0)
                return -1;
        if (!sync->fresh)
                workspace_base_load(&workspace, sync->arena, &base);
        if (read_copy(sync, &tree) < 0)
                return -1;
        result = bring_out(sync, &workspace, &tree, &base);
        if (result == 0 && !sync->after)
                result = bring_in(sync, &workspace, &tree, &base);
        /* As far as it came, also where it failed. */
        if (workspace_base_save(&workspace, &base, result == 0 ? &sync->problem : &ignored) < 0)
                return -1;
        return result;
}

static void *run(void *argument) {
        struct session_sync *sync = argument;
        uint64_t one = 1;

        sync->failed = work(sync) < 0;
        (void)!write(sync->over, &one, sizeof(one));
        return NULL;
}

int session_files_begin(struct place_session *session, bool after, struct error *err) {
        const struct local_environment *environment = &session->program.environment;
        struct session_sync *sync = calloc(1, sizeof(*sync));
        struct epoll_event event = { .events = EPOLLIN };
        int failed;

        if (!sync)
                abort();
        *sync = (struct session_sync){
                .over = eventfd(0, EFD_CLOEXEC),
                .after = after,
                .fresh = session->fresh,
                .copy = session->folder,
                .workspaces = { .folder = environment->workspaces, .stack = environment->stack },
                .owner = session->owner,
                .id = session->id,
                .limits = { .bytes_max = (uint64_t)environment->storage_mb * LOCAL_BYTES_PER_MB,
                            .files_max = LOCAL_FILES_MAX },
                .bounds = session->place->bounds,
                .arena = arena_new(),
        };
        if (sync->over < 0 || interrupt_init(&sync->interrupt, err) < 0) {
                close_descriptor(&sync->over);
                arena_free(sync->arena);
                free(sync);
                return error_set(err, "cannot bring the workspace's files: %s", strerror(errno));
        }
        failed = epoll_ctl(session->waits, EPOLL_CTL_ADD, sync->over, &event) < 0
                         ? errno
                         : pthread_create(&sync->thread, NULL, run, sync);
        if (failed) {
                interrupt_dispose(&sync->interrupt);
                close_descriptor(&sync->over);
                arena_free(sync->arena);
                free(sync);
                return error_set(err, "cannot bring the workspace's files: %s", strerror(failed));
        }
        session->sync = sync;
        return 0;
}

bool session_files_are_over(const struct place_session *session) {
        struct pollfd polled = { .fd = session->sync->over, .events = POLLIN };

        return poll(&polled, 1, 0) == 1;
}

void session_files_stop(struct place_session *session) {
        if (session->sync)
                interrupt_raise_to(&session->sync->interrupt, INTERRUPT_NOW);
}

static struct place_file_list paths(struct arena *arena, const char **list, size_t count) {
        struct place_file *files = arena_array(arena, count + 1, sizeof(*files));

        for (size_t i = 0; i < count; i++)
                files[i] = (struct place_file){ .path = list[i] };
        return (struct place_file_list){ files, count };
}

static struct place_file_list changed(struct arena *arena, const struct workspace_changes *changes) {
        struct place_file *files = arena_array(arena, changes->changed_count + 1, sizeof(*files));

        for (size_t i = 0; i < changes->changed_count; i++)
                files[i] = (struct place_file){ .path = changes->changed[i].path,
                                                .bytes = changes->changed[i].bytes,
                                                .sha256 = changes->changed[i].sha256 };
        return (struct place_file_list){ files, changes->changed_count };
}

static int by_path(const void *a, const void *b) {
        return strcmp(((const struct place_file *)a)->path, ((const struct place_file *)b)->path);
}

/* What could not be put in before the execution is said with what was brought out after it; what was said of one is not said again. */
static struct place_file_list skipped(struct place_session *session, const struct session_sync *sync) {
        size_t before = sync->after ? session->left.count : 0, here = sync->left_count,
               out = sync->changes.skipped_count;
        struct place_file *files = arena_array(sync->arena, before + here + out + 2, sizeof(*files));
        size_t count = 0;

        for (size_t i = 0; i < before; i++)
                files[count++] =
                        (struct place_file){ .path = arena_strdup(sync->arena, session->left.items[i].path),
                                             .reason = arena_strdup(sync->arena,
                                                                    session->left.items[i].reason) };
        for (size_t i = 0; i < here; i++)
                files[count++] = sync->left[i];
        for (size_t i = 0; i < out && sync->after; i++)
                files[count++] = (struct place_file){ .path = sync->changes.skipped[i].path,
                                                      .reason = sync->changes.skipped[i].reason };
        if (sync->failed)
                files[count++] =
                        (struct place_file){ .path = ".",
                                             .reason = arena_strdup(sync->arena, sync->problem.detail) };
        qsort(files, count, sizeof(*files), by_path);
        return (struct place_file_list){ files, count };
}

void session_files_end(struct place_session *session) {
        struct session_sync *sync = session->sync;
        struct place_file_list left;

        pthread_join(sync->thread, NULL);
        left = skipped(session, sync);
        /* Until all was put in once, what an earlier copy agreed on would read as if this one had deleted it. */
        session->fresh = session->fresh && sync->failed;
        if (sync->after && !sync->failed) {
                session->changed = changed(sync->arena, &sync->changes);
                session->deleted = paths(sync->arena, sync->changes.deleted, sync->changes.deleted_count);
                session->conflict = paths(sync->arena, sync->changes.conflict, sync->changes.conflict_count);
        } else {
                session->changed = session->deleted = session->conflict = (struct place_file_list){ 0 };
        }
        session->left = left;
        if (session->files)
                arena_free(session->files);
        session->files = sync->arena;
        (void)epoll_ctl(session->waits, EPOLL_CTL_DEL, sync->over, NULL);
        close_descriptor(&sync->over);
        interrupt_dispose(&sync->interrupt);
        free(sync);
        session->sync = NULL;
}
