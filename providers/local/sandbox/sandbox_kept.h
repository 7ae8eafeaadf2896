/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A workspace that stays, and that several sandboxes have at once: the files of an agent for one owner. In its folder lies
 *
 *     disk                      root's: an image (sandbox_disk.h), whose file system has the next two
 *     workspace/, incoming/     what sandboxes see as /workspace, and files on their way there; beside them, what callers keep
 *
 * Its files belong to no host user. They belong to one number, and each mount maps that to the
 * mount's user: a sandbox of any user, and a reader outside, each see them as their own.
 *
 * Without an image its size has no limit: a plain folder is used only where that is accepted.
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
 * *ret_root is its root: of root's a mount that is attached nowhere, in which `uid` and `gid` own
 * everything; of another user's the folder itself. ERROR_NOT_FOUND if it is missing and `make` is
 * false. ERROR_REFUSED if it cannot be bounded here, or, for root, if another user could have put
 * it there (base/guarded.h): an image and a plain folder alike.
 */
int sandbox_kept_open(const struct sandbox_kept *kept, bool make, uid_t uid, gid_t gid, int *ret_root,
                      struct error *err) MUST_USE;
/*
 * Finds its kind. If both an image and a plain folder exist, all of these functions use the image,
 * and the folder's content stays as it is until the image is removed. For root, as in opening:
 * ERROR_REFUSED if another user could have put it there. One that cannot be checked is not gone:
 * -1.
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
