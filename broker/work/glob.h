/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns of paths, as .gitignore has them: each part between two slashes is matched by fnmatch(3) (`*`, `?`, `[...]`, a backslash
 * for the character behind it), and a part that is `**` stands for any number of folders, none among them. Pure.
 */
#ifndef BERTH_BROKER_WORK_GLOB_H
#define BERTH_BROKER_WORK_GLOB_H

#include <stdbool.h>
#include <stddef.h>

#define GLOB_MAX 512 /* bytes of a pattern */

bool glob_fits(const char *pattern, const char *path);
/* How many of its first bytes all paths begin with that fit. */
size_t glob_prefix(const char *pattern);

#endif
