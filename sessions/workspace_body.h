/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where workspaces lie, as a table: folders of this machine (workspace_local_body), or objects elsewhere, of which providers have bodies of
 * their own. What each function does says the one of the same name in workspace.h, workspace_files.h, workspace_folders.h and
 * workspace_stage.h; callers call those, which check what does not depend on where it lies (paths, limits of what is written) and pass
 * the rest on.
 *
 * All of a body's functions must be there. A file that is written lies in put->descriptor until it is finished: a body gives a file
 * of its own for that, which is nobody else's to see.
 */
#ifndef BERTH_SESSIONS_WORKSPACE_BODY_H
#define BERTH_SESSIONS_WORKSPACE_BODY_H

#include "sessions/workspace_files.h"
#include "sessions/workspace_folders.h"
#include "sessions/workspace_stage.h"

struct workspace_body {
        /* Ids may be any text. */
        int (*create)(const struct workspaces *workspaces, const struct workspace_row *row,
                      struct problem *problem);
        /* owner NULL: whoever's it is. *ret->body is itself. */
        int (*open)(const struct workspaces *workspaces, const char *owner, const char *id,
                    struct workspace *ret, struct problem *problem);
        void (*close)(struct workspace *workspace);
        int (*describe)(const struct workspace *workspace, struct arena *arena, struct workspace_row *ret,
                        struct problem *problem);
        int (*set_life)(struct workspace *workspace, int64_t lives_until_ms, struct problem *problem);
        int (*list)(const struct workspaces *workspaces, const char *owner, const char *after, size_t limit,
                    struct arena *arena, struct workspace_row **ret, size_t *ret_count, bool *ret_more,
                    struct problem *problem);
        int (*remove)(const struct workspaces *workspaces, const char *owner, const char *id,
                      struct problem *problem);
        int (*recover)(const struct workspaces *workspaces, struct problem *problem);
        int (*measure)(struct workspace *workspace, const struct interrupt *interrupt,
                       struct workspace_usage *ret, struct problem *problem);
        int (*set_history)(struct workspace *workspace, uint64_t bytes, struct problem *problem);
        /* What all of the owner's hold together, with what is kept beside them; of the one of that id only the latter. */
        int (*measure_others)(const struct workspaces *workspaces, const char *owner, const char *id,
                              const struct interrupt *interrupt, uint64_t *ret, struct problem *problem);
        int (*check_free)(const struct workspace *workspace, const struct workspace_limits *limits,
                          uint64_t more, struct problem *problem);

        int (*files_list)(struct workspace *workspace, const struct workspace_page *page,
                          const struct interrupt *interrupt, struct arena *arena, struct workspace_file **ret,
                          size_t *ret_count, bool *ret_more, struct problem *problem);
        int (*file_look)(struct workspace *workspace, const char *path, int *ret_descriptor,
                         struct workspace_file *ret, struct problem *problem);
        /* Of one that file_look() gave no descriptor of; NULL where it always does. */
        int (*file_fetch)(struct workspace *workspace, const char *path, const struct workspace_file *file,
                          uint64_t from, uint64_t length, int *ret_descriptor, struct problem *problem);
        /* The conditions are judged, and put->descriptor, put->executable and what is the body's own are set. */
        int (*put_begin)(struct workspace_put *put, struct problem *problem);
        int (*put_finish)(struct workspace_put *put, struct workspace_file *ret, bool *ret_made,
                          struct problem *problem);
        void (*put_close)(struct workspace_put *put);
        int (*file_delete)(struct workspace *workspace, const char *path, const struct conditions *conditions,
                           const struct interrupt *interrupt, struct problem *problem);

        int (*place_look)(struct workspace *workspace, const char *path, struct workspace_place *ret,
                          struct problem *problem);
        int (*places_list)(struct workspace *workspace, const char *path, unsigned depth,
                           const struct interrupt *interrupt, struct arena *arena,
                           struct workspace_place **ret, size_t *ret_count, struct problem *problem);
        int (*folder_create)(struct workspace *workspace, const char *path,
                             const struct workspace_limits *limits, const struct interrupt *interrupt,
                             struct problem *problem);
        int (*place_move)(struct workspace *workspace, const char *from, const char *to,
                          const struct workspace_limits *limits, const struct interrupt *interrupt,
                          struct problem *problem);
        int (*place_remove)(struct workspace *workspace, const char *path, const struct interrupt *interrupt,
                            struct problem *problem);

        /* stage->name, stage->folder and what is the body's own are set. */
        int (*stage_begin)(struct workspace_stage *stage, struct problem *problem);
        /* The file of that number (from 0) is what is written to stage->file from now on. */
        int (*stage_file)(struct workspace_stage *stage, size_t number, struct problem *problem);
        /* `paths`: a list of texts as JSON. */
        int (*stage_finish)(struct workspace_stage *stage, const char *paths, struct problem *problem);
        void (*stage_close)(struct workspace_stage *stage);
        int (*stage_place)(struct workspace *workspace, const char *name,
                           const struct workspace_limits *limits, const struct interrupt *interrupt,
                           struct arena *arena, struct workspace_skipped **ret, size_t *ret_count,
                           struct problem *problem);
        void (*stage_drop)(const struct workspace *workspace, const char *name);
        void (*stage_keep)(const struct workspace *workspace, const char *const *names, size_t count);
        int (*stage_request)(const struct workspace *workspace, const void *bytes, size_t length,
                             char name[WORKSPACE_STAGE_NAME], struct problem *problem);
        int (*stage_read_request)(const struct workspace *workspace, const char *name, size_t most,
                                  struct strbuf *ret);
};

/* Folders of this machine. */
extern const struct workspace_body workspace_local_body;

static inline const struct workspace_body *workspace_body_of(const struct workspaces *workspaces) {
        return workspaces->body ? workspaces->body : &workspace_local_body;
}

/* For bodies: whether it is an id that a workspace may have. */
bool workspace_is_id(const char *id);
/* PROBLEM_CHANGED, PROBLEM_INVALID. `etag` is the file's; NULL where there is none. */
int workspace_judge(const struct conditions *conditions, const char *etag, struct problem *problem) MUST_USE;
/* PROBLEM_NOT_FOUND: of a file; of a file or folder. */
int workspace_no_file(struct problem *problem);
int workspace_nothing_there(struct problem *problem);
/* PROBLEM_WORKSPACE_FULL: so many files and folders may be there. */
int workspace_has_many(const struct workspace_limits *limits, struct problem *problem);
bool workspace_stage_is_name(const char *name);
void workspace_stage_new_name(char name[WORKSPACE_STAGE_NAME]);

#endif
