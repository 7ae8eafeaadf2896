/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/runtime_file.h"

#include "base/files.h"

#include <sys/types.h>
#include <unistd.h>

const char *runtime_file_find(struct arena *arena) {
        char path[4096];
        ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
        const char *folder, *installed;

        if (length <= 0)
                return "berth-runtime";
        path[length] = '\0';
        folder = path_folder(path, arena);
        installed = arena_printf(arena, "%s/../libexec/berth/berth-runtime", folder);
        return access(installed, R_OK) == 0 ? installed : arena_printf(arena, "%s/berth-runtime", folder);
}
