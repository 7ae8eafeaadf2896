/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file is replaced by writing a new one beside it, syncing that, renaming it over the old name,
 * and syncing the folder. A reader sees the old bytes or the new ones, also after a power failure.
 * The name of the new one ends in the process id and ".new": what a dead process left can be told,
 * and no two writers share one.
 */
#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE ((size_t)65536)
/* A page of zeros takes no room where it is left out. */
#define HOLE_MIN 4096
#define CHUNK ((size_t)64 * 1024)
#define LEFTOVER_END ".new"
/* Between two looks at a lock that another process has. */
#define LOCK_PAUSE_MAX_MS 32

void descriptors_allow(unsigned long most) {
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= most)
                return;
        limit.rlim_cur = limit.rlim_max < most ? limit.rlim_max : most;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
}

int descriptors_need(unsigned long least, unsigned long most, struct error *err) {
        struct rlimit limit;

        descriptors_allow(most);
        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                return error_set(err, "cannot read the limit of open files: %s", strerror(errno));
        if (limit.rlim_cur >= least)
                return 0;
        return error_set(err,
                         "this process may have at most %llu open files, and %lu are needed: raise the limit "
                         "(ulimit -n, or LimitNOFILE of a systemd unit)",
                         (unsigned long long)limit.rlim_cur, least);
}

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

int descriptor_lock(int descriptor, const struct interrupt *interrupt) {
        struct pollfd stop = { .fd = interrupt_descriptor(interrupt, INTERRUPT_FINISH), .events = POLLIN };
        int pause_ms = 1;

        while (flock(descriptor, LOCK_EX | LOCK_NB) < 0) {
                if (errno != EWOULDBLOCK && errno != EINTR)
                        return -1;
                if (interrupt_level(interrupt) > INTERRUPT_NONE) {
                        errno = EINTR;
                        return -1;
                }
                (void)poll(&stop, 1, pause_ms);
                pause_ms = pause_ms < LOCK_PAUSE_MAX_MS ? pause_ms * 2 : pause_ms;
        }
        return 0;
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

        /* Room for one byte more than expected: the short read shows the end. */
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

int file_check_private(const char *path, struct error *err) {
        struct stat status;

        if (stat(path, &status) < 0 || !S_ISREG(status.st_mode) || !(status.st_mode & (S_IROTH | S_IWOTH)))
                return 0;
        return error_set(err, "every user of this machine may %s %s, which holds a secret: chmod o= %s",
                         status.st_mode & S_IROTH ? "read" : "write", path, path);
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

int64_t nanoseconds_of(struct timespec time) {
        const int64_t second = 1000000000, most = INT64_MAX / second - 1;

        return time.tv_sec > most    ? INT64_MAX
               : time.tv_sec < -most ? INT64_MIN
                                     : time.tv_sec * second + time.tv_nsec;
}

static bool is_hole(const char *bytes, size_t length) {
        return length >= HOLE_MIN && !bytes[0] && memcmp(bytes, bytes + 1, length - 1) == 0;
}

int descriptor_append(int descriptor, const void *bytes, size_t length) {
        const char *from = bytes;
        struct stat status;

        if (fstat(descriptor, &status) < 0 || !S_ISREG(status.st_mode) ||
            lseek(descriptor, 0, SEEK_CUR) != status.st_size)
                return descriptor_write(descriptor, bytes, length);
        for (size_t at = 0, run; at < length; at += run) {
                bool hole = is_hole(from + at, length - at < HOLE_MIN ? length - at : HOLE_MIN);

                for (run = HOLE_MIN; at + run < length; run += HOLE_MIN) {
                        size_t left = length - at - run;

                        if (is_hole(from + at + run, left < HOLE_MIN ? left : HOLE_MIN) != hole)
                                break;
                }
                run = run < length - at ? run : length - at;
                if (hole ? ftruncate(descriptor, status.st_size + (off_t)(at + run)) < 0 ||
                                    lseek(descriptor, 0, SEEK_END) < 0
                         : descriptor_write(descriptor, from + at, run) < 0)
                        return -1;
        }
        return 0;
}

int descriptor_copy(int from, int to, uint64_t limit) {
        char piece[PIECE];

        while (limit > 0) {
                ssize_t count = read(from, piece, limit < PIECE ? (size_t)limit : PIECE);

                if (count < 0 && errno == EINTR)
                        continue;
                if (count <= 0)
                        return count < 0 ? -1 : 0;
                if (descriptor_append(to, piece, (size_t)count) < 0)
                        return -1;
                limit -= (uint64_t)count;
        }
        return 0;
}

int folder_sync(const char *path, struct error *err) {
        const char *folder = *path ? path : ".";
        int descriptor DESCRIPTOR_CLEANUP = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        /* Some file systems do not sync folders: EINVAL. */
        if (descriptor < 0 || (fsync(descriptor) < 0 && errno != EINVAL))
                return fail_errno(err, "sync the folder", folder);
        return 0;
}

/* The folder that holds `path`. */
static int sync_folder_of(const char *path, struct error *err) {
        const char *slash = strrchr(path, '/');
        char *folder TEXT_CLEANUP =
                slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup("");

        if (!folder)
                abort();
        return folder_sync(folder, err);
}

int path_move(const char *from, const char *to, struct error *err) {
        if (rename(from, to) < 0)
                return fail_errno(err, "write", to);
        return sync_folder_of(to, err);
}

int file_replace_begin(const char *path, unsigned mode, struct file_replacement *ret, struct error *err) {
        static atomic_uint count;

        for (;;) {
                struct strbuf name STRBUF_CLEANUP = STRBUF_INIT;
                int descriptor;

                strbuf_printf(&name, "%s.%u.%ld" LEFTOVER_END, path, atomic_fetch_add(&count, 1),
                              (long)getpid());
                descriptor = open(strbuf_text(&name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, (mode_t)mode);
                /* A dead process of our number left one of that name: the next is free. */
                if (descriptor < 0 && errno == EEXIST)
                        continue;
                if (descriptor < 0)
                        return fail_errno(err, "create", strbuf_text(&name));
                *ret = (struct file_replacement){ .descriptor = descriptor, .path = strdup(path) };
                ret->temporary = strbuf_take(&name);
                if (!ret->path)
                        abort();
                return 0;
        }
}

int file_replace_finish(struct file_replacement *replacement, struct error *err) {
        if (fsync(replacement->descriptor) < 0)
                return fail_errno(err, "write", replacement->path);
        if (path_move(replacement->temporary, replacement->path, err) < 0)
                return -1;
        free_text(&replacement->temporary);
        replacement->temporary = NULL;
        return 0;
}

void file_replace_close(struct file_replacement *replacement) {
        if (replacement->temporary)
                unlink(replacement->temporary);
        close_descriptor(&replacement->descriptor);
        free(replacement->temporary);
        free(replacement->path);
        *replacement = (struct file_replacement)FILE_REPLACEMENT_INIT;
}

int file_write_atomic(const char *path, const void *data, size_t length, unsigned mode, struct error *err) {
        struct file_replacement file FILE_REPLACEMENT_CLEANUP = FILE_REPLACEMENT_INIT;

        if (file_replace_begin(path, mode, &file, err) < 0)
                return -1;
        if (descriptor_write(file.descriptor, data, length) < 0)
                return fail_errno(err, "write", path);
        return file_replace_finish(&file, err);
}

bool file_is_leftover(const char *name) {
        size_t length = strlen(name), end = strlen(LEFTOVER_END), start;

        if (length < end || strcmp(name + length - end, LEFTOVER_END) != 0)
                return false;
        for (start = length - end; start > 0 && name[start - 1] >= '0' && name[start - 1] <= '9';)
                start--;
        return start > 1 && name[start - 1] == '.' && start < length - end &&
               strtol(name + start, NULL, 10) != (long)getpid();
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

const char *path_folder(const char *path, struct arena *arena) {
        const char *slash = strrchr(path, '/');

        return slash ? arena_strndup(arena, path, (size_t)(slash - path) + (slash == path)) : "";
}
