/* SPDX-License-Identifier: Apache-2.0 */
/*
 * posix_spawn() starts the child: it neither copies our memory nor runs our code in it. Descriptors are given number by number and
 * everything else is closed, whatever flags it has.
 *
 * That last step is an extension of glibc's. Where it is missing (musl), no list of what to close would do: another thread, in a
 * library's code, may open something without O_CLOEXEC after the list was made. The child itself has to close it, when its
 * descriptors are its own. So what posix_spawn() does is done here: clone(2) with CLONE_VFORK, which stops this thread until the child has
 * become the program, and CLONE_VM, by which nothing is copied. Until then the child is one more thread of ours as to memory, and so
 * it does little: system calls, on a stack in this thread's, with all signals blocked, since a handler of ours would run in it.
 */
#include "process/spawn.h"

#include "base/files.h"
#include "base/libc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Copies of our descriptors, all above the numbers that the child gets, so that none is overwritten before its turn. */
struct lifted {
        int descriptors[PROCESS_NUMBER_MAX + 1];
        size_t count;
};

static void release_lifted(struct lifted *lifted) {
        for (size_t i = 0; i < lifted->count; i++)
                close_descriptor(&lifted->descriptors[i]);
}

static int copy_above(const struct process_args *args, struct lifted *lifted) {
        for (size_t i = 0; i < args->descriptor_count; i++) {
                int copy = fcntl(args->descriptors[i].ours, F_DUPFD_CLOEXEC, PROCESS_NUMBER_MAX + 1);

                /* EINVAL is said where no process may have so high a number (ulimit -n). */
                if (copy < 0)
                        return errno == EINVAL ? EMFILE : errno;
                lifted->descriptors[lifted->count++] = copy;
        }
        return 0;
}

#ifdef BERTH_HAS_POSIX_SPAWN_FILE_ACTIONS_ADDCLOSEFROM_NP
/*
 * What the child has of descriptors, number by number: one of ours, /dev/null, or none. Whatever else is open here, with or
 * without O_CLOEXEC, is closed. An errno.
 */
static int set_descriptors(posix_spawn_file_actions_t *actions, const struct process_args *args,
                           const struct lifted *lifted) {
        int result = 0;

        for (int number = 0; number <= PROCESS_NUMBER_MAX && result == 0; number++) {
                int from = -1;

                for (size_t i = 0; i < args->descriptor_count; i++) {
                        if (args->descriptors[i].as == number)
                                from = lifted->descriptors[i];
                }
                if (from >= 0)
                        result = posix_spawn_file_actions_adddup2(actions, from, number);
                else if (number <= STDERR_FILENO)
                        result = posix_spawn_file_actions_addopen(
                                actions, number, "/dev/null", number == STDIN_FILENO ? O_RDONLY : O_WRONLY,
                                0);
                else
                        result = posix_spawn_file_actions_addclose(actions, number);
        }
        if (result == 0)
                result = posix_spawn_file_actions_addclosefrom_np(actions, PROCESS_NUMBER_MAX + 1);
        if (result == 0 && args->folder)
                result = posix_spawn_file_actions_addchdir_np(actions, args->folder);
        return result;
}

static int set_attributes(posix_spawnattr_t *attributes, enum process_group group) {
        static const int group_flags[] = { [PROCESS_OUR_GROUP] = 0,
                                           [PROCESS_OWN_GROUP] = POSIX_SPAWN_SETPGROUP,
                                           [PROCESS_OWN_SESSION] = POSIX_SPAWN_SETSID };
        sigset_t none, all;
        int result;

        sigemptyset(&none);
        sigfillset(&all);
        sigdelset(&all, SIGKILL);
        sigdelset(&all, SIGSTOP);
        result = posix_spawnattr_setflags(
                attributes, (short)(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | group_flags[group]));
        if (result == 0)
                result = posix_spawnattr_setsigmask(attributes, &none);
        if (result == 0)
                result = posix_spawnattr_setsigdefault(attributes, &all);
        return result; /* a process group of 0, which is the default, is a new one */
}

static int spawn_child(const struct process_args *args, const struct lifted *lifted, const char *program,
                       const char *const *environment, pid_t *ret) {
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        int result;

        if (posix_spawn_file_actions_init(&actions) != 0 || posix_spawnattr_init(&attributes) != 0)
                abort();
        result = set_descriptors(&actions, args, lifted);
        if (result == 0)
                result = set_attributes(&attributes, args->group);
        if (result == 0)
                result = posix_spawnp(ret, program, &actions, &attributes, (char *const *)args->arguments,
                                      (char *const *)environment);
        posix_spawn_file_actions_destroy(&actions);
        posix_spawnattr_destroy(&attributes);
        return result;
}
#else
struct beginning {
        const struct process_args *args;
        const struct lifted *lifted;
        const char *program;
        const char *const *environment;
        int error; /* the child's, which writes into our memory */
};

/* As set_descriptors() says it for posix_spawn(). An errno. */
static int take_descriptors(const struct beginning *beginning) {
        const struct process_args *args = beginning->args;

        for (int number = 0; number <= PROCESS_NUMBER_MAX; number++) {
                int from = -1;

                for (size_t i = 0; i < args->descriptor_count; i++) {
                        if (args->descriptors[i].as == number)
                                from = beginning->lifted->descriptors[i];
                }
                if (from >= 0 && dup2(from, number) < 0)
                        return errno;
                if (from >= 0)
                        continue;
                close(number);
                /* All below are open, so it is the number that is given. */
                if (number <= STDERR_FILENO &&
                    open("/dev/null", number == STDIN_FILENO ? O_RDONLY : O_WRONLY) <
                            0) /* NOLINT(android-cloexec-open) */
                        return errno;
        }
        return close_range(PROCESS_NUMBER_MAX + 1, ~0U, 0) < 0 ? errno : 0;
}

/* In the child. */
static int become(void *given) {
        struct beginning *beginning = given;
        const struct process_args *args = beginning->args;
        struct sigaction action = { .sa_handler = SIG_DFL };
        sigset_t none;

        for (int number = 1; number < NSIG; number++)
                sigaction(number, &action, NULL);
        sigemptyset(&none);
        if ((args->group == PROCESS_OWN_GROUP && setpgid(0, 0) < 0) ||
            (args->group == PROCESS_OWN_SESSION && setsid() < 0))
                beginning->error = errno;
        else
                beginning->error = take_descriptors(beginning);
        if (beginning->error == 0 && args->folder && chdir(args->folder) < 0)
                beginning->error = errno;
        if (beginning->error == 0) {
                /* No handler is left: a pending signal ends this child and no other process. */
                sigprocmask(SIG_SETMASK, &none, NULL);
                execvpe(beginning->program, (char *const *)args->arguments,
                        (char *const *)beginning->environment);
                beginning->error = errno;
        }
        _exit(127);
}

static int spawn_child(const struct process_args *args, const struct lifted *lifted, const char *program,
                       const char *const *environment, pid_t *ret) {
        /* For execvpe(), which puts together a path of each folder of PATH. */
        _Alignas(16) char stack[4 * PATH_MAX];
        struct beginning beginning = { args, lifted, program, environment, 0 };
        sigset_t all, before;
        pid_t pid;
        int result, cancelling;

        sigfillset(&all);
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        pid = clone(become, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, &beginning);
        result = pid < 0 ? errno : beginning.error;
        if (pid > 0 && result != 0) {
                while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                        ;
        }
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_setcancelstate(cancelling, NULL);
        if (result == 0)
                *ret = pid;
        return result;
}
#endif

int spawn(const struct process_args *args, pid_t *ret) {
        static const char *const empty[] = { NULL };
        struct lifted lifted __attribute__((cleanup(release_lifted))) = { .count = 0 };
        int result = copy_above(args, &lifted);

        return result != 0 ? result
                           : spawn_child(args, &lifted, args->program ? args->program : args->arguments[0],
                                         args->environment ? args->environment : empty, ret);
}
