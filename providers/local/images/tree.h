/* SPDX-License-Identifier: Apache-2.0 */
/* Removing folders with everything in them, by descriptors: no link is followed. */
#ifndef BERTH_PROVIDERS_LOCAL_IMAGES_TREE_H
#define BERTH_PROVIDERS_LOCAL_IMAGES_TREE_H

#include "base/error.h"

/* Removes the entry, whatever it is; one that does not exist is no error. -1 with errno. */
int tree_remove(int folder, const char *name) MUST_USE;
/* Removes everything in the folder. -1 with errno. */
int tree_empty(int folder) MUST_USE;

#endif
