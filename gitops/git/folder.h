/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source's folder: FOLDER/repository.git, FOLDER/next.git while that is made again,
 * FOLDER/previous.git as it was before that, FOLDER/tmp for one run, FOLDER/lock.
 */
#ifndef BERTH_GITOPS_GIT_FOLDER_H
#define BERTH_GITOPS_GIT_FOLDER_H

#include "gitops/git/git_parts.h"

/*
 * Removes leftovers of an interrupted fetch from a repository, and counts its packs and their
 * bytes, indexes included: 0 if it has none, or cannot be read.
 */
void folder_tidy_packs(const char *repository, size_t *ret_packs, uint64_t *ret_bytes);

#endif
