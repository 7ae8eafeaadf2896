/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's own files where it would else see inodes of the machine's. All paths are below the stage, the working directory. */
#ifndef BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_OWN_H
#define BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_OWN_H

#include "base/error.h"

/* Becomes /dev, with all that is mounted below it. */
#define SANDBOX_OWN_DEVICES "dev"
/* An empty file and an empty folder, to cover others with. */
#define SANDBOX_OWN_NO_FILE "no-file"
#define SANDBOX_OWN_NO_FOLDER "no-folder"

/* Makes all of these. `shared_memory` is the folder that becomes /dev/shm. */
int sandbox_own_make(const char *shared_memory, struct error *err) MUST_USE;
/*
 * Mounts a copy over bubblewrap's path, which stays its name: its first process is seen from inside, and /proc/1/exe leads to the file
 * that was started.
 */
int sandbox_own_bubblewrap(const char *path, struct error *err) MUST_USE;

#endif
