/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of all matching folders come in one list, sorted by their paths, so that those of one
 * folder stand together. Files below the pattern's depth belong to the folder above, as when that
 * folder is followed alone.
 */
#include "gitops/folders.h"

#include "schema/manifests.h"

#include <string.h>

#define NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."

bool folders_is_name(const char *path) {
        if (strlen(path) > FOLDER_PATH_MAX)
                return false;
        for (const char *at = path;; at++) {
                size_t length = strcspn(at, "/");

                if (length == 0 || strspn(at, NAME_CHARACTERS) != length ||
                    (at[0] == '.' && (length == 1 || (length == 2 && at[1] == '.'))))
                        return false;
                at += length;
                if (!*at)
                        return true;
        }
}

/* Parts of a path as it is read: empty ones and "." do not count. */
static size_t count_parts(const char *pattern) {
        size_t count = 0;

        for (const char *at = pattern; *at; at += *at == '/') {
                size_t length = strcspn(at, "/");

                count += length > 0 && !(length == 1 && *at == '.');
                at += length;
        }
        return count;
}

/* The length of a path's first parts; 0 where it has no more than those. */
static size_t length_of_parts(const char *path, size_t parts) {
        size_t length = 0;

        for (size_t i = 0; i < parts; i++) {
                length += i > 0;
                length += strcspn(path + length, "/");
                if (!path[length])
                        return 0;
        }
        return length;
}

static int fail_with(enum git_failure why, enum git_failure *ret_failure) {
        *ret_failure = why;
        return -1;
}

int folders_with_stacks(const struct git_answer *answer, const char *pattern, struct arena *arena,
                        const char *const **ret, size_t *ret_count, enum git_failure *ret_failure,
                        struct error *err) {
        struct manifest_file *files = arena_array(arena, answer->file_count + 1, sizeof(*files));
        const char **folders = arena_array(arena, FOLDERS_MAX, sizeof(*folders));
        size_t parts = count_parts(pattern), count = 0, next;

        for (size_t i = 0; i < answer->file_count; i = next) {
                const char *path = answer->files[i].path, *folder;
                size_t length = length_of_parts(path, parts), held = 0;
                bool holds;

                for (next = i;
                     next < answer->file_count && strncmp(answer->files[next].path, path, length + 1) == 0;
                     next++)
                        files[held++] = (struct manifest_file){ .name = answer->files[next].name,
                                                                .bytes = answer->files[next].bytes,
                                                                .length = answer->files[next].length };
                if (length == 0 || held == 0) {
                        (void)error_set(err, "%s is in no folder that %s matches", path, pattern);
                        return fail_with(GIT_LOCAL, ret_failure);
                }
                if (manifests_hold_stack(files, held, &holds, err) < 0)
                        return fail_with(GIT_OVER_LIMIT, ret_failure);
                if (!holds)
                        continue;
                folder = arena_strndup(arena, path, length);
                if (!folders_is_name(folder)) {
                        (void)error_set(
                                err,
                                "the folder %s holds a Stack, and cannot be part of a source's name: letters, "
                                "digits, \"_\", \"-\" and \".\" can, %u of them in all",
                                folder, FOLDER_PATH_MAX);
                        return fail_with(GIT_UNSAFE_TREE, ret_failure);
                }
                if (count == FOLDERS_MAX) {
                        (void)error_set(err, "%s matches more than %d folders with a Stack", pattern,
                                        FOLDERS_MAX);
                        return fail_with(GIT_OVER_LIMIT, ret_failure);
                }
                folders[count++] = folder;
        }
        *ret = folders;
        *ret_count = count;
        return 0;
}
