/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workspace of a session and the sandbox's copy of it (sessions/workspace_sync.h), brought to agree before each execution and after
 * it, and once more when the sandbox is dead: its worker, and we, still have its files.
 *
 * It takes as long as files are large, so it is done by a thread of its own, whose end makes a
 * descriptor readable. Until then no other thread touches its data. Where nothing has changed since
 * that had nothing to do, none is needed.
 */
#include "base/array.h"
#include "base/files.h"
#include "providers/local/sandbox/sandbox_workspace.h"
#include "providers/local/session/session_parts.h"
#include "sessions/workspace_stage.h"
#include "sessions/workspace_sync.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define NS_PER_S 1000000000
#define PATIENCE_MS 30000

struct session_sync {
        pthread_t thread;
        struct interrupt interrupt;
        session_job *job; /* instead of files */
        struct place_session *session;
        int over; /* an eventfd */
        bool after;
        bool fresh;                        /* the copy is empty: what an earlier one agreed on is of no use */
        struct sandbox_workspace copy;     /* its folder, or the worker's socket, borrowed */
        const struct workspace_tree *tree; /* of it, while files are brought out */
        const struct workspace *workspace; /* the same */
        struct workspaces workspaces;
        const char *owner, *id;
        const char *staged; /* of the execution that is to begin; or NULL */
        struct workspace_limits limits;
        struct workspace_bounds bounds;
        struct arena *arena;
        struct workspace_changes changes;
        size_t arrived;
        struct session_still still; /* if nothing had to be done */
        /* Of a file that could not be put in. */
        struct place_file *left;
        size_t left_count;
        bool failed;
        struct problem problem;
};

bool session_files_kept(const struct place_session *session) {
        return session->owner && (session->folder >= 0 || session->asked.socket >= 0);
}

/* --- the copy, where the worker is asked for it --- */

static int list_far(void *context, const char *path,
                    bool (*take)(void *reading, const char *name, const struct stat *status), void *reading,
                    const char **ret_reason, struct error *err) {
        struct strbuf words STRBUF_CLEANUP = STRBUF_INIT;
        bool cut = false;
        int answer = sandbox_workspace_list(context, path, &words, &cut, err);

        if (answer != 0) {
                *ret_reason = "it cannot be read";
                return answer;
        }
        for (size_t at = 0; at < words.length; at += strlen(words.data + at) + 1) {
                struct sandbox_entry entry;
                struct stat status = { 0 };

                if (sandbox_entry_read(words.data + at, &entry) < 0)
                        return error_set(err, "the worker sent an invalid list");
                status.st_mode = entry.mode;
                status.st_size = entry.bytes < INT64_MAX ? (off_t)entry.bytes : INT64_MAX;
                status.st_ino = entry.inode;
                status.st_mtim = (struct timespec){ .tv_sec = entry.written_ns / NS_PER_S,
                                                    .tv_nsec = entry.written_ns % NS_PER_S };
                status.st_ctim = (struct timespec){ .tv_sec = entry.changed_ns / NS_PER_S,
                                                    .tv_nsec = entry.changed_ns % NS_PER_S };
                if (!take(reading, entry.name, &status))
                        return 0;
        }
        /* Names that were not sent may be any. */
        if (cut) {
                *ret_reason = "its list is too long";
                return 1;
        }
        return 0;
}

/*
 * A file of the copy, brought beside the workspace without a name. A file that is larger than the
 * workspace may be is not brought at all, but keeps its size: the comparison leaves it out by that.
 */
static int open_far(void *context, const char *path) {
        struct session_sync *sync = context;
        const struct workspace_entry *entry = workspace_tree_find(sync->tree, path);
        struct sandbox_content content SANDBOX_CONTENT_CLEANUP = SANDBOX_CONTENT_NONE;
        int to DESCRIPTOR_CLEANUP = -1, brought, answer;
        char name[WORKSPACE_INCOMING_MAX];
        struct problem ignored;
        struct error err;

        if (!entry || workspace_incoming_make(sync->workspace, name, &to, &ignored) < 0) {
                errno = EIO;
                return -1;
        }
        (void)unlinkat(sync->workspace->folder, name, 0);
        if (entry->bytes > sync->limits.bytes_max) {
                if (ftruncate(to, (off_t)entry->bytes) < 0)
                        return -1;
        } else if ((answer = sandbox_workspace_open(&sync->copy, path, &content, &err)) != 0 ||
                   sandbox_workspace_copy(&sync->copy, &content, to, entry->bytes, &err) < 0 ||
                   lseek(to, 0, SEEK_SET) < 0) {
                errno = answer > 0 ? ENOENT : EIO;
                return -1;
        }
        brought = to;
        to = -1;
        return brought;
}

/* --- both ways --- */

static int read_copy(struct session_sync *sync, struct workspace_tree *ret) {
        const struct workspace_tree_source far = { list_far, &sync->copy };
        struct error err;
        int result = sync->copy.folder >= 0
                             ? workspace_tree_read(sync->copy.folder, LOCAL_FILES_MAX, LOCAL_FOLDERS_MAX,
                                                   &sync->interrupt, sync->arena, ret, &err)
                             : workspace_tree_read_from(&far, LOCAL_FILES_MAX, LOCAL_FOLDERS_MAX,
                                                        &sync->interrupt, sync->arena, ret, &err);

        return result < 0 ? problem_from_error(&sync->problem, PROBLEM_WORKSPACE_FAILED, &err) : 0;
}

static int bring_out(struct session_sync *sync, struct workspace *workspace, struct workspace_tree *tree,
                     struct workspace_base *base) {
        bool near = sync->copy.folder >= 0;
        struct workspace_source source = { .tree = tree,
                                           .open = near ? workspace_source_open : open_far,
                                           .context = near ? (void *)&sync->copy.folder : (void *)sync };

        sync->tree = tree;
        sync->workspace = workspace;
        return workspace_outgoing(workspace, &source, &sync->limits, &sync->interrupt, sync->arena, base,
                                  &sync->changes, &sync->problem);
}

/* A file that cannot be put in is reported with the execution, which goes on without it. */
static void leave_file(struct session_sync *sync, const char *path, const char *reason) {
        sync->left = array_grow(sync->arena, sync->left, sync->left_count, sizeof(*sync->left));
        sync->left[sync->left_count++] =
                (struct place_file){ .path = path, .reason = arena_strdup(sync->arena, reason) };
}

static int put_in(struct session_sync *sync, const struct workspace *workspace,
                  const struct workspace_arrival *arrival, struct error *err) {
        const struct workspace_entry *entry = &arrival->entry;
        struct stat status;
        int from DESCRIPTOR_CLEANUP = -1;

        if (arrival->removed)
                return sandbox_workspace_remove(&sync->copy, entry->path, err);
        if (entry->folder)
                return sandbox_workspace_make_folder(&sync->copy, entry->path, err);
        from = workspace_open_regular(workspace->files, entry->path, &status);
        if (from < 0)
                return errno == ENOENT ? 0 : error_set(err, "cannot read it: %s", strerror(errno));
        return sandbox_workspace_replace(&sync->copy, entry->path, entry->executable, from, err);
}

static int bring_in(struct session_sync *sync, struct workspace *workspace, const struct workspace_tree *tree,
                    struct workspace_base *base) {
        struct workspace_arrival *arrivals;
        struct workspace_tree now;
        struct stat folder = { 0 };
        size_t count;

        if (workspace_incoming(workspace, base, tree, &sync->interrupt, sync->arena, &arrivals, &count,
                               &sync->problem) < 0)
                return -1;
        sync->arrived = count;
        if (count == 0)
                return 0;
        if (sync->copy.folder >= 0 && fstat(sync->copy.folder, &folder) < 0)
                return problem_set(&sync->problem, PROBLEM_WORKSPACE_FAILED, "cannot look at the copy: %s",
                                   strerror(errno));
        sync->copy.uid = folder.st_uid;
        sync->copy.gid = folder.st_gid;
        for (size_t i = 0; i < count; i++) {
                struct error err = { 0 };

                if (interrupt_level(&sync->interrupt) > INTERRUPT_NONE)
                        return problem_set(&sync->problem, PROBLEM_STOPPING, "it was interrupted");
                if (put_in(sync, workspace, &arrivals[i], &err) < 0)
                        leave_file(sync, arrivals[i].entry.path, err.message);
        }
        if (read_copy(sync, &now) < 0)
                return -1;
        workspace_settle(arrivals, count, &now, sync->arena, base);
        return 0;
}

/* After the last execution, and before the next one. */
static int put_staged(struct session_sync *sync, struct workspace *workspace) {
        struct workspace_skipped *skipped;
        size_t count;

        if (workspace_stage_place(workspace, sync->staged, &sync->limits, &sync->interrupt, sync->arena,
                                  &skipped, &count, &sync->problem) < 0)
                return -1;
        for (size_t i = 0; i < count; i++)
                leave_file(sync, skipped[i].path, skipped[i].reason);
        return 0;
}

/* What the workspace is like before it is brought to agree. False: what it was like then cannot be told later. */
static bool read_kept_tree(struct session_sync *sync, const struct workspace *workspace,
                           struct workspace_still_look *look, struct workspace_tree *ret) {
        struct error ignored;

        if (sync->copy.folder < 0 || sync->fresh || sync->staged)
                return false;
        workspace_still_look(workspace->files, look);
        return workspace_tree_read(workspace->files, WORKSPACE_STILL_MAX + 1, 0, &sync->interrupt,
                                   sync->arena, ret, &ignored) == 0;
}

/* Both were as these were, and that was as it should be. */
static void remember_agreed(struct session_sync *sync, struct workspace *workspace,
                            struct workspace_still *copy, struct workspace_still *kept) {
        const struct workspace_changes *changes = &sync->changes;

        if (!copy || !kept ||
            changes->changed_count + changes->deleted_count + changes->conflict_count +
                            changes->skipped_count + sync->left_count + sync->arrived >
                    0) {
                workspace_still_free(copy);
                workspace_still_free(kept);
                return;
        }
        sync->still = (struct session_still){ copy, kept, workspace->files };
        workspace->files = -1;
}

/* A file that was put from outside while code ran is not in the copy yet: then work remains. */
static bool may_rest(struct session_sync *sync, struct workspace *workspace,
                     const struct workspace_tree *tree, const struct workspace_base *base) {
        struct workspace_arrival *arrivals;
        struct problem ignored;

        return !sync->after || (workspace_incoming(workspace, base, tree, &sync->interrupt, sync->arena,
                                                   &arrivals, &sync->arrived, &ignored) == 0 &&
                                sync->arrived == 0);
}

static int work(struct session_sync *sync) {
        struct workspace workspace WORKSPACE_CLEANUP = WORKSPACE_INIT;
        struct workspace_still_look look, kept_look = { 0 };
        struct workspace_base base = { 0 };
        struct workspace_tree tree, kept;
        struct problem ignored;
        bool may_be_still;
        int result;

        if (!sync->after)
                session_share_cpus(sync->session);
        if (workspace_open(&sync->workspaces, sync->owner, sync->id, &workspace, &sync->problem) < 0 ||
            workspace_bound(&sync->workspaces, sync->owner, sync->id, &sync->bounds, &sync->interrupt,
                            &sync->limits, &sync->problem) < 0)
                return -1;
        if (!sync->fresh && workspace_base_load(&workspace, sync->arena, &base) < 0)
                return problem_set(&sync->problem, PROBLEM_WORKSPACE_FAILED,
                                   "cannot read what was in the workspace before: %s", strerror(errno));
        may_be_still = read_kept_tree(sync, &workspace, &kept_look, &kept);
        workspace_still_look(sync->copy.folder, &look);
        if (read_copy(sync, &tree) < 0)
                return -1;
        result = bring_out(sync, &workspace, &tree, &base);
        if (result == 0 && sync->staged)
                result = put_staged(sync, &workspace);
        if (result == 0 && !sync->after)
                result = bring_in(sync, &workspace, &tree, &base);
        /* As far as it came, also where it failed. */
        if (workspace_base_save(&workspace, &base, result == 0 ? &sync->problem : &ignored) < 0)
                return -1;
        if (result == 0 && may_be_still && tree.count <= WORKSPACE_STILL_MAX &&
            may_rest(sync, &workspace, &tree, &base))
                remember_agreed(sync, &workspace, workspace_still_new(&look, &tree),
                                workspace_still_new(&kept_look, &kept));
        return result;
}

static void *run_sync(void *argument) {
        struct session_sync *sync = argument;
        uint64_t one = 1;

        sync->failed =
                (sync->job ? sync->job(sync->session, &sync->interrupt, &sync->problem) : work(sync)) < 0;
        (void)!write(sync->over, &one, sizeof(one));
        return NULL;
}

static int begin_sync(struct place_session *session, session_job *job, bool after, struct error *err) {
        const struct local_environment *environment = &session->program.environment;
        struct session_sync *sync = calloc(1, sizeof(*sync));
        struct epoll_event event = { .events = EPOLLIN };
        struct cgroup_usage used = { 0 };
        int failed;

        if (!sync)
                abort();
        *sync = (struct session_sync){
                .over = eventfd(0, EFD_CLOEXEC),
                .job = job,
                .session = session,
                .after = after,
                .fresh = session->fresh,
                .copy = { .folder = session->folder, .worker = &session->asked, .patience_ms = PATIENCE_MS },
                .workspaces = { .folder = environment->workspaces, .stack = environment->stack },
                .owner = session->owner,
                .staged = after ? NULL : session->pending_staged,
                .id = session->id,
                .still = { .folder = -1 },
                .limits = { .bytes_max = (uint64_t)environment->storage_mb * LOCAL_BYTES_PER_MB,
                            .files_max = LOCAL_FILES_MAX,
                            .folders_max = LOCAL_FOLDERS_MAX },
                .bounds = session->place->bounds,
                .arena = arena_new(),
        };
        if (sync->over < 0 || interrupt_init(&sync->interrupt, err) < 0) {
                close_descriptor(&sync->over);
                arena_free(sync->arena);
                free(sync);
                return error_set(err, "cannot begin with its files: %s", strerror(errno));
        }
        /* Before the first file is looked at: who writes one later uses a CPU later. */
        if (!job)
                sandbox_lasting_measure(&session->lasting, &used);
        failed = epoll_ctl(session->waits, EPOLL_CTL_ADD, sync->over, &event) < 0
                         ? errno
                         : pthread_create(&sync->thread, NULL, run_sync, sync);
        if (failed) {
                interrupt_dispose(&sync->interrupt);
                close_descriptor(&sync->over);
                arena_free(sync->arena);
                free(sync);
                return error_set(err, "cannot begin with its files: %s", strerror(failed));
        }
        session->sync = sync;
        if (!job)
                session->at_sync = used;
        return 0;
}

int session_files_begin(struct place_session *session, bool after, struct error *err) {
        return begin_sync(session, NULL, after, err);
}

int session_files_begin_job(struct place_session *session, session_job *job, struct error *err) {
        return begin_sync(session, job, false, err);
}

void session_files_forget(struct place_session *session) {
        workspace_still_free(session->still.copy);
        workspace_still_free(session->still.kept);
        close_descriptor(&session->still.folder);
        session->still = (struct session_still){ .folder = -1 };
}

bool session_files_are_still(struct place_session *session, bool after) {
        const struct session_still *still = &session->still;

        if ((!after && session->pending_staged) || !workspace_still_holds(still->copy, session->folder) ||
            !workspace_still_holds(still->kept, still->folder))
                return false;
        session->changed = session->deleted = session->conflict = (struct place_file_list){ 0 };
        /* What could not be put in before an execution is said after it. */
        if (!after)
                session->left = (struct place_file_list){ 0 };
        return true;
}

bool session_files_are_over(const struct place_session *session) {
        struct pollfd polled = { .fd = session->sync->over, .events = POLLIN };

        return poll(&polled, 1, 0) == 1;
}

/* Wakes a thread that waits for the worker's answer. */
void session_files_stop(struct place_session *session) {
        if (!session->sync)
                return;
        interrupt_raise_to(&session->sync->interrupt, INTERRUPT_NOW);
        if (session->asked.socket >= 0)
                (void)shutdown(session->asked.socket, SHUT_RDWR);
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

static void take_files(struct place_session *session, struct session_sync *sync) {
        struct place_file_list left;

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
}

void session_files_end(struct place_session *session) {
        struct session_sync *sync = session->sync;

        pthread_join(sync->thread, NULL);
        session->job.failed = sync->failed;
        session->at_sync.known = session->at_sync.known && !sync->failed;
        session->job.problem = sync->problem;
        if (sync->job)
                arena_free(sync->arena);
        else
                take_files(session, sync);
        if (!sync->job) {
                session_files_forget(session);
                session->still = sync->still;
        }
        (void)epoll_ctl(session->waits, EPOLL_CTL_DEL, sync->over, NULL);
        close_descriptor(&sync->over);
        interrupt_dispose(&sync->interrupt);
        free(sync);
        session->sync = NULL;
}
