/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into berth by disk.py: counts what is written and synced below one folder (but for LMDB's lock file), and at
 * the n-th such call lets something happen.
 *
 *     DISK_FOLDER   the folder; a path without symbolic links
 *     DISK_LOG      a file: a line for each call counted
 *     DISK_AT       n, from 1; 0 for never
 *     DISK_MISHAP   before, after, amid: killed before the call, after it, when half of it is written
 *                   lost: the power fails before the call: of what was written and not synced, some is not there
 *                   fail, full: the call and all that follow fail with EIO, or ENOSPC; fail-once, full-once: this one alone
 *                   interrupt, interrupt-twice: SIGINT comes before it
 *                   held: no n-th call, but the first whose bytes hold DISK_MATCH: it makes the file DISK_HOLD, waits until
 *                   that is gone, and fails with EIO
 *     DISK_MORE     not empty: renames and syncs of file systems count as well, and what is sent by local sockets
 *     DISK_SEED     lost: which of the writes are lost; 0: all
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* What a place in a file held before it was written to. */
struct undo {
        int fd;
        off_t offset, end_before;
        size_t size, held;
        char *bytes;
        struct undo *before;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct undo *unsynced;
static long count;

static const char *setting(const char *name) {
        const char *text = getenv(name);

        return text ? text : "";
}

static bool watched(int fd, char path[4096]) {
        const char *folder = setting("DISK_FOLDER");
        char link[64];
        ssize_t length;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        length = readlink(link, path, 4095);
        if (length <= 0 || !*folder)
                return false;
        path[length] = '\0';
        return strncmp(path, folder, strlen(folder)) == 0 && !strstr(path, "lock.mdb");
}

static void write_log(const char *call, const char *path, size_t size) {
        int fd = (int)syscall(SYS_openat, AT_FDCWD, setting("DISK_LOG"), O_WRONLY | O_CREAT | O_APPEND, 0600);
        char line[4200];
        int length = snprintf(line, sizeof(line), "%ld %s %s %zu\n", count, call, path, size);

        if (fd < 0)
                return;
        syscall(SYS_write, fd, line, (size_t)length);
        syscall(SYS_close, fd);
}

static void die(void) {
        syscall(SYS_kill, getpid(), SIGKILL);
        for (;;)
                pause();
}

static bool synced_at_once(int fd) {
        return syscall(SYS_fcntl, fd, F_GETFL) & O_DSYNC;
}

static void keep_what_was(int fd, size_t size, off_t offset) {
        struct undo *undo = calloc(1, sizeof(*undo));
        struct stat status;

        *undo = (struct undo){ .fd = fd, .offset = offset, .size = size, .bytes = calloc(1, size + 1) };
        undo->end_before = fstat(fd, &status) == 0 ? status.st_size : 0;
        for (ssize_t got = 1; undo->held < size && got > 0; undo->held += (size_t)got) {
                got = syscall(SYS_pread64, fd, undo->bytes + undo->held, size - undo->held,
                              offset + (off_t)undo->held);
                if (got < 0)
                        break;
        }
        undo->before = unsynced;
        unsynced = undo;
}

static void forget_undo(void) {
        while (unsynced) {
                struct undo *undo = unsynced;

                unsynced = undo->before;
                free(undo->bytes);
                free(undo);
        }
}

/* Newest first, so that the oldest of what a place held is what stays. */
static void lose_power(void) {
        unsigned seed = (unsigned)atoi(setting("DISK_SEED"));
        bool all = seed == 0;

        for (struct undo *undo = unsynced; undo; undo = undo->before) {
                if (!all && rand_r(&seed) % 2)
                        continue;
                syscall(SYS_pwrite64, undo->fd, undo->bytes, undo->size, undo->offset);
                if (all)
                        syscall(SYS_ftruncate, undo->fd, undo->end_before);
        }
        die();
}

/* True where the call is not to be made: errno says what it came to. */
static bool struck(const char *call, const char *path, size_t size, bool *ret_half, bool *ret_last) {
        const char *mishap = setting("DISK_MISHAP");
        long at = atol(setting("DISK_AT"));
        bool fails;

        count++;
        write_log(call, path, size);
        if (at <= 0 || count < at)
                return false;
        fails = strcmp(mishap, "fail") == 0 || strcmp(mishap, "full") == 0;
        if (count == at && (strcmp(mishap, "fail-once") == 0 || strcmp(mishap, "full-once") == 0))
                fails = true;
        if (fails) {
                errno = strncmp(mishap, "full", 4) == 0 ? ENOSPC : EIO;
                return true;
        }
        if (count > at)
                return false;
        if (strcmp(mishap, "before") == 0)
                die();
        if (strcmp(mishap, "lost") == 0)
                lose_power();
        if (strncmp(mishap, "interrupt", 9) == 0)
                syscall(SYS_kill, getpid(), SIGINT);
        if (strcmp(mishap, "interrupt-twice") == 0)
                syscall(SYS_kill, getpid(), SIGINT);
        *ret_half = strcmp(mishap, "amid") == 0;
        *ret_last = *ret_half || strcmp(mishap, "after") == 0;
        return false;
}

/* True where the call is not to be made. Others go on meanwhile. */
static bool held_up(const void *bytes, size_t size) {
        static atomic_flag once = ATOMIC_FLAG_INIT;
        const char *match = setting("DISK_MATCH"), *hold = setting("DISK_HOLD");

        if (strcmp(setting("DISK_MISHAP"), "held") != 0 || !memmem(bytes, size, match, strlen(match)) ||
            atomic_flag_test_and_set(&once))
                return false;
        syscall(SYS_close, (int)syscall(SYS_openat, AT_FDCWD, hold, O_WRONLY | O_CREAT, 0600));
        while (access(hold, F_OK) == 0)
                usleep(10000);
        errno = EIO;
        return true;
}

static long done(long result, bool last) {
        if (last)
                die();
        pthread_mutex_unlock(&lock);
        return result;
}

static long fail(void) {
        int code = errno;

        pthread_mutex_unlock(&lock);
        errno = code;
        return -1;
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset) {
        bool half = false, last = false;
        char path[4096];

        if (!watched(fd, path))
                return syscall(SYS_pwrite64, fd, bytes, size, offset);
        if (held_up(bytes, size))
                return -1;
        pthread_mutex_lock(&lock);
        if (struck("pwrite", path, size, &half, &last))
                return fail();
        if (!synced_at_once(fd))
                keep_what_was(fd, size, offset);
        return done(syscall(SYS_pwrite64, fd, bytes, half ? size / 2 : size, offset), last);
}

ssize_t write(int fd, const void *bytes, size_t size) {
        bool half = false, last = false;
        char path[4096];

        if (!watched(fd, path))
                return syscall(SYS_write, fd, bytes, size);
        pthread_mutex_lock(&lock);
        if (struck("write", path, size, &half, &last))
                return fail();
        if (!synced_at_once(fd))
                keep_what_was(fd, size, syscall(SYS_lseek, fd, 0, SEEK_CUR));
        return done(syscall(SYS_write, fd, bytes, half ? size / 2 : size), last);
}

ssize_t writev(int fd, const struct iovec *parts, int part_count) {
        bool half = false, last = false;
        char path[4096];
        size_t size = 0;

        if (!watched(fd, path))
                return syscall(SYS_writev, fd, parts, part_count);
        for (int i = 0; i < part_count; i++) {
                size += parts[i].iov_len;
                if (held_up(parts[i].iov_base, parts[i].iov_len))
                        return -1;
        }
        pthread_mutex_lock(&lock);
        if (struck("writev", path, size, &half, &last))
                return fail();
        if (!synced_at_once(fd))
                keep_what_was(fd, size, syscall(SYS_lseek, fd, 0, SEEK_CUR));
        return done(syscall(SYS_writev, fd, parts, half ? (part_count + 1) / 2 : part_count), last);
}

static int sync_file(const char *call, long number, int fd) {
        bool half = false, last = false;
        char path[4096];
        long result;

        if (!watched(fd, path))
                return (int)syscall(number, fd);
        pthread_mutex_lock(&lock);
        if (struck(call, path, 0, &half, &last))
                return (int)fail();
        result = syscall(number, fd);
        if (result == 0)
                forget_undo();
        return (int)done(result, last);
}

int fdatasync(int fd) {
        return sync_file("fdatasync", SYS_fdatasync, fd);
}

int fsync(int fd) {
        return sync_file("fsync", SYS_fsync, fd);
}

int ftruncate(int fd, off_t length) {
        bool half = false, last = false;
        char path[4096];

        if (!watched(fd, path))
                return (int)syscall(SYS_ftruncate, fd, length);
        pthread_mutex_lock(&lock);
        if (struck("ftruncate", path, (size_t)length, &half, &last))
                return (int)fail();
        return (int)done(syscall(SYS_ftruncate, fd, length), last);
}

int syncfs(int fd) {
        return *setting("DISK_MORE") ? sync_file("syncfs", SYS_syncfs, fd) : (int)syscall(SYS_syncfs, fd);
}

int renameat(int from, const char *old, int to, const char *name) {
        bool half = false, last = false;
        char path[4096];

        if (!*setting("DISK_MORE") || !watched(to, path))
                return (int)syscall(SYS_renameat, from, old, to, name);
        pthread_mutex_lock(&lock);
        if (struck("renameat", path, 0, &half, &last))
                return (int)fail();
        return (int)done(syscall(SYS_renameat, from, old, to, name), last);
}

static bool is_local(int fd) {
        int domain;
        socklen_t length = sizeof(domain);

        return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == AF_UNIX;
}

ssize_t send(int fd, const void *bytes, size_t size, int flags) {
        bool half = false, last = false;

        if (!*setting("DISK_MORE") || !is_local(fd))
                return syscall(SYS_sendto, fd, bytes, size, flags, NULL, 0);
        pthread_mutex_lock(&lock);
        /* A disk has nothing to say to it. */
        if (struck("send", "socket", size, &half, &last))
                errno = 0;
        return done(syscall(SYS_sendto, fd, bytes, half ? size / 2 : size, flags, NULL, 0), last);
}

/* Of what carries descriptors, the first byte is all or nothing. */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
        bool half = false, last = false;
        size_t size = 0;

        if (!*setting("DISK_MORE") || !is_local(fd))
                return syscall(SYS_sendmsg, fd, message, flags);
        for (size_t i = 0; i < message->msg_iovlen; i++)
                size += message->msg_iov[i].iov_len;
        pthread_mutex_lock(&lock);
        if (struck("sendmsg", "socket", size, &half, &last))
                errno = 0;
        if (half) {
                struct iovec part = message->msg_iov[0];
                struct msghdr less = *message;

                part.iov_len = (part.iov_len + 1) / 2;
                less.msg_iov = &part;
                less.msg_iovlen = 1;
                return done(syscall(SYS_sendmsg, fd, &less, flags), last);
        }
        return done(syscall(SYS_sendmsg, fd, message, flags), last);
}
