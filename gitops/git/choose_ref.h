/* SPDX-License-Identifier: Apache-2.0 */
/* Which of a repository's refs a source follows. Pure. */
#ifndef BERTH_GITOPS_GIT_CHOOSE_REF_H
#define BERTH_GITOPS_GIT_CHOOSE_REF_H

#include "gitops/git/repository.h"
#include "gitops/git/version.h"

/* As git check-ref-format has it, as far as a name could be misread. */
bool choose_is_branch_name(const char *name);

/* `branch`, or GIT_NOT_FOUND with the nearest one that there is. `ret` borrows from `refs`; the arena is for what it needs. */
int choose_branch(const char *branch, const struct remote_ref *refs, size_t count, struct arena *arena,
                  struct remote_ref *ret, enum git_failure *ret_failure, struct error *err) MUST_USE;
/* The highest version among the tags that match; of two that are as high, the last. `text` is the pattern as it was written. */
int choose_tag(const struct version_pattern *pattern, const char *text, const struct remote_ref *refs,
               size_t count, struct remote_ref *ret, enum git_failure *ret_failure,
               struct error *err) MUST_USE;

/* Whether both are tags and versions, and `ref` is the higher one; `than` may be NULL. */
bool choose_is_higher_tag(const char *ref, const char *than);

#endif
