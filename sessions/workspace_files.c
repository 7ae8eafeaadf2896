/* SPDX-License-Identifier: Apache-2.0 */
/* What is the same wherever files lie: which paths may be, what is judged, how much is written. */
#include "sessions/workspace_files.h"

#include "base/files.h"
#include "sessions/workspace_body.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE ((size_t)256 << 10)

static int check_path(const char *path, struct problem *problem) {
        const char *wrong = workspace_path_problem(path);

        return wrong ? problem_set(problem, PROBLEM_INVALID, "this path cannot be: %s", wrong) : 0;
}

int workspace_no_file(struct problem *problem) {
        return problem_set(problem, PROBLEM_NOT_FOUND, "there is no such file in the workspace");
}

int workspace_judge(const struct conditions *conditions, const char *etag, struct problem *problem) {
        switch (conditions_judge(conditions, etag)) {
        case CONDITIONS_HOLD:
                return 0;
        case CONDITIONS_BAD:
                return problem_set(problem, PROBLEM_INVALID, "If-Match and If-None-Match take entity tags");
        case CONDITIONS_MATCHED:
        case CONDITIONS_FAIL:
        default:
                return problem_set(problem, PROBLEM_CHANGED,
                                   etag ? "the file has another version than the request allows"
                                        : "there is no such file, and the request expects one");
        }
}

/* The folder that a prefix names must be one that can be. */
static int check_page(const struct workspace_page *page, struct arena *arena, struct problem *problem) {
        const char *prefix = page->prefix ? page->prefix : "", *after = page->after ? page->after : "";
        const char *slash = strrchr(prefix, '/');

        if (slash && check_path(arena_strndup(arena, prefix, (size_t)(slash - prefix)), problem) < 0)
                return -1;
        if (strlen(prefix) > WORKSPACE_PATH_MAX || strlen(after) > WORKSPACE_PATH_MAX)
                return problem_set(problem, PROBLEM_INVALID, "no path is that long");
        return 0;
}

int workspace_files_list(struct workspace *workspace, const struct workspace_page *page,
                         const struct interrupt *interrupt, struct arena *arena, struct workspace_file **ret,
                         size_t *ret_count, bool *ret_more, struct problem *problem) {
        return check_page(page, arena, problem) < 0
                       ? -1
                       : workspace->body->files_list(workspace, page, interrupt, arena, ret, ret_count,
                                                     ret_more, problem);
}

int workspace_file_look(struct workspace *workspace, const char *path, int *ret_descriptor,
                        struct workspace_file *ret, struct problem *problem) {
        return check_path(path, problem) < 0
                       ? -1
                       : workspace->body->file_look(workspace, path, ret_descriptor, ret, problem);
}

int workspace_file_fetch(struct workspace *workspace, const char *path, const struct workspace_file *file,
                         uint64_t from, uint64_t length, int *descriptor, uint64_t *ret_at,
                         struct problem *problem) {
        *ret_at = *descriptor >= 0 ? from : 0;
        return *descriptor >= 0 ? 0
                                : workspace->body->file_fetch(workspace, path, file, from, length, descriptor,
                                                              problem);
}

/* One that is put anew between the look and the fetch is looked at again. */
int workspace_file_open(struct workspace *workspace, const char *path, int *ret_descriptor,
                        struct workspace_file *ret, struct problem *problem) {
        for (;;) {
                struct workspace_file file = { 0 };
                int descriptor = -1;
                uint64_t at;

                if (workspace_file_look(workspace, path, &descriptor, &file, problem) < 0)
                        return -1;
                if (workspace_file_fetch(workspace, path, &file, 0, file.bytes, &descriptor, &at, problem) <
                    0) {
                        if (problem->code == PROBLEM_CHANGED)
                                continue;
                        return -1;
                }
                *ret = file;
                *ret_descriptor = descriptor;
                return 0;
        }
}

/* ---- putting ---- */

int workspace_put_begin(struct workspace *workspace, const char *path, const struct conditions *conditions,
                        const struct workspace_limits *limits, const struct interrupt *interrupt,
                        struct workspace_put *ret, struct problem *problem) {
        struct workspace_put put = { .workspace = workspace,
                                     .path = path,
                                     .conditions = *conditions,
                                     .limits = *limits,
                                     .interrupt = interrupt,
                                     .descriptor = -1 };

        if (check_path(path, problem) < 0 || workspace->body->put_begin(&put, problem) < 0)
                return -1;
        put.digest = digest_stream_new();
        *ret = put;
        return 0;
}

void workspace_put_close(struct workspace_put *put) {
        if (put->workspace)
                put->workspace->body->put_close(put);
        close_descriptor(&put->descriptor);
        digest_stream_end(put->digest, NULL);
        put->digest = NULL;
}

int workspace_put_write(struct workspace_put *put, const void *bytes, size_t length,
                        struct problem *problem) {
        if (interrupt_level(put->interrupt) > INTERRUPT_NONE)
                return problem_set(problem, PROBLEM_STOPPING, "interrupted");
        if (put->limits.bytes_max &&
            (put->bytes > put->limits.bytes_max || length > put->limits.bytes_max - put->bytes))
                return put->limits.owner_max ? workspace_is_full(&put->limits, 0, problem)
                                             : problem_set(problem, PROBLEM_WORKSPACE_FULL,
                                                           "the file is larger than the workspace may be");
        /* What a disk takes meanwhile comes from others too, so it is looked at as the file grows. */
        if (put->bytes / PIECE != (put->bytes + length) / PIECE &&
            workspace_check_free(put->workspace, &put->limits, length, problem) < 0)
                return -1;
        if (descriptor_append(put->descriptor, bytes, length) < 0)
                return problem_from_errno(problem, "write the file");
        digest_stream_add(put->digest, bytes, length);
        put->bytes += length;
        return 0;
}

int workspace_put_copy(struct workspace_put *put, int from, uint64_t bytes_max, bool cut,
                       struct problem *problem) {
        char *piece TEXT_CLEANUP = malloc(PIECE);
        uint64_t left = bytes_max;

        if (!piece)
                abort();
        for (;;) {
                ssize_t count =
                        cut && left < PIECE ? read(from, piece, (size_t)left) : read(from, piece, PIECE);

                if (count < 0 && errno == EINTR)
                        continue;
                if (count <= 0)
                        return count < 0 ? problem_from_errno(problem, "read the uploaded file") : 0;
                if ((uint64_t)count > left)
                        return problem_set(problem, PROBLEM_TOO_LARGE, "the file is larger than it may be");
                left -= (uint64_t)count;
                if (workspace_put_write(put, piece, (size_t)count, problem) < 0)
                        return -1;
        }
}

int workspace_put_finish(struct workspace_put *put, struct workspace_file *ret, char sha256[SHA256_HEX_SIZE],
                         bool *ret_made, struct problem *problem) {
        bool made = false;

        if (put->workspace->body->put_finish(put, ret, &made, problem) < 0)
                return -1;
        if (sha256)
                memcpy(sha256, put->sha256, SHA256_HEX_SIZE);
        if (ret_made)
                *ret_made = made;
        return 0;
}

int workspace_file_delete(struct workspace *workspace, const char *path, const struct conditions *conditions,
                          const struct interrupt *interrupt, struct problem *problem) {
        return check_path(path, problem) < 0
                       ? -1
                       : workspace->body->file_delete(workspace, path, conditions, interrupt, problem);
}
