/* SPDX-License-Identifier: Apache-2.0 */
#include "parts.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char mark[] = "\n" PART_MARK "\n";
#define MARK_LENGTH (sizeof(mark) - 1)

struct parts parts_of(const uint8_t *data, size_t size) {
        return (struct parts){ .at = data, .left = size };
}

static size_t next_length(struct parts *parts, size_t *ret_skip) {
        const uint8_t *end;

        *ret_skip = 0;
        if (parts->left == 0)
                return 0;
        end = memmem(parts->at, parts->left, mark, MARK_LENGTH);
        if (!end)
                return parts->left;
        *ret_skip = MARK_LENGTH;
        return (size_t)(end - parts->at);
}

static char *next_with(struct parts *parts, size_t more, size_t *ret_length) {
        size_t skip, length = next_length(parts, &skip);
        char *copy = malloc(length + more);

        if (!copy && length + more > 0)
                abort();
        if (length > 0)
                memcpy(copy, parts->at, length);
        if (more)
                copy[length] = '\0';
        parts->over = skip == 0;
        parts->left -= length + skip;
        parts->at = parts->left ? parts->at + length + skip : parts->at;
        *ret_length = length;
        return copy;
}

char *parts_next(struct parts *parts, size_t *ret_length) {
        return next_with(parts, 0, ret_length);
}

char *parts_next_text(struct parts *parts) {
        size_t length;

        return next_with(parts, 1, &length);
}

int memory_file(const void *bytes, size_t length, char path[MEMORY_PATH_SIZE]) {
        int descriptor = memfd_create("fuzz", MFD_CLOEXEC);

        if (descriptor < 0 || write(descriptor, bytes, length) != (ssize_t)length)
                abort();
        snprintf(path, MEMORY_PATH_SIZE, "/proc/self/fd/%d", descriptor);
        return descriptor;
}

static char scratch[64];

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *where) {
        (void)status;
        (void)type;
        (void)where;
        return remove(path);
}

void scratch_remove(const char *path) {
        nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void remove_scratch(void) {
        scratch_remove(scratch);
}

const char *scratch_folder(void) {
        static const char *const places[] = { "/dev/shm", "/tmp" };

        for (size_t i = 0; !scratch[0] && i < sizeof(places) / sizeof(places[0]); i++) {
                snprintf(scratch, sizeof(scratch), "%s/berth-fuzz-XXXXXX", places[i]);
                if (!mkdtemp(scratch))
                        scratch[0] = '\0';
                else if (atexit(remove_scratch) != 0)
                        abort();
        }
        if (!scratch[0])
                abort();
        return scratch;
}
