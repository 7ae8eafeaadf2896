/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What glibc has and other C libraries for Linux have not, or only in newer versions: musl, of which 1.2.3 lacks all of it. Under
 * its own name and with its own meaning, as in section 2 of the manual; CMakeLists.txt finds out what is missing. So a file that
 * calls one of these includes this header, and none of <sys/pidfd.h>, <malloc.h>, <linux/close_range.h>.
 */
#ifndef BERTH_BASE_LIBC_H
#define BERTH_BASE_LIBC_H

#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#ifdef BERTH_HAS_PIDFD_OPEN
#include <sys/pidfd.h>
#else
int pidfd_open(pid_t pid, unsigned flags);
int pidfd_send_signal(int pidfd, int number, siginfo_t *info, unsigned flags);
#endif

#ifndef BERTH_HAS_CLOSE_RANGE
int close_range(unsigned first, unsigned last, int flags);
#endif
#ifndef CLOSE_RANGE_CLOEXEC
#include <linux/close_range.h>
#endif

#ifndef BERTH_HAS_STATX
#include <linux/stat.h>
int statx(int folder, const char *restrict path, int flags, unsigned mask, struct statx *restrict ret);
#endif

#ifndef BERTH_HAS_RENAMEAT2
int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags);
#endif
#ifndef RENAME_NOREPLACE
#include <linux/fs.h>
#endif

#ifndef BERTH_HAS_OPEN_TREE
#include <linux/mount.h>
int fsopen(const char *type, unsigned flags);
int fsconfig(int context, unsigned command, const char *key, const void *value, int number);
int fsmount(int context, unsigned flags, unsigned attributes);
int open_tree(int folder, const char *path, unsigned flags);
int move_mount(int from_folder, const char *from, int to_folder, const char *to, unsigned flags);
int mount_setattr(int folder, const char *path, unsigned flags, struct mount_attr *attributes, size_t size);
#endif

/* What getrlimit(2) takes: an enumeration of its own in glibc. */
#ifdef __GLIBC__
typedef __rlimit_resource_t resource_limit;
#else
typedef int resource_limit;
#endif

/* CMSG_NXTHDR(3): musl's mixes signs, of which the compiler warns. */
static inline struct cmsghdr *cmsg_next(struct msghdr *message, struct cmsghdr *header) {
        _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wsign-conversion\"")
                _Pragma("GCC diagnostic ignored \"-Wsign-compare\"") return CMSG_NXTHDR(message, header);
        _Pragma("GCC diagnostic pop")
}

/*
 * The heap. glibc keeps what was freed, in pieces and for each thread's arena. Elsewhere nothing is done: musl has one heap, and gives
 * groups of pages back by itself.
 *
 * Gives back what is free: some milliseconds.
 */
void heap_give_back(void);
/*
 * For the whole process, before it has threads: at most `arenas` arenas, each of which keeps 128
 * KiB, also after something larger was freed.
 */
void heap_keep_little(int arenas);

#endif
