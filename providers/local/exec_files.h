/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files into a workspace and out of it. A workspace was filled by a program that may be hostile:
 * nothing here follows a link, opens anything but regular files and folders, or believes a size
 * that it did not count itself.
 */
#ifndef BERTH_PROVIDERS_LOCAL_EXEC_FILES_H
#define BERTH_PROVIDERS_LOCAL_EXEC_FILES_H

#include "providers/local/sandbox/sandbox.h"

/* Deeper folders than this are not brought back. */
#define EXEC_FILES_DEPTH_MAX 64
/* Bytes of all names in the list: enough for the most files that a workspace may hold, if they are not named to do harm. */
#define EXEC_FILES_NAMES_MAX (32 << 20)

/* Copies each file to its name; folders on the way are made. A name that leads outside is an error. */
int exec_files_put(const struct sandbox_workspace *workspace, const struct exec_file *files, size_t count,
                   struct error *err) MUST_USE;

/*
 * Fails if `request->out` may not be written into, so that no caller waits for a run whose files
 * have no place.
 */
int exec_files_check(const struct exec_request *request, struct error *err) MUST_USE;

/*
 * Brings regular files and folders into `request->out`, which is made where it does not exist. Other programs obey files by
 * their names: Git runs what .git/hooks, or a folder with HEAD, config, objects and refs, tells it to, shells and editors
 * read .envrc and the like. So what begins with a dot stays out, and HEAD, and the folder must be empty and files cannot be
 * executed, but where the request says otherwise. At most `bytes_max` bytes in all: what would exceed them (files with holes may claim any size) is left
 * out, as is everything of another type, each with its reason in the list. Where the names are too long for the list, a row
 * "." says that what is not listed was left out.
 */
int exec_files_get(const struct sandbox_workspace *workspace, const struct exec_request *request,
                   uint64_t bytes_max, struct arena *arena, const struct exec_left **ret, size_t *ret_count,
                   struct error *err) MUST_USE;

#endif
