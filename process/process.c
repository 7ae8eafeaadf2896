/* SPDX-License-Identifier: Apache-2.0 */
/*
 * posix_spawn() starts the child: it neither copies our memory nor runs our code in it. Descriptors are given number
 * by number and everything else is closed, whatever flags it has. From the start on a child is known by its pidfd;
 * its process id is used for its group alone, and only until it is reaped.
 */
#include "process/process.h"

#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* glibc has these from 2.36 on, musl has not. */
static int open_pidfd(pid_t pid) {
        return (int)syscall(SYS_pidfd_open, pid, 0);
}

static int send_by_pidfd(int pidfd, int number) {
        return (int)syscall(SYS_pidfd_send_signal, pidfd, number, NULL, 0);
}

const char *process_find_program(const char *name, const char *folders, struct arena *arena) {
        while (*folders) {
                size_t length = strcspn(folders, ":");
                const char *path = arena_printf(arena, "%.*s/%s", (int)length, folders, name);

                if (access(path, X_OK) == 0)
                        return path;
                folders += length + (folders[length] == ':');
        }
        return NULL;
}

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

static int spawn_child(const struct process_args *args, const struct lifted *lifted, pid_t *ret) {
        static const char *const empty[] = { NULL };
        const char *const *environment = args->environment ? args->environment : empty;
        const char *program = args->program ? args->program : args->arguments[0];
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

/* A parent may have started us with SIGCHLD ignored. Then the kernel would reap our children, and their ids would be given to others. */
static void keep_statuses(void) {
        struct sigaction action;

        if (sigaction(SIGCHLD, NULL, &action) < 0 ||
            (action.sa_handler != SIG_IGN && !(action.sa_flags & SA_NOCLDWAIT)))
                return;
        if (action.sa_handler == SIG_IGN)
                action.sa_handler = SIG_DFL;
        action.sa_flags &= ~SA_NOCLDWAIT;
        sigaction(SIGCHLD, &action, NULL);
}

int process_start(const struct process_args *args, struct process *ret, struct error *err) {
        struct lifted lifted __attribute__((cleanup(release_lifted))) = { .count = 0 };
        struct process started = { .pidfd = -1, .leads_group = args->group != PROCESS_OUR_GROUP };
        const char *name = args->program ? args->program : args->arguments[0];
        int result;

        keep_statuses();
        result = copy_above(args, &lifted);
        if (result == 0)
                result = spawn_child(args, &lifted, &started.pid);
        if (result != 0)
                return error_set_kind(err, result == ENOENT ? ERROR_NOT_FOUND : ERROR_FAILED,
                                      "cannot start %s: %s", name, strerror(result));
        started.pidfd = open_pidfd(started.pid);
        if (started.pidfd < 0) { /* there are too many descriptors */
                result = errno;
                kill(started.pid, SIGKILL);
                while (waitpid(started.pid, NULL, 0) < 0 && errno == EINTR)
                        ;
                return error_set(err, "cannot watch %s: %s", name, strerror(result));
        }
        *ret = started;
        return 0;
}

void process_signal(const struct process *process, int number) {
        if (process->pid > 0)
                send_by_pidfd(process->pidfd, number);
}

/* Until the leader is reaped, its id is no other group's. */
void process_kill(const struct process *process) {
        if (process->pid <= 0)
                return;
        send_by_pidfd(process->pidfd, SIGKILL);
        if (process->leads_group)
                kill(-process->pid, SIGKILL);
}

struct process_status process_reap(struct process *process) {
        struct process_status status = { .signalled = true, .code = SIGKILL };
        siginfo_t info = { 0 };

        while (waitid(P_PIDFD, (id_t)process->pidfd, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
                ;
        if (process->leads_group)
                kill(-process->pid, SIGKILL);
        while (waitid(P_PIDFD, (id_t)process->pidfd, &info, WEXITED) < 0 && errno == EINTR)
                ;
        if (info.si_pid == process->pid)
                status = (struct process_status){ info.si_code != CLD_EXITED, info.si_status };
        close_descriptor(&process->pidfd);
        process->pid = 0;
        return status;
}

void process_end(struct process *process) {
        if (process->pid <= 0)
                return;
        process_kill(process);
        process_reap(process);
}
