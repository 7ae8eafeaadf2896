/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/filter/seccomp_table.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* The kernel looks at 32 bits of these. */
#define IS(argument, number) \
        { argument, 0xffffffff, number }
/* The type of a socket, which may have two flags. */
#define SOCKET(type) \
        { 1, 0xffffffff & ~(uint64_t)(SOCK_CLOEXEC | SOCK_NONBLOCK), type }
/* Two calls set it: of this process alone, and of any. */
#define RESOURCE(resource)                                       \
        { "setrlimit", SECCOMP_ALLOWED, { IS(0, resource) } }, { \
                "prlimit64", SECCOMP_ALLOWED, {                  \
                        IS(1, resource)                          \
                }                                                \
        }
#define ADVICE(advice)                        \
        {                                     \
                "madvise", SECCOMP_ALLOWED, { \
                        IS(2, advice)         \
                }                             \
        }
/* preadv2(2), of newer headers than Debian 12's */
#define RWF_DONTCACHE 0x80
#define OPTION(answer, level, name)               \
        {                                         \
                "setsockopt", answer, {           \
                        IS(1, level), IS(2, name) \
                }                                 \
        }

/* clang-format off */
const char *const seccomp_allowed[] = {
        /* files */
        "access", "chdir", "chmod", "close", "close_range", "copy_file_range", "creat", "dup", "dup2", "dup3",
        "faccessat", "faccessat2", "fallocate", "fchdir", "fchmod", "fchmodat", "fchmodat2",
        "fdatasync", "fgetxattr", "flistxattr", "flock", "fstat", "fstatfs", "fsync", "ftruncate", "futimesat",
        "getcwd", "getdents", "getdents64", "getxattr", "lgetxattr", "link", "linkat", "listxattr", "llistxattr",
        "lseek", "lstat", "mkdir", "mkdirat", "mknod", "mknodat", "newfstatat", "open", "openat", "openat2",
        "pread64", "preadv", "pwrite64", "pwritev", "pwritev2", "read", "readahead", "readlink",
        "readlinkat", "readv", "rename", "renameat", "renameat2", "rmdir", "sendfile", "splice", "stat", "statfs",
        "statx", "symlink", "symlinkat", "sync_file_range", "tee", "truncate", "umask", "unlink",
        "unlinkat", "utime", "utimensat", "utimes", "vmsplice", "write", "writev",
        /* chown within the one user and group there is: what tar and install ask for */
        "chown", "fchown", "fchownat", "lchown",
        /* attributes of one's own files */
        "fremovexattr", "fsetxattr", "lremovexattr", "lsetxattr", "removexattr", "setxattr",
        "inotify_add_watch", "inotify_init", "inotify_init1", "inotify_rm_watch",
        /* memory */
        "brk", "membarrier", "mincore", "mlock", "mlock2", "mlockall", "mprotect",
        "mremap", "msync", "munlock", "munlockall", "munmap", "pkey_alloc", "pkey_free", "pkey_mprotect",
        /* processes and threads */
        "alarm", "arch_prctl", "capget", "execve", "execveat", "exit", "exit_group", "fork", "futex", "futex_wait",
        "futex_wake", "futex_requeue", "futex_waitv", "get_robust_list", "get_thread_area", "getcpu", "getegid",
        "geteuid", "getgid", "getgroups", "getitimer", "getpgid", "getpgrp", "getpid", "getppid", "getpriority",
        "getresgid", "getresuid", "getrlimit", "getrusage", "getsid", "gettid", "getuid", "kill", "pause",
        "pidfd_open", "pidfd_send_signal", "rseq", "sched_get_priority_max", "sched_get_priority_min",
        "sched_getaffinity", "sched_getattr", "sched_getparam", "sched_getscheduler", "sched_rr_get_interval",
        "sched_setaffinity", "sched_yield", "set_robust_list", "set_thread_area", "set_tid_address", "setfsgid",
        "setfsuid", "setgid", "setgroups", "setitimer", "setpgid", "setpriority", "setregid", "setresgid",
        "setresuid", "setreuid", "setsid", "setuid", "sysinfo", "tgkill", "time", "times", "tkill",
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
        "recvmmsg", "recvmsg", "shutdown",
        /* System V memory and semaphores, which end with the sandbox: multiprocessing uses them */
        "semctl", "semget", "semop", "semtimedop", "shmat", "shmctl", "shmdt",
        "getrandom", "landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self",
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
        /* would wait for, and make others wait for, all that the machine has to write */
        "syncfs",
        NULL,
};

const struct seccomp_condition seccomp_conditions[] = {
        /*
         * Descriptors are shared by threads, and not with another process: the locks that it made
         * would stay when it has ended, and belong to no process that can be counted.
         */
        { "clone", SECCOMP_ALLOWED, { { 0, SECCOMP_NAMESPACE_FLAGS | CLONE_FILES, 0 } } },
        { "clone", SECCOMP_ALLOWED, { { 0, SECCOMP_NAMESPACE_FLAGS | CLONE_FILES | CLONE_THREAD, CLONE_FILES | CLONE_THREAD } } },
        { "clone", EPERM, { { 0, CLONE_FILES | CLONE_THREAD, CLONE_FILES } } },

        /*
         * What a program may have of sockets: AF_UNIX, and TCP and UDP for the sandbox's own
         * loopback. Other protocols (MPTCP, SCTP) open much of the kernel for no use. Bytes that
         * wait in a netlink socket are charged to no limit, 200 KiB each, and seccomp cannot tell
         * what is sent on one: none. Its ENOSYS makes Node answer "no interfaces"; the C library
         * resolves names without it.
         */
        { "socket", SECCOMP_ALLOWED, { IS(0, AF_UNIX), SOCKET(SOCK_STREAM) } },
        { "socket", SECCOMP_ALLOWED, { IS(0, AF_UNIX), SOCKET(SOCK_DGRAM) } },
        { "socket", SECCOMP_ALLOWED, { IS(0, AF_UNIX), SOCKET(SOCK_SEQPACKET) } },
        { "socket", SECCOMP_ALLOWED, { IS(0, AF_INET), SOCKET(SOCK_STREAM), IS(2, 0) } },
        { "socket", SECCOMP_ALLOWED, { IS(0, AF_INET), SOCKET(SOCK_STREAM), IS(2, IPPROTO_TCP) } },
        { "socket", SECCOMP_ALLOWED, { IS(0, AF_INET), SOCKET(SOCK_DGRAM), IS(2, 0) } },
        { "socket", SECCOMP_ALLOWED, { IS(0, AF_INET), SOCKET(SOCK_DGRAM), IS(2, IPPROTO_UDP) } },
        { "socket", EPROTONOSUPPORT, { IS(0, AF_INET), SOCKET(SOCK_STREAM), IS(2, IPPROTO_MPTCP) } },
        { "socket", SECCOMP_ALLOWED, { IS(0, AF_INET6), SOCKET(SOCK_STREAM), IS(2, 0) } },
        { "socket", SECCOMP_ALLOWED, { IS(0, AF_INET6), SOCKET(SOCK_STREAM), IS(2, IPPROTO_TCP) } },
        { "socket", SECCOMP_ALLOWED, { IS(0, AF_INET6), SOCKET(SOCK_DGRAM), IS(2, 0) } },
        { "socket", SECCOMP_ALLOWED, { IS(0, AF_INET6), SOCKET(SOCK_DGRAM), IS(2, IPPROTO_UDP) } },
        { "socket", EPROTONOSUPPORT, { IS(0, AF_INET6), SOCKET(SOCK_STREAM), IS(2, IPPROTO_MPTCP) } },
        { "socketpair", SECCOMP_ALLOWED, { IS(0, AF_UNIX), SOCKET(SOCK_STREAM) } },
        { "socketpair", SECCOMP_ALLOWED, { IS(0, AF_UNIX), SOCKET(SOCK_DGRAM) } },
        { "socketpair", SECCOMP_ALLOWED, { IS(0, AF_UNIX), SOCKET(SOCK_SEQPACKET) } },

        /*
         * Options of sockets by name: most others keep uncounted memory (programs for the kernel's
         * filter, groups of multicast, queues of timestamps and errors) or open more of the kernel
         * (TLS, TCP_REPAIR). Sizes of buffers stay the machine's, and who asks for errors to be
         * queued gets none: programs that set these do not depend on it, and fail where they are
         * told that it went wrong.
         */
        OPTION(SECCOMP_ALLOWED, SOL_SOCKET, SO_DEBUG),
        OPTION(SECCOMP_ALLOWED, SOL_SOCKET, SO_REUSEADDR),
        OPTION(SECCOMP_ALLOWED, SOL_SOCKET, SO_DONTROUTE),
        OPTION(SECCOMP_ALLOWED, SOL_SOCKET, SO_BROADCAST),
        OPTION(0, SOL_SOCKET, SO_SNDBUF),
        OPTION(0, SOL_SOCKET, SO_RCVBUF),
        OPTION(EPERM, SOL_SOCKET, SO_SNDBUFFORCE),
        OPTION(EPERM, SOL_SOCKET, SO_RCVBUFFORCE),
        OPTION(SECCOMP_ALLOWED, SOL_SOCKET, SO_KEEPALIVE),
        OPTION(SECCOMP_ALLOWED, SOL_SOCKET, SO_OOBINLINE),
        OPTION(SECCOMP_ALLOWED, SOL_SOCKET, SO_PRIORITY),
        OPTION(SECCOMP_ALLOWED, SOL_SOCKET, SO_LINGER),
        OPTION(SECCOMP_ALLOWED, SOL_SOCKET, SO_REUSEPORT),
        OPTION(SECCOMP_ALLOWED, SOL_SOCKET, SO_PASSCRED),
        OPTION(SECCOMP_ALLOWED, SOL_SOCKET, SO_RCVTIMEO),
        OPTION(SECCOMP_ALLOWED, SOL_SOCKET, SO_SNDTIMEO),
        OPTION(SECCOMP_ALLOWED, SOL_SOCKET, SO_BINDTODEVICE),
        OPTION(SECCOMP_ALLOWED, SOL_SOCKET, SO_TIMESTAMP),
        OPTION(SECCOMP_ALLOWED, SOL_SOCKET, SO_TIMESTAMPNS),
        OPTION(SECCOMP_ALLOWED, SOL_SOCKET, SO_RXQ_OVFL),
        OPTION(SECCOMP_ALLOWED, SOL_SOCKET, SO_PEEK_OFF),
        OPTION(SECCOMP_ALLOWED, SOL_SOCKET, SO_INCOMING_CPU),
        OPTION(EPERM, SOL_SOCKET, SO_ATTACH_FILTER),
        OPTION(EPERM, SOL_SOCKET, SO_ATTACH_BPF),
        OPTION(EPERM, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF),
        OPTION(EPERM, SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF),
        OPTION(EPERM, SOL_SOCKET, SO_LOCK_FILTER),
        OPTION(SECCOMP_ALLOWED, SOL_IP, IP_TOS),
        OPTION(SECCOMP_ALLOWED, SOL_IP, IP_TTL),
        OPTION(SECCOMP_ALLOWED, SOL_IP, IP_PKTINFO),
        OPTION(SECCOMP_ALLOWED, SOL_IP, IP_MTU_DISCOVER),
        OPTION(0, SOL_IP, IP_RECVERR),
        OPTION(SECCOMP_ALLOWED, SOL_IP, IP_RECVTTL),
        OPTION(SECCOMP_ALLOWED, SOL_IP, IP_RECVTOS),
        OPTION(SECCOMP_ALLOWED, SOL_IP, IP_FREEBIND),
        OPTION(SECCOMP_ALLOWED, SOL_IP, IP_BIND_ADDRESS_NO_PORT),
        OPTION(SECCOMP_ALLOWED, SOL_IP, IP_MULTICAST_IF),
        OPTION(SECCOMP_ALLOWED, SOL_IP, IP_MULTICAST_TTL),
        OPTION(SECCOMP_ALLOWED, SOL_IP, IP_MULTICAST_LOOP),
        OPTION(SECCOMP_ALLOWED, SOL_IPV6, IPV6_UNICAST_HOPS),
        OPTION(SECCOMP_ALLOWED, SOL_IPV6, IPV6_MULTICAST_IF),
        OPTION(SECCOMP_ALLOWED, SOL_IPV6, IPV6_MULTICAST_HOPS),
        OPTION(SECCOMP_ALLOWED, SOL_IPV6, IPV6_MULTICAST_LOOP),
        OPTION(SECCOMP_ALLOWED, SOL_IPV6, IPV6_MTU_DISCOVER),
        OPTION(0, SOL_IPV6, IPV6_RECVERR),
        OPTION(SECCOMP_ALLOWED, SOL_IPV6, IPV6_V6ONLY),
        OPTION(SECCOMP_ALLOWED, SOL_IPV6, IPV6_RECVPKTINFO),
        OPTION(SECCOMP_ALLOWED, SOL_IPV6, IPV6_RECVHOPLIMIT),
        OPTION(SECCOMP_ALLOWED, SOL_IPV6, IPV6_RECVTCLASS),
        OPTION(SECCOMP_ALLOWED, SOL_IPV6, IPV6_DONTFRAG),
        OPTION(SECCOMP_ALLOWED, SOL_IPV6, IPV6_TCLASS),
        OPTION(SECCOMP_ALLOWED, SOL_TCP, TCP_NODELAY),
        OPTION(SECCOMP_ALLOWED, SOL_TCP, TCP_MAXSEG),
        OPTION(SECCOMP_ALLOWED, SOL_TCP, TCP_CORK),
        OPTION(SECCOMP_ALLOWED, SOL_TCP, TCP_KEEPIDLE),
        OPTION(SECCOMP_ALLOWED, SOL_TCP, TCP_KEEPINTVL),
        OPTION(SECCOMP_ALLOWED, SOL_TCP, TCP_KEEPCNT),
        OPTION(SECCOMP_ALLOWED, SOL_TCP, TCP_SYNCNT),
        OPTION(SECCOMP_ALLOWED, SOL_TCP, TCP_LINGER2),
        OPTION(SECCOMP_ALLOWED, SOL_TCP, TCP_DEFER_ACCEPT),
        OPTION(SECCOMP_ALLOWED, SOL_TCP, TCP_WINDOW_CLAMP),
        OPTION(SECCOMP_ALLOWED, SOL_TCP, TCP_QUICKACK),
        OPTION(SECCOMP_ALLOWED, SOL_TCP, TCP_CONGESTION),
        OPTION(SECCOMP_ALLOWED, SOL_TCP, TCP_USER_TIMEOUT),
        OPTION(SECCOMP_ALLOWED, SOL_TCP, TCP_FASTOPEN),
        OPTION(SECCOMP_ALLOWED, SOL_TCP, TCP_FASTOPEN_CONNECT),
        OPTION(SECCOMP_ALLOWED, SOL_TCP, TCP_NOTSENT_LOWAT),

        /*
         * with MSG_MORE a UDP socket keeps what is sent, uncounted: the next send would have to let
         * it go
         */
        { "sendto", SECCOMP_ALLOWED, { { 3, MSG_MORE, 0 } } },
        { "sendto", EOPNOTSUPP, { { 3, MSG_MORE, MSG_MORE } } },
        { "sendmsg", SECCOMP_ALLOWED, { { 2, MSG_MORE, 0 } } },
        { "sendmsg", EOPNOTSUPP, { { 2, MSG_MORE, MSG_MORE } } },
        { "sendmmsg", SECCOMP_ALLOWED, { { 3, MSG_MORE, 0 } } },
        { "sendmmsg", EOPNOTSUPP, { { 3, MSG_MORE, MSG_MORE } } },

        /*
         * The cache of files is the machine's: what a program lets go of there is gone for all, and others can tell it by the time that
         * their next read takes. So it keeps what it has, and the program goes on as if it had let go. Whether a read would
         * have to wait is not told either.
         */
        { "fadvise64", 0, { IS(3, POSIX_FADV_DONTNEED) } },
        { "fadvise64", SECCOMP_ALLOWED, { IS(3, POSIX_FADV_NORMAL) } },
        { "fadvise64", SECCOMP_ALLOWED, { IS(3, POSIX_FADV_RANDOM) } },
        { "fadvise64", SECCOMP_ALLOWED, { IS(3, POSIX_FADV_SEQUENTIAL) } },
        { "fadvise64", SECCOMP_ALLOWED, { IS(3, POSIX_FADV_WILLNEED) } },
        { "fadvise64", SECCOMP_ALLOWED, { IS(3, POSIX_FADV_NOREUSE) } },
        { "madvise", 0, { IS(2, MADV_COLD) } },
        { "madvise", 0, { IS(2, MADV_PAGEOUT) } },
        /* merged with equal pages of others, it would tell what they hold: "a kernel without" */
        { "madvise", EINVAL, { IS(2, MADV_MERGEABLE) } },
        ADVICE(MADV_NORMAL),
        ADVICE(MADV_RANDOM),
        ADVICE(MADV_SEQUENTIAL),
        ADVICE(MADV_WILLNEED),
        ADVICE(MADV_DONTNEED),
        ADVICE(MADV_FREE),
        ADVICE(MADV_REMOVE),
        ADVICE(MADV_DONTFORK),
        ADVICE(MADV_DOFORK),
        ADVICE(MADV_UNMERGEABLE),
        ADVICE(MADV_HUGEPAGE),
        ADVICE(MADV_NOHUGEPAGE),
        ADVICE(MADV_DONTDUMP),
        ADVICE(MADV_DODUMP),
        ADVICE(MADV_WIPEONFORK),
        ADVICE(MADV_KEEPONFORK),
        ADVICE(MADV_POPULATE_READ),
        ADVICE(MADV_POPULATE_WRITE),
        ADVICE(24), /* MADV_DONTNEED_LOCKED */
        ADVICE(25), /* MADV_COLLAPSE */
        { "preadv2", SECCOMP_ALLOWED, { { 5, RWF_NOWAIT | RWF_DONTCACHE, 0 } } },
        { "preadv2", EOPNOTSUPP, { { 5, RWF_NOWAIT, RWF_NOWAIT } } },
        { "preadv2", EOPNOTSUPP, { { 5, RWF_NOWAIT | RWF_DONTCACHE, RWF_DONTCACHE } } },

        /* huge pages are the machine's, set aside beforehand, and no memory limit counts them; transparent ones are memory */
        { "mmap", SECCOMP_ALLOWED, { { 3, MAP_HUGETLB, 0 } } },
        { "mmap", ENOMEM, { { 3, MAP_HUGETLB, MAP_HUGETLB } } },
        { "memfd_create", SECCOMP_ALLOWED, { { 1, MFD_HUGETLB, 0 } } },
        { "memfd_create", EINVAL, { { 1, MFD_HUGETLB, MFD_HUGETLB } } },
        { "shmget", SECCOMP_ALLOWED, { { 2, SHM_HUGETLB, 0 } } },
        { "shmget", EPERM, { { 2, SHM_HUGETLB, SHM_HUGETLB } } },

        /*
         * All limits may be lowered but that of core files. It is 1, the only value that keeps the kernel from starting, as root
         * and outside, what the machine's core_pattern says: "ulimit -c 0" would let it.
         */
        RESOURCE(RLIMIT_CPU),
        RESOURCE(RLIMIT_FSIZE),
        RESOURCE(RLIMIT_DATA),
        RESOURCE(RLIMIT_STACK),
        RESOURCE(RLIMIT_RSS),
        RESOURCE(RLIMIT_NPROC),
        RESOURCE(RLIMIT_NOFILE),
        RESOURCE(RLIMIT_MEMLOCK),
        RESOURCE(RLIMIT_AS),
        RESOURCE(RLIMIT_LOCKS),
        RESOURCE(RLIMIT_SIGPENDING),
        RESOURCE(RLIMIT_MSGQUEUE),
        RESOURCE(RLIMIT_NICE),
        RESOURCE(RLIMIT_RTPRIO),
        RESOURCE(RLIMIT_RTTIME),
        { "setrlimit", 0, { IS(0, RLIMIT_CORE) } },
        { "prlimit64", SECCOMP_ALLOWED, { IS(1, RLIMIT_CORE), { 2, UINT64_MAX, 0 } } }, /* a question */

        /* not leases and F_NOTIFY, which tell who opens a file or looks into a folder that others use too */
        { "fcntl", SECCOMP_ALLOWED, { IS(1, F_DUPFD) } },
        { "fcntl", SECCOMP_ALLOWED, { IS(1, F_GETFD) } },
        { "fcntl", SECCOMP_ALLOWED, { IS(1, F_SETFD) } },
        { "fcntl", SECCOMP_ALLOWED, { IS(1, F_GETFL) } },
        { "fcntl", SECCOMP_ALLOWED, { IS(1, F_SETFL) } },
        { "fcntl", SECCOMP_ALLOWED, { IS(1, F_GETLK) } },
        { "fcntl", SECCOMP_ALLOWED, { IS(1, F_SETLK) } },
        { "fcntl", SECCOMP_ALLOWED, { IS(1, F_SETLKW) } },
        { "fcntl", SECCOMP_ALLOWED, { IS(1, F_SETOWN) } },
        { "fcntl", SECCOMP_ALLOWED, { IS(1, F_GETOWN) } },
        { "fcntl", SECCOMP_ALLOWED, { IS(1, F_SETSIG) } },
        { "fcntl", SECCOMP_ALLOWED, { IS(1, F_GETSIG) } },
        { "fcntl", SECCOMP_ALLOWED, { IS(1, F_SETOWN_EX) } },
        { "fcntl", SECCOMP_ALLOWED, { IS(1, F_GETOWN_EX) } },
        /* those of open file descriptions have no owner, and could not be counted: "a kernel without them" */
        { "fcntl", EINVAL, { IS(1, F_OFD_GETLK) } },
        { "fcntl", EINVAL, { IS(1, F_OFD_SETLK) } },
        { "fcntl", EINVAL, { IS(1, F_OFD_SETLKW) } },
        { "fcntl", EPERM, { IS(1, F_SETLEASE) } },
        { "fcntl", EPERM, { IS(1, F_GETLEASE) } },
        { "fcntl", EPERM, { IS(1, F_NOTIFY) } },
        { "fcntl", SECCOMP_ALLOWED, { IS(1, 1027) } }, /* F_DUPFD_QUERY */
        { "fcntl", SECCOMP_ALLOWED, { IS(1, 1028) } }, /* F_CREATED_QUERY */
        { "fcntl", SECCOMP_ALLOWED, { IS(1, F_DUPFD_CLOEXEC) } },
        { "fcntl", SECCOMP_ALLOWED, { IS(1, F_SETPIPE_SZ) } },
        { "fcntl", SECCOMP_ALLOWED, { IS(1, F_GETPIPE_SZ) } },
        { "fcntl", SECCOMP_ALLOWED, { IS(1, F_ADD_SEALS) } },
        { "fcntl", SECCOMP_ALLOWED, { IS(1, F_GET_SEALS) } },
        { "fcntl", SECCOMP_ALLOWED, { IS(1, F_GET_RW_HINT) } },
        { "fcntl", SECCOMP_ALLOWED, { IS(1, F_SET_RW_HINT) } },

        /* terminals that the program makes itself, and the common questions; not TIOCSTI, not TIOCLINUX */
        { "ioctl", SECCOMP_ALLOWED, { IS(1, 0x5401) } }, /* TCGETS */
        { "ioctl", SECCOMP_ALLOWED, { IS(1, 0x5402) } }, /* TCSETS */
        { "ioctl", SECCOMP_ALLOWED, { IS(1, 0x5403) } }, /* TCSETSW */
        { "ioctl", SECCOMP_ALLOWED, { IS(1, 0x5404) } }, /* TCSETSF */
        { "ioctl", SECCOMP_ALLOWED, { IS(1, 0x5409) } }, /* TCSBRK */
        { "ioctl", SECCOMP_ALLOWED, { IS(1, 0x540a) } }, /* TCXONC */
        { "ioctl", SECCOMP_ALLOWED, { IS(1, 0x540b) } }, /* TCFLSH */
        { "ioctl", SECCOMP_ALLOWED, { IS(1, 0x540e) } }, /* TIOCSCTTY */
        { "ioctl", SECCOMP_ALLOWED, { IS(1, 0x540f) } }, /* TIOCGPGRP */
        { "ioctl", SECCOMP_ALLOWED, { IS(1, 0x5410) } }, /* TIOCSPGRP */
        { "ioctl", SECCOMP_ALLOWED, { IS(1, 0x5411) } }, /* TIOCOUTQ */
        { "ioctl", SECCOMP_ALLOWED, { IS(1, 0x5413) } }, /* TIOCGWINSZ */
        { "ioctl", SECCOMP_ALLOWED, { IS(1, 0x5414) } }, /* TIOCSWINSZ */
        { "ioctl", SECCOMP_ALLOWED, { IS(1, 0x541b) } }, /* FIONREAD */
        { "ioctl", SECCOMP_ALLOWED, { IS(1, 0x5421) } }, /* FIONBIO */
        { "ioctl", SECCOMP_ALLOWED, { IS(1, 0x5429) } }, /* TIOCGSID */
        { "ioctl", SECCOMP_ALLOWED, { IS(1, 0x5441) } }, /* TIOCGPTPEER */
        { "ioctl", SECCOMP_ALLOWED, { IS(1, 0x5450) } }, /* FIONCLEX */
        { "ioctl", SECCOMP_ALLOWED, { IS(1, 0x5451) } }, /* FIOCLEX */
        { "ioctl", SECCOMP_ALLOWED, { IS(1, 0x5452) } }, /* FIOASYNC */
        { "ioctl", SECCOMP_ALLOWED, { IS(1, 0x80045430) } }, /* TIOCGPTN */
        { "ioctl", SECCOMP_ALLOWED, { IS(1, 0x40045431) } }, /* TIOCSPTLCK */
        { "ioctl", SECCOMP_ALLOWED, { IS(1, 0x8912) } }, /* SIOCGIFCONF */
        { "ioctl", SECCOMP_ALLOWED, { IS(1, 0x8910) } }, /* SIOCGIFNAME */
        { "ioctl", SECCOMP_ALLOWED, { IS(1, 0x8913) } }, /* SIOCGIFFLAGS */
        { "ioctl", SECCOMP_ALLOWED, { IS(1, 0x8915) } }, /* SIOCGIFADDR */
        { "ioctl", SECCOMP_ALLOWED, { IS(1, 0x8927) } }, /* SIOCGIFHWADDR */
        { "ioctl", SECCOMP_ALLOWED, { IS(1, 0x8933) } }, /* SIOCGIFINDEX */

        /* one's own name, death signal, dumpability and restrictions */
        { "prctl", SECCOMP_ALLOWED, { IS(0, 1) } },  /* PR_SET_PDEATHSIG */
        { "prctl", SECCOMP_ALLOWED, { IS(0, 2) } },  /* PR_GET_PDEATHSIG */
        { "prctl", SECCOMP_ALLOWED, { IS(0, 3) } },  /* PR_GET_DUMPABLE */
        { "prctl", SECCOMP_ALLOWED, { IS(0, 4) } },  /* PR_SET_DUMPABLE */
        { "prctl", SECCOMP_ALLOWED, { IS(0, 15) } }, /* PR_SET_NAME */
        { "prctl", SECCOMP_ALLOWED, { IS(0, 16) } }, /* PR_GET_NAME */
        { "prctl", SECCOMP_ALLOWED, { IS(0, 21) } }, /* PR_GET_SECCOMP */
        /*
         * a filter's memory in the kernel is not counted; this, and ENOSYS for seccomp(2), is "a
         * kernel without them"
         */
        { "prctl", EINVAL, { IS(0, 22) } }, /* PR_SET_SECCOMP */
        { "prctl", SECCOMP_ALLOWED, { IS(0, 23) } }, /* PR_CAPBSET_READ */
        { "prctl", SECCOMP_ALLOWED, { IS(0, 29) } }, /* PR_SET_TIMERSLACK */
        { "prctl", SECCOMP_ALLOWED, { IS(0, 30) } }, /* PR_GET_TIMERSLACK */
        { "prctl", SECCOMP_ALLOWED, { IS(0, 36) } }, /* PR_SET_CHILD_SUBREAPER */
        { "prctl", SECCOMP_ALLOWED, { IS(0, 37) } }, /* PR_GET_CHILD_SUBREAPER */
        { "prctl", SECCOMP_ALLOWED, { IS(0, 38) } }, /* PR_SET_NO_NEW_PRIVS */
        { "prctl", SECCOMP_ALLOWED, { IS(0, 39) } }, /* PR_GET_NO_NEW_PRIVS */
        { "prctl", SECCOMP_ALLOWED, { IS(0, 40) } }, /* PR_GET_TID_ADDRESS */
        { "prctl", SECCOMP_ALLOWED, { IS(0, 41) } }, /* PR_SET_THP_DISABLE */
        { "prctl", SECCOMP_ALLOWED, { IS(0, 42) } }, /* PR_GET_THP_DISABLE */
        { "prctl", SECCOMP_ALLOWED, { IS(0, 0x53564d41) } }, /* PR_SET_VMA: names of memory areas */
        { .name = NULL },
};
