/* SPDX-License-Identifier: Apache-2.0 */
/* Each change is made under the workspace's lock, as in workspace_files.c; all that is opened is opened beneath. */
#include "sessions/workspace_local.h"

#include "base/array.h"
#include "base/beneath.h"
#include "base/files.h"
#include "sessions/workspace_files.h"
#include "sessions/workspace_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOOK_EVERY 256 /* names between two looks at the interrupt */

static struct workspace_place place_of(const char *path, const struct stat *status) {
        bool folder = S_ISDIR(status->st_mode);

        return (struct workspace_place){
                .path = path,
                .folder = folder,
                .bytes = folder ? 0 : (uint64_t)status->st_size,
                .written_ms = (int64_t)status->st_mtim.tv_sec * 1000 + status->st_mtim.tv_nsec / 1000000,
                .executable = folder || (status->st_mode & 0100),
        };
}

int workspace_local_place_look(struct workspace *workspace, const char *path, struct workspace_place *ret,
                               struct problem *problem) {
        int handle DESCRIPTOR_CLEANUP = -1;
        struct stat status;

        handle = beneath_open(workspace->files, *path ? path : ".", O_PATH | O_NOFOLLOW);
        if (handle < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EXDEV))
                return workspace_nothing_there(problem);
        if (handle < 0 || fstat(handle, &status) < 0)
                return problem_from_errno(problem, "look at the path");
        if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
                return workspace_nothing_there(problem);
        *ret = place_of(path, &status);
        return 0;
}

/* --- listing --- */

struct listing {
        struct workspace *workspace;
        const struct interrupt *interrupt;
        struct arena *arena;
        struct workspace_place *places;
        size_t count, seen;
        struct problem *problem;
};

static int list_folder(struct listing *listing, const char *path, unsigned depth) {
        int folder = beneath_open(listing->workspace->files, *path ? path : ".", O_RDONLY | O_DIRECTORY);
        DIR *stream = folder < 0 ? NULL : fdopendir(folder);
        const struct dirent *entry;
        size_t first = listing->count, end;
        int result = 0;

        if (!stream) {
                close_descriptor(&folder);
                return errno == ENOENT || errno == ENOTDIR || errno == ELOOP
                               ? 0 /* it has gone meanwhile */
                               : problem_from_errno(listing->problem, "read a folder of the workspace");
        }
        while (result == 0 && (entry = readdir(stream))) {
                const char *inner;
                struct stat status;

                if (++listing->seen % LOOK_EVERY == 0 && interrupt_level(listing->interrupt) > INTERRUPT_NONE)
                        result = problem_set(listing->problem, PROBLEM_STOPPING, "interrupted");
                if (result < 0 || workspace_name_problem(entry->d_name) ||
                    fstatat(folder, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0 ||
                    (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)))
                        continue;
                inner = arena_printf(listing->arena, "%s%s%s", path, *path ? "/" : "", entry->d_name);
                if (workspace_path_problem(inner))
                        continue;
                if (listing->count == WORKSPACE_FOLDERS_LIST_MAX) {
                        result = problem_set(listing->problem, PROBLEM_TOO_LARGE,
                                             "there are more than %d files and folders",
                                             WORKSPACE_FOLDERS_LIST_MAX);
                        continue;
                }
                listing->places =
                        array_grow(listing->arena, listing->places, listing->count, sizeof(*listing->places));
                listing->places[listing->count++] = place_of(inner, &status);
        }
        closedir(stream);
        end = listing->count;
        for (size_t i = first; i < end && result == 0 && depth > 1; i++) {
                if (listing->places[i].folder)
                        result = list_folder(listing, listing->places[i].path, depth - 1);
        }
        return result;
}

static int compare_places(const void *one, const void *other) {
        const struct workspace_place *a = one, *b = other;

        return strcmp(a->path, b->path);
}

int workspace_local_places_list(struct workspace *workspace, const char *path, unsigned depth,
                                const struct interrupt *interrupt, struct arena *arena,
                                struct workspace_place **ret, size_t *ret_count, struct problem *problem) {
        struct listing listing = {
                .workspace = workspace, .interrupt = interrupt, .arena = arena, .problem = problem
        };
        struct workspace_place place = { 0 };

        if (workspace_local_place_look(workspace, path, &place, problem) < 0)
                return -1;
        if (!place.folder)
                return problem_set(problem, PROBLEM_INVALID, "the path is a file's");
        if (list_folder(&listing, path, depth < WORKSPACE_DEPTH_MAX ? depth : WORKSPACE_DEPTH_MAX) < 0)
                return -1;
        if (listing.count > 0)
                qsort(listing.places, listing.count, sizeof(*listing.places), compare_places);
        *ret = listing.places;
        *ret_count = listing.count;
        return 0;
}

/* --- changing --- */

static int has_room(const struct workspace_limits *limits, const struct workspace_usage *usage,
                    struct problem *problem) {
        if (!limits->files_max || usage->files < limits->files_max)
                return 0;
        return workspace_has_many(limits, problem);
}

static int create_locked(struct workspace *workspace, const char *path, const struct workspace_limits *limits,
                         const struct interrupt *interrupt, struct problem *problem) {
        struct workspace_place there;
        struct workspace_usage usage;
        struct problem absent;
        int result;

        if (workspace_local_place_look(workspace, path, &there, &absent) == 0)
                return problem_set(problem, PROBLEM_CONFLICT, "something has this path already");
        if (workspace_usage_begin(workspace, interrupt, &usage, problem) < 0)
                return -1;
        result = has_room(limits, &usage, problem) < 0
                         ? -1
                         : workspace_folder_make(workspace, path, true, limits, &usage, problem);
        workspace_usage_end(workspace, &usage);
        return result;
}

int workspace_local_folder_create(struct workspace *workspace, const char *path,
                                  const struct workspace_limits *limits, const struct interrupt *interrupt,
                                  struct problem *problem) {
        int result;

        if (workspace_check_free(workspace, limits, 0, problem) < 0 ||
            workspace_lock(workspace, interrupt, problem) < 0)
                return -1;
        result = create_locked(workspace, path, limits, interrupt, problem);
        workspace_unlock(workspace);
        return result;
}

static const char *split(const char *path, char above[WORKSPACE_PATH_MAX + 1]) {
        const char *slash = strrchr(path, '/');

        snprintf(above, WORKSPACE_PATH_MAX + 1, "%.*s", slash ? (int)(slash - path) : 0, slash ? path : "");
        return slash ? slash + 1 : path;
}

static int open_above(struct workspace *workspace, const char *path, const char **ret_name) {
        char above[WORKSPACE_PATH_MAX + 1];

        *ret_name = split(path, above);
        return beneath_open(workspace->files, *above ? above : ".", O_RDONLY | O_DIRECTORY);
}

/* What lies in a folder must have paths that may be in its new place, too: else nobody could reach it. */
static int check_inner(struct workspace *workspace, const char *from, const char *to,
                       const struct interrupt *interrupt, struct problem *problem) {
        int folder DESCRIPTOR_CLEANUP = beneath_open(workspace->files, from, O_RDONLY | O_DIRECTORY);
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct workspace_tree tree;
        struct error err;

        if (folder < 0)
                return problem_from_errno(problem, "open the folder");
        if (workspace_tree_read(folder, 0, 0, interrupt, arena, &tree, &err) < 0)
                return problem_from_error(problem, PROBLEM_WORKSPACE_FAILED, &err);
        for (size_t i = 0; i < tree.count; i++) {
                if (workspace_path_problem(arena_printf(arena, "%s/%s", to, tree.entries[i].path)))
                        return problem_set(problem, PROBLEM_INVALID,
                                           "what is in the folder would have paths that are too long");
        }
        return 0;
}

/* *known: whether *usage is what is there afterwards. */
static int rename_place(struct workspace *workspace, const char *from, const char *to,
                        const struct workspace_limits *limits, struct workspace_usage *usage, bool *known,
                        struct problem *problem) {
        char above[WORKSPACE_PATH_MAX + 1];
        int source DESCRIPTOR_CLEANUP = -1, target DESCRIPTOR_CLEANUP = -1;
        const char *from_name, *to_name = split(to, above);

        if (*above && workspace_folder_make(workspace, above, true, limits, usage, problem) < 0)
                return -1;
        source = open_above(workspace, from, &from_name);
        target = open_above(workspace, to, &to_name);
        if (source < 0 || target < 0)
                return problem_set(problem, PROBLEM_CONFLICT, "a file is where a folder should be");
        if (renameat(source, from_name, target, to_name) < 0)
                return errno == EINVAL || errno == EISDIR || errno == ENOTDIR || errno == ENOTEMPTY ||
                                       errno == EEXIST
                               ? problem_set(problem, PROBLEM_CONFLICT, "it cannot be moved there")
                               : problem_from_errno(problem, "move it");
        *known = true;
        return fsync(source) < 0 || fsync(target) < 0 ? problem_from_errno(problem, "move it") : 0;
}

static int move_locked(struct workspace *workspace, const char *from, const char *to,
                       const struct workspace_limits *limits, const struct interrupt *interrupt,
                       struct problem *problem) {
        struct workspace_place place = { 0 }, there = { 0 };
        struct workspace_usage usage;
        struct problem absent;
        bool known = false, replaces;
        int result = -1;

        if (workspace_local_place_look(workspace, from, &place, problem) < 0 ||
            (place.folder && check_inner(workspace, from, to, interrupt, problem) < 0))
                return -1;
        if (strcmp(from, to) == 0)
                return 0;
        /* Before anything is made there: it would be made in what is to be moved. */
        if (strncmp(to, from, strlen(from)) == 0 && to[strlen(from)] == '/')
                return problem_set(problem, PROBLEM_CONFLICT, "it cannot be moved into itself");
        replaces = workspace_local_place_look(workspace, to, &there, &absent) == 0;
        if (replaces && (there.folder || place.folder))
                return problem_set(problem, PROBLEM_CONFLICT, "something has this path already");
        if (workspace_usage_begin(workspace, interrupt, &usage, problem) < 0)
                return -1;
        if (has_room(limits, &usage, problem) == 0)
                result = rename_place(workspace, from, to, limits, &usage, &known, problem);
        if (known && replaces) {
                usage.files -= usage.files > 0;
                usage.bytes -= usage.bytes > there.bytes ? there.bytes : usage.bytes;
        }
        workspace_usage_end(workspace, &usage);
        return result;
}

int workspace_local_place_move(struct workspace *workspace, const char *from, const char *to,
                               const struct workspace_limits *limits, const struct interrupt *interrupt,
                               struct problem *problem) {
        int result;

        if (workspace_check_free(workspace, limits, 0, problem) < 0 ||
            workspace_lock(workspace, interrupt, problem) < 0)
                return -1;
        result = move_locked(workspace, from, to, limits, interrupt, problem);
        workspace_unlock(workspace);
        return result;
}

/* Of a folder nothing is counted afterwards: who wants to know the usage next counts all that is left. */
static int remove_locked(struct workspace *workspace, const char *path, const struct interrupt *interrupt,
                         struct problem *problem) {
        int folder DESCRIPTOR_CLEANUP = -1;
        struct workspace_usage usage;
        struct workspace_place place = { 0 };
        int result;

        if (workspace_local_place_look(workspace, path, &place, problem) < 0 ||
            workspace_usage_begin(workspace, interrupt, &usage, problem) < 0)
                return -1;
        if (place.folder) {
                folder = beneath_open(workspace->files, path, O_RDONLY | O_DIRECTORY);
                if (folder < 0 || workspace_tree_remove(folder) < 0)
                        return problem_from_errno(problem, "remove the folder");
        }
        result = workspace_path_remove(workspace, path, false, true, &usage);
        if (result < 0)
                (void)problem_from_errno(problem, "remove it");
        if (!place.folder)
                workspace_usage_end(workspace, &usage);
        return result;
}

int workspace_local_place_remove(struct workspace *workspace, const char *path,
                                 const struct interrupt *interrupt, struct problem *problem) {
        int result;

        if (workspace_lock(workspace, interrupt, problem) < 0)
                return -1;
        result = remove_locked(workspace, path, interrupt, problem);
        workspace_unlock(workspace);
        return result;
}
