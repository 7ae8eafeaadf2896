/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a workspace, one by one. Paths are relative, parted by slashes: workspace_path_problem() says which may be.
 *
 * A file's ETag is a hash of its inode, size and times, not of its content: HEAD and lists cost no reading. It is a strong one all
 * the same, because no file is ever written in place: whatever changes a file here puts a new inode there, whose mtime is
 * the clock's in nanoseconds. So the same tag means the same bytes. The same bytes put again have another tag, which HTTP
 * allows.
 */
#ifndef BERTH_SESSIONS_WORKSPACE_FILES_H
#define BERTH_SESSIONS_WORKSPACE_FILES_H

#include "base/digest.h"
#include "sessions/conditions.h"
#include "sessions/workspace.h"

#include <sys/stat.h>

struct workspace_file {
        const char *path; /* in the arena of a list; NULL elsewhere */
        uint64_t bytes;
        int64_t written_ms;
        bool executable;
        char etag[ETAG_SIZE];
};

/* Of one page of a list. All borrowed; NULL: "". */
struct workspace_page {
        const char *prefix; /* of paths, bytewise: "data/" or "da" */
        const char *after;  /* the last path of the page before */
        size_t limit;
};

/*
 * Regular files in the order of their paths, bytewise. Memory for one page and for one folder's names of that page at
 * each depth, however many there are. PROBLEM_INVALID where prefix or cursor can be no path's.
 */
int workspace_files_list(struct workspace *workspace, const struct workspace_page *page,
                         const struct interrupt *interrupt, struct arena *arena, struct workspace_file **ret,
                         size_t *ret_count, bool *ret_more, struct problem *problem) MUST_USE;

/*
 * What is known of it. Where its bytes are at hand, *ret_descriptor is opened for reading, and stays this version, whatever is put
 * meanwhile; else it is -1, and workspace_file_fetch() brings some of them.
 */
int workspace_file_look(struct workspace *workspace, const char *path, int *ret_descriptor,
                        struct workspace_file *ret, struct problem *problem) MUST_USE;
/*
 * Of one that was looked at: `length` bytes from `from` on. They begin at *ret_at of the descriptor, which is made here where it was not at
 * hand. PROBLEM_CHANGED where it is another version by now.
 */
int workspace_file_fetch(struct workspace *workspace, const char *path, const struct workspace_file *file,
                         uint64_t from, uint64_t length, int *descriptor, uint64_t *ret_at,
                         struct problem *problem) MUST_USE;
/* All of it, opened for reading: what is read stays this version, whatever is put meanwhile. */
int workspace_file_open(struct workspace *workspace, const char *path, int *ret_descriptor,
                        struct workspace_file *ret, struct problem *problem) MUST_USE;

/*
 * A file that comes piece by piece. Nobody sees it before workspace_put_finish() has returned, and then it is on disk, with the
 * folders on its way; closed before, it leaves nothing.
 */
struct workspace_put {
        struct workspace *workspace; /* borrowed */
        const char *path;            /* borrowed */
        struct conditions conditions;
        struct workspace_limits limits;
        const struct interrupt *interrupt;
        int descriptor;
        char name[WORKSPACE_INCOMING_MAX];
        uint64_t bytes;
        struct digest_stream *digest;
        char sha256[SHA256_HEX_SIZE]; /* once it is settled */
        bool executable;
        int64_t written_ns; /* the file's date, since 1970; 0: when it is settled */
        void *own;          /* the body's */
};
#define WORKSPACE_PUT_INIT \
        { .descriptor = -1 }
#define WORKSPACE_PUT_CLEANUP __attribute__((cleanup(workspace_put_close)))

/* The conditions are judged at the end, under the lock; where they fail already, here. Borrows all but `limits` until it is closed. */
int workspace_put_begin(struct workspace *workspace, const char *path, const struct conditions *conditions,
                        const struct workspace_limits *limits, const struct interrupt *interrupt,
                        struct workspace_put *ret, struct problem *problem) MUST_USE;
int workspace_put_write(struct workspace_put *put, const void *bytes, size_t length,
                        struct problem *problem) MUST_USE;
/* All that is left to read of the descriptor. More than `bytes_max` is PROBLEM_TOO_LARGE, or with `cut` not read. */
int workspace_put_copy(struct workspace_put *put, int from, uint64_t bytes_max, bool cut,
                       struct problem *problem) MUST_USE;
/* *ret_made: there was no file of this path before. `sha256` may be NULL. */
int workspace_put_finish(struct workspace_put *put, struct workspace_file *ret, char sha256[SHA256_HEX_SIZE],
                         bool *ret_made, struct problem *problem) MUST_USE;
void workspace_put_close(struct workspace_put *put);

/* Folders that are empty then go too. */
int workspace_file_delete(struct workspace *workspace, const char *path, const struct conditions *conditions,
                          const struct interrupt *interrupt, struct problem *problem) MUST_USE;

/* ---- for the other modules on workspaces of this machine ---- */

void workspace_etag(const struct stat *status, char etag[ETAG_SIZE]);

/* The date that a file gets which its writer has dated so: now, where that is no date for people. */
int workspace_date_read(int64_t written_ns, struct timespec *ret) MUST_USE;

/* As workspace_put_finish() in three steps, of which the second and third need the lock. */
/* Dates the file, and makes its bytes last. Its descriptor may be closed then, where the workspace's lock is held. */
int workspace_put_settle(struct workspace_put *put, bool sync, struct problem *problem) MUST_USE;
/*
 * Renames it into its place. *usage is what there is without it, and what there is with it; PROBLEM_WORKSPACE_FULL where that is
 * more than may be. *ret is what lies there then.
 */
int workspace_put_place(struct workspace_put *put, bool sync, struct workspace_usage *usage, struct stat *ret,
                        bool *ret_replaced, struct problem *problem) MUST_USE;
/* The folder of that path and those above it. *usage counts the new ones; PROBLEM_WORKSPACE_FULL where they are more than may be. */
int workspace_folder_make(struct workspace *workspace, const char *path, bool sync,
                          const struct workspace_limits *limits, struct workspace_usage *usage,
                          struct problem *problem) MUST_USE;
/* -1 with errno: ENOTEMPTY, EISDIR, ENOENT, ... *usage is less by it. With `upwards` folders above it that are empty then go too. */
int workspace_path_remove(struct workspace *workspace, const char *path, bool upwards, bool sync,
                          struct workspace_usage *usage) MUST_USE;

#endif
