/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into berth by scarce.py: counts the calls that take something of which there is only so much, and lets the n-th of them fail.
 *
 *     SCARCE_KIND   descriptor (EMFILE) or thread (EAGAIN); those of this kind are counted
 *     SCARCE_AT     n, from 1; 0 for never
 *     SCARCE_LOG    a file: a line for each call counted, and one more for that which failed
 *     SCARCE_ARM    a file: nothing is counted before it is there
 *
 * What this process starts is not disturbed: each has numbers of its own otherwise, and the n-th would fail in all.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_long count;
static pid_t self;
static char kind[16], arm[4096], record[4096];
static long at;

__attribute__((constructor)) static void begin(void) {
        const char *texts[] = { getenv("SCARCE_KIND"), getenv("SCARCE_ARM"), getenv("SCARCE_LOG") };
        const char *number = getenv("SCARCE_AT");

        self = getpid();
        at = number ? atol(number) : 0;
        snprintf(kind, sizeof(kind), "%s", texts[0] ? texts[0] : "");
        snprintf(arm, sizeof(arm), "%s", texts[1] ? texts[1] : "");
        snprintf(record, sizeof(record), "%s", texts[2] ? texts[2] : "");
        unsetenv("LD_PRELOAD");
}

/* True where the call is to fail. */
static bool lacks(const char *of, const char *call) {
        int saved = errno;
        char line[128];
        bool fails;
        long n;
        int fd;

        if (strcmp(kind, of) != 0 || getpid() != self || syscall(SYS_faccessat, AT_FDCWD, arm, F_OK) < 0) {
                errno = saved;
                return false;
        }
        n = atomic_fetch_add(&count, 1) + 1;
        fails = n == at;
        fd = (int)syscall(SYS_openat, AT_FDCWD, record, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (fd >= 0) {
                int length = snprintf(line, sizeof(line), "%ld %s%s\n", n, call, fails ? " failed" : "");

                syscall(SYS_write, fd, line, (size_t)length);
                syscall(SYS_close, fd);
        }
        errno = saved;
        return fails;
}

static int none(void) {
        errno = EMFILE;
        return -1;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static mode_t mode_of(int flags, va_list arguments) {
        return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, mode_t) : 0;
}

int open(const char *path, int flags, ...) {
        va_list arguments;
        mode_t mode;

        va_start(arguments, flags);
        mode = mode_of(flags, arguments);
        va_end(arguments);
        return lacks("descriptor", "open") ? none() : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) __attribute__((alias("open")));

int openat(int folder, const char *path, int flags, ...) {
        va_list arguments;
        mode_t mode;

        va_start(arguments, flags);
        mode = mode_of(flags, arguments);
        va_end(arguments);
        return lacks("descriptor", "openat") ? none() : (int)syscall(SYS_openat, folder, path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...) __attribute__((alias("openat")));

FILE *fopen(const char *path, const char *mode) {
        if (lacks("descriptor", "fopen")) {
                errno = EMFILE;
                return NULL;
        }
        return NEXT(fopen)(path, mode);
}

FILE *fopen64(const char *path, const char *mode) __attribute__((alias("fopen")));

int socket(int domain, int type, int protocol) {
        return lacks("descriptor", "socket") ? none() : (int)syscall(SYS_socket, domain, type, protocol);
}

int socketpair(int domain, int type, int protocol, int ends[2]) {
        return lacks("descriptor", "socketpair") ? none()
                                                 : (int)syscall(SYS_socketpair, domain, type, protocol, ends);
}

int accept4(int socket, struct sockaddr *address, socklen_t *length, int flags) {
        return lacks("descriptor", "accept4") ? none()
                                              : (int)syscall(SYS_accept4, socket, address, length, flags);
}

int eventfd(unsigned value, int flags) {
        return lacks("descriptor", "eventfd") ? none() : (int)syscall(SYS_eventfd2, value, flags);
}

int epoll_create1(int flags) {
        return lacks("descriptor", "epoll_create1") ? none() : (int)syscall(SYS_epoll_create1, flags);
}

int pipe2(int ends[2], int flags) {
        return lacks("descriptor", "pipe2") ? none() : (int)syscall(SYS_pipe2, ends, flags);
}

int dup(int descriptor) {
        return lacks("descriptor", "dup") ? none() : (int)syscall(SYS_dup, descriptor);
}

int memfd_create(const char *name, unsigned flags) {
        return lacks("descriptor", "memfd_create") ? none() : (int)syscall(SYS_memfd_create, name, flags);
}

int pidfd_open(pid_t pid, unsigned flags) {
        return lacks("descriptor", "pidfd_open") ? none() : (int)syscall(SYS_pidfd_open, pid, flags);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *context) {
        return lacks("thread", "pthread_create") ? EAGAIN
                                                 : NEXT(pthread_create)(thread, attributes, run, context);
}

pid_t fork(void) {
        if (lacks("thread", "fork")) {
                errno = EAGAIN;
                return -1;
        }
        return NEXT(fork)();
}

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const arguments[], char *const variables[]) {
        return lacks("thread", "posix_spawn")
                       ? EAGAIN
                       : NEXT(posix_spawn)(pid, path, actions, attributes, arguments, variables);
}
