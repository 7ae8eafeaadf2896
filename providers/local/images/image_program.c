/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/images/image_program.h"

#include "base/beneath.h"
#include "base/files.h"
#include "base/strbuf.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_program(int root, const char *folder, size_t length, const char *name) {
        struct strbuf path STRBUF_CLEANUP = STRBUF_INIT;
        int found DESCRIPTOR_CLEANUP = -1;
        struct stat status;

        if (length == 0 || folder[0] != '/')
                return false;
        strbuf_append_bytes(&path, folder, length);
        strbuf_printf(&path, "/%s", name);
        /* As in the sandbox, links are resolved with the image's root as "/". */
        found = beneath_follow(root, strbuf_text(&path), O_PATH);
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
