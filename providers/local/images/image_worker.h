/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image_prepare() in a process of its own (this program as `berth image-worker`, not in the help),
 * in a cage: it sees the system's libraries, what is given, the store to read and its own work
 * folder to write, and has no network. Its answer is checked: whatever became of it, it has written
 * nowhere else, and moved files are named by digests.
 */
#ifndef BERTH_PROVIDERS_LOCAL_IMAGES_IMAGE_WORKER_H
#define BERTH_PROVIDERS_LOCAL_IMAGES_IMAGE_WORKER_H

#include "providers/local/images/image_prepare.h"

/* As image_prepare(). *ret_weak: NULL, or what the cage does not hold here: cage.h. */
int image_worker_prepare(struct image_store *store, int given, const char *path,
                         const struct local_reference *name, struct arena *arena, struct image_prepared *ret,
                         const char **ret_weak, struct error *err) MUST_USE;

/* The worker: a request on standard input, the answer on standard output. Returns the process's exit code. */
int image_worker_main(void);

#endif
