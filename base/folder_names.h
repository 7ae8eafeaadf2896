/* SPDX-License-Identifier: Apache-2.0 */
/* What a folder has by name, in order. */
#ifndef BERTH_BASE_FOLDER_NAMES_H
#define BERTH_BASE_FOLDER_NAMES_H

#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>

typedef bool folder_name_wanted(const char *name, const void *context);

/* Of an open folder, which may be read any number of times: the names that are wanted, in the arena. -1 with errno. */
int folder_names(int folder, folder_name_wanted *is_wanted, const void *context, struct arena *arena,
                 const char ***ret, size_t *ret_count);

#endif
