/* SPDX-License-Identifier: Apache-2.0 */
#include "base/folder_names.h"

#include "base/array.h"
#include "base/files.h"
#include "base/sorted.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>

int folder_names(int folder, folder_name_wanted *is_wanted, const void *context, struct arena *arena,
                 const char ***ret, size_t *ret_count) {
        /* Of its own, since the place in it would be shared. */
        int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *stream = again < 0 ? NULL : fdopendir(again);
        const char **names = NULL;
        const struct dirent *entry;
        size_t count = 0;

        if (!stream) {
                close_descriptor(&again);
                return -1;
        }
        while ((entry = readdir(stream))) {
                if (!is_wanted(entry->d_name, context))
                        continue;
                names = array_grow(arena, names, count, sizeof(*names));
                names[count++] = arena_strdup(arena, entry->d_name);
        }
        closedir(stream);
        if (count > 1)
                qsort(names, count, sizeof(*names), sorted_compare_texts);
        *ret = names;
        *ret_count = count;
        return 0;
}
