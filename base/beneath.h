/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening paths below a folder with untrusted content: openat2(2), which itself refuses to leave
 * the folder, to follow a link, or to enter another file system. Where openat2 is denied, the same
 * in steps: the answers do not differ, but that without openat2 no link in /proc is followed, and a
 * path that goes up from deep folders again and again gets ELOOP.
 */
#ifndef BERTH_BASE_BENEATH_H
#define BERTH_BASE_BENEATH_H

/*
 * The open descriptor, close-on-exec, or -1 with errno: ELOOP (a link), EXDEV (leads out, or to another file system),
 * or as open(2). `path` is relative to `folder`; "." is the folder itself. Never waits for a pipe.
 */
int beneath_open(int folder, const char *path, int flags);

/* The same for a file to make, or to open for writing; other file systems are entered. */
int beneath_create(int folder, const char *path, int flags, unsigned mode);

/* The same as the first, but links are followed as long as they stay beneath; other file systems are entered. */
int beneath_open_linked(int folder, const char *path, int flags);

/*
 * The same, but links are followed as if `folder` were the root of everything: absolute ones begin
 * there, and ".." does not leave it. Magic links, as /proc has them, do not count.
 */
int beneath_follow(int folder, const char *path, int flags);

#endif
