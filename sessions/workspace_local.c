/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workspaces as folders of this machine.
 *
 * The lock of a workspace is flock(2) on its folder: it dies with who holds it. What is made or removed as a whole is renamed
 * into or out of its name, so that the name stands for all of it or for nothing; names that begin with a dot are no ids,
 * neither here nor for sweeps.
 */
#include "sessions/workspace_local.h"

#include "base/array.h"
#include "base/beneath.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/folder_names.h"
#include "base/json.h"
#include "base/libc.h"
#include "base/log.h"
#include "sessions/checkpoint.h"
#include "sessions/workspace_stage.h"
#include "sessions/workspace_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SESSIONS "sessions"
#define NEWBORNS_MAX 32
#define PAGE 1000
#define SESSION_FILE "session.json"
#define FILES "workspace"
#define USAGE "usage"
#define HISTORY "history"
#define FORMAT "1"
#define SESSION_BYTES_MAX ((size_t)64 << 10)
#define MADE ".made-"
#define REMOVED ".removed-"

static int open_folder(int folder, const char *name) {
        return openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* The folder of all. Where `make` is false and there is none: -1 with ENOENT. */
static int open_all(const struct workspaces *workspaces, bool make) {
        char *path TEXT_CLEANUP = path_join(workspaces->folder, SESSIONS);
        struct error ignored;

        if (make && folder_make(path, &ignored) < 0)
                return -1;
        return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* ---- session.json ---- */

static char *describe(const struct workspaces *workspaces, const struct workspace_row *row) {
        json_t *json JSON_CLEANUP = json_checked(
                json_pack("{ss, ss, ss, ss, sI, sI}", "formatVersion", FORMAT, "stack", workspaces->stack,
                          "environment", row->environment, "owner", row->owner, "createdMs",
                          (json_int_t)row->created_ms, "livesUntilMs", (json_int_t)row->lives_until_ms));

        json_set_text(json, "agent", row->agent);
        return json_compact(json);
}

/*
 * 1 with *ret. 0: no client can have it, because it is missing, damaged, of another stack, or without an owner. -1 with errno: that could
 * not be found out, for example because no descriptor is left.
 */
static int read_session(int folder, const char *stack, struct arena *arena, struct workspace_row *ret) {
        struct stat status;
        int descriptor DESCRIPTOR_CLEANUP = workspace_open_regular(folder, SESSION_FILE, &status);
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        json_t *json JSON_CLEANUP = NULL;
        const char *version, *of_stack, *owner;

        int read;

        if (descriptor < 0)
                return errno == ENOENT || errno == EINVAL || errno == ELOOP ? 0 : -1;
        read = descriptor_read(descriptor, SESSION_BYTES_MAX, &text);
        if (read != 0)
                return read < 0 ? -1 : 0;
        json = json_loadb(strbuf_text(&text), text.length, JSON_REJECT_DUPLICATES, NULL);
        version = json_text(json, "formatVersion");
        of_stack = json_text(json, "stack");
        owner = json_text(json, "owner");
        if (!version || strcmp(version, FORMAT) != 0 || !of_stack ||
            (stack && strcmp(of_stack, stack) != 0) || !owner)
                return 0;
        ret->owner = arena_strdup(arena, owner);
        ret->environment = arena_strdup(arena, json_text(json, "environment"));
        ret->agent = json_text(json, "agent") ? arena_strdup(arena, json_text(json, "agent")) : NULL;
        ret->created_ms = json_integer_or(json, "createdMs", 0);
        ret->lives_until_ms = json_integer_or(json, "livesUntilMs", 0);
        return ret->environment != NULL;
}

/* A new file below a folder of ours: whole, synced, in place of what has the name. */
static int write_file(int folder, const char *name, const char *text, bool lasting) {
        char temporary[NAME_MAX];
        int descriptor DESCRIPTOR_CLEANUP = -1;
        uint8_t random[8];
        char hex[2 * sizeof(random) + 1];

        random_bytes(random, sizeof(random));
        digest_hex(random, sizeof(random), hex);
        snprintf(temporary, sizeof(temporary), WORKSPACE_INCOMING "/%s", hex);
        descriptor = openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (descriptor < 0)
                return -1;
        if (flock(descriptor, LOCK_EX | LOCK_NB) < 0 ||
            descriptor_write(descriptor, text, strlen(text)) < 0 || (lasting && fsync(descriptor) < 0) ||
            renameat(folder, temporary, folder, name) < 0 || (lasting && fsync(folder) < 0)) {
                int reason = errno;

                unlinkat(folder, temporary, 0);
                errno = reason;
                return -1;
        }
        return 0;
}

/* ---- one workspace ---- */

static void random_name(char *name, size_t size, const char *beginning, const char *id) {
        uint8_t random[8];
        char hex[2 * sizeof(random) + 1];

        random_bytes(random, sizeof(random));
        digest_hex(random, sizeof(random), hex);
        snprintf(name, size, "%s%s-%s", beginning, id, hex);
}

/*
 * A new workspace is on its way to the disk when it is answered, and there well within the second that records have: nobody who makes a
 * session waits for three syncs. Many at once are synced by those who make them, so that no crowd of threads stands there.
 */
struct newborn {
        int file, folder, all;
};

static atomic_uint newborns;

static bool sync_newborn(const struct newborn *newborn) {
        return newborn->file >= 0 && fsync(newborn->file) == 0 && fsync(newborn->folder) == 0 &&
               fsync(newborn->all) == 0;
}

static void release_newborn(struct newborn *newborn) {
        close_descriptor(&newborn->file);
        close_descriptor(&newborn->folder);
        close_descriptor(&newborn->all);
        free(newborn);
}

static void *sync_later(void *context) {
        struct newborn *newborn = context;

        if (!sync_newborn(newborn))
                log_warning("a new workspace is not safe from a power loss: %s", strerror(errno));
        release_newborn(newborn);
        atomic_fetch_sub(&newborns, 1);
        return NULL;
}

/* -1 with errno. */
static int make_last(int all, int folder) {
        struct newborn *newborn = malloc(sizeof(*newborn));
        pthread_t thread;
        int result;

        if (!newborn)
                abort();
        /* Opened anew: a lock on the one that we have must not last until then. */
        *newborn = (struct newborn){ openat(folder, SESSION_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC),
                                     open_folder(folder, "."), open_folder(all, ".") };
        if (atomic_fetch_add(&newborns, 1) < NEWBORNS_MAX &&
            pthread_create(&thread, NULL, sync_later, newborn) == 0) {
                pthread_detach(thread);
                return 0;
        }
        atomic_fetch_sub(&newborns, 1);
        result = sync_newborn(newborn) ? 0 : -1;
        release_newborn(newborn);
        return result;
}

/* Whoever makes or removes something holds its lock, so that workspace_recover() knows what is nobody's. */
static int make_whole(int all, const char *made, const struct workspace_row *row, const char *text,
                      struct problem *problem) {
        int folder DESCRIPTOR_CLEANUP = -1;

        if (mkdirat(all, made, 0700) < 0)
                return problem_from_errno(problem, "make a workspace");
        folder = open_folder(all, made);
        if (folder < 0 || flock(folder, LOCK_EX | LOCK_NB) < 0 || mkdirat(folder, FILES, 0700) < 0 ||
            mkdirat(folder, WORKSPACE_INCOMING, 0700) < 0 ||
            write_file(folder, SESSION_FILE, text, false) < 0)
                return problem_from_errno(problem, "make a workspace");
        if (renameat2(all, made, all, row->id, RENAME_NOREPLACE) < 0)
                return errno == EEXIST ? problem_set(problem, PROBLEM_CONFLICT, "this id is taken")
                                       : problem_from_errno(problem, "make a workspace");
        return make_last(all, folder) < 0 ? problem_from_errno(problem, "make a workspace") : 0;
}

static int local_create(const struct workspaces *workspaces, const struct workspace_row *row,
                        struct problem *problem) {
        int all DESCRIPTOR_CLEANUP = -1, half DESCRIPTOR_CLEANUP = -1;
        char made[NAME_MAX];
        char *text TEXT_CLEANUP = NULL;

        all = open_all(workspaces, true);
        if (all < 0)
                return problem_from_errno(problem, "open the folder of workspaces");
        text = describe(workspaces, row);
        random_name(made, sizeof(made), MADE, row->id);
        if (make_whole(all, made, row, text, problem) == 0)
                return 0;
        half = open_folder(all, made);
        if (half >= 0 && workspace_tree_remove(half) == 0)
                unlinkat(all, made, AT_REMOVEDIR);
        return -1;
}

/* Of any owner where it is NULL. */
static int local_open(const struct workspaces *workspaces, const char *owner, const char *id,
                      struct workspace *ret, struct problem *problem) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct workspace opened WORKSPACE_CLEANUP = WORKSPACE_INIT;
        int all DESCRIPTOR_CLEANUP = -1, found;
        struct workspace_row row;

        opened.body = &workspace_local_body;
        all = open_all(workspaces, false);
        opened.folder = all < 0 ? -1 : open_folder(all, id);
        if (opened.folder < 0)
                return errno == ENOENT || errno == ENOTDIR || errno == ELOOP
                               ? workspace_not_found(problem)
                               : problem_from_errno(problem, "open the workspace");
        found = read_session(opened.folder, workspaces->stack, arena, &row);
        if (found < 0)
                return problem_from_errno(problem, "read the workspace's session.json");
        if (!found || (owner && strcmp(row.owner, owner) != 0))
                return workspace_not_found(problem);
        opened.files = open_folder(opened.folder, FILES);
        if (opened.files < 0)
                return problem_from_errno(problem, "open the workspace's files");
        snprintf(opened.id, sizeof(opened.id), "%s", id);
        *ret = opened;
        opened = (struct workspace)WORKSPACE_INIT;
        return 0;
}

/* True for a disk image; false for a plain folder, which is on the disk of all workspaces. */
static bool is_on_own_disk(const struct workspaces *workspaces, int folder) {
        struct stat own, all;

        return fstat(folder, &own) == 0 && (stat(workspaces->folder, &all) < 0 || own.st_dev != all.st_dev);
}

int workspace_local_open_shared(const struct workspaces *workspaces, int folder, const char *owner,
                                const char *id, struct workspace *ret, struct problem *problem) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct workspace opened WORKSPACE_CLEANUP = WORKSPACE_INIT;
        struct workspace_row row;
        int found;

        opened.body = &workspace_local_body;
        opened.folder = open_folder(folder, ".");
        opened.files = opened.folder < 0 ? -1 : open_folder(opened.folder, FILES);
        if (opened.files < 0)
                return problem_from_errno(problem, "open the workspace");
        found = read_session(opened.folder, NULL, arena, &row);
        if (found < 0)
                return problem_from_errno(problem, "read the workspace's session.json");
        if (!found || strcmp(row.owner, owner) != 0)
                return workspace_not_found(problem);
        opened.shared = true;
        opened.own_disk = is_on_own_disk(workspaces, opened.folder);
        snprintf(opened.id, sizeof(opened.id), "%s", id);
        *ret = opened;
        opened = (struct workspace)WORKSPACE_INIT;
        return 0;
}

int workspace_local_read_shared(int folder, const char *stack, struct arena *arena,
                                struct workspace_row *ret) {
        struct workspace_row row = { 0 };
        int found = read_session(folder, stack, arena, &row);

        if (found > 0)
                *ret = row;
        return found;
}

int workspace_local_name_shared(int folder, const char *stack, const struct workspace_row *row) {
        const struct workspaces workspaces = { .stack = stack };
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct workspace_row named = *row, there;
        char *text TEXT_CLEANUP = NULL;
        int found = read_session(folder, stack, arena, &there);

        if (found < 0)
                return -1;
        if (found) {
                if (strcmp(there.environment, row->environment) == 0)
                        return 0;
                named.created_ms = there.created_ms;
        }
        text = describe(&workspaces, &named);
        return write_file(folder, SESSION_FILE, text, true);
}

static void local_close(struct workspace *workspace) {
        close_descriptor(&workspace->files);
        close_descriptor(&workspace->folder); /* and its lock */
        workspace->locked = false;
}

static int local_describe(const struct workspace *workspace, struct arena *arena, struct workspace_row *ret,
                          struct problem *problem) {
        struct workspace_row row = { .id = arena_strdup(arena, workspace->id) };
        int found = read_session(workspace->folder, NULL, arena, &row);

        if (found < 0)
                return problem_from_errno(problem, "read the workspace's session.json");
        if (!found)
                return workspace_not_found(problem);
        *ret = row;
        return 0;
}

/* The member alone is changed, whatever else the file says. */
static int local_set_life(struct workspace *workspace, int64_t lives_until_ms, struct problem *problem) {
        json_t *json JSON_CLEANUP = NULL;
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        char *written TEXT_CLEANUP = NULL;
        bool unread;
        int result = 0;

        if (workspace_lock(workspace, NULL, problem) < 0)
                return -1;
        {
                struct stat status;
                int descriptor DESCRIPTOR_CLEANUP =
                        workspace_open_regular(workspace->folder, SESSION_FILE, &status);

                unread = descriptor < 0 ? errno != ENOENT
                                        : descriptor_read(descriptor, SESSION_BYTES_MAX, &text) < 0;
                if (unread)
                        result = problem_from_errno(problem, "read the workspace's session.json");
                else if (descriptor >= 0)
                        json = json_loadb(strbuf_text(&text), text.length, JSON_REJECT_DUPLICATES, NULL);
        }
        if (json_is_object(json)) {
                json_put(json, "livesUntilMs", json_integer(lives_until_ms));
                written = json_compact(json);
                if (write_file(workspace->folder, SESSION_FILE, written, true) < 0)
                        result = problem_from_errno(problem, "write the workspace's session.json");
        } else if (!unread) {
                result = problem_set(problem, PROBLEM_WORKSPACE_FAILED,
                                     "the workspace's session.json is damaged");
        }
        /* Of a session that has ended nobody restores anything. */
        if (result == 0 && lives_until_ms == 0)
                checkpoint_remove(workspace->folder, NULL, NULL);
        workspace_unlock(workspace);
        return result;
}

/* ---- all of them ---- */

static bool is_workspace(const char *name, const void *none) {
        (void)none;
        return workspace_is_id(name);
}

static bool begins_with(const char *name, const void *beginning) {
        return strncmp(name, beginning, strlen(beginning)) == 0;
}

static int local_list(const struct workspaces *workspaces, const char *owner, const char *after, size_t limit,
                      struct arena *arena, struct workspace_row **ret, size_t *ret_count, bool *ret_more,
                      struct problem *problem) {
        struct arena *own ARENA_CLEANUP = arena_new();
        int all DESCRIPTOR_CLEANUP = open_all(workspaces, false);
        struct workspace_row *rows = NULL;
        const char **names = NULL;
        size_t name_count = 0, count = 0;
        bool more = false;

        if (all < 0 && errno != ENOENT)
                return problem_from_errno(problem, "open the folder of workspaces");
        if (all >= 0 && folder_names(all, is_workspace, NULL, own, &names, &name_count) < 0)
                return problem_from_errno(problem, "read the folder of workspaces");
        for (size_t i = 0; i < name_count && !more; i++) {
                int folder DESCRIPTOR_CLEANUP = -1, found;
                struct workspace_row row = { 0 };

                if (strcmp(names[i], after) <= 0)
                        continue;
                folder = open_folder(all, names[i]);
                if (folder >= 0)
                        found = read_session(folder, workspaces->stack, own, &row);
                else
                        found = errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : -1;
                if (found < 0)
                        return problem_from_errno(problem, "read all workspaces");
                if (!found || (owner && strcmp(row.owner, owner) != 0))
                        continue;
                more = count == limit;
                if (more)
                        break;
                rows = array_grow(arena, rows, count, sizeof(*rows));
                row.id = arena_strdup(arena, names[i]);
                row.owner = arena_strdup(arena, row.owner);
                row.environment = arena_strdup(arena, row.environment);
                row.agent = row.agent ? arena_strdup(arena, row.agent) : NULL;
                rows[count++] = row;
        }
        *ret = rows;
        *ret_count = count;
        *ret_more = more;
        return 0;
}

static int local_remove(const struct workspaces *workspaces, const char *owner, const char *id,
                        struct problem *problem) {
        struct workspace workspace WORKSPACE_CLEANUP = WORKSPACE_INIT;
        int all DESCRIPTOR_CLEANUP = -1;
        char removed[NAME_MAX];

        if (local_open(workspaces, owner, id, &workspace, problem) < 0 ||
            workspace_lock(&workspace, NULL, problem) < 0)
                return -1;
        all = open_all(workspaces, false);
        random_name(removed, sizeof(removed), REMOVED, id);
        if (all < 0 || renameat2(all, id, all, removed, RENAME_NOREPLACE) < 0 || fsync(all) < 0)
                return problem_from_errno(problem, "remove the workspace");
        /* From here on whoever waits for the lock finds that it is gone. */
        (void)unlinkat(workspace.folder, SESSION_FILE, 0);
        if (workspace_tree_remove(workspace.folder) < 0 || unlinkat(all, removed, AT_REMOVEDIR) < 0)
                return problem_from_errno(problem, "remove all of the workspace's files, though it is gone");
        return 0;
}

/* One that a living process is about has its lock. */
static int remove_half(int all, const char *name) {
        int folder DESCRIPTOR_CLEANUP = open_folder(all, name);

        if (folder < 0)
                return errno == ENOENT ? 0 : -1;
        if (flock(folder, LOCK_EX | LOCK_NB) < 0)
                return errno == EWOULDBLOCK ? 0 : -1;
        return workspace_tree_remove(folder) < 0 ? -1 : unlinkat(all, name, AT_REMOVEDIR);
}

/* A file that a living process writes has a lock, or the workspace has, which is ours here. */
static int remove_abandoned(int folder, struct arena *arena) {
        int incoming DESCRIPTOR_CLEANUP = open_folder(folder, WORKSPACE_INCOMING), result = 0;
        const char **names;
        size_t count;

        if (incoming < 0)
                return errno == ENOENT ? 0 : -1;
        if (folder_names(incoming, begins_with, "", arena, &names, &count) < 0)
                return -1;
        for (size_t i = 0; i < count; i++) {
                int file DESCRIPTOR_CLEANUP =
                        openat(incoming, names[i], O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

                if (names[i][0] == '.' || file < 0 || flock(file, LOCK_EX | LOCK_NB) < 0)
                        continue;
                if (unlinkat(incoming, names[i], 0) < 0)
                        result = -1;
        }
        return result;
}

static int empty_incoming(int all, const char *id, const char *stack, struct arena *arena) {
        int folder DESCRIPTOR_CLEANUP = open_folder(all, id);
        struct workspace_row row;

        if (folder < 0 || flock(folder, LOCK_EX | LOCK_NB) < 0)
                return errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EWOULDBLOCK ? 0 : -1;
        /* Of another stack, another server may yet need them; of a session that lives, what waits in it. */
        if (read_session(folder, stack, arena, &row) > 0 && row.lives_until_ms <= clock_wall_ms())
                workspace_stage_clear(folder);
        return remove_abandoned(folder, arena);
}

int workspace_local_recover_shared(int folder) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        int own DESCRIPTOR_CLEANUP = open_folder(folder, ".");

        if (own < 0 || flock(own, LOCK_EX | LOCK_NB) < 0)
                return own >= 0 && errno == EWOULDBLOCK ? 0 : -1;
        return remove_abandoned(own, arena);
}

static int local_recover(const struct workspaces *workspaces, struct problem *problem) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        int all DESCRIPTOR_CLEANUP = open_all(workspaces, false);
        const char **names;
        size_t count;
        int result = 0;

        if (all < 0)
                return errno == ENOENT ? 0 : problem_from_errno(problem, "open the folder of workspaces");
        for (int i = 0; i < 2; i++) {
                if (folder_names(all, begins_with, i == 0 ? MADE : REMOVED, arena, &names, &count) < 0)
                        return problem_from_errno(problem, "read the folder of workspaces");
                for (size_t j = 0; j < count; j++)
                        result |= remove_half(all, names[j]);
        }
        if (folder_names(all, is_workspace, NULL, arena, &names, &count) < 0)
                return problem_from_errno(problem, "read the folder of workspaces");
        for (size_t j = 0; j < count; j++)
                result |= empty_incoming(all, names[j], workspaces->stack, arena);
        return result ? problem_from_errno(problem, "remove what was left of workspaces") : 0;
}

/* ---- changing ---- */

int workspace_lock(struct workspace *workspace, const struct interrupt *interrupt, struct problem *problem) {
        if (descriptor_lock(workspace->folder, interrupt) < 0)
                return errno == EINTR ? problem_set(problem, PROBLEM_STOPPING, "interrupted")
                                      : problem_from_errno(problem, "lock the workspace");
        if (faccessat(workspace->folder, SESSION_FILE, F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
                flock(workspace->folder, LOCK_UN);
                return workspace_not_found(problem);
        }
        workspace->locked = true;
        return 0;
}

void workspace_unlock(struct workspace *workspace) {
        if (workspace->locked)
                flock(workspace->folder, LOCK_UN);
        workspace->locked = false;
}

void workspace_boot(char id[40]) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct error ignored;

        id[0] = '\0';
        if (file_read("/proc/sys/kernel/random/boot_id", 64, &text, &ignored) == 0)
                snprintf(id, 40, "%.*s", (int)strcspn(strbuf_text(&text), "\n"), strbuf_text(&text));
}

static void write_usage(char *text, size_t size, const char *boot, const struct workspace_usage *usage) {
        snprintf(text, size, "%s %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", boot, usage->files, usage->bytes,
                 usage->folders);
}

/* False where there is no number, or one of another boot: the disk may have lost what happened after it. */
static bool read_usage(const struct workspace *workspace, struct workspace_usage *ret) {
        struct stat status;
        int descriptor DESCRIPTOR_CLEANUP = workspace_open_regular(workspace->folder, USAGE, &status);
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct workspace_usage usage;
        char boot[40], expected[160];
        size_t length;
        char *end;

        if (workspace->shared || descriptor < 0 || descriptor_read(descriptor, sizeof(expected), &text) != 0)
                return false;
        workspace_boot(boot);
        length = strlen(boot);
        if (!length || strncmp(strbuf_text(&text), boot, length) != 0 || strbuf_text(&text)[length] != ' ')
                return false;
        usage.files = strtoull(strbuf_text(&text) + length + 1, &end, 10);
        usage.bytes = strtoull(end, &end, 10);
        usage.folders = strtoull(end, NULL, 10);
        write_usage(expected, sizeof(expected), boot, &usage);
        if (strcmp(strbuf_text(&text), expected) != 0)
                return false;
        *ret = usage;
        return true;
}

static int count_all(const struct workspace *workspace, const struct interrupt *interrupt,
                     struct workspace_usage *ret, struct problem *problem) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct workspace_tree tree;
        struct error err;

        if (workspace_tree_read(workspace->files, 0, 0, interrupt, arena, &tree, &err) < 0)
                return problem_from_error(
                        problem, err.kind == ERROR_INTERRUPTED ? PROBLEM_STOPPING : PROBLEM_WORKSPACE_FAILED,
                        &err);
        *ret = (struct workspace_usage){ .files = tree.count, .bytes = tree.bytes };
        for (size_t i = 0; i < tree.count; i++)
                ret->folders += tree.entries[i].folder;
        return 0;
}

static int local_measure(struct workspace *workspace, const struct interrupt *interrupt,
                         struct workspace_usage *ret, struct problem *problem) {
        int result = 0;

        if (read_usage(workspace, ret))
                return 0;
        if (workspace_lock(workspace, interrupt, problem) < 0)
                return -1;
        if (!read_usage(workspace, ret)) {
                result = count_all(workspace, interrupt, ret, problem);
                if (result == 0)
                        workspace_usage_end(workspace, ret);
        }
        workspace_unlock(workspace);
        return result;
}

static int local_set_history(struct workspace *workspace, uint64_t bytes, struct problem *problem) {
        char text[32];
        int written;

        if (workspace_lock(workspace, NULL, problem) < 0)
                return -1;
        snprintf(text, sizeof(text), "%" PRIu64 "\n", bytes);
        written = write_file(workspace->folder, HISTORY, text, false);
        workspace_unlock(workspace);
        return written < 0 ? problem_from_errno(problem, "write the size of the workspace's history") : 0;
}

uint64_t workspace_history(const struct workspace *workspace) {
        struct stat status;
        int descriptor DESCRIPTOR_CLEANUP = workspace_open_regular(workspace->folder, HISTORY, &status);
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        if (descriptor < 0 || descriptor_read(descriptor, 32, &text) != 0)
                return 0;
        return strtoull(strbuf_text(&text), NULL, 10);
}

int workspace_usage_begin(struct workspace *workspace, const struct interrupt *interrupt,
                          struct workspace_usage *ret, struct problem *problem) {
        if (!read_usage(workspace, ret) && count_all(workspace, interrupt, ret, problem) < 0)
                return -1;
        if (unlinkat(workspace->folder, USAGE, 0) < 0 && errno != ENOENT)
                return problem_from_errno(problem, "write the workspace's usage");
        return 0;
}

/* Where it cannot be written there is none, and the next one counts. */
void workspace_usage_end(struct workspace *workspace, const struct workspace_usage *usage) {
        char boot[40], text[160];

        workspace_boot(boot);
        write_usage(text, sizeof(text), boot, usage);
        if (boot[0] && !workspace->shared)
                (void)!write_file(workspace->folder, USAGE, text, false);
}

static int local_check_free(const struct workspace *workspace, const struct workspace_limits *limits,
                            uint64_t more, struct problem *problem) {
        struct statvfs disk;
        uint64_t free_bytes;

        /* The room of a disk image was taken from the disk of all workspaces when the image was made. */
        if (!limits->free_min || workspace->own_disk)
                return 0;
        if (fstatvfs(workspace->folder, &disk) < 0)
                return problem_from_errno(problem, "look at the disk");
        free_bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
        if (free_bytes < limits->free_min || free_bytes - limits->free_min < more)
                return problem_set(problem, PROBLEM_WORKSPACE_FULL,
                                   "the disk of the workspaces would have less free than must stay free");
        return 0;
}

int workspace_incoming_make(const struct workspace *workspace, char name[WORKSPACE_INCOMING_MAX],
                            int *ret_descriptor, struct problem *problem) {
        for (;;) {
                int descriptor DESCRIPTOR_CLEANUP = -1;
                uint8_t random[8];
                char hex[2 * sizeof(random) + 1];
                struct stat status;

                random_bytes(random, sizeof(random));
                digest_hex(random, sizeof(random), hex);
                snprintf(name, WORKSPACE_INCOMING_MAX, WORKSPACE_INCOMING "/%s", hex);
                descriptor = openat(workspace->folder, name,
                                    O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
                if (descriptor < 0)
                        return errno == ENOENT ? workspace_not_found(problem)
                                               : problem_from_errno(problem, "write into the workspace");
                /* workspace_recover() may have found it before it was locked: then it has no name any more. */
                if (flock(descriptor, LOCK_EX | LOCK_NB) < 0 || fstat(descriptor, &status) < 0 ||
                    status.st_nlink == 0)
                        continue;
                *ret_descriptor = descriptor;
                descriptor = -1;
                return 0;
        }
}

/* ---- all of an owner's ---- */

/* One that goes meanwhile holds nothing. The memory of a parked session and its history are its owner's, too; files are left out where it says so. */
static int add_usage(const struct workspaces *workspaces, const struct workspace_row *row, bool with_files,
                     const struct interrupt *interrupt, uint64_t *total, struct problem *problem) {
        struct workspace workspace WORKSPACE_CLEANUP = WORKSPACE_INIT;
        struct workspace_usage usage = { 0 };
        struct problem own;

        if (local_open(workspaces, row->owner, row->id, &workspace, &own) == 0 &&
            (!with_files || local_measure(&workspace, interrupt, &usage, &own) == 0)) {
                usage.bytes += checkpoint_measure(&workspace) + workspace_history(&workspace);
                if (__builtin_add_overflow(*total, usage.bytes, total))
                        *total = UINT64_MAX;
                return 0;
        }
        if (own.code == PROBLEM_NOT_FOUND)
                return 0;
        *problem = own;
        return -1;
}

static int local_measure_others(const struct workspaces *workspaces, const char *owner, const char *id,
                                const struct interrupt *interrupt, uint64_t *ret, struct problem *problem) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *after = "";
        uint64_t total = 0;
        bool more = true;

        while (more) {
                struct workspace_row *rows = NULL;
                size_t count = 0;

                if (local_list(workspaces, owner, after, PAGE, arena, &rows, &count, &more, problem) < 0)
                        return -1;
                for (size_t i = 0; i < count; i++) {
                        after = rows[i].id;
                        if (add_usage(workspaces, &rows[i], strcmp(rows[i].id, id) != 0, interrupt, &total,
                                      problem) < 0)
                                return -1;
                }
        }
        *ret = total;
        return 0;
}

const struct workspace_body workspace_local_body = {
        .create = local_create,
        .open = local_open,
        .close = local_close,
        .describe = local_describe,
        .set_life = local_set_life,
        .list = local_list,
        .remove = local_remove,
        .recover = local_recover,
        .measure = local_measure,
        .set_history = local_set_history,
        .measure_others = local_measure_others,
        .check_free = local_check_free,
        .files_list = workspace_local_files_list,
        .file_look = workspace_local_file_look,
        .put_begin = workspace_local_put_begin,
        .put_finish = workspace_local_put_finish,
        .put_close = workspace_local_put_close,
        .file_delete = workspace_local_file_delete,
        .place_look = workspace_local_place_look,
        .places_list = workspace_local_places_list,
        .folder_create = workspace_local_folder_create,
        .place_move = workspace_local_place_move,
        .place_remove = workspace_local_place_remove,
        .stage_begin = workspace_local_stage_begin,
        .stage_file = workspace_local_stage_file,
        .stage_finish = workspace_local_stage_finish,
        .stage_close = workspace_local_stage_close,
        .stage_place = workspace_local_stage_place,
        .stage_drop = workspace_local_stage_drop,
        .stage_keep = workspace_local_stage_keep,
        .stage_request = workspace_local_stage_request,
        .stage_read_request = workspace_local_stage_read_request,
};
