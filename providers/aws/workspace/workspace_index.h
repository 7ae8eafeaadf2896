/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of a workspace in the bucket: one object that says whose it is and which files it has, so that nothing needs to be listed. It is
 * changed under conditions alone, so any number of servers may change it at once.
 *
 *     workspace_index_read()  ->  (files move)  ->  workspace_index_change()  merges what changed into what it is by then
 *
 * It may lag: what lies in the bucket wins. A file that is not there any more (404) was deleted, by
 * a lifecycle rule as a rule: the reader that finds that takes it out. workspace_index_check()
 * brings all of it up to date, by listing.
 *
 * As text: a line of JSON for the head, and one for each file and folder, in the order of their paths.
 */
#ifndef BERTH_PROVIDERS_AWS_WORKSPACE_WORKSPACE_INDEX_H
#define BERTH_PROVIDERS_AWS_WORKSPACE_WORKSPACE_INDEX_H

#include "base/arena.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "providers/aws/services/s3.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whose workspaces, and where. All borrowed; `bucket.account` is said with each call where it is known. */
struct workspace_bucket {
        struct aws_client *client;
        struct s3_bucket bucket;
        const char *stack; /* stacks that share a bucket do not see one another's workspaces */
};

struct workspace_index_file {
        const char *path;
        uint64_t bytes;
        const char *sha256; /* in hex; NULL: not known yet */
        const char *
                etag; /* the object's, with quotes; NULL: not known yet, as of what a sandbox has put there */
        int64_t written_ms;
        bool executable;
};

struct workspace_index {
        const char *owner, *environment;
        const char *agent;                  /* NULL: none */
        int64_t created_ms;                 /* of the session */
        int64_t lives_until_ms;             /* 0: it has ended */
        int64_t checked_ms;                 /* when all of it was last held against the bucket; 0: never */
        uint64_t bytes;                     /* of all files */
        uint64_t file_count;                /* as the head says it */
        bool whole;                         /* files and folders are here too */
        struct workspace_index_file *files; /* sorted by path, bytewise */
        size_t count;
        const char **folders; /* that were made by themselves, sorted; files need none */
        size_t folder_count;
        char etag[128]; /* of this version of the index */
};

/* 1, in the arena; 0: there is no such workspace of this stack. */
int workspace_index_read(const struct workspace_bucket *where, const char *id, struct arena *arena,
                         struct workspace_index *ret, struct error *err) MUST_USE;
/* The same of the head alone, by a call that brings little more; of an index that is no longer than that it is `whole`. */
int workspace_index_read_head(const struct workspace_bucket *where, const char *id, struct arena *arena,
                              struct workspace_index *ret, struct error *err) MUST_USE;

/* Makes one, and its owner's row. 1; 0: there is one of that id. */
int workspace_index_make(const struct workspace_bucket *where, const char *id,
                         const struct workspace_index *index, struct error *err) MUST_USE;

/* The changes. All borrowed; zeros and NULLs change nothing. */
struct workspace_index_changes {
        const struct workspace_index_file
                *put; /* in place of what is there; a former folder of that path is gone */
        size_t put_count;
        const struct workspace_index_file *
                removed; /* by path; where an ETag is said, only if the index still has that one, or none. "": only if none */
        size_t removed_count;
        /*
         * NULL, or the index as it was before files were put of which no ETag is said here. If
         * others have put one meanwhile, it is unknown whose version lies there: its digest is not
         * trusted then.
         */
        const struct workspace_index *since;
        const char *const *folders, *const *folders_removed;
        size_t folder_count, folders_removed_count;
        const int64_t *lives_until_ms, *checked_ms;
};

/*
 * 1, and *ret, in the arena, is what the index is now; 0: the workspace has gone. `known` may be
 * NULL, or the index as it was read: that saves a call if it has not changed since. The owner's row
 * is brought up to date.
 */
int workspace_index_change(const struct workspace_bucket *where, const char *id,
                           const struct workspace_index *known, const struct workspace_index_changes *changes,
                           struct arena *arena, struct workspace_index *ret, struct error *err) MUST_USE;

/*
 * Holds it against a listing of the bucket: what is not there goes, what is there and not in it comes, what is another version is that. Of files
 * whose SHA-256 is not known it is worked out, by reading them, where all files together are at most `read_max` bytes: who pushed
 * them may have pushed anything. As workspace_index_change().
 */
int workspace_index_check(const struct workspace_bucket *where, const char *id, uint64_t read_max,
                          const struct interrupt *interrupt, struct arena *arena, struct workspace_index *ret,
                          struct error *err) MUST_USE;

/*
 * Works out file->sha256 of an object whose ETag is file->etag. 1, in the arena; 0: it does not
 * exist, or is another version now.
 */
int workspace_index_hash(const struct workspace_bucket *where, const char *key,
                         struct workspace_index_file *file, const struct interrupt *interrupt,
                         struct arena *arena, struct error *err) MUST_USE;

/* All of it, in the arena. */
struct workspace_index workspace_index_copy(const struct workspace_index *index, struct arena *arena);

/* The file of that path, or NULL. Of an index that was read whole. */
const struct workspace_index_file *workspace_index_find(const struct workspace_index *index,
                                                        const char *path);
/* Whether something lies below a folder of that path, or a folder of it was made. */
bool workspace_index_has_folder(const struct workspace_index *index, const char *path);

/* As text, and back: pure. -1 where it makes no sense. */
const char *workspace_index_write(const struct workspace_index *index, const char *stack, const char *id,
                                  struct arena *arena, size_t *ret_length);
int workspace_index_parse(const char *text, size_t length, const char *stack, const char *id,
                          struct arena *arena, struct workspace_index *ret, struct error *err) MUST_USE;

#endif
