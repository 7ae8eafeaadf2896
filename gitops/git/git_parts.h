/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share, beside the modules that have a header of their own. */
#ifndef BERTH_GITOPS_GIT_GIT_PARTS_H
#define BERTH_GITOPS_GIT_GIT_PARTS_H

#include "base/strbuf.h"
#include "gitops/git/git.h"

/* `return FAIL(GIT_LOCAL, "...")` in a function with `ret_failure` and `err`. */
#define FAIL(why, ...) (*ret_failure = (why), error_set(err, __VA_ARGS__))

/* The steps that take long, in order; the worker says which it is at. */
enum git_phase { PHASE_STARTING, PHASE_ASKING, PHASE_FETCHING, PHASE_VERIFYING, PHASE_READING, PHASE_COUNT };
extern const char *const git_phase_names[PHASE_COUNT];

/*
 * Names inside a tree: why this one is refused ("is a spelling of .git"), or NULL. Also what may not stand in a path from
 * the worker. `name` is one component.
 */
const char *git_name_objection(const char *name, size_t length);
/* The same of each component of a relative path. */
const char *git_path_objection(const char *path);

/* What strangers wrote, for messages and status: at most `most` bytes, UTF-8, control characters as spaces. In the arena. */
const char *git_clean_text(struct arena *arena, const char *text, size_t most);

/* *.yaml and *.yml but dot-files, as a folder's manifests are chosen. */
bool git_is_manifest_name(const char *name);

/* Removes the folder and all in it, links themselves and not what they lead to; what is not there is fine. */
int git_remove_folder(const char *path, struct error *err) MUST_USE;

#endif
