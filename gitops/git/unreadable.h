/* SPDX-License-Identifier: Apache-2.0 */
/* Why libgit2 does not read a repository on this machine, and what to do about it. */
#ifndef BERTH_GITOPS_GIT_UNREADABLE_H
#define BERTH_GITOPS_GIT_UNREADABLE_H

#include "base/arena.h"
#include "base/error.h"

#define UNREADABLE_SHA256 \
        "its objects have SHA-256 names, which libgit2 does not read: make it with git init --object-format=sha1"

/*
 * A sentence in the arena: it is a worktree, it borrows objects from elsewhere, or it has a form that libgit2 does not know. NULL
 * where none of these is found. `words` are libgit2's.
 */
const char *unreadable_reason(const char *path, const char *words, struct arena *arena);

/* -1. Adds it, where there is one, to an error that a ref was not found: refs whose commits cannot be read are skipped. */
int unreadable_add_reason(const char *path, struct error *err) MUST_USE;

#endif
