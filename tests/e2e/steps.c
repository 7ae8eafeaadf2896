/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows a process from system call to system call, and kills it before its n-th: `steps PID N`, 0 for never; `steps PID N all`
 * follows the processes that it makes as well, counts their calls with its own, and kills the one that makes the n-th; `steps PID N
 * below` does so with them alone, whichever of its threads makes them. With `descriptor`, `thread` or `memory` behind `all` or `below`
 * it counts the calls alone that take such a thing (scarce.c), and lets the n-th of them fail, with EMFILE, EAGAIN or ENOMEM, instead
 * of killing: for what is started without an environment, and for what has no library to preload. Says "ready" once it follows, and how many it has seen when the
 * process has ended, or when it is told to end itself (SIGTERM).
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t told_to_end;

static void end(int number) {
        (void)number;
        told_to_end = 1;
}

/* 0 unless it is at the beginning of a call. */
static int is_entered(pid_t pid, struct __ptrace_syscall_info *info) {
        memset(info, 0, sizeof(*info));
        return ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(*info), info) > 0 &&
               info->op == PTRACE_SYSCALL_INFO_ENTRY;
}

/* --- calls that take something --- */

static const struct scarce {
        const char *kind;
        int error;
        long calls[20];
} kinds[] = {
        { "descriptor",
          EMFILE,
          { SYS_openat, SYS_openat2, SYS_socket, SYS_socketpair, SYS_accept4, SYS_accept, SYS_eventfd2,
            SYS_epoll_create1, SYS_pipe2, SYS_dup, SYS_dup3, SYS_memfd_create, SYS_pidfd_open,
            SYS_timerfd_create, SYS_inotify_init1, SYS_fsopen, SYS_fsmount, SYS_open_tree, -1 } },
        { "thread",
          EAGAIN,
          { SYS_clone, SYS_clone3,
#ifdef SYS_fork
            SYS_fork, SYS_vfork,
#endif
            -1 } },
        { "memory", ENOMEM, { SYS_mmap, SYS_brk, SYS_mremap, -1 } },
};

static int takes(const struct scarce *scarce, const struct __ptrace_syscall_info *info) {
        for (const long *call = scarce->calls; *call >= 0; call++) {
                if (info->entry.nr == (unsigned long long)*call)
                        return 1;
        }
        return 0;
}

/* At its beginning: the call is made as none, which the kernel answers with an error. */
static void make_none(pid_t pid) {
#if defined(__x86_64__)
        ptrace(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, orig_rax), -1L);
#elif defined(__aarch64__)
        int none = -1;
        struct iovec vector = { &none, sizeof(none) };

        ptrace(PTRACE_SETREGSET, pid, NT_ARM_SYSTEM_CALL, &vector);
#endif
}

/* At its end: which error that is. brk(2) fails by its old value, and without one by 0. */
static void answer(pid_t pid, long value) {
#if defined(__x86_64__)
        ptrace(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, rax), value);
#elif defined(__aarch64__)
        struct user_regs_struct registers;
        struct iovec vector = { &registers, sizeof(registers) };

        ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &vector);
        registers.regs[0] = (unsigned long long)value;
        ptrace(PTRACE_SETREGSET, pid, NT_PRSTATUS, &vector);
#endif
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

/* Which program it is, and which call. */
static void tell_failing(pid_t pid, long call) {
        char path[64], name[64] = "";
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%ld/comm", (long)pid);
        file = fopen(path, "r");
        if (file && !fgets(name, sizeof(name), file))
                *name = '\0';
        if (file)
                fclose(file);
        name[strcspn(name, "\n")] = '\0';
        printf("failed: %ld of %s, process %ld\n", call, name, (long)group_of(pid));
        fflush(stdout);
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
        pid_t followed = argc >= 3 ? (pid_t)atol(argv[1]) : 0, pid, failing = 0;
        long at = argc >= 3 ? atol(argv[2]) : 0, count = 0, failing_call = 0;
        long options = PTRACE_O_TRACESYSGOOD;
        int status, below = argc >= 4 && strcmp(argv[3], "below") == 0, told_more = argc >= 4;
        const struct scarce *scarce = NULL;

        for (size_t i = 0; argc == 5 && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
                if (strcmp(argv[4], kinds[i].kind) == 0)
                        scarce = &kinds[i];
        }
        if (told_more)
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
                        struct __ptrace_syscall_info info;

                        if (failing == pid) {
                                answer(pid, failing_call == SYS_brk ? 0 : -scarce->error);
                                failing = 0;
                        } else if (is_entered(pid, &info) && (!scarce || takes(scarce, &info)) &&
                                   ++count == at) {
                                if (!scarce) {
                                        kill(pid, SIGKILL);
                                } else {
                                        make_none(pid);
                                        failing = pid;
                                        failing_call = (long)info.entry.nr;
                                        tell_failing(pid, failing_call);
                                }
                        }
                } else if (status >> 16 == PTRACE_EVENT_STOP) {
                        if (stop != SIGTRAP) {
                                ptrace(PTRACE_LISTEN, pid, 0, 0);
                                continue;
                        }
                } else if (status >> 16 == 0) {
                        signal = stop;
                        /* Process 1 of a namespace dies of its own fault, and ignores one that a tracer hands on. */
                        if (scarce && stop == SIGSEGV)
                                kill(pid, SIGKILL);
                }
                ptrace(below && group_of(pid) == followed ? PTRACE_CONT : PTRACE_SYSCALL, pid, 0, signal);
        }
        printf("%ld\n", count);
        return 0;
}
