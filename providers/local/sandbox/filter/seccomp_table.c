/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/filter/seccomp_table.h"

#include <stddef.h>

/* clang-format off */
const char *const seccomp_allowed[] = {
        /* files */
        "access", "chdir", "chmod", "close", "close_range", "copy_file_range", "creat", "dup", "dup2", "dup3",
        "faccessat", "faccessat2", "fadvise64", "fallocate", "fchdir", "fchmod", "fchmodat", "fchmodat2", "fcntl",
        "fdatasync", "fgetxattr", "flistxattr", "flock", "fstat", "fstatfs", "fsync", "ftruncate", "futimesat",
        "getcwd", "getdents", "getdents64", "getxattr", "lgetxattr", "link", "linkat", "listxattr", "llistxattr",
        "lseek", "lstat", "mkdir", "mkdirat", "mknod", "mknodat", "newfstatat", "open", "openat", "openat2",
        "pread64", "preadv", "preadv2", "pwrite64", "pwritev", "pwritev2", "read", "readahead", "readlink",
        "readlinkat", "readv", "rename", "renameat", "renameat2", "rmdir", "sendfile", "splice", "stat", "statfs",
        "statx", "symlink", "symlinkat", "sync_file_range", "syncfs", "tee", "truncate", "umask", "unlink",
        "unlinkat", "utime", "utimensat", "utimes", "vmsplice", "write", "writev",
        /* chown within the one user and group there is: what tar and install ask for */
        "chown", "fchown", "fchownat", "lchown",
        /* attributes of one's own files */
        "fremovexattr", "fsetxattr", "lremovexattr", "lsetxattr", "removexattr", "setxattr",
        "inotify_add_watch", "inotify_init", "inotify_init1", "inotify_rm_watch",
        /* memory */
        "brk", "madvise", "membarrier", "memfd_create", "mincore", "mlock", "mlock2", "mlockall", "mmap", "mprotect",
        "mremap", "msync", "munlock", "munlockall", "munmap", "pkey_alloc", "pkey_free", "pkey_mprotect",
        /* processes and threads */
        "alarm", "arch_prctl", "capget", "execve", "execveat", "exit", "exit_group", "fork", "futex", "futex_wait",
        "futex_wake", "futex_requeue", "futex_waitv", "get_robust_list", "get_thread_area", "getcpu", "getegid",
        "geteuid", "getgid", "getgroups", "getitimer", "getpgid", "getpgrp", "getpid", "getppid", "getpriority",
        "getresgid", "getresuid", "getrlimit", "getrusage", "getsid", "gettid", "getuid", "kill", "pause",
        "pidfd_open", "pidfd_send_signal", "prlimit64", "rseq", "sched_get_priority_max", "sched_get_priority_min",
        "sched_getaffinity", "sched_getattr", "sched_getparam", "sched_getscheduler", "sched_rr_get_interval",
        "sched_setaffinity", "sched_yield", "set_robust_list", "set_thread_area", "set_tid_address", "setfsgid",
        "setfsuid", "setgid", "setgroups", "setitimer", "setpgid", "setpriority", "setregid", "setresgid",
        "setresuid", "setreuid", "setrlimit", "setsid", "setuid", "sysinfo", "tgkill", "time", "times", "tkill",
        "uname", "vfork", "wait4", "waitid", "waitpid",
        /* signals */
        "restart_syscall", "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigqueueinfo", "rt_sigreturn",
        "rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo", "sigaltstack", "signalfd", "signalfd4",
        /* time */
        "clock_getres", "clock_gettime", "clock_nanosleep", "gettimeofday", "nanosleep", "timer_create",
        "timer_delete", "timer_getoverrun", "timer_gettime", "timer_settime", "timerfd_create", "timerfd_gettime",
        "timerfd_settime",
        /* waiting and pipes */
        "epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "eventfd",
        "eventfd2", "pipe", "pipe2", "poll", "ppoll", "pselect6", "select",
        /* sockets, of the families below */
        "accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen", "recvfrom",
        "recvmmsg", "recvmsg", "sendmmsg", "sendmsg", "sendto", "setsockopt", "shutdown",
        /* System V memory and semaphores, which end with the sandbox: multiprocessing uses them */
        "semctl", "semget", "semop", "semtimedop", "shmat", "shmctl", "shmdt", "shmget",
        "getrandom", "landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self", "seccomp",
        NULL,
};

const char *const seccomp_denied[] = {
        /* mounts and roots */
        "chroot", "fsconfig", "fsmount", "fsopen", "fspick", "mount", "mount_setattr", "move_mount", "open_tree",
        "pivot_root", "umount", "umount2", "listmount", "statmount", "open_tree_attr",
        "name_to_handle_at", "open_by_handle_at",
        /* namespaces; clone3 answers ENOSYS, since a filter cannot look into its arguments */
        "setns", "unshare",
        /* other processes' insides */
        "kcmp", "pidfd_getfd", "process_madvise", "process_mrelease", "process_vm_readv", "process_vm_writev",
        "ptrace",
        /* keys */
        "add_key", "keyctl", "request_key",
        /* big surfaces of the kernel */
        "bpf", "io_cancel", "io_destroy", "io_getevents", "io_pgetevents", "io_setup", "io_submit",
        "io_uring_enter", "io_uring_register", "io_uring_setup", "perf_event_open", "userfaultfd",
        "fanotify_init", "fanotify_mark", "lookup_dcookie", "memfd_secret", "modify_ldt", "personality", "remap_file_pages",
        "quotactl", "quotactl_fd", "nfsservctl", "vhangup", "uselib", "ustat", "sysfs", "_sysctl",
        "mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend", "mq_unlink",
        "msgctl", "msgget", "msgrcv", "msgsnd",
        /* placement of memory on other processes' behalf, and of one's own across nodes */
        "get_mempolicy", "mbind", "migrate_pages", "move_pages", "set_mempolicy", "set_mempolicy_home_node",
        /* the machine */
        "acct", "adjtimex", "clock_adjtime", "clock_settime", "create_module", "delete_module", "finit_module",
        "get_kernel_syms", "init_module", "ioperm", "iopl", "ioprio_set", "kexec_file_load", "kexec_load",
        "query_module", "reboot", "sched_setattr", "sched_setparam", "sched_setscheduler", "setdomainname",
        "sethostname", "settimeofday", "stime", "swapoff", "swapon", "syslog", "vm86", "vm86old", "capset", "sync",
        NULL,
};

const struct seccomp_condition seccomp_conditions[] = {
        { "clone", 0, SECCOMP_NAMESPACE_FLAGS, 0 },

        /* AF_UNIX, AF_INET, AF_INET6; of AF_NETLINK only the routing table, which getaddrinfo() reads */
        { "socket", 0, 0xffffffff, 1 },
        { "socket", 0, 0xffffffff, 2 },
        { "socket", 0, 0xffffffff, 10 },
        { "socketpair", 0, 0xffffffff, 1 },

        /* terminals that the program makes itself, and the common questions; not TIOCSTI, not TIOCLINUX */
        { "ioctl", 1, 0xffffffff, 0x5401 }, /* TCGETS */
        { "ioctl", 1, 0xffffffff, 0x5402 }, /* TCSETS */
        { "ioctl", 1, 0xffffffff, 0x5403 }, /* TCSETSW */
        { "ioctl", 1, 0xffffffff, 0x5404 }, /* TCSETSF */
        { "ioctl", 1, 0xffffffff, 0x5409 }, /* TCSBRK */
        { "ioctl", 1, 0xffffffff, 0x540a }, /* TCXONC */
        { "ioctl", 1, 0xffffffff, 0x540b }, /* TCFLSH */
        { "ioctl", 1, 0xffffffff, 0x540e }, /* TIOCSCTTY */
        { "ioctl", 1, 0xffffffff, 0x540f }, /* TIOCGPGRP */
        { "ioctl", 1, 0xffffffff, 0x5410 }, /* TIOCSPGRP */
        { "ioctl", 1, 0xffffffff, 0x5411 }, /* TIOCOUTQ */
        { "ioctl", 1, 0xffffffff, 0x5413 }, /* TIOCGWINSZ */
        { "ioctl", 1, 0xffffffff, 0x5414 }, /* TIOCSWINSZ */
        { "ioctl", 1, 0xffffffff, 0x541b }, /* FIONREAD */
        { "ioctl", 1, 0xffffffff, 0x5421 }, /* FIONBIO */
        { "ioctl", 1, 0xffffffff, 0x5429 }, /* TIOCGSID */
        { "ioctl", 1, 0xffffffff, 0x5441 }, /* TIOCGPTPEER */
        { "ioctl", 1, 0xffffffff, 0x5450 }, /* FIONCLEX */
        { "ioctl", 1, 0xffffffff, 0x5451 }, /* FIOCLEX */
        { "ioctl", 1, 0xffffffff, 0x5452 }, /* FIOASYNC */
        { "ioctl", 1, 0xffffffff, 0x80045430 }, /* TIOCGPTN */
        { "ioctl", 1, 0xffffffff, 0x40045431 }, /* TIOCSPTLCK */
        { "ioctl", 1, 0xffffffff, 0x8912 }, /* SIOCGIFCONF */
        { "ioctl", 1, 0xffffffff, 0x8910 }, /* SIOCGIFNAME */
        { "ioctl", 1, 0xffffffff, 0x8913 }, /* SIOCGIFFLAGS */
        { "ioctl", 1, 0xffffffff, 0x8915 }, /* SIOCGIFADDR */
        { "ioctl", 1, 0xffffffff, 0x8927 }, /* SIOCGIFHWADDR */
        { "ioctl", 1, 0xffffffff, 0x8933 }, /* SIOCGIFINDEX */

        /* one's own name, death signal, dumpability and restrictions */
        { "prctl", 0, 0xffffffff, 1 },  /* PR_SET_PDEATHSIG */
        { "prctl", 0, 0xffffffff, 2 },  /* PR_GET_PDEATHSIG */
        { "prctl", 0, 0xffffffff, 3 },  /* PR_GET_DUMPABLE */
        { "prctl", 0, 0xffffffff, 4 },  /* PR_SET_DUMPABLE */
        { "prctl", 0, 0xffffffff, 15 }, /* PR_SET_NAME */
        { "prctl", 0, 0xffffffff, 16 }, /* PR_GET_NAME */
        { "prctl", 0, 0xffffffff, 21 }, /* PR_GET_SECCOMP */
        { "prctl", 0, 0xffffffff, 22 }, /* PR_SET_SECCOMP */
        { "prctl", 0, 0xffffffff, 23 }, /* PR_CAPBSET_READ */
        { "prctl", 0, 0xffffffff, 29 }, /* PR_SET_TIMERSLACK */
        { "prctl", 0, 0xffffffff, 30 }, /* PR_GET_TIMERSLACK */
        { "prctl", 0, 0xffffffff, 36 }, /* PR_SET_CHILD_SUBREAPER */
        { "prctl", 0, 0xffffffff, 37 }, /* PR_GET_CHILD_SUBREAPER */
        { "prctl", 0, 0xffffffff, 38 }, /* PR_SET_NO_NEW_PRIVS */
        { "prctl", 0, 0xffffffff, 39 }, /* PR_GET_NO_NEW_PRIVS */
        { "prctl", 0, 0xffffffff, 40 }, /* PR_GET_TID_ADDRESS */
        { "prctl", 0, 0xffffffff, 41 }, /* PR_SET_THP_DISABLE */
        { "prctl", 0, 0xffffffff, 42 }, /* PR_GET_THP_DISABLE */
        { "prctl", 0, 0xffffffff, 0x53564d41 }, /* PR_SET_VMA: names of memory areas */
        { NULL, 0, 0, 0 },
};
