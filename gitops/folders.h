/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folders of a commit that a source's pattern matches and that hold a Stack: each is a child of that source, called
 * SOURCE/FOLDER. Pure.
 */
#ifndef BERTH_GITOPS_FOLDERS_H
#define BERTH_GITOPS_FOLDERS_H

#include "gitops/git/git.h"

#include <stdbool.h>

#define FOLDERS_MAX 500      /* of one commit that one pattern matches */
#define FOLDER_PATH_MAX 200U /* bytes of a folder's path: it is part of names */

/*
 * Such a path can be a part of a source's name, and of a path below the controller's own folder: letters, digits, "_", "-" and "."
 * in each part, which is neither "." nor "..".
 */
bool folders_is_name(const char *path);

/*
 * In byte order, each once, in the arena. A folder counts where a Stack stands in it or below it. -1 with the failure where there
 * are too many, or one has a name that no source may have.
 */
int folders_with_stacks(const struct git_answer *answer, const char *pattern, struct arena *arena,
                        const char *const **ret, size_t *ret_count, enum git_failure *ret_failure,
                        struct error *err) MUST_USE;

#endif
