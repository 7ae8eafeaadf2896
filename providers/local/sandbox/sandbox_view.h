/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the host's disk that a sandbox sees: read-only, through an overlay of lower layers
 * alone. A bind mount would show the host's own inodes: a watcher of those (inotify) learns which
 * programs the machine runs, two sandboxes can tell each other things by locking them, fsync() on
 * them makes the disk flush, and mountinfo names their folder on the host. The overlay's inodes are
 * the run's own, and its mount names no path but the stage's. Pages of files stay shared.
 */
#ifndef BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_VIEW_H
#define BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_VIEW_H

#include "base/error.h"

/*
 * Makes the folder `stage`/`name` and shows there what `folder` has. Where this kernel, this user or the file system below
 * allows no overlay, and where other file systems are mounted within (`path`, or NULL: none are), it is a bind mount after
 * all. Changes the working directory to the stage.
 */
int sandbox_view_mount(int folder, const char *path, const char *stage, const char *name,
                       struct error *err) MUST_USE;

/* The machine's own programs and libraries, as `stage`/host/usr and the like; links as they are. */
int sandbox_view_host(const char *stage, struct error *err) MUST_USE;
#define SANDBOX_VIEW_HOST "host"
/* The names there, ended by NULL. */
extern const char *const sandbox_view_names[];

#endif
