/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the start on a child is known by its pidfd; its process id is used for its group alone, and only until it is
 * reaped. How it is started, spawn.c knows.
 */
#include "process/process.h"

#include "base/files.h"
#include "base/libc.h"
#include "process/spawn.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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
        struct process started = { .pidfd = -1, .leads_group = args->group != PROCESS_OUR_GROUP };
        const char *name = args->program ? args->program : args->arguments[0];
        int result;

        keep_statuses();
        result = spawn(args, &started.pid);
        if (result != 0)
                return error_set_kind(err, result == ENOENT ? ERROR_NOT_FOUND : ERROR_FAILED,
                                      "cannot start %s: %s", name, strerror(result));
        started.pidfd = pidfd_open(started.pid, 0);
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
                (void)pidfd_send_signal(process->pidfd, number, NULL, 0);
}

/* Until the leader is reaped, its id is no other group's. */
void process_kill(const struct process *process) {
        if (process->pid <= 0)
                return;
        (void)pidfd_send_signal(process->pidfd, SIGKILL, NULL, 0);
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
