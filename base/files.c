/* SPDX-License-Identifier: Apache-2.0 */
#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK ((size_t)64 * 1024)

void close_descriptor(int *descriptor) {
        if (*descriptor >= 0)
                close(*descriptor);
        *descriptor = -1;
}

void free_text(char **text) {
        free(*text);
}

static int fail_errno(struct error *err, const char *verb, const char *path) {
        enum error_kind kind = errno == ENOENT ? ERROR_NOT_FOUND : ERROR_FAILED;

        return error_set_kind(err, kind, "cannot %s %s: %s", verb, path, strerror(errno));
}

/* What a file says of its size; pipes and files of /proc say nothing. */
static size_t expected_size(int descriptor) {
        struct stat status;

        return fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) ? (size_t)status.st_size : 0;
}

int descriptor_is_at(int descriptor, const char *path) {
        struct stat opened, named;

        if (fstat(descriptor, &opened) < 0)
                return -1;
        if (stat(path, &named) < 0)
                return errno == ENOENT || errno == ENOTDIR ? 0 : -1;
        return opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

int descriptor_read(int descriptor, size_t limit, struct strbuf *ret) {
        size_t expected = expected_size(descriptor), left = limit;

        /* One byte more than is to be there shows that this is the end. */
        if (expected > 0 && !strbuf_reserve(ret, (expected < limit ? expected : limit) + 1))
                return 1;
        for (;;) {
                size_t room;
                ssize_t got;

                if (ret->length + 1 >= ret->capacity && !strbuf_reserve(ret, CHUNK))
                        return 1;
                room = ret->capacity - ret->length - 1;
                got = read(descriptor, ret->data + ret->length, room <= left ? room : left + 1);
                if (got < 0 && errno == EINTR)
                        continue;
                if (got <= 0)
                        return (int)got;
                ret->length += (size_t)got;
                ret->data[ret->length] = '\0';
                if ((size_t)got > left)
                        return 1;
                left -= (size_t)got;
        }
}

int file_read(const char *path, size_t limit, struct strbuf *ret, struct error *err) {
        int descriptor DESCRIPTOR_CLEANUP = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        int result;

        if (descriptor < 0)
                return fail_errno(err, "open", path);
        result = descriptor_read(descriptor, limit, ret);
        if (result < 0)
                return fail_errno(err, "read", path);
        return result ? error_set(err, "%s is larger than %zu bytes", path, limit) : 0;
}

int descriptor_write(int descriptor, const void *data, size_t length) {
        const char *from = data;

        while (length > 0) {
                ssize_t put = write(descriptor, from, length);

                if (put < 0 && errno == EINTR)
                        continue;
                if (put < 0)
                        return -1;
                from += put;
                length -= (size_t)put;
        }
        return 0;
}

int file_write_atomic(const char *path, const void *data, size_t length, unsigned mode, struct error *err) {
        struct strbuf temporary STRBUF_CLEANUP = STRBUF_INIT;
        int descriptor DESCRIPTOR_CLEANUP = -1;
        const char *name;

        strbuf_printf(&temporary, "%s.%ld.new", path, (long)getpid());
        name = strbuf_text(&temporary);
        descriptor = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, (mode_t)mode);
        if (descriptor < 0)
                return fail_errno(err, "create", name);
        if (descriptor_write(descriptor, data, length) < 0 || fsync(descriptor) < 0 ||
            rename(name, path) < 0) {
                fail_errno(err, "write", path);
                unlink(name);
                return -1;
        }
        return 0;
}

int folder_make(const char *path, struct error *err) {
        char *copy TEXT_CLEANUP = strdup(path);

        if (!copy)
                abort();
        for (char *slash = copy + 1; *copy && (slash = strchr(slash, '/')); slash++) {
                *slash = '\0';
                if (mkdir(copy, 0700) < 0 && errno != EEXIST)
                        return fail_errno(err, "make the folder", copy);
                *slash = '/';
        }
        if (mkdir(copy, 0700) < 0 && errno != EEXIST)
                return fail_errno(err, "make the folder", copy);
        return 0;
}

char *path_join(const char *folder, const char *name) {
        struct strbuf path = STRBUF_INIT;

        if (folder[0] && strcmp(folder, ".") != 0) {
                strbuf_append(&path, folder);
                if (folder[strlen(folder) - 1] != '/')
                        strbuf_append_char(&path, '/');
        }
        strbuf_append(&path, name);
        return strbuf_take(&path);
}

const char *path_join_in(const char *folder, const char *name, struct arena *arena) {
        char *path TEXT_CLEANUP = path_join(folder, name);

        return arena_strdup(arena, path);
}
