/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders are kept in a list and opened by their path from the top, so that any depth takes one descriptor and no recursion. A
 * folder that is exchanged for a link while this runs is not entered: openat2(2) refuses.
 */
#include "sessions/workspace_tree.h"

#include "base/array.h"
#include "base/beneath.h"
#include "base/files.h"
#include "base/libc.h"
#include "base/strbuf.h"
#include "base/text_utf8.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Names between two looks at the interrupt. */
#define LOOK_EVERY 1024

const char *workspace_name_problem(const char *name) {
        size_t length = strlen(name), bad;

        if (length == 0)
                return "a name is empty";
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
                return "\".\" and \"..\" are no names";
        if (strchr(name, '/'))
                return "a name has a slash";
        if (length > NAME_MAX)
                return "a name is longer than 255 bytes";
        return text_is_utf8(name, length, &bad) ? NULL : "a name is no UTF-8";
}

const char *const workspace_roots[] = { "/workspace", NULL };

static const char *beneath(const char *path, const char *folder) {
        size_t length = strlen(folder);

        if (strncmp(path, folder, length) != 0 || (path[length] != '/' && path[length] != '\0'))
                return NULL;
        return path + length;
}

const char *workspace_path_plain(const char *path, const char *const *roots, struct arena *arena) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        const char *at = *path == '/' ? NULL : path;

        for (; !at && *roots; roots++)
                at = beneath(path, *roots);
        if (!at)
                return path;
        while (*at) {
                size_t length = strcspn(at, "/");

                if (length > 0 && !(length == 1 && *at == '.')) {
                        if (text.length > 0)
                                strbuf_append_char(&text, '/');
                        strbuf_append_bytes(&text, at, length);
                }
                at += length;
                at += *at == '/';
        }
        return arena_strdup(arena, strbuf_text(&text));
}

const char *workspace_path_problem(const char *path) {
        const char *at = path;
        char name[NAME_MAX + 1];

        if (strlen(path) > WORKSPACE_PATH_MAX)
                return "the path is longer than 960 bytes";
        for (int depth = 0;; depth++) {
                size_t length = strcspn(at, "/");
                const char *problem;

                if (length > NAME_MAX)
                        return "a name is longer than 255 bytes";
                memcpy(name, at, length);
                name[length] = '\0';
                problem = workspace_name_problem(name);
                if (problem)
                        return problem;
                if (depth > WORKSPACE_DEPTH_MAX)
                        return "there are more than 64 folders in each other";
                if (!at[length])
                        return NULL;
                at += length + 1;
        }
}

int workspace_open_regular(int folder, const char *path, struct stat *ret_status) {
        int handle DESCRIPTOR_CLEANUP = beneath_open(folder, path, O_PATH | O_NOFOLLOW), opened;
        char magic[40];
        struct stat status;

        if (handle < 0 || fstat(handle, &status) < 0)
                return -1;
        if (!S_ISREG(status.st_mode)) {
                errno = EINVAL;
                return -1;
        }
        /* Opening a device or a FIFO does something; the handle is a regular file for certain, whatever the name is by now. */
        snprintf(magic, sizeof(magic), "/proc/self/fd/%d", handle);
        opened = open(magic, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (opened >= 0)
                *ret_status = status;
        return opened;
}

/* ---- reading ---- */

struct waiting_folder {
        const char *path; /* "" for the top */
        unsigned depth;
};

struct reading {
        uint64_t seen, seen_max;
        uint64_t folders_max;
        uint64_t path_bytes; /* of all that was seen */
        const struct interrupt *interrupt;
        bool interrupted;
        struct arena *arena;
        struct waiting_folder *folders;
        size_t folder_count;
        struct waiting_folder in; /* that is being listed */
        struct workspace_tree tree;
};

static void skip(struct reading *reading, const char *path, const char *reason, bool unread) {
        struct workspace_tree *tree = &reading->tree;
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        if (tree->skipped_count == WORKSPACE_SKIPPED_MAX)
                return;
        if (tree->skipped_count == WORKSPACE_SKIPPED_MAX - 1) {
                path = ".";
                reason = "and others, which are not listed";
        }
        text_append_utf8(&text, path);
        tree->skipped =
                array_grow(reading->arena, tree->skipped, tree->skipped_count, sizeof(*tree->skipped));
        tree->skipped[tree->skipped_count++] =
                (struct workspace_skipped){ arena_strdup(reading->arena, strbuf_text(&text)), reason,
                                            unread };
}

static const char *type_problem(mode_t mode) {
        if (S_ISLNK(mode))
                return "it is a symbolic link";
        if (S_ISFIFO(mode))
                return "it is a FIFO";
        if (S_ISSOCK(mode))
                return "it is a socket";
        return "it is a device";
}

struct workspace_entry workspace_entry_of(const char *path, const struct stat *status) {
        return (struct workspace_entry){
                .path = path,
                .inode = status->st_ino,
                .bytes = S_ISREG(status->st_mode) ? (uint64_t)status->st_size : 0,
                .written_ns = nanoseconds_of(status->st_mtim),
                .changed_ns = nanoseconds_of(status->st_ctim),
                .folder = S_ISDIR(status->st_mode),
                .executable = S_ISREG(status->st_mode) && (status->st_mode & 0100),
        };
}

static void read_name(struct reading *reading, const char *name, const struct stat *status) {
        const struct waiting_folder *in = &reading->in;
        const char *path = path_join_in(in->path, name, reading->arena);
        const char *problem = workspace_name_problem(name);

        reading->path_bytes += strlen(path);
        if (problem) {
                skip(reading, path, problem, true);
                return;
        }
        if (strlen(path) > WORKSPACE_PATH_MAX) {
                skip(reading, path, "its path is longer than 960 bytes", true);
                return;
        }
        if (!status) {
                skip(reading, path, "it cannot be read", true);
                return;
        }
        if (!S_ISREG(status->st_mode) && !S_ISDIR(status->st_mode)) {
                skip(reading, path, type_problem(status->st_mode), false);
                return;
        }
        if (S_ISDIR(status->st_mode) && reading->folders_max &&
            reading->folder_count > reading->folders_max) {
                skip(reading, path, "there are more folders than a workspace may have", true);
                return;
        }
        if (S_ISDIR(status->st_mode) && in->depth == WORKSPACE_DEPTH_MAX) {
                skip(reading, path, "there are more than 64 folders in each other", true);
                return;
        }
        if (S_ISDIR(status->st_mode)) {
                reading->folders = array_grow(reading->arena, reading->folders, reading->folder_count,
                                              sizeof(*reading->folders));
                reading->folders[reading->folder_count++] = (struct waiting_folder){ path, in->depth + 1 };
        }
        reading->tree.entries = array_grow(reading->arena, reading->tree.entries, reading->tree.count,
                                           sizeof(*reading->tree.entries));
        reading->tree.entries[reading->tree.count++] = workspace_entry_of(path, status);
        if (S_ISREG(status->st_mode))
                reading->tree.bytes += (uint64_t)status->st_size;
}

static bool take_name(void *context, const char *name, const struct stat *status) {
        struct reading *reading = context;

        if (reading->seen_max &&
            (reading->seen == reading->seen_max || reading->path_bytes >= WORKSPACE_PATHS_MAX)) {
                reading->tree.cut = true;
                return false;
        }
        reading->interrupted =
                ++reading->seen % LOOK_EVERY == 0 && interrupt_level(reading->interrupt) > INTERRUPT_NONE;
        if (!reading->interrupted)
                read_name(reading, name, status);
        return !reading->interrupted;
}

static int by_path(const void *a, const void *b) {
        return strcmp(((const struct workspace_entry *)a)->path, ((const struct workspace_entry *)b)->path);
}

int workspace_tree_read_from(const struct workspace_tree_source *source, uint64_t entries_max,
                             uint64_t folders_max, const struct interrupt *interrupt, struct arena *arena,
                             struct workspace_tree *ret, struct error *err) {
        struct reading reading = {
                .seen_max = entries_max, .folders_max = folders_max, .interrupt = interrupt, .arena = arena
        };

        reading.folders = array_grow(arena, NULL, 0, sizeof(*reading.folders));
        reading.folders[reading.folder_count++] = (struct waiting_folder){ "", 0 };
        for (size_t i = 0; i < reading.folder_count && !reading.tree.cut; i++) {
                const char *reason = NULL;
                int answer;

                reading.in = reading.folders[i];
                answer = source->list(source->context, reading.in.path, take_name, &reading, &reason, err);
                if (answer < 0)
                        return -1;
                if (reading.interrupted)
                        return error_set_kind(err, ERROR_INTERRUPTED, "interrupted");
                if (answer > 0 && i == 0)
                        return error_set(err, "cannot read the workspace: %s",
                                         reason ? reason : "it is not there");
                if (answer > 0 && reason)
                        skip(&reading, reading.in.path, reason, true);
        }
        if (reading.tree.count > 1)
                qsort(reading.tree.entries, reading.tree.count, sizeof(*reading.tree.entries), by_path);
        *ret = reading.tree;
        return 0;
}

static int list_folder(void *context, const char *path,
                       bool (*take)(void *reading, const char *name, const struct stat *status),
                       void *reading, const char **ret_reason, struct error *err) {
        int descriptor = beneath_open(*(const int *)context, path[0] ? path : ".", O_RDONLY | O_DIRECTORY);
        const struct dirent *entry;
        bool more = true;
        DIR *folder;

        if (descriptor < 0) {
                if (errno != ENOENT)
                        *ret_reason = errno == EXDEV ? "it is on another file system" : "it cannot be read";
                return 1;
        }
        folder = fdopendir(descriptor);
        if (!folder) {
                close(descriptor);
                return error_set(err, "cannot read the workspace: %s", strerror(errno));
        }
        while (more && (entry = readdir(folder))) {
                struct stat status;

                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                        continue;
                if (fstatat(descriptor, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0)
                        more = take(reading, entry->d_name, &status);
                else if (errno != ENOENT)
                        more = take(reading, entry->d_name, NULL);
        }
        closedir(folder);
        return 0;
}

int workspace_tree_read(int folder, uint64_t entries_max, uint64_t folders_max,
                        const struct interrupt *interrupt, struct arena *arena, struct workspace_tree *ret,
                        struct error *err) {
        const struct workspace_tree_source source = { list_folder, &folder };

        return workspace_tree_read_from(&source, entries_max, folders_max, interrupt, arena, ret, err);
}

static int compare_path(const void *sought, const void *item) {
        return strcmp(sought, ((const struct workspace_entry *)item)->path);
}

const struct workspace_entry *workspace_tree_find(const struct workspace_tree *tree, const char *path) {
        return tree->count ? bsearch(path, tree->entries, tree->count, sizeof(*tree->entries), compare_path)
                           : NULL;
}

bool workspace_entry_same(const struct workspace_entry *a, const struct workspace_entry *b) {
        if (a->folder || b->folder)
                return a->folder == b->folder;
        return a->inode == b->inode && a->bytes == b->bytes && a->written_ns == b->written_ns &&
               a->changed_ns == b->changed_ns && a->executable == b->executable;
}

/* ---- removing ---- */

/*
 * One folder at a time, by its path where that is short enough for the kernel. What is nested deeper is moved up to the top
 * first, under a name that nothing has there, and removed from there: so any depth ends.
 */
static int remove_names(int top, const char *path, struct arena *arena, struct waiting_folder **folders,
                        size_t *count) {
        static const char lifted[] = ".lifted-%zu";
        int descriptor = beneath_open(top, path[0] ? path : ".", O_RDONLY | O_DIRECTORY), reason = 0;
        DIR *folder = descriptor < 0 ? NULL : fdopendir(descriptor);
        const struct dirent *entry;

        if (!folder) {
                reason = errno;
                close_descriptor(&descriptor);
                errno = reason;
                return -1;
        }
        while ((entry = readdir(folder))) {
                const char *name = entry->d_name, *inner;

                if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
                        continue;
                if (unlinkat(descriptor, name, 0) == 0 || errno == ENOENT)
                        continue;
                if (errno != EISDIR && errno != EPERM) {
                        reason = errno;
                        continue;
                }
                /* Code may have shut it, for its own user too. */
                (void)!fchmodat(descriptor, name, 0700, AT_SYMLINK_NOFOLLOW);
                inner = path_join_in(path, name, arena);
                if (strlen(inner) > PATH_MAX / 2) {
                        inner = arena_printf(arena, lifted, *count);
                        if (renameat2(descriptor, name, top, inner, RENAME_NOREPLACE) < 0) {
                                reason = errno;
                                continue;
                        }
                }
                *folders = array_grow(arena, *folders, *count, sizeof(**folders));
                (*folders)[(*count)++] = (struct waiting_folder){ inner, 0 };
        }
        closedir(folder);
        errno = reason;
        return reason ? -1 : 0;
}

int workspace_tree_remove(int folder) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct waiting_folder *folders = array_grow(arena, NULL, 0, sizeof(*folders));
        size_t count = 0;
        int reason = 0;

        folders[count++] = (struct waiting_folder){ "", 0 };
        for (size_t i = 0; i < count; i++) {
                if (remove_names(folder, folders[i].path, arena, &folders, &count) < 0)
                        reason = errno;
        }
        /* Children stand behind their parents. */
        for (size_t i = count; i-- > 1;) {
                if (unlinkat(folder, folders[i].path, AT_REMOVEDIR) < 0 && errno != ENOENT)
                        reason = errno;
        }
        errno = reason;
        return reason ? -1 : 0;
}
