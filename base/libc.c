/* SPDX-License-Identifier: Apache-2.0 */
/* By syscall(2), of which each is one. */
#include "base/libc.h"

#include <malloc.h>
#include <sys/syscall.h>

#ifndef BERTH_HAS_PIDFD_OPEN
int pidfd_open(pid_t pid, unsigned flags) {
        return (int)syscall(SYS_pidfd_open, pid, flags);
}

int pidfd_send_signal(int pidfd, int number, siginfo_t *info, unsigned flags) {
        return (int)syscall(SYS_pidfd_send_signal, pidfd, number, info, flags);
}
#endif

#ifndef BERTH_HAS_CLOSE_RANGE
int close_range(unsigned first, unsigned last, int flags) {
        return (int)syscall(SYS_close_range, first, last, flags);
}
#endif

#ifndef BERTH_HAS_STATX
int statx(int folder, const char *restrict path, int flags, unsigned mask, struct statx *restrict ret) {
        return (int)syscall(SYS_statx, folder, path, flags, mask, ret);
}
#endif

#ifndef BERTH_HAS_RENAMEAT2
int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
        return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}
#endif

#ifndef BERTH_HAS_OPEN_TREE
int fsopen(const char *type, unsigned flags) {
        return (int)syscall(SYS_fsopen, type, flags);
}

int fsconfig(int context, unsigned command, const char *key, const void *value, int number) {
        return (int)syscall(SYS_fsconfig, context, command, key, value, number);
}

int fsmount(int context, unsigned flags, unsigned attributes) {
        return (int)syscall(SYS_fsmount, context, flags, attributes);
}

int open_tree(int folder, const char *path, unsigned flags) {
        return (int)syscall(SYS_open_tree, folder, path, flags);
}

int move_mount(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
        return (int)syscall(SYS_move_mount, from_folder, from, to_folder, to, flags);
}

int mount_setattr(int folder, const char *path, unsigned flags, struct mount_attr *attributes, size_t size) {
        return (int)syscall(SYS_mount_setattr, folder, path, flags, attributes, size);
}
#endif

#ifdef BERTH_HAS_MALLOC_TRIM
void heap_give_back(void) {
        (void)malloc_trim(0);
}

void heap_keep_little(int arenas) {
        (void)mallopt(M_ARENA_MAX, arenas);
        (void)mallopt(M_TRIM_THRESHOLD, 128 * 1024);
}
#else
void heap_give_back(void) {
}

void heap_keep_little(int arenas) {
        (void)arenas;
}
#endif
