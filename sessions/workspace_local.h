/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of workspace_local_body share: workspaces as folders of this machine. Contracts are those of workspace_body.h. */
#ifndef BERTH_SESSIONS_WORKSPACE_LOCAL_H
#define BERTH_SESSIONS_WORKSPACE_LOCAL_H

#include "sessions/workspace_body.h"

/* The workspace whose folder that is (workspace_shared.open), if it is that owner's. */
int workspace_local_open_shared(const struct workspaces *workspaces, int folder, const char *owner,
                                const char *id, struct workspace *ret, struct problem *problem) MUST_USE;
/* What dead processes were writing goes, unless somebody has the workspace's lock. -1 with errno. */
int workspace_local_recover_shared(int folder) MUST_USE;
/* What its folder says of it: 1; 0 where that is nothing, or it is of another stack (NULL: any will do); -1 with errno. */
int workspace_local_read_shared(int folder, const char *stack, struct arena *arena,
                                struct workspace_row *ret) MUST_USE;
/* Says in its folder whose it is, unless it says that already. -1 with errno. */
int workspace_local_name_shared(int folder, const char *stack, const struct workspace_row *row) MUST_USE;

int workspace_local_files_list(struct workspace *workspace, const struct workspace_page *page,
                               const struct interrupt *interrupt, struct arena *arena,
                               struct workspace_file **ret, size_t *ret_count, bool *ret_more,
                               struct problem *problem) MUST_USE;
int workspace_local_file_look(struct workspace *workspace, const char *path, int *ret_descriptor,
                              struct workspace_file *ret, struct problem *problem) MUST_USE;
int workspace_local_put_begin(struct workspace_put *put, struct problem *problem) MUST_USE;
int workspace_local_put_finish(struct workspace_put *put, struct workspace_file *ret, bool *ret_made,
                               struct problem *problem) MUST_USE;
void workspace_local_put_close(struct workspace_put *put);
int workspace_local_file_delete(struct workspace *workspace, const char *path,
                                const struct conditions *conditions, const struct interrupt *interrupt,
                                struct problem *problem) MUST_USE;
int workspace_local_place_look(struct workspace *workspace, const char *path, struct workspace_place *ret,
                               struct problem *problem) MUST_USE;
int workspace_local_places_list(struct workspace *workspace, const char *path, unsigned depth,
                                const struct interrupt *interrupt, struct arena *arena,
                                struct workspace_place **ret, size_t *ret_count,
                                struct problem *problem) MUST_USE;
int workspace_local_folder_create(struct workspace *workspace, const char *path,
                                  const struct workspace_limits *limits, const struct interrupt *interrupt,
                                  struct problem *problem) MUST_USE;
int workspace_local_place_move(struct workspace *workspace, const char *from, const char *to,
                               const struct workspace_limits *limits, const struct interrupt *interrupt,
                               struct problem *problem) MUST_USE;
int workspace_local_place_remove(struct workspace *workspace, const char *path,
                                 const struct interrupt *interrupt, struct problem *problem) MUST_USE;
int workspace_local_stage_begin(struct workspace_stage *stage, struct problem *problem) MUST_USE;
int workspace_local_stage_file(struct workspace_stage *stage, size_t number,
                               struct problem *problem) MUST_USE;
int workspace_local_stage_finish(struct workspace_stage *stage, const char *paths,
                                 struct problem *problem) MUST_USE;
void workspace_local_stage_close(struct workspace_stage *stage);
int workspace_local_stage_place(struct workspace *workspace, const char *name,
                                const struct workspace_limits *limits, const struct interrupt *interrupt,
                                struct arena *arena, struct workspace_skipped **ret, size_t *ret_count,
                                struct problem *problem) MUST_USE;
void workspace_local_stage_drop(const struct workspace *workspace, const char *name);
void workspace_local_stage_keep(const struct workspace *workspace, const char *const *names, size_t count);
int workspace_local_stage_request(const struct workspace *workspace, const void *bytes, size_t length,
                                  char name[WORKSPACE_STAGE_NAME], struct problem *problem) MUST_USE;
int workspace_local_stage_read_request(const struct workspace *workspace, const char *name, size_t most,
                                       struct strbuf *ret) MUST_USE;

#endif
