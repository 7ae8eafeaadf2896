/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into berth by scarce.py: counts the calls that take something of which there is only so much, and lets the n-th of them fail.
 *
 *     SCARCE_KIND   descriptor (EMFILE), table (the whole machine's: ENFILE), thread (EAGAIN) or memory (ENOMEM); those of this kind
 *                   are counted
 *     SCARCE_AT     n, from 1; 0 for never
 *     SCARCE_LOG    a file: a line for each call counted: n, its name, a number that tells its place in the program from others,
 *                   and "failed" where it did; standard error has the addresses that lead there, for addr2line(1)
 *     SCARCE_ARM    a file: nothing is counted before it is there
 *
 * What this process starts is not disturbed: each has numbers of its own otherwise, and the n-th would fail in all.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
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
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

static atomic_long count;
static pid_t self;
static char kind[16], arm[4096], record[4096];
static long at;
static _Thread_local bool within; /* what is counted is not what counting takes */

__attribute__((constructor)) static void begin(void) {
        const char *texts[] = { getenv("SCARCE_KIND"), getenv("SCARCE_ARM"), getenv("SCARCE_LOG") };
        const char *number = getenv("SCARCE_AT");

        self = getpid();
        at = number ? atol(number) : 0;
        snprintf(kind, sizeof(kind), "%s", texts[0] ? texts[0] : "");
        snprintf(arm, sizeof(arm), "%s", texts[1] ? texts[1] : "");
        snprintf(record, sizeof(record), "%s", texts[2] ? texts[2] : "");
        unsetenv("LD_PRELOAD");
        backtrace((void *[1]){ NULL }, 1); /* its first call takes memory */
}

/* Which path of the program it is: by the addresses that lead there. */
static unsigned long place(void) {
        void *frames[12];
        int count = backtrace(frames, 12);
        unsigned long sum = 0;

        for (int i = 2; i < count; i++)
                sum = sum * 31 + (unsigned long)frames[i];
        return sum;
}

/* True where the call is to fail. */
static bool lacks(const char *of, const char *call) {
        int saved = errno;
        char line[128];
        bool fails;
        long n;
        int fd;

        if (within || strcmp(kind, of) != 0 || getpid() != self ||
            syscall(SYS_faccessat, AT_FDCWD, arm, F_OK) < 0) {
                errno = saved;
                return false;
        }
        within = true;
        n = atomic_fetch_add(&count, 1) + 1;
        fails = n == at;
        fd = (int)syscall(SYS_openat, AT_FDCWD, record, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (fails) {
                void *frames[24];

                backtrace_symbols_fd(frames, backtrace(frames, 24), STDERR_FILENO);
        }
        if (fd >= 0) {
                int length = snprintf(line, sizeof(line), "%ld %s %lx%s\n", n, call, place(),
                                      fails ? " failed" : "");

                syscall(SYS_write, fd, line, (size_t)length);
                syscall(SYS_close, fd);
        }
        within = false;
        errno = saved;
        return fails;
}

/* A descriptor is lacking where the process has too many, or the machine. */
static bool lacks_descriptor(const char *call) {
        return lacks("descriptor", call) || lacks("table", call);
}

static int none(void) {
        errno = strcmp(kind, "table") == 0 ? ENFILE : EMFILE;
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
        return lacks_descriptor("open") ? none() : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) __attribute__((alias("open")));

int openat(int folder, const char *path, int flags, ...) {
        va_list arguments;
        mode_t mode;

        va_start(arguments, flags);
        mode = mode_of(flags, arguments);
        va_end(arguments);
        return lacks_descriptor("openat") ? none() : (int)syscall(SYS_openat, folder, path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...) __attribute__((alias("openat")));

FILE *fopen(const char *path, const char *mode) {
        if (lacks_descriptor("fopen")) {
                (void)none();
                return NULL;
        }
        return NEXT(fopen)(path, mode);
}

FILE *fopen64(const char *path, const char *mode) __attribute__((alias("fopen")));

int socket(int domain, int type, int protocol) {
        return lacks_descriptor("socket") ? none() : (int)syscall(SYS_socket, domain, type, protocol);
}

int socketpair(int domain, int type, int protocol, int ends[2]) {
        return lacks_descriptor("socketpair") ? none()
                                              : (int)syscall(SYS_socketpair, domain, type, protocol, ends);
}

int accept4(int socket, struct sockaddr *address, socklen_t *length, int flags) {
        return lacks_descriptor("accept4") ? none()
                                           : (int)syscall(SYS_accept4, socket, address, length, flags);
}

int accept(int socket, struct sockaddr *address, socklen_t *length) {
        return lacks_descriptor("accept") ? none() : (int)syscall(SYS_accept4, socket, address, length, 0);
}

int eventfd(unsigned value, int flags) {
        return lacks_descriptor("eventfd") ? none() : (int)syscall(SYS_eventfd2, value, flags);
}

int epoll_create1(int flags) {
        return lacks_descriptor("epoll_create1") ? none() : (int)syscall(SYS_epoll_create1, flags);
}

int pipe2(int ends[2], int flags) {
        return lacks_descriptor("pipe2") ? none() : (int)syscall(SYS_pipe2, ends, flags);
}

int dup(int descriptor) {
        return lacks_descriptor("dup") ? none() : (int)syscall(SYS_dup, descriptor);
}

/* Below a limit that was lowered, these have no number to give either. */
int dup2(int descriptor, int to) {
        return lacks_descriptor("dup2") ? none() : NEXT(dup2)(descriptor, to);
}

int dup3(int descriptor, int to, int flags) {
        return lacks_descriptor("dup3") ? none() : (int)syscall(SYS_dup3, descriptor, to, flags);
}

int fcntl(int descriptor, int command, ...) {
        va_list arguments;
        void *argument;

        va_start(arguments, command);
        argument = va_arg(arguments, void *);
        va_end(arguments);
        if ((command == F_DUPFD || command == F_DUPFD_CLOEXEC) && lacks_descriptor("fcntl"))
                return none();
        return (int)syscall(SYS_fcntl, descriptor, command, argument);
}

int fcntl64(int descriptor, int command, ...) __attribute__((alias("fcntl")));

int timerfd_create(clockid_t clock, int flags) {
        return lacks_descriptor("timerfd_create") ? none() : (int)syscall(SYS_timerfd_create, clock, flags);
}

int inotify_init1(int flags) {
        return lacks_descriptor("inotify_init1") ? none() : (int)syscall(SYS_inotify_init1, flags);
}

DIR *opendir(const char *path) {
        if (lacks_descriptor("opendir")) {
                (void)none();
                return NULL;
        }
        return NEXT(opendir)(path);
}

/* Of descriptors that a message brings, those that find no place are closed by the kernel, and the flag says so. */
ssize_t recvmsg(int socket, struct msghdr *message, int flags) {
        ssize_t count = (ssize_t)syscall(SYS_recvmsg, socket, message, flags);
        struct cmsghdr *header = count >= 0 ? CMSG_FIRSTHDR(message) : NULL;

        if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
            lacks_descriptor("recvmsg")) {
                size_t brought = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);

                for (size_t i = 0; i < brought; i++) {
                        int descriptor;

                        memcpy(&descriptor, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
                        syscall(SYS_close, descriptor);
                }
                message->msg_controllen = 0;
                message->msg_flags |= MSG_CTRUNC;
        }
        return count;
}

int memfd_create(const char *name, unsigned flags) {
        return lacks_descriptor("memfd_create") ? none() : (int)syscall(SYS_memfd_create, name, flags);
}

int pidfd_open(pid_t pid, unsigned flags) {
        return lacks_descriptor("pidfd_open") ? none() : (int)syscall(SYS_pidfd_open, pid, flags);
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

/* --- memory: glibc's own functions under the names that it keeps for this --- */

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);

static void *no_memory(void) {
        errno = ENOMEM;
        return NULL;
}

void *malloc(size_t size) {
        return lacks("memory", "malloc") ? no_memory() : __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
        return lacks("memory", "calloc") ? no_memory() : __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size) {
        return lacks("memory", "realloc") ? no_memory() : __libc_realloc(memory, size);
}

void *mmap(void *address, size_t size, int protection, int flags, int descriptor, off_t offset) {
        if (lacks("memory", "mmap")) {
                errno = ENOMEM;
                return MAP_FAILED;
        }
        return (void *)syscall(SYS_mmap, address, size, protection, flags, descriptor, offset);
}

void *mmap64(void *address, size_t size, int protection, int flags, int descriptor, off_t offset)
        __attribute__((alias("mmap")));
