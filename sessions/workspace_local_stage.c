/* SPDX-License-Identifier: Apache-2.0 */
#include "sessions/workspace_local.h"

#include "base/array.h"
#include "base/files.h"
#include "base/json.h"
#include "sessions/workspace_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STAGED "staged"
#define PATHS "paths"
#define REQUEST "request"
#define PATHS_MAX ((size_t)32 << 20)
#define SINGLY_MAX 8 /* files that are synced one by one; more by the whole file system at once */

static int open_folder(int folder, const char *name) {
        return openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Its descriptor, and its new name. */
static int make_folder(const struct workspace *workspace, char name[WORKSPACE_STAGE_NAME],
                       struct problem *problem) {
        int all DESCRIPTOR_CLEANUP = -1, folder = -1;

        workspace_stage_new_name(name);
        if ((mkdirat(workspace->folder, STAGED, 0700) < 0 && errno != EEXIST) ||
            (all = open_folder(workspace->folder, STAGED)) < 0 || mkdirat(all, name, 0700) < 0 ||
            (folder = open_folder(all, name)) < 0)
                return errno == ENOENT ? workspace_not_found(problem)
                                       : problem_from_errno(problem, "keep the files of an execution");
        return folder;
}

int workspace_local_stage_begin(struct workspace_stage *stage, struct problem *problem) {
        stage->folder = make_folder(stage->workspace, stage->name, problem);
        return stage->folder < 0 ? -1 : 0;
}

int workspace_local_stage_file(struct workspace_stage *stage, size_t number, struct problem *problem) {
        char own[24];

        close_descriptor(&stage->file);
        snprintf(own, sizeof(own), "%zu", number);
        stage->file = openat(stage->folder, own, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        return stage->file < 0 ? problem_from_errno(problem, "keep the files of an execution") : 0;
}

int workspace_local_stage_finish(struct workspace_stage *stage, const char *paths, struct problem *problem) {
        int descriptor DESCRIPTOR_CLEANUP =
                openat(stage->folder, PATHS, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

        close_descriptor(&stage->file);
        return descriptor < 0 || descriptor_write(descriptor, paths, strlen(paths)) < 0
                       ? problem_from_errno(problem, "keep the files of an execution")
                       : 0;
}

void workspace_local_stage_close(struct workspace_stage *stage) {
        if (stage->folder >= 0 && !stage->kept)
                workspace_local_stage_drop(stage->workspace, stage->name);
}

void workspace_local_stage_drop(const struct workspace *workspace, const char *name) {
        int all DESCRIPTOR_CLEANUP = open_folder(workspace->folder, STAGED);
        int folder DESCRIPTOR_CLEANUP =
                all >= 0 && workspace_stage_is_name(name) ? open_folder(all, name) : -1;

        if (folder >= 0 && workspace_tree_remove(folder) == 0)
                (void)unlinkat(all, name, AT_REMOVEDIR);
}

void workspace_local_stage_keep(const struct workspace *workspace, const char *const *names, size_t count) {
        int all DESCRIPTOR_CLEANUP = open_folder(workspace->folder, STAGED);
        DIR *list = all >= 0 ? fdopendir(fcntl(all, F_DUPFD_CLOEXEC, 0)) : NULL;
        const struct dirent *entry;

        while (list && (entry = readdir(list))) {
                bool kept = !workspace_stage_is_name(entry->d_name);

                for (size_t i = 0; i < count && !kept; i++)
                        kept = strcmp(names[i], entry->d_name) == 0;
                if (!kept)
                        workspace_local_stage_drop(workspace, entry->d_name);
        }
        if (list)
                closedir(list);
}

int workspace_local_stage_request(const struct workspace *workspace, const void *bytes, size_t length,
                                  char name[WORKSPACE_STAGE_NAME], struct problem *problem) {
        int all DESCRIPTOR_CLEANUP = -1, folder DESCRIPTOR_CLEANUP = -1, file DESCRIPTOR_CLEANUP = -1;
        bool alone = !name[0];

        if (alone) {
                folder = make_folder(workspace, name, problem);
                if (folder < 0)
                        return -1;
        } else if ((all = open_folder(workspace->folder, STAGED)) < 0 || !workspace_stage_is_name(name) ||
                   (folder = open_folder(all, name)) < 0) {
                return problem_from_errno(problem, "keep the files of an execution");
        }
        file = openat(folder, REQUEST, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (file >= 0 && descriptor_write(file, bytes, length) == 0)
                return 0;
        (void)problem_from_errno(problem, "keep the files of an execution");
        if (file >= 0)
                (void)unlinkat(folder, REQUEST, 0);
        if (alone)
                workspace_local_stage_drop(workspace, name);
        return -1;
}

int workspace_local_stage_read_request(const struct workspace *workspace, const char *name, size_t most,
                                       struct strbuf *ret) {
        int all DESCRIPTOR_CLEANUP = open_folder(workspace->folder, STAGED);
        int folder DESCRIPTOR_CLEANUP =
                all >= 0 && workspace_stage_is_name(name) ? open_folder(all, name) : -1;
        struct stat status;
        int file DESCRIPTOR_CLEANUP = folder >= 0 ? workspace_open_regular(folder, REQUEST, &status) : -1;

        return file >= 0 && descriptor_read(file, most, ret) == 0 ? 0 : -1;
}

void workspace_stage_clear(int session_folder) {
        int all DESCRIPTOR_CLEANUP = open_folder(session_folder, STAGED);

        if (all >= 0 && workspace_tree_remove(all) == 0)
                (void)unlinkat(session_folder, STAGED, AT_REMOVEDIR);
}

/* --- into the workspace --- */

static json_t *read_paths(int folder) {
        struct stat status;
        int descriptor DESCRIPTOR_CLEANUP = workspace_open_regular(folder, PATHS, &status);
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        if (descriptor < 0 || descriptor_read(descriptor, PATHS_MAX, &text) != 0)
                return NULL;
        return json_loadb(strbuf_text(&text), text.length, 0, NULL);
}

/* As if it was put: dated now, and in place of what has its path. */
static int place_one(struct workspace *workspace, int folder, const char *name, size_t number,
                     const char *path, bool sync, const struct workspace_limits *limits,
                     struct workspace_usage *usage, struct problem *problem) {
        struct workspace_put put WORKSPACE_PUT_CLEANUP = WORKSPACE_PUT_INIT;
        char own[24];
        struct stat status, placed;
        bool replaced;

        snprintf(own, sizeof(own), "%zu", number);
        snprintf(put.name, sizeof(put.name), STAGED "/%s/%zu", name, number);
        put.workspace = workspace;
        put.path = path;
        put.limits = *limits;
        put.digest = digest_stream_new();
        put.descriptor = openat(folder, own, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
        if (put.descriptor < 0 || fstat(put.descriptor, &status) < 0)
                return problem_from_errno(problem, "keep the files of an execution");
        put.bytes = (uint64_t)status.st_size;
        if (workspace_put_settle(&put, sync, problem) < 0)
                return -1;
        return workspace_put_place(&put, sync, usage, &placed, &replaced, problem);
}

static bool is_there(int folder, size_t number) {
        char own[24];

        snprintf(own, sizeof(own), "%zu", number);
        return faccessat(folder, own, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int workspace_local_stage_place(struct workspace *workspace, const char *name,
                                const struct workspace_limits *limits, const struct interrupt *interrupt,
                                struct arena *arena, struct workspace_skipped **ret, size_t *ret_count,
                                struct problem *problem) {
        int all DESCRIPTOR_CLEANUP = open_folder(workspace->folder, STAGED);
        int folder DESCRIPTOR_CLEANUP =
                all >= 0 && workspace_stage_is_name(name) ? open_folder(all, name) : -1;
        json_t *paths JSON_CLEANUP = folder >= 0 ? read_paths(folder) : NULL, *path;
        struct workspace_skipped *skipped = NULL;
        bool singly = json_array_size(paths) <= SINGLY_MAX;
        struct workspace_usage usage;
        size_t index, count = 0;

        *ret = NULL;
        *ret_count = 0;
        /* What is gone was placed before. What cannot be opened now was not. */
        if (folder < 0 && workspace_stage_is_name(name) && errno != ENOENT)
                return problem_from_errno(problem, "keep the files of an execution");
        if (!paths && folder >= 0 && faccessat(folder, PATHS, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                return problem_set(problem, PROBLEM_WORKSPACE_FAILED,
                                   "the list of their paths cannot be read");
        if (!paths) {
                workspace_local_stage_drop(workspace, name);
                return 0;
        }
        if (workspace_lock(workspace, interrupt, problem) < 0)
                return -1;
        if (workspace_usage_begin(workspace, interrupt, &usage, problem) < 0) {
                workspace_unlock(workspace);
                return -1;
        }
        json_array_foreach (paths, index, path) {
                const char *text = arena_strdup(arena, json_string_value(path));
                struct problem own;

                /* One that is not there was placed by a server that died amid it. */
                if (!is_there(folder, index) ||
                    place_one(workspace, folder, name, index, text, singly, limits, &usage, &own) == 0)
                        continue;
                skipped = array_grow(arena, skipped, count, sizeof(*skipped));
                skipped[count++] =
                        (struct workspace_skipped){ .path = text, .reason = arena_strdup(arena, own.detail) };
        }
        if (!singly)
                (void)syncfs(workspace->folder);
        workspace_usage_end(workspace, &usage);
        workspace_unlock(workspace);
        workspace_local_stage_drop(workspace, name);
        *ret = skipped;
        *ret_count = count;
        return 0;
}
