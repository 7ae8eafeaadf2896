/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The manifests of a commit's tree. The whole tree below `path` is looked at, folders that begin with a dot excepted, which
 * are not entered; one entry that is not safe refuses all of it.
 */
#ifndef BERTH_GITOPS_GIT_TREE_H
#define BERTH_GITOPS_GIT_TREE_H

#include "gitops/git/repository.h"

struct tree_file {
        const char *path; /* within the repository */
        const char *bytes;
        size_t length;
};

/* `path` may be NULL. In the arena, in byte order of their paths; NULL if empty. */
int tree_read(struct repository *repository, const char *tree, const char *path,
              const struct git_limits *limits, struct arena *arena, struct tree_file **ret, size_t *ret_count,
              enum git_failure *ret_failure, struct error *err) MUST_USE;

/*
 * The same of every folder that the pattern matches: git_request.pattern. An entry on the way whose name matches and that is no
 * safe one, such as a link, refuses all of it; a file is passed over.
 */
int tree_read_matching(struct repository *repository, const char *tree, const char *pattern,
                       const struct git_limits *limits, struct arena *arena, struct tree_file **ret,
                       size_t *ret_count, enum git_failure *ret_failure, struct error *err) MUST_USE;

/* "agents", from "./agents//"; NULL for the root. -1 where it is no path within a repository. */
int tree_path_normalise(const char *path, struct arena *arena, const char **ret, struct error *err) MUST_USE;

#endif
