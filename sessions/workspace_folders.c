/* SPDX-License-Identifier: Apache-2.0 */
#include "sessions/workspace_folders.h"

#include "sessions/workspace_body.h"

int workspace_nothing_there(struct problem *problem) {
        return problem_set(problem, PROBLEM_NOT_FOUND, "there is no such file or folder in the workspace");
}

static int check(const char *path, struct problem *problem) {
        const char *wrong = workspace_path_problem(path);

        return wrong ? problem_set(problem, PROBLEM_INVALID, "this path cannot be: %s", wrong) : 0;
}

int workspace_place_look(struct workspace *workspace, const char *path, struct workspace_place *ret,
                         struct problem *problem) {
        return *path && check(path, problem) < 0 ? -1
                                                 : workspace->body->place_look(workspace, path, ret, problem);
}

int workspace_places_list(struct workspace *workspace, const char *path, unsigned depth,
                          const struct interrupt *interrupt, struct arena *arena,
                          struct workspace_place **ret, size_t *ret_count, struct problem *problem) {
        return *path && check(path, problem) < 0
                       ? -1
                       : workspace->body->places_list(workspace, path, depth, interrupt, arena, ret,
                                                      ret_count, problem);
}

int workspace_folder_create(struct workspace *workspace, const char *path,
                            const struct workspace_limits *limits, const struct interrupt *interrupt,
                            struct problem *problem) {
        return check(path, problem) < 0
                       ? -1
                       : workspace->body->folder_create(workspace, path, limits, interrupt, problem);
}

int workspace_place_move(struct workspace *workspace, const char *from, const char *to,
                         const struct workspace_limits *limits, const struct interrupt *interrupt,
                         struct problem *problem) {
        return check(from, problem) < 0 || check(to, problem) < 0
                       ? -1
                       : workspace->body->place_move(workspace, from, to, limits, interrupt, problem);
}

int workspace_place_remove(struct workspace *workspace, const char *path, const struct interrupt *interrupt,
                           struct problem *problem) {
        return check(path, problem) < 0 ? -1
                                        : workspace->body->place_remove(workspace, path, interrupt, problem);
}
