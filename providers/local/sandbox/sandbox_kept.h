/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A workspace that stays, and that several sandboxes have at once: the files of an agent for one owner. In its folder lies
 *
 *     disk                      root's: an image (sandbox_disk.h), whose file system has the next two
 *     workspace/, incoming/     what sandboxes see as /workspace, and files on their way there; beside them, what callers keep
 *
 * No host user owns what is in it. Its files belong to one number, and each mount of it maps that to the user of who has the mount: a
 * sandbox of any user, and whoever reads it outside, each see their own.
 *
 * Without an image nobody holds how large it gets: a plain folder is had only where that is accepted.
 */
#ifndef BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_KEPT_H
#define BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_KEPT_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SANDBOX_KEPT_WORKSPACE "workspace"
#define SANDBOX_KEPT_INCOMING "incoming"

struct sandbox_kept {
        const char *folder; /* made where it is missing; ours alone */
        uint64_t bytes, files;
        bool accept_degraded; /* a plain folder will do where there can be no image */
        const char *remedy;   /* what to do where there can be none, as the end of a sentence */
};

/*
 * *ret_root is its root: of root's a mount that is attached nowhere, in which `uid` and `gid` own everything; of another user's the
 * folder itself. Where `make` is false and there is none: ERROR_NOT_FOUND. ERROR_REFUSED where it cannot be bounded here, or, of
 * root's, where somebody else could have put it there (base/guarded.h): an image and a plain folder alike.
 */
int sandbox_kept_open(const struct sandbox_kept *kept, bool make, uid_t uid, gid_t gid, int *ret_root,
                      struct error *err) MUST_USE;
/*
 * What is there. Where an image and a plain folder are both, it is the image to all of these functions, and what lies in the other
 * stays as it is until that is removed. Of root's, as it is opened: ERROR_REFUSED where another could have put it there. What cannot
 * be looked at is not gone: -1.
 */
enum sandbox_kept_kind { SANDBOX_KEPT_NONE, SANDBOX_KEPT_PLAIN, SANDBOX_KEPT_IMAGE };
int sandbox_kept_find(const struct sandbox_kept *kept, enum sandbox_kept_kind *ret,
                      struct error *err) MUST_USE;
/*
 * An image goes with all that is in it, ERROR_LOCKED where a mount has it; of a plain folder the caller has removed that. The folder stays
 * where the caller has something else in it.
 */
int sandbox_kept_remove(const struct sandbox_kept *kept, struct error *err) MUST_USE;

/* With the rights of a sandbox's worker: `root`, of the above, has its workspace at `path` from now on. */
int sandbox_kept_mount(int root, const char *path, struct error *err) MUST_USE;

#endif
