/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/image_program.h"

#include "base/files.h"
#include "base/strbuf.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As if the folder were the root of everything, which it is in the sandbox. */
static int open_in_root(int root, const char *path) {
        struct open_how how = { .flags = O_PATH | O_CLOEXEC,
                                .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };

        return (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

static bool is_program(int root, const char *folder, size_t length, const char *name) {
        struct strbuf path STRBUF_CLEANUP = STRBUF_INIT;
        int found DESCRIPTOR_CLEANUP = -1;
        struct stat status;

        if (length == 0 || folder[0] != '/')
                return false;
        strbuf_append_bytes(&path, folder, length);
        strbuf_printf(&path, "/%s", name);
        found = open_in_root(root, strbuf_text(&path));
        return found >= 0 && fstat(found, &status) == 0 && S_ISREG(status.st_mode) && (status.st_mode & 0111);
}

bool image_program_exists(const char *root, const char *path, const char *name) {
        int folder DESCRIPTOR_CLEANUP = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);

        while (folder >= 0 && *path) {
                size_t length = strcspn(path, ":");

                if (is_program(folder, path, length, name))
                        return true;
                path += length;
                path += *path == ':';
        }
        return false;
}
