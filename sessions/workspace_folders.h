/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files and folders of a workspace as clients of a file system see them: looked at, listed, made, moved, removed. Paths are those of
 * workspace_files.h, and "" where it is said. Links and whatever else is neither file nor folder are not there.
 */
#ifndef BERTH_SESSIONS_WORKSPACE_FOLDERS_H
#define BERTH_SESSIONS_WORKSPACE_FOLDERS_H

#include "sessions/workspace.h"

#define WORKSPACE_FOLDERS_LIST_MAX 10000

struct workspace_place {
        const char *path; /* in the arena; borrowed where one was asked for */
        bool folder;
        uint64_t bytes; /* 0 of a folder */
        int64_t written_ms;
        bool executable;
};

/* PROBLEM_NOT_FOUND. "": the workspace itself. */
int workspace_place_look(struct workspace *workspace, const char *path, struct workspace_place *ret,
                         struct problem *problem) MUST_USE;
/*
 * What is in the folder ("": the workspace), and in the folders in it, `depth` (from 1) levels of them, by path. PROBLEM_NOT_FOUND;
 * PROBLEM_INVALID of a file; PROBLEM_TOO_LARGE where there are more than WORKSPACE_FOLDERS_LIST_MAX.
 */
int workspace_places_list(struct workspace *workspace, const char *path, unsigned depth,
                          const struct interrupt *interrupt, struct arena *arena,
                          struct workspace_place **ret, size_t *ret_count, struct problem *problem) MUST_USE;
/* With those above it. PROBLEM_CONFLICT where something is there. */
int workspace_folder_create(struct workspace *workspace, const char *path,
                            const struct workspace_limits *limits, const struct interrupt *interrupt,
                            struct problem *problem) MUST_USE;
/* Folders above the new place are made; a file that is there is replaced, of a folder it is PROBLEM_CONFLICT. */
int workspace_place_move(struct workspace *workspace, const char *from, const char *to,
                         const struct workspace_limits *limits, const struct interrupt *interrupt,
                         struct problem *problem) MUST_USE;
/* A folder with all that is in it. PROBLEM_NOT_FOUND. */
int workspace_place_remove(struct workspace *workspace, const char *path, const struct interrupt *interrupt,
                           struct problem *problem) MUST_USE;

#endif
