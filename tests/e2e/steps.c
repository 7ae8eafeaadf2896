/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows a process from system call to system call, and kills it before its n-th: `steps PID N`, 0 for never; `steps PID N all`
 * follows the processes that it makes as well, counts their calls with its own, and kills the one that makes the n-th; `steps PID N
 * below` does so with them alone, whichever of its threads makes them. Says "ready" once it follows, and how many it has seen when the
 * process has ended, or when it is told to end itself (SIGTERM).
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t told_to_end;

static void end(int number) {
        (void)number;
        told_to_end = 1;
}

static int is_entered(pid_t pid) {
        struct __ptrace_syscall_info info;

        memset(&info, 0, sizeof(info));
        return ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) > 0 &&
               info.op == PTRACE_SYSCALL_INFO_ENTRY;
}

/* Its process. */
static pid_t group_of(pid_t thread) {
        char line[128];
        pid_t group = thread;
        FILE *file;

        snprintf(line, sizeof(line), "/proc/%ld/status", (long)thread);
        file = fopen(line, "r");
        while (file && fgets(line, sizeof(line), file)) {
                if (strncmp(line, "Tgid:", 5) == 0)
                        group = (pid_t)atol(line + 5);
        }
        if (file)
                fclose(file);
        return group;
}

/* None of them waits for it. Threads that they make are followed from then on: once no other is found, all are. */
static int follow_threads(pid_t process, long options) {
        char path[64];
        int found, count = 0;

        snprintf(path, sizeof(path), "/proc/%ld/task", (long)process);
        do {
                DIR *folder = opendir(path);

                found = 0;
                for (struct dirent *entry; folder && (entry = readdir(folder));) {
                        if (entry->d_name[0] != '.')
                                found += ptrace(PTRACE_SEIZE, (pid_t)atol(entry->d_name), 0, options) == 0;
                }
                if (folder)
                        closedir(folder);
                count += found;
        } while (found > 0);
        return count > 0 ? 0 : -1;
}

static int follow_one(pid_t process, long options) {
        int status;

        return ptrace(PTRACE_SEIZE, process, 0, options) < 0 || ptrace(PTRACE_INTERRUPT, process, 0, 0) < 0 ||
                               waitpid(process, &status, __WALL) < 0 ||
                               ptrace(PTRACE_SYSCALL, process, 0, 0) < 0
                       ? -1
                       : 0;
}

int main(int argc, char **argv) {
        pid_t followed = argc >= 3 ? (pid_t)atol(argv[1]) : 0, pid;
        long at = argc >= 3 ? atol(argv[2]) : 0, count = 0;
        long options = PTRACE_O_TRACESYSGOOD;
        int status, below = argc == 4 && strcmp(argv[3], "below") == 0;

        if (argc == 4)
                options |= PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE;
        /* Without SA_RESTART: waiting ends. */
        sigaction(SIGTERM, &(struct sigaction){ .sa_handler = end }, NULL);
        if (followed <= 0 ||
            (below ? follow_threads(followed, options) : follow_one(followed, options)) < 0) {
                perror("steps");
                return 1;
        }
        puts("ready");
        fflush(stdout);
        while (!told_to_end) {
                int stop, signal = 0;

                pid = waitpid(-1, &status, __WALL);
                if (pid < 0) {
                        if (errno == EINTR)
                                continue;
                        break;
                }
                if (!WIFSTOPPED(status)) {
                        if (pid == followed)
                                break;
                        continue;
                }
                stop = WSTOPSIG(status);
                if (stop == (SIGTRAP | 0x80)) {
                        if (is_entered(pid) && ++count == at)
                                kill(pid, SIGKILL);
                } else if (status >> 16 == PTRACE_EVENT_STOP) {
                        if (stop != SIGTRAP) {
                                ptrace(PTRACE_LISTEN, pid, 0, 0);
                                continue;
                        }
                } else if (status >> 16 == 0) {
                        signal = stop;
                }
                ptrace(below && group_of(pid) == followed ? PTRACE_CONT : PTRACE_SYSCALL, pid, 0, signal);
        }
        printf("%ld\n", count);
        return 0;
}
