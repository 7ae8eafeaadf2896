/* SPDX-License-Identifier: Apache-2.0 */
#include "process/filter/cage_table.h"

#include <stddef.h>

#define NAMESPACE_FLAGS 0x7e020000ULL /* of clone(2) */
#define MAP_ANONYMOUS_FLAG 0x20
#define MAP_SHARED_FLAG 0x01

/* clang-format off */
static const char *const everywhere[] = {
        /* files: which ones is Landlock's to say. No devices, no owners, no attributes. */
        "access", "chdir", "chmod", "close", "close_range", "copy_file_range", "creat", "dup", "dup2", "dup3",
        "faccessat", "faccessat2", "fadvise64", "fallocate", "fchdir", "fchmod", "fchmodat", "fchmodat2", "fcntl",
        "fdatasync", "flock", "fstat", "fstatfs", "fsync", "ftruncate", "futimesat", "getcwd", "getdents",
        "getdents64", "link", "linkat", "lseek", "lstat", "mkdir", "mkdirat", "newfstatat", "open", "openat",
        "openat2", "pread64", "preadv", "preadv2", "pwrite64", "pwritev", "pwritev2", "read", "readahead",
        "readlink", "readlinkat", "readv", "rename", "renameat", "renameat2", "rmdir", "sendfile", "stat", "statfs",
        "statx", "symlink", "symlinkat", "sync_file_range", "syncfs", "truncate", "umask", "unlink", "unlinkat", "utime",
        "utimensat", "utimes", "write", "writev",
        /* memory; mmap is below */
        "brk", "madvise", "membarrier", "mincore", "mprotect", "mremap", "msync", "munmap",
        /* itself, but no other: neither fork nor kill; a process that aborts dies nevertheless */
        "alarm", "arch_prctl", "capget", "exit", "exit_group", "futex", "futex_wait", "futex_wake", "get_robust_list",
        "getcpu", "getegid", "geteuid", "getgid", "getgroups", "getitimer", "getpgrp", "getpid", "getppid",
        "getresgid", "getresuid", "getrlimit", "getrusage", "gettid", "getuid", "prlimit64", "rseq",
        "sched_getaffinity", "sched_yield", "set_robust_list", "set_tid_address", "setitimer", "setrlimit", "sysinfo",
        "time", "times", "uname",
        "restart_syscall", "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigreturn", "rt_sigsuspend",
        "rt_sigtimedwait", "sigaltstack",
        "clock_getres", "clock_gettime", "clock_nanosleep", "gettimeofday", "nanosleep",
        /* waiting and pipes */
        "epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "eventfd2", "pipe",
        "pipe2", "poll", "ppoll", "pselect6", "select",
        "getrandom",
        NULL,
};

/* To connect, and never to listen. */
static const char *const connecting[] = {
        "bind", "connect", "getpeername", "getsockname", "getsockopt", "recvfrom", "recvmmsg", "recvmsg", "sendmmsg",
        "sendmsg", "sendto", "setsockopt", "shutdown", NULL,
};

/* Programs, and their end. Signals go as far as Landlock lets them. */
static const char *const starting[] = {
        "execve", "fork", "getpgid", "getsid", "kill", "mlock", "munlock", "pause", "pidfd_open", "pidfd_send_signal",
        "setpgid", "setsid", "tgkill", "vfork", "wait4", "waitid", NULL,
};

/* sendmsg and the like on the pair of sockets by which a judge is asked. */
static const char *const answering[] = { "recvfrom", "recvmsg", "sendmsg", "sendto", "shutdown", NULL };

/*
 * The process between a sandbox and the network, once all libraries are loaded: sockets, and no
 * file at all.
 */
static const char *const proxying[] = {
        "accept4", "bind", "close", "connect", "dup", "fcntl", "getpeername", "getsockname", "getsockopt", "ppoll", "poll",
        "read", "readv", "recvfrom", "recvmsg", "sendmsg", "sendto", "setsockopt", "shutdown", "write", "writev",
        "brk", "madvise", "mprotect", "mremap", "munmap",
        "exit", "exit_group", "futex", "getegid", "geteuid", "getgid", "getpid", "gettid", "getuid", "getrandom",
        "restart_syscall", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn",
        "clock_getres", "clock_gettime", "gettimeofday", "time",
        NULL,
};

const struct cage_row cage_rows[] = {
        { ROW_PROXY, proxying },
        { ROW_ALL, everywhere },
        { ROW_ONLINE | ROW_JUDGES_NAMES, connecting },
        { ROW_ALL, answering },
        { ROW_STARTING, starting },
        { 0, NULL },
};

const struct cage_condition cage_conditions[] = {
        /* Memory that is shared and no file's is counted by no limit of a process. */
        { ROW_ALL, "mmap", 3, MAP_ANONYMOUS_FLAG, 0 },
        { ROW_ALL | ROW_PROXY, "mmap", 3, MAP_ANONYMOUS_FLAG | MAP_SHARED_FLAG, MAP_ANONYMOUS_FLAG },

        { ROW_STARTING, "clone", 0, NAMESPACE_FLAGS, 0 },

        { ROW_ONLINE | ROW_PROXY, "socket", 0, 0xffffffff, 2 },  /* AF_INET */
        { ROW_ONLINE | ROW_PROXY, "socket", 0, 0xffffffff, 10 }, /* AF_INET6 */
        { ROW_JUDGES_NAMES, "socket", 0, 0xffffffff, 1 }, /* AF_UNIX */

        { ROW_ALL, "ioctl", 1, 0xffffffff, 0x5401 }, /* TCGETS */
        { ROW_ALL, "ioctl", 1, 0xffffffff, 0x541b }, /* FIONREAD */
        { ROW_ALL | ROW_PROXY, "ioctl", 1, 0xffffffff, 0x5421 }, /* FIONBIO */
        { ROW_ALL, "ioctl", 1, 0xffffffff, 0x5450 }, /* FIONCLEX */
        { ROW_ALL, "ioctl", 1, 0xffffffff, 0x5451 }, /* FIOCLEX */

        { ROW_ALL, "prctl", 0, 0xffffffff, 1 },  /* PR_SET_PDEATHSIG */
        { ROW_ALL, "prctl", 0, 0xffffffff, 3 },  /* PR_GET_DUMPABLE */
        { ROW_ALL, "prctl", 0, 0xffffffff, 15 }, /* PR_SET_NAME */
        { ROW_ALL, "prctl", 0, 0xffffffff, 16 }, /* PR_GET_NAME */
        { ROW_ALL, "prctl", 0, 0xffffffff, 0x53564d41 }, /* PR_SET_VMA: names of memory areas */
        { 0, NULL, 0, 0, 0 },
};
