/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User code owns the folder and may have put anything there. So everything is opened beneath it without following a link, and the
 * file is always a new one: what has its name is taken away first, and a pipe or a link in its place is not opened.
 */
#include "runtime/serve/picture.h"

#include "base/beneath.h"
#include "base/files.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
        const char *type, *suffix;
} images[] = { { "image/png", "png" },
               { "image/jpeg", "jpg" },
               { "image/svg+xml", "svg" },
               { "image/gif", "gif" },
               { "image/webp", "webp" } };

static int open_berth_folder(int folder) {
        int inner DESCRIPTOR_CLEANUP = -1;

        (void)mkdirat(folder, ".berth", 0755);
        inner = beneath_open(folder, ".berth", O_RDONLY | O_DIRECTORY);
        if (inner < 0)
                return -1;
        (void)mkdirat(inner, "displays", 0755);
        return beneath_open(inner, "displays", O_RDONLY | O_DIRECTORY);
}

bool picture_write(int folder, int64_t n, int64_t number, const struct content_display *display, char *ret,
                   size_t size) {
        int displays DESCRIPTOR_CLEANUP = -1, file DESCRIPTOR_CLEANUP = -1;
        const struct content_part *image = NULL;
        const char *suffix = NULL;
        char name[64];

        for (size_t i = 0; i < sizeof(images) / sizeof(images[0]) && !image; i++) {
                for (size_t k = 0; k < display->count && !image; k++) {
                        if (strcmp(display->parts[k].type, images[i].type) == 0) {
                                image = &display->parts[k];
                                suffix = images[i].suffix;
                        }
                }
        }
        if (!image || (displays = open_berth_folder(folder)) < 0)
                return false;
        snprintf(name, sizeof(name), "%lld-%lld.%s", (long long)n, (long long)number, suffix);
        (void)unlinkat(displays, name, 0);
        file = beneath_create(displays, name, O_WRONLY | O_CREAT | O_EXCL, 0644);
        if (file < 0)
                return false;
        if (descriptor_write(file, image->bytes, image->length) < 0) {
                (void)unlinkat(displays, name, 0);
                return false;
        }
        snprintf(ret, size, "%s/%s", PICTURE_FOLDER, name);
        return true;
}
