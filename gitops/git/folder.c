/* SPDX-License-Identifier: Apache-2.0 */
#include "gitops/git/folder.h"

#include "base/files.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DESCRIPTORS_MAX 32

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place) {
        (void)status;
        (void)type;
        (void)place;
        return remove(path);
}

int git_remove_folder(const char *path, struct error *err) {
        struct stat status;

        if (lstat(path, &status) < 0 && errno == ENOENT)
                return 0;
        if (nftw(path, remove_entry, DESCRIPTORS_MAX, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) != 0)
                return error_set(err, "%s cannot be removed: %s", path, strerror(errno));
        return 0;
}

/* pack-ID.pack, .idx and what else may belong to one; all others are what an interrupted fetch left. */
static bool is_of_a_pack(const char *name) {
        return strncmp(name, "pack-", 5) == 0 &&
               (text_ends_with(name, ".pack") || text_ends_with(name, ".idx") ||
                text_ends_with(name, ".keep"));
}

void folder_tidy_packs(const char *repository, size_t *ret_packs, uint64_t *ret_bytes) {
        char *path TEXT_CLEANUP = path_join(repository, "objects/pack");
        DIR *directory = opendir(path);
        const struct dirent *entry;

        *ret_packs = 0;
        *ret_bytes = 0;
        while (directory && (entry = readdir(directory))) {
                struct stat status;

                if (fstatat(dirfd(directory), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0 ||
                    !S_ISREG(status.st_mode))
                        continue;
                if (!is_of_a_pack(entry->d_name)) {
                        unlinkat(dirfd(directory), entry->d_name, 0);
                        continue;
                }
                *ret_packs += text_ends_with(entry->d_name, ".pack");
                *ret_bytes += (uint64_t)status.st_size;
        }
        if (directory)
                closedir(directory);
}
