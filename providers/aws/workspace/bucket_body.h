/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of bucket_workspaces_body share. Contracts are those of sessions/workspace_body.h. */
#ifndef BERTH_PROVIDERS_AWS_WORKSPACE_BUCKET_BODY_H
#define BERTH_PROVIDERS_AWS_WORKSPACE_BUCKET_BODY_H

#include "providers/aws/workspace/workspace_index.h"
#include "sessions/workspace_body.h"

/* What an open workspace has in `own`. */
struct bucket_own {
        const struct workspace_bucket *where;
        const char *spool;
        struct arena *arena;
        struct workspace_index index; /* as it was read or changed last */
        struct arena *index_arena;    /* what it lies in, and those before it: bucket_compact() */
        unsigned puts;
        char *looked; /* the path that was looked at last, and the ETag of its object; by malloc, or NULL */
        char looked_etag[128];
};
static inline struct bucket_own *bucket_own(const struct workspace *workspace) {
        return workspace->own;
}

int bucket_fail(const struct error *err, struct problem *problem);
/* The whole index, read where it has not come yet. */
int bucket_load(struct workspace *workspace, struct problem *problem) MUST_USE;
/* The same, held against the bucket where that is due: for what tells of files without looking at them. */
int bucket_load_checked(struct workspace *workspace, const struct interrupt *interrupt,
                        struct problem *problem) MUST_USE;
/* Frees those that were the index before. Pointers into it must not be used any more. */
void bucket_compact(struct workspace *workspace);
/* Changes the index, and has what it is now. PROBLEM_NOT_FOUND where the workspace has gone. */
int bucket_change(struct workspace *workspace, const struct workspace_index_changes *changes,
                  struct problem *problem) MUST_USE;

/* An empty file without a name. */
int bucket_spool(const char *folder, int *ret_descriptor, struct problem *problem) MUST_USE;

/* 1: *ret_etag (128 bytes), bytes and time of an object; 0: it does not exist. */
int bucket_head(const struct workspace_bucket *where, const char *key, char ret_etag[128],
                uint64_t *ret_bytes, int64_t *ret_modified_ms, struct error *err) MUST_USE;
/*
 * Writes `length` bytes of an object from `from` on to the descriptor, at its beginning. 1; 0: it is not there, or not that version (NULL: any)
 * any more, or shorter.
 */
int bucket_fetch(const struct workspace_bucket *where, const char *key, const char *etag, uint64_t from,
                 uint64_t length, int descriptor, struct error *err) MUST_USE;
/*
 * One whole object whose length is not known. 1; 0: it does not exist. -1 also where it is longer
 * than `most`.
 */
int bucket_read(const struct workspace_bucket *where, const char *key, size_t most, struct strbuf *ret,
                struct error *err) MUST_USE;

struct bucket_put {
        const char *key, *environment; /* whose tag it gets */
        struct aws_file file;
        bool conditional;
        const char *etag; /* over which version; NULL: only if there is no version */
};
/* 1, and the new ETag; 0: the condition does not hold. */
int bucket_put(const struct workspace_bucket *where, const struct bucket_put *put, char ret_etag[128],
               int64_t *ret_written_ms, struct error *err) MUST_USE;

/* `etags` NULL: whatever lies there. Else each only as that version; another one stays, as one that is gone is gone. */
int bucket_delete(const struct workspace_bucket *where, const char *const *keys, const char *const *etags,
                  size_t count, struct error *err) MUST_USE;
/* All whose keys begin so, but those that `keep` says true of (NULL: none). */
int bucket_delete_all(const struct workspace_bucket *where, const char *prefix,
                      bool (*keep)(void *context, const char *key), void *context,
                      struct error *err) MUST_USE;

/* A file's ETag for clients, from that of its object, which may have any form. */
void bucket_etag(const char *etag, char ret[ETAG_SIZE]);
/* PROBLEM_CONFLICT where a file has the path of a folder above it, or a folder this path. */
int bucket_check_place(const struct workspace_index *index, const char *path,
                       struct problem *problem) MUST_USE;
/* PROBLEM_WORKSPACE_FULL if a file of this size has no room there. */
int bucket_check_room(const struct workspace_index *index, const char *path, uint64_t bytes,
                      const struct workspace_limits *limits, struct problem *problem) MUST_USE;
uint64_t bucket_count(const struct workspace_index *index); /* files and folders */

int bucket_files_list(struct workspace *workspace, const struct workspace_page *page,
                      const struct interrupt *interrupt, struct arena *arena, struct workspace_file **ret,
                      size_t *ret_count, bool *ret_more, struct problem *problem) MUST_USE;
int bucket_file_look(struct workspace *workspace, const char *path, int *ret_descriptor,
                     struct workspace_file *ret, struct problem *problem) MUST_USE;
int bucket_file_fetch(struct workspace *workspace, const char *path, const struct workspace_file *file,
                      uint64_t from, uint64_t length, int *ret_descriptor, struct problem *problem) MUST_USE;
int bucket_put_begin(struct workspace_put *put, struct problem *problem) MUST_USE;
int bucket_put_finish(struct workspace_put *put, struct workspace_file *ret, bool *ret_made,
                      struct problem *problem) MUST_USE;
void bucket_put_close(struct workspace_put *put);
int bucket_file_delete(struct workspace *workspace, const char *path, const struct conditions *conditions,
                       const struct interrupt *interrupt, struct problem *problem) MUST_USE;

int bucket_place_look(struct workspace *workspace, const char *path, struct workspace_place *ret,
                      struct problem *problem) MUST_USE;
int bucket_places_list(struct workspace *workspace, const char *path, unsigned depth,
                       const struct interrupt *interrupt, struct arena *arena, struct workspace_place **ret,
                       size_t *ret_count, struct problem *problem) MUST_USE;
int bucket_folder_create(struct workspace *workspace, const char *path, const struct workspace_limits *limits,
                         const struct interrupt *interrupt, struct problem *problem) MUST_USE;
int bucket_place_move(struct workspace *workspace, const char *from, const char *to,
                      const struct workspace_limits *limits, const struct interrupt *interrupt,
                      struct problem *problem) MUST_USE;
int bucket_place_remove(struct workspace *workspace, const char *path, const struct interrupt *interrupt,
                        struct problem *problem) MUST_USE;

int bucket_stage_begin(struct workspace_stage *stage, struct problem *problem) MUST_USE;
int bucket_stage_file(struct workspace_stage *stage, size_t number, struct problem *problem) MUST_USE;
int bucket_stage_finish(struct workspace_stage *stage, const char *paths, struct problem *problem) MUST_USE;
void bucket_stage_close(struct workspace_stage *stage);
int bucket_stage_place(struct workspace *workspace, const char *name, const struct workspace_limits *limits,
                       const struct interrupt *interrupt, struct arena *arena, struct workspace_skipped **ret,
                       size_t *ret_count, struct problem *problem) MUST_USE;
void bucket_stage_drop(const struct workspace *workspace, const char *name);
void bucket_stage_keep(const struct workspace *workspace, const char *const *names, size_t count);
int bucket_stage_request(const struct workspace *workspace, const void *bytes, size_t length,
                         char name[WORKSPACE_STAGE_NAME], struct problem *problem) MUST_USE;
int bucket_stage_read_request(const struct workspace *workspace, const char *name, size_t most,
                              struct strbuf *ret) MUST_USE;

#endif
