/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All that lies below a folder that nobody may be trusted with, found fast: one open and a few reads for each folder, one stat for
 * each name, no content. What has changed since an earlier look shows by inode, size, times and mode, as Git does it; ctime
 * is among them, which no program can set.
 *
 * Links, FIFOs, sockets and devices are told and not touched; so are names that are no UTF-8 (JSON has no word for
 * them), paths that are too long or too deep, and what lies on other file systems.
 */
#ifndef BERTH_SESSIONS_WORKSPACE_TREE_H
#define BERTH_SESSIONS_WORKSPACE_TREE_H

#include "base/arena.h"
#include "base/error.h"
#include "base/interrupt.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* Bytes of a path and folders in each other: in S3 the key of such a file is at most 1,024 bytes long, with all before it. */
#define WORKSPACE_PATH_MAX 960
#define WORKSPACE_DEPTH_MAX 64
/* Bytes of all paths together, where the number of entries has a bound: names of strangers are kept in our memory, several times. */
#define WORKSPACE_PATHS_MAX ((uint64_t)16 << 20)

struct workspace_entry {
        const char *path; /* in the arena */
        uint64_t inode;
        uint64_t bytes; /* 0 for a folder */
        int64_t written_ns, changed_ns;
        bool folder;
        bool executable;
};

struct workspace_skipped {
        const char *path; /* where it is no UTF-8, with \xNN */
        const char *reason;
        bool unread; /* it, or what lies below it, is there and could not be looked at */
};

struct workspace_tree {
        struct workspace_entry *entries; /* sorted by path, bytewise */
        size_t count;
        uint64_t bytes;
        struct workspace_skipped *skipped;
        size_t skipped_count; /* at most WORKSPACE_SKIPPED_MAX are listed, the last one says that there are more */
        bool cut;             /* there was more than `entries_max`, or WORKSPACE_PATHS_MAX */
};
#define WORKSPACE_SKIPPED_MAX 1000

/*
 * Reads all below the folder. Not more than `entries_max` entries (0: no bound) are read, of all kinds, nor, with a bound, more than
 * WORKSPACE_PATHS_MAX bytes of paths. Folders beyond `folders_max` (0: no bound) are skipped; so is a folder that may not be read. One
 * that vanishes meanwhile is not there.
 * ERROR_INTERRUPTED where it was interrupted.
 */
int workspace_tree_read(int folder, uint64_t entries_max, uint64_t folders_max,
                        const struct interrupt *interrupt, struct arena *arena, struct workspace_tree *ret,
                        struct error *err) MUST_USE;

/*
 * The same where no descriptor of the folder is at hand. `list` gives each name of the folder at `path` ("" for the top) to `take`
 * until that says false: with what is known of it (type, the owner's right to execute, size, inode, times). 0; 1 with *ret_reason
 * where the folder cannot be read, which is no error, or *ret_reason NULL where it is not there any more; -1 where nothing more
 * can be listed.
 */
struct workspace_tree_source {
        int (*list)(void *context, const char *path,
                    bool (*take)(void *reading, const char *name, const struct stat *status), void *reading,
                    const char **ret_reason, struct error *err);
        void *context;
};
int workspace_tree_read_from(const struct workspace_tree_source *source, uint64_t entries_max,
                             uint64_t folders_max, const struct interrupt *interrupt, struct arena *arena,
                             struct workspace_tree *ret, struct error *err) MUST_USE;

/* The entry of that path, or NULL. */
const struct workspace_entry *workspace_tree_find(const struct workspace_tree *tree, const char *path);

/* The entry of a regular file or a folder. Borrows the path. */
struct workspace_entry workspace_entry_of(const char *path, const struct stat *status);

/* Whether two looks at one path saw the same content. */
bool workspace_entry_same(const struct workspace_entry *a, const struct workspace_entry *b);

/*
 * The path within the workspace that programs and models mean, in the arena: below one of the folders that `roots` names as sandboxes see them
 * (ended by NULL: "/workspace/x" is "x"), without empty names and "." ("./x//y/" is "x/y"). "" is the workspace itself. Nothing is resolved: a ".."
 * stays, and so does a path that is absolute elsewhere, for workspace_path_problem() to refuse.
 */
const char *workspace_path_plain(const char *path, const char *const *roots, struct arena *arena);
extern const char *const workspace_roots[]; /* "/workspace" */

/* What is wrong with the path, for people; NULL where files may have it. */
const char *workspace_path_problem(const char *path);

/* The same for one name in a folder. */
const char *workspace_name_problem(const char *name);

/*
 * A regular file below the folder, opened for reading; whatever else stands there is not even opened. -1 with errno, EINVAL
 * where it is no regular file.
 */
int workspace_open_regular(int folder, const char *path, struct stat *ret_status) MUST_USE;

/* Removes all that is in the folder, however deep, by one descriptor; -1 with errno, and the rest is still tried. */
int workspace_tree_remove(int folder) MUST_USE;

#endif
