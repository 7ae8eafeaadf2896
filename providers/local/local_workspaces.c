/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A workspace was filled by untrusted code. Below the folder of sessions everything is opened with
 * openat2(2) by base/beneath.h, which follows no link and enters no other file system, and is
 * removed by descriptor and name. A program may make folders deeper than any path can be,
 * unreadable, or full: none of that may stop a sweep or reach outside.
 */
#include "providers/local/local_workspaces.h"

#include "base/array.h"
#include "base/beneath.h"
#include "base/files.h"
#include "base/json.h"
#include "providers/local/local_layout.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SESSION_BYTES_MAX (1u << 20)
#define ID_LENGTH_MAX 128
/* How many files there are, as sessions/workspace.h keeps it. */
#define SESSION_USAGE "usage"

/* ---- sessions ---- */

static bool is_workspace_id(const char *id) {
        size_t length = strlen(id);

        return length > 0 && length <= ID_LENGTH_MAX && id[0] != '.' &&
               strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == length;
}

/*
 * The open folder of sessions; -1 with *ret_missing if it does not exist. Its path is trusted; what
 * is below it is not.
 */
static int open_sessions(const char *workspaces, bool *ret_missing, struct error *err) {
        char *path TEXT_CLEANUP = path_join(workspaces, SESSIONS_FOLDER);
        int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        *ret_missing = descriptor < 0 && errno == ENOENT;
        if (descriptor < 0 && !*ret_missing)
                return error_set(err, "cannot open %s: %s", path, strerror(errno));
        return descriptor;
}

/*
 * The problem of the session, or NULL. A session of another stack loses its id: it does not belong
 * to this one.
 */
static const char *read_session(int sessions, const char *id, const char *stack, struct arena *arena,
                                struct local_session *ret) {
        const char *path = arena_printf(arena, "%s/%s", id, SESSION_FILE), *text_of_stack;
        int descriptor DESCRIPTOR_CLEANUP = beneath_open(sessions, path, O_RDONLY);
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        json_t *json JSON_CLEANUP = NULL;
        struct stat status;

        if (descriptor < 0)
                return errno == ENOENT ? "it has no session.json"
                                       : arena_printf(arena, "session.json: %s", strerror(errno));
        if (fstat(descriptor, &status) < 0 || !S_ISREG(status.st_mode) ||
            descriptor_read(descriptor, SESSION_BYTES_MAX, &text) != 0)
                return "its session.json cannot be read";
        json = json_loadb(strbuf_text(&text), text.length, JSON_REJECT_DUPLICATES, NULL);
        text_of_stack = json_text(json, "stack");
        if (!text_of_stack)
                return "its session.json is damaged";
        if (strcmp(text_of_stack, stack) != 0) {
                ret->id = NULL;
                return NULL;
        }
        if (!json_text(json, "formatVersion") ||
            strcmp(json_text(json, "formatVersion"), SESSION_FORMAT) != 0)
                return "its session.json was written by another version of berth";
        ret->environment = arena_strdup(arena, json_text(json, "environment"));
        ret->owner = arena_strdup(arena, json_text(json, "owner"));
        ret->lives_until_ms = json_integer_or(json, "livesUntilMs", 0);
        return ret->environment ? NULL : "its session.json names no environment";
}

static int by_id(const void *a, const void *b) {
        return strcmp(((const struct local_session *)a)->id, ((const struct local_session *)b)->id);
}

int local_sessions_list(const char *workspaces, const char *stack, struct arena *arena,
                        struct local_session **ret, size_t *ret_count, struct error *err) {
        bool missing;
        int sessions = open_sessions(workspaces, &missing, err);
        struct local_session *list = NULL;
        size_t count = 0;
        const struct dirent *entry;
        DIR *folder;

        if (sessions < 0 && !missing)
                return -1;
        folder = missing ? NULL : fdopendir(sessions);
        if (!folder && !missing) {
                (void)error_set(err, "cannot read %s/%s: %s", workspaces, SESSIONS_FOLDER, strerror(errno));
                close_descriptor(&sessions);
                return -1;
        }
        while (folder && (entry = readdir(folder))) {
                struct local_session session = { .id = arena_strdup(arena, entry->d_name) };

                /* Anything else in the folder is left alone. */
                if (!is_workspace_id(entry->d_name) ||
                    (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN))
                        continue;
                session.problem = read_session(sessions, entry->d_name, stack, arena, &session);
                if (session.id) {
                        list = array_grow(arena, list, count, sizeof(*list));
                        list[count++] = session;
                }
        }
        if (folder)
                closedir(folder);
        if (count > 1)
                qsort(list, count, sizeof(*list), by_id);
        *ret = list;
        *ret_count = count;
        return 0;
}

void local_tally_add(struct workspace_tally *total, const struct workspace_tally *tally) {
        if (tally->files > 0 && (total->files == 0 || tally->oldest_ms < total->oldest_ms))
                total->oldest_ms = tally->oldest_ms;
        total->files += tally->files;
        total->bytes += tally->bytes;
        total->problems += tally->problems;
        if (!total->first_problem)
                total->first_problem = tally->first_problem;
}

/* ---- walking ---- */

/*
 * The folders of a workspace, in a list: each is opened by its path from the top, so that any depth takes one descriptor
 * and no recursion. Parents come before their children.
 */
struct walked_folder {
        const char *path; /* "." for the top */
        size_t parent;
        int64_t ctime_ms;
        bool emptied; /* something in it was removed */
};

struct walk {
        int top;
        struct workspace_span span;
        bool remove;
        struct arena *arena;
        struct walked_folder *folders;
        size_t count;
        struct workspace_tally tally;
};

static int64_t ctime_ms(const struct stat *status) {
        return (int64_t)status->st_ctim.tv_sec * 1000 + status->st_ctim.tv_nsec / 1000000;
}

static void note_problem(struct walk *walk, const char *folder, const char *name, int error) {
        walk->tally.problems++;
        if (!walk->tally.first_problem)
                walk->tally.first_problem =
                        arena_printf(walk->arena, "%s/%s: %s", folder, name, strerror(error));
}

static void add_folder(struct walk *walk, const char *path, size_t parent, int64_t ctime) {
        walk->folders = array_grow(walk->arena, walk->folders, walk->count, sizeof(*walk->folders));
        walk->folders[walk->count++] =
                (struct walked_folder){ .path = path, .parent = parent, .ctime_ms = ctime };
}

/* A program may take away its own right to read a folder: the sweep gives it back. */
static int open_unreadable(const struct walk *walk, const char *path) {
        int handle DESCRIPTOR_CLEANUP = beneath_open(walk->top, path, O_PATH | O_DIRECTORY);
        char magic[40];

        if (handle < 0)
                return -1;
        snprintf(magic, sizeof(magic), "/proc/self/fd/%d", handle);
        if (chmod(magic, 0700) < 0)
                return -1;
        return beneath_open(walk->top, path, O_RDONLY | O_DIRECTORY);
}

static int open_walk_folder(const struct walk *walk, const char *path) {
        int descriptor = beneath_open(walk->top, path, O_RDONLY | O_DIRECTORY);

        if (descriptor < 0 && errno == EACCES && walk->remove)
                return open_unreadable(walk, path);
        return descriptor;
}

static int remove_entry(int folder, const char *name, int flags) {
        if (unlinkat(folder, name, flags) == 0)
                return 0;
        if (errno != EACCES || fchmod(folder, 0700) < 0)
                return -1;
        return unlinkat(folder, name, flags);
}

static void visit_file(struct walk *walk, size_t at, int folder, const char *name,
                       const struct stat *status) {
        int64_t written = ctime_ms(status);
        struct workspace_tally *tally = &walk->tally;

        if (written <= walk->span.after_ms || written > walk->span.until_ms)
                return;
        if (walk->remove && remove_entry(folder, name, 0) < 0) {
                note_problem(walk, walk->folders[at].path, name, errno);
                return;
        }
        walk->folders[at].emptied |= walk->remove;
        if (tally->files == 0 || written < tally->oldest_ms)
                tally->oldest_ms = written;
        tally->files++;
        tally->bytes += S_ISREG(status->st_mode) ? (uint64_t)status->st_size : 0;
}

static void visit_entry(struct walk *walk, size_t at, int folder, const char *name) {
        struct stat status;

        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
                return;
        if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) < 0) {
                if (errno != ENOENT)
                        note_problem(walk, walk->folders[at].path, name, errno);
                return;
        }
        if (S_ISDIR(status.st_mode))
                add_folder(walk, path_join_in(walk->folders[at].path, name, walk->arena), at,
                           ctime_ms(&status));
        else
                visit_file(walk, at, folder, name, &status);
}

static void visit_folder(struct walk *walk, size_t at) {
        const char *path = walk->folders[at].path;
        int descriptor = open_walk_folder(walk, path);
        const struct dirent *entry;
        DIR *folder;

        if (descriptor < 0) {
                if (errno != ENOENT)
                        note_problem(walk, path, "", errno);
                return;
        }
        folder = fdopendir(descriptor);
        if (!folder) {
                note_problem(walk, path, "", errno);
                close(descriptor);
                return;
        }
        while ((entry = readdir(folder)))
                visit_entry(walk, at, descriptor, entry->d_name);
        closedir(folder);
}

/* Children come after their parents in the list, so from its end on each folder is empty by its turn, if it can be. */
static void remove_folders(struct walk *walk) {
        for (size_t i = walk->count; i-- > 1;) {
                struct walked_folder *folder = &walk->folders[i];
                const char *slash = strrchr(folder->path, '/');
                int parent DESCRIPTOR_CLEANUP = -1;

                if (!folder->emptied && folder->ctime_ms > walk->span.until_ms)
                        continue;
                parent = open_walk_folder(walk, walk->folders[folder->parent].path);
                if (parent >= 0 && remove_entry(parent, slash ? slash + 1 : folder->path, AT_REMOVEDIR) == 0)
                        walk->folders[folder->parent].emptied = true;
                else if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOENT)
                        note_problem(walk, folder->path, "", errno);
        }
}

static void walk_all(struct walk *walk) {
        add_folder(walk, ".", 0, INT64_MAX);
        for (size_t i = 0; i < walk->count; i++)
                visit_folder(walk, i);
        if (walk->remove)
                remove_folders(walk);
}

static void copy_tally(const struct walk *walk, struct arena *arena, struct workspace_tally *ret) {
        *ret = walk->tally;
        ret->first_problem = arena_strdup(arena, walk->tally.first_problem);
}

int local_workspace_expire(const char *workspaces, const char *id, struct workspace_span span, bool remove,
                           struct arena *arena, struct workspace_tally *ret, struct error *err) {
        struct arena *own ARENA_CLEANUP = arena_new();
        bool missing;
        int sessions DESCRIPTOR_CLEANUP = open_sessions(workspaces, &missing, err);
        int session DESCRIPTOR_CLEANUP = -1, top DESCRIPTOR_CLEANUP = -1;
        struct walk walk = { .span = span, .remove = remove, .arena = own };

        if (sessions < 0 && !missing)
                return -1;
        if (!is_workspace_id(id))
                return error_set(err, "\"%s\" is no session", id);
        /* An upload holds this lock; and what is kept of their number is of no worth afterwards. */
        if (!missing && remove) {
                session = beneath_open(sessions, id, O_RDONLY | O_DIRECTORY);
                if (session >= 0 && (descriptor_lock(session, interrupt_of_user()) < 0 ||
                                     (unlinkat(session, SESSION_USAGE, 0) < 0 && errno != ENOENT)))
                        return error_set(err, "cannot lock the workspace of session %s below %s: %s", id,
                                         workspaces, strerror(errno));
        }
        if (!missing)
                top = beneath_open(sessions, arena_printf(own, "%s/%s", id, SESSION_WORKSPACE),
                                   O_PATH | O_DIRECTORY);
        if (top < 0 && !missing && errno != ENOENT)
                return error_set(err, "cannot open the workspace of session %s below %s: %s", id, workspaces,
                                 strerror(errno));
        walk.top = top;
        if (top >= 0)
                walk_all(&walk);
        copy_tally(&walk, arena, ret);
        return 0;
}

int local_session_remove(const char *workspaces, const char *id, struct error *err) {
        struct arena *own ARENA_CLEANUP = arena_new();
        bool missing;
        int sessions DESCRIPTOR_CLEANUP = open_sessions(workspaces, &missing, err);
        int top DESCRIPTOR_CLEANUP = -1;
        struct walk walk = { .span = { INT64_MIN, INT64_MAX }, .remove = true, .arena = own };

        if (sessions < 0)
                return missing ? 0 : -1;
        if (!is_workspace_id(id))
                return error_set(err, "\"%s\" is no session", id);
        top = beneath_open(sessions, id, O_PATH | O_DIRECTORY);
        if (top < 0)
                return error_set(err, "cannot open the session %s below %s: %s", id, workspaces,
                                 strerror(errno));
        walk.top = top;
        walk_all(&walk);
        if (walk.tally.problems)
                return error_set(err, "cannot remove all of session %s: %s", id, walk.tally.first_problem);
        if (unlinkat(sessions, id, AT_REMOVEDIR) < 0)
                return error_set(err, "cannot remove the session %s: %s", id, strerror(errno));
        return 0;
}
