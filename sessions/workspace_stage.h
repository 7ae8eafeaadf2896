/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that come with an execution. They wait beside the workspace until it begins, so that what ran before it in the same
 * session neither sees nor changes them:
 *
 *     {workspaces}/sessions/ID/staged/NAME/    files by their numbers, and `paths`, where each belongs
 *
 *      begin -> file -> write ... -> file ... -> finish -> (the engine has its name) -> place, or drop
 *
 * What was asked is a file among them, `request`, where it is too long for a record. What a dead server left of them is removed by the
 * next one, but for those of executions that still wait: workspace_stage_keep(), and workspace_recover() where no session lives.
 */
#ifndef BERTH_SESSIONS_WORKSPACE_STAGE_H
#define BERTH_SESSIONS_WORKSPACE_STAGE_H

#include "base/digest.h"
#include "base/strbuf.h"
#include "sessions/workspace.h"
#include "sessions/workspace_tree.h"

#include <jansson.h>

#define WORKSPACE_STAGE_NAME 17 /* bytes of a name */
#define WORKSPACE_STAGE_FILES 2000

struct workspace_stage {
        struct workspace *workspace; /* borrowed */
        struct workspace_limits limits;
        int folder, file;
        uint64_t bytes;
        json_t *paths;                /* in the order of the files' numbers */
        struct digest_stream *digest; /* of all paths and contents */
        char name[WORKSPACE_STAGE_NAME];
        bool kept;
        void *own; /* the body's */
};
#define WORKSPACE_STAGE_INIT \
        { .folder = -1, .file = -1 }
#define WORKSPACE_STAGE_CLEANUP __attribute__((cleanup(workspace_stage_close)))

int workspace_stage_begin(struct workspace *workspace, const struct workspace_limits *limits,
                          struct workspace_stage *ret, struct problem *problem) MUST_USE;
/* The next file; the one before it is whole then. PROBLEM_INVALID for a path that cannot be, or that came already. */
int workspace_stage_file(struct workspace_stage *stage, const char *path, struct problem *problem) MUST_USE;
int workspace_stage_write(struct workspace_stage *stage, const void *bytes, size_t length,
                          struct problem *problem) MUST_USE;
/* All files are there. `sha256` tells them from any others. */
int workspace_stage_finish(struct workspace_stage *stage, char sha256[SHA256_HEX_SIZE],
                           struct problem *problem) MUST_USE;
/* Removes all of it, unless it was `kept`. */
void workspace_stage_close(struct workspace_stage *stage);

/*
 * Puts them into the workspace, each in place of what is there, and removes what is left. What one file cannot do is in `skipped`, and the
 * others are put. Of a name that is not there nothing is put.
 */
int workspace_stage_place(struct workspace *workspace, const char *name,
                          const struct workspace_limits *limits, const struct interrupt *interrupt,
                          struct arena *arena, struct workspace_skipped **ret, size_t *ret_count,
                          struct problem *problem) MUST_USE;
void workspace_stage_drop(const struct workspace *workspace, const char *name);
/* All but those of these names. */
void workspace_stage_keep(const struct workspace *workspace, const char *const *names, size_t count);

/* What was asked, beside the files of that name, or under a name of its own where `name` is "". Nothing of it is left where it fails. */
int workspace_stage_request(const struct workspace *workspace, const void *bytes, size_t length,
                            char name[WORKSPACE_STAGE_NAME], struct problem *problem) MUST_USE;
/* -1 where it is not there, or longer than `most`. */
int workspace_stage_read_request(const struct workspace *workspace, const char *name, size_t most,
                                 struct strbuf *ret) MUST_USE;
/* All that is there. */
void workspace_stage_clear(int session_folder);

#endif
