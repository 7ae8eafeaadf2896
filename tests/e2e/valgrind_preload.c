/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into berth by ./valgrind, for what Valgrind (3.19) cannot do:
 *  - Berth starts its worker as /proc/self/exe, and that is Valgrind itself there. Such a start becomes one of
 *    BERTH_CHECKED_BY (./valgrind), so that the worker is checked as well. The worker's environment is empty but for what
 *    Berth gives it: what ./valgrind has to know is added.
 *  - openat2() and pidfd_open(), which it does not know, are made by a program beside it: valgrind_calls.c.
 *  - It lets nobody lower the hard limit of open files, which it keeps for itself: the soft one alone is set.
 */
#define _GNU_SOURCE
#include "valgrind_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KEPT_MAX 64

typedef int spawner(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                    char *const *, char *const *);
typedef long caller(long, ...);
typedef int closer(unsigned, unsigned, int);
typedef int limiter(__rlimit_resource_t, const struct rlimit *);

static pthread_mutex_t one_call = PTHREAD_MUTEX_INITIALIZER;
static int calls = -1; /* the socket to the program that makes calls for `calls_of` */
static pid_t calls_of;

/* --- the worker --- */

/* NAME=VALUE, as the environment has it. */
static char *entry(const char *name) {
        size_t length = strlen(name);

        for (char **variable = environ; *variable; variable++) {
                if (strncmp(*variable, name, length) == 0 && (*variable)[length] == '=')
                        return *variable;
        }
        return NULL;
}

int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const *arguments, char *const *given) {
        static const char *const added[] = { "BERTH_MEMCHECKED", "BERTH_VALGRIND_LOGS",
                                             "BERTH_VALGRIND_TOOL" };
        spawner *real = (spawner *)dlsym(RTLD_NEXT, "posix_spawnp");
        const char *checker = getenv("BERTH_CHECKED_BY");
        char *environment[KEPT_MAX + 3] = { 0 };
        size_t count = 0;

        if (!checker || strcmp(file, "/proc/self/exe") != 0)
                return real(pid, file, actions, attributes, arguments, given);
        while (count < KEPT_MAX && given[count]) {
                environment[count] = given[count];
                count++;
        }
        for (size_t i = 0; i < sizeof(added) / sizeof(added[0]); i++) {
                environment[count] = entry(added[i]);
                if (environment[count])
                        count++;
        }
        return real(pid, checker, actions, attributes, arguments, environment);
}

/* --- calls that Valgrind does not know --- */

static int connect_calls(void) {
        const char *program = getenv("BERTH_VALGRIND_CALLS");
        char *arguments[] = { (char *)program, NULL }, *nothing[] = { NULL };
        posix_spawn_file_actions_t actions;
        int pair[2], result;
        pid_t pid;

        if (calls >= 0 && calls_of == getpid())
                return 0;
        if (!program || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return -1;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, pair[1], STDIN_FILENO);
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
        posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
        result = posix_spawn(&pid, program, &actions, NULL, arguments, nothing);
        posix_spawn_file_actions_destroy(&actions);
        close(pair[1]);
        if (result != 0) {
                close(pair[0]);
                return -1;
        }
        if (calls >= 0)
                close(calls);
        calls = pair[0];
        calls_of = getpid();
        return 0;
}

/* At once: what a worker starts once it has unshared its PID namespace is process 1 of the new one, and opens no pidfd of the old. */
__attribute__((constructor)) static void connect_at_start(void) {
        connect_calls();
}

/* The worker closes what it was not given: all but the socket to the program that makes calls. */
int close_range(unsigned first, unsigned last, int flags) {
        closer *real = (closer *)dlsym(RTLD_NEXT, "close_range");
        unsigned kept = (unsigned)calls;

        if (calls < 0 || kept < first || kept > last)
                return real(first, last, flags);
        if (kept > first && real(first, kept - 1, flags) < 0)
                return -1;
        return kept < last ? real(kept + 1, last, flags) : 0;
}

static int have_called(const struct call *call, int folder) {
        struct answer answer = { .descriptor_errno = ENOSYS };
        int descriptor = -1;

        pthread_mutex_lock(&one_call);
        if (connect_calls() == 0 && message_send(calls, call, sizeof(*call), folder) == 0 &&
            message_receive(calls, &answer, sizeof(answer), &descriptor) < 0)
                answer.descriptor_errno = ENOSYS;
        pthread_mutex_unlock(&one_call);
        if (descriptor < 0)
                errno = answer.descriptor_errno;
        return descriptor;
}

int pidfd_open(pid_t pid, unsigned flags) {
        struct call call = { .number = SYS_pidfd_open, .pid = pid, .pid_flags = flags };

        return have_called(&call, -1);
}

static int open_at(int folder, const char *path, const struct open_how *how) {
        struct call call = { .number = SYS_openat2, .how = *how };
        int given = folder == AT_FDCWD ? open(".", O_PATH | O_CLOEXEC) : folder;
        int descriptor;

        if (strlen(path) >= sizeof(call.path)) {
                errno = ENAMETOOLONG;
                return -1;
        }
        memcpy(call.path, path, strlen(path) + 1);
        descriptor = have_called(&call, given);
        if (folder == AT_FDCWD)
                close(given);
        return descriptor;
}

long syscall(long number, ...) {
        caller *real = (caller *)dlsym(RTLD_NEXT, "syscall");
        long given[6];
        va_list list;

        va_start(list, number);
        for (int i = 0; i < 6; i++)
                given[i] = va_arg(list, long);
        va_end(list);
        if (number == SYS_openat2)
                return open_at((int)given[0], (const char *)given[1], (const struct open_how *)given[2]);
        return real(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}

int setrlimit(__rlimit_resource_t resource, const struct rlimit *wanted) {
        limiter *real = (limiter *)dlsym(RTLD_NEXT, "setrlimit");
        struct rlimit now, given = *wanted;

        if (resource == RLIMIT_NOFILE && getrlimit(resource, &now) == 0)
                given.rlim_max = now.rlim_max;
        return real(resource, &given);
}
