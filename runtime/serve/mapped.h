/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that processes have mapped into their memory, to write there. Such a write changes no time of the file once its page is mapped, and by
 * their times it is told which files have changed.
 */
#ifndef BERTH_RUNTIME_SERVE_MAPPED_H
#define BERTH_RUNTIME_SERVE_MAPPED_H

#include "process/descendants.h"

#include <stdbool.h>

/* Those below the folder get a new time of change; when they were written last stays what it was. Whether there are any. */
bool mapped_touch(const struct descendants *processes, int folder);

#endif
