/* SPDX-License-Identifier: Apache-2.0 */
#include "sessions/workspace_stage.h"

#include "base/files.h"
#include "base/json.h"
#include "sessions/workspace_body.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool workspace_stage_is_name(const char *name) {
        return strlen(name) == WORKSPACE_STAGE_NAME - 1 &&
               strspn(name, "0123456789abcdef") == WORKSPACE_STAGE_NAME - 1;
}

void workspace_stage_new_name(char name[WORKSPACE_STAGE_NAME]) {
        uint8_t random[(WORKSPACE_STAGE_NAME - 1) / 2];

        random_bytes(random, sizeof(random));
        digest_hex(random, sizeof(random), name);
}

int workspace_stage_begin(struct workspace *workspace, const struct workspace_limits *limits,
                          struct workspace_stage *ret, struct problem *problem) {
        struct workspace_stage stage = {
                .workspace = workspace, .limits = *limits, .folder = -1, .file = -1
        };

        if (workspace_check_free(workspace, limits, 0, problem) < 0 ||
            workspace->body->stage_begin(&stage, problem) < 0)
                return -1;
        stage.paths = json_checked(json_array());
        stage.digest = digest_stream_new();
        *ret = stage;
        return 0;
}

int workspace_stage_file(struct workspace_stage *stage, const char *path, struct problem *problem) {
        const char *wrong = workspace_path_problem(path);
        const json_t *other;
        size_t index;

        if (wrong)
                return problem_set(problem, PROBLEM_INVALID, "a file's path cannot be: %s", wrong);
        if (json_array_size(stage->paths) == WORKSPACE_STAGE_FILES)
                return problem_set(problem, PROBLEM_TOO_LARGE, "an execution may come with %d files",
                                   WORKSPACE_STAGE_FILES);
        json_array_foreach (stage->paths, index, other) {
                if (strcmp(json_string_value(other), path) == 0)
                        return problem_set(problem, PROBLEM_INVALID, "two files have the same path");
        }
        if (stage->workspace->body->stage_file(stage, json_array_size(stage->paths), problem) < 0)
                return -1;
        json_add(stage->paths, json_string(path));
        /* Between two slashes, which no path begins with, nothing that follows can be another path's. */
        digest_stream_add(stage->digest, "//", 2);
        digest_stream_add(stage->digest, path, strlen(path) + 1);
        return 0;
}

int workspace_stage_write(struct workspace_stage *stage, const void *bytes, size_t length,
                          struct problem *problem) {
        if (stage->limits.bytes_max &&
            (stage->bytes > stage->limits.bytes_max || length > stage->limits.bytes_max - stage->bytes))
                return workspace_is_full(&stage->limits, stage->bytes, problem);
        if (workspace_check_free(stage->workspace, &stage->limits, length, problem) < 0)
                return -1;
        if (descriptor_write(stage->file, bytes, length) < 0)
                return problem_from_errno(problem, "keep the files of an execution");
        digest_stream_add(stage->digest, bytes, length);
        stage->bytes += length;
        return 0;
}

int workspace_stage_finish(struct workspace_stage *stage, char sha256[SHA256_HEX_SIZE],
                           struct problem *problem) {
        char *paths TEXT_CLEANUP = json_compact(stage->paths);

        digest_stream_end(stage->digest, sha256);
        stage->digest = NULL;
        return stage->workspace->body->stage_finish(stage, paths, problem);
}

void workspace_stage_close(struct workspace_stage *stage) {
        if (stage->workspace)
                stage->workspace->body->stage_close(stage);
        close_descriptor(&stage->file);
        close_descriptor(&stage->folder);
        digest_stream_end(stage->digest, NULL);
        stage->digest = NULL;
        json_decref(stage->paths);
        stage->paths = NULL;
}

int workspace_stage_place(struct workspace *workspace, const char *name,
                          const struct workspace_limits *limits, const struct interrupt *interrupt,
                          struct arena *arena, struct workspace_skipped **ret, size_t *ret_count,
                          struct problem *problem) {
        return workspace->body->stage_place(workspace, name, limits, interrupt, arena, ret, ret_count,
                                            problem);
}

void workspace_stage_drop(const struct workspace *workspace, const char *name) {
        workspace->body->stage_drop(workspace, name);
}

void workspace_stage_keep(const struct workspace *workspace, const char *const *names, size_t count) {
        workspace->body->stage_keep(workspace, names, count);
}

int workspace_stage_request(const struct workspace *workspace, const void *bytes, size_t length,
                            char name[WORKSPACE_STAGE_NAME], struct problem *problem) {
        return workspace->body->stage_request(workspace, bytes, length, name, problem);
}

int workspace_stage_read_request(const struct workspace *workspace, const char *name, size_t most,
                                 struct strbuf *ret) {
        return workspace->body->stage_read_request(workspace, name, most, ret);
}
