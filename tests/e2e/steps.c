/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows a process from system call to system call, and kills it before its n-th: `steps PID N`, 0 for never. Says "ready" once
 * it follows, and how many it has seen when the process has ended, or when it is told to end itself (SIGTERM).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t told_to_end;

static void end(int number) {
        (void)number;
        told_to_end = 1;
}

int main(int argc, char **argv) {
        pid_t pid = argc == 3 ? (pid_t)atol(argv[1]) : 0;
        long at = argc == 3 ? atol(argv[2]) : 0, count = 0;
        bool entering = true;
        int status;

        /* Without SA_RESTART: waiting ends. */
        sigaction(SIGTERM, &(struct sigaction){ .sa_handler = end }, NULL);
        if (pid <= 0 || ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACESYSGOOD) < 0 ||
            ptrace(PTRACE_INTERRUPT, pid, 0, 0) < 0 || waitpid(pid, &status, __WALL) < 0 ||
            ptrace(PTRACE_SYSCALL, pid, 0, 0) < 0) {
                perror("steps");
                return 1;
        }
        puts("ready");
        fflush(stdout);
        while (!told_to_end) {
                int stop, signal = 0;

                if (waitpid(pid, &status, __WALL) < 0) {
                        if (errno == EINTR)
                                continue;
                        break;
                }
                if (!WIFSTOPPED(status))
                        break;
                stop = WSTOPSIG(status);
                if (stop == (SIGTRAP | 0x80)) {
                        if (entering && ++count == at)
                                kill(pid, SIGKILL);
                        entering = !entering;
                } else if (status >> 16 == PTRACE_EVENT_STOP) {
                        if (stop != SIGTRAP) {
                                ptrace(PTRACE_LISTEN, pid, 0, 0);
                                continue;
                        }
                } else {
                        signal = stop;
                }
                ptrace(PTRACE_SYSCALL, pid, 0, signal);
        }
        printf("%ld\n", count);
        return 0;
}
