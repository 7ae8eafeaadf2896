/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list is the index. One file is its object, whatever the index says of it. A put is the object first, under the conditions that were
 * judged by the object that was there, and then the index: who reads between the two finds the file, and a list does not yet.
 */
#include "providers/aws/workspace/bucket_body.h"

#include "base/array.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/text.h"
#include "providers/aws/workspace/layout.h"
#include "sessions/workspace_tree.h"

#include <stdlib.h>
#include <string.h>

#define ETAG_BYTES 16
#define DELETE_TRIES 4 /* for a file that another writer changes between a look and its deletion */

void bucket_etag(const char *etag, char ret[ETAG_SIZE]) {
        uint8_t digest[SHA256_SIZE];

        digest_sha256(etag, strlen(etag), digest);
        ret[0] = '"';
        digest_hex(digest, ETAG_BYTES, ret + 1);
        ret[1 + 2 * ETAG_BYTES] = '"';
        ret[2 + 2 * ETAG_BYTES] = '\0';
}

uint64_t bucket_count(const struct workspace_index *index) {
        return index->count + index->folder_count;
}

static struct workspace_file file_of(const struct workspace_index_file *file) {
        struct workspace_file told = { .path = file->path,
                                       .bytes = file->bytes,
                                       .written_ms = file->written_ms,
                                       .executable = file->executable };

        bucket_etag(file->etag ? file->etag : "", told.etag);
        return told;
}

int bucket_files_list(struct workspace *workspace, const struct workspace_page *page,
                      const struct interrupt *interrupt, struct arena *arena, struct workspace_file **ret,
                      size_t *ret_count, bool *ret_more, struct problem *problem) {
        const char *prefix = page->prefix ? page->prefix : "", *after = page->after ? page->after : "";
        const struct workspace_index *index = &bucket_own(workspace)->index;
        struct workspace_file *files = NULL;
        size_t count = 0;
        bool more = false;

        if (bucket_load_checked(workspace, interrupt, problem) < 0)
                return -1;
        for (size_t i = 0; i < index->count && !more; i++) {
                if (strcmp(index->files[i].path, after) <= 0 ||
                    !text_begins_with(index->files[i].path, prefix))
                        continue;
                more = count == page->limit;
                if (more)
                        break;
                files = array_grow(arena, files, count, sizeof(*files));
                files[count] = file_of(&index->files[i]);
                files[count].path = arena_strdup(arena, index->files[i].path);
                count++;
        }
        *ret = files;
        *ret_count = count;
        *ret_more = more;
        return 0;
}

/* --- reading --- */

static const struct workspace_index_file *known_file(const struct workspace *workspace, const char *path) {
        const struct bucket_own *own = bucket_own(workspace);

        return own->index.whole ? workspace_index_find(&own->index, path) : NULL;
}

/* A lifecycle rule has deleted it: the index need not wait for a check. What fails here is not this request's. */
static void forget_file(struct workspace *workspace, const char *path) {
        const struct workspace_index_file *known = known_file(workspace, path);
        const struct workspace_index_changes changes = { .removed = known, .removed_count = 1 };
        struct problem ignored;

        if (known)
                (void)!bucket_change(workspace, &changes, &ignored);
}

static void remember_look(struct bucket_own *own, const char *path, const char *etag) {
        free(own->looked);
        own->looked = strdup(path);
        if (!own->looked)
                abort();
        memcpy(own->looked_etag, etag, sizeof(own->looked_etag));
}

int bucket_file_look(struct workspace *workspace, const char *path, int *ret_descriptor,
                     struct workspace_file *ret, struct problem *problem) {
        struct bucket_own *own = bucket_own(workspace);
        const struct workspace_index_file *known = known_file(workspace, path);
        struct workspace_file file = { .executable = known && known->executable };
        char etag[128] = "";
        struct error err;
        int found = bucket_head(own->where, layout_file(workspace->id, path, own->arena), etag, &file.bytes,
                                &file.written_ms, &err);

        if (found < 0)
                return bucket_fail(&err, problem);
        if (found == 0) {
                forget_file(workspace, path);
                return workspace_no_file(problem);
        }
        bucket_etag(etag, file.etag);
        remember_look(own, path, etag);
        *ret = file;
        *ret_descriptor = -1;
        return 0;
}

int bucket_file_fetch(struct workspace *workspace, const char *path, const struct workspace_file *file,
                      uint64_t from, uint64_t length, int *ret_descriptor, struct problem *problem) {
        struct bucket_own *own = bucket_own(workspace);
        int descriptor DESCRIPTOR_CLEANUP = -1;
        char etag[ETAG_SIZE] = "";
        struct error err;
        int found = 0;

        if (own->looked && strcmp(own->looked, path) == 0)
                bucket_etag(own->looked_etag, etag);
        if (bucket_spool(own->spool, &descriptor, problem) < 0)
                return -1;
        if (strcmp(etag, file->etag) == 0)
                found = bucket_fetch(own->where, layout_file(workspace->id, path, own->arena),
                                     own->looked_etag, from, length, descriptor, &err);
        if (found < 0)
                return bucket_fail(&err, problem);
        if (found == 0)
                return problem_set(problem, PROBLEM_CHANGED, "the file was changed meanwhile: ask again");
        *ret_descriptor = descriptor;
        descriptor = -1;
        return 0;
}

/* --- putting --- */

/* The condition of a put: the version that it replaces, "" for none. */
struct judged {
        char etag[128];
};

/* *ret is what is there, or "" where there is nothing. */
static int check_conditions(struct workspace *workspace, const char *path,
                            const struct conditions *conditions, char ret[128], struct problem *problem) {
        struct bucket_own *own = bucket_own(workspace);
        char etag[128] = "", told[ETAG_SIZE];
        int64_t modified_ms;
        uint64_t bytes;
        struct error err;
        int found = bucket_head(own->where, layout_file(workspace->id, path, own->arena), etag, &bytes,
                                &modified_ms, &err);

        if (found < 0)
                return bucket_fail(&err, problem);
        bucket_etag(etag, told);
        if (workspace_judge(conditions, found ? told : NULL, problem) < 0)
                return -1;
        memcpy(ret, etag, sizeof(etag));
        return 0;
}

static bool has_conditions(const struct conditions *conditions) {
        return conditions->if_match || conditions->if_none_match;
}

int bucket_put_begin(struct workspace_put *put, struct problem *problem) {
        struct bucket_own *own = bucket_own(put->workspace);
        const struct workspace_index_file *known;
        struct judged judged;

        bucket_compact(put->workspace);
        if (bucket_load(put->workspace, problem) < 0 ||
            (has_conditions(&put->conditions) &&
             check_conditions(put->workspace, put->path, &put->conditions, judged.etag, problem) < 0) ||
            workspace_check_free(put->workspace, &put->limits, 0, problem) < 0 ||
            bucket_spool(own->spool, &put->descriptor, problem) < 0)
                return -1;
        if (has_conditions(&put->conditions)) {
                put->own = malloc(sizeof(judged));
                if (!put->own)
                        abort();
                memcpy(put->own, &judged, sizeof(judged));
        }
        known = known_file(put->workspace, put->path);
        put->executable = known && known->executable;
        return 0;
}

void bucket_put_close(struct workspace_put *put) {
        free(put->own);
        put->own = NULL;
}

int bucket_check_place(const struct workspace_index *index, const char *path, struct problem *problem) {
        char above[WORKSPACE_PATH_MAX + 1];

        for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
                memcpy(above, path, (size_t)(slash - path));
                above[slash - path] = '\0';
                if (workspace_index_find(index, above))
                        return problem_set(problem, PROBLEM_CONFLICT, "a file is where a folder should be");
        }
        return workspace_index_has_folder(index, path)
                       ? problem_set(problem, PROBLEM_CONFLICT, "a folder has this path")
                       : 0;
}

int bucket_check_room(const struct workspace_index *index, const char *path, uint64_t bytes,
                      const struct workspace_limits *limits, struct problem *problem) {
        const struct workspace_index_file *known = workspace_index_find(index, path);
        uint64_t without = index->bytes - (known ? known->bytes : 0);

        if (limits->bytes_max && (without > limits->bytes_max || bytes > limits->bytes_max - without))
                return workspace_is_full(limits, index->bytes, problem);
        if (!known && limits->files_max && bucket_count(index) >= limits->files_max)
                return workspace_has_many(limits, problem);
        return 0;
}

int bucket_put_finish(struct workspace_put *put, struct workspace_file *ret, bool *ret_made,
                      struct problem *problem) {
        struct workspace *workspace = put->workspace;
        struct bucket_own *own = bucket_own(workspace);
        const struct judged *judged = put->own;
        const struct bucket_put object = {
                .key = layout_file(workspace->id, put->path, own->arena),
                .environment = own->index.environment,
                .file = { .descriptor = put->descriptor, .length = put->bytes, .sha256 = put->sha256 },
                .conditional = judged,
                .etag = judged && judged->etag[0] ? judged->etag : NULL,
        };
        struct workspace_index_file file = {
                .path = put->path, .bytes = put->bytes, .sha256 = put->sha256, .executable = put->executable
        };
        const struct workspace_index_changes changes = { .put = &file, .put_count = 1 };
        char etag[128] = "";
        struct error err;
        bool made;
        int done;

        digest_stream_end(put->digest, put->sha256);
        put->digest = NULL;
        if (interrupt_level(put->interrupt) > INTERRUPT_NONE)
                return problem_set(problem, PROBLEM_STOPPING, "interrupted");
        if (bucket_check_place(&own->index, put->path, problem) < 0 ||
            bucket_check_room(&own->index, put->path, put->bytes, &put->limits, problem) < 0)
                return -1;
        made = judged ? !judged->etag[0] : !workspace_index_find(&own->index, put->path);
        done = bucket_put(own->where, &object, etag, &file.written_ms, &err);
        if (done < 0)
                return bucket_fail(&err, problem);
        if (done == 0)
                return problem_set(problem, PROBLEM_CHANGED,
                                   judged && judged->etag[0]
                                           ? "the file has another version than the request allows"
                                           : "the file exists now, and the request expects that it does not");
        file.etag = arena_strdup(own->arena, etag);
        file.path = arena_strdup(own->arena, put->path);
        file.sha256 = arena_strdup(own->arena, put->sha256);
        if (bucket_change(workspace, &changes, problem) < 0)
                return -1;
        *ret = file_of(&file);
        ret->path = NULL;
        *ret_made = made;
        return 0;
}

/* --- deleting --- */

/* Folders above it that were made and are empty without it, as many as *ret_count. */
static const char **emptied(const struct workspace_index *index, const char *path, struct arena *arena,
                            size_t *ret_count) {
        const char **folders = arena_array(arena, WORKSPACE_DEPTH_MAX + 1, sizeof(*folders));
        size_t count = 0;
        const char *end = strrchr(path, '/');

        for (; end && count < WORKSPACE_DEPTH_MAX; end = memrchr(path, '/', (size_t)(end - path))) {
                const char *above = arena_strndup(arena, path, (size_t)(end - path));
                size_t length = (size_t)(end - path), inside = 0;

                for (size_t i = 0; i < index->count; i++)
                        inside += strncmp(index->files[i].path, above, length) == 0 &&
                                  index->files[i].path[length] == '/' &&
                                  strcmp(index->files[i].path, path) != 0;
                for (size_t i = 0; i < index->folder_count; i++) {
                        bool below = strncmp(index->folders[i], above, length) == 0 &&
                                     index->folders[i][length] == '/';

                        for (size_t j = 0; j < count && below; j++)
                                below = strcmp(folders[j], index->folders[i]) != 0;
                        inside += below;
                }
                if (inside)
                        break;
                folders[count++] = above;
        }
        *ret_count = count;
        return folders;
}

/*
 * 1: that version is gone, of a file that may have been gone before; 0: another one lies there now.
 */
static int delete_version(struct workspace *workspace, const char *path, const char *etag,
                          struct problem *problem) {
        static const char *const unmet[] = { "PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey",
                                             "NotFound", NULL };
        struct bucket_own *own = bucket_own(workspace);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request = s3_delete_object(
                &own->where->bucket, layout_file(workspace->id, path, own->arena), etag, own->arena);
        struct error err;

        if (aws_call_accepting(own->where->client, &request, unmet, &response, &err) < 0)
                return bucket_fail(&err, problem);
        return !aws_failed_with(&response, "PreconditionFailed") &&
               !aws_failed_with(&response, "ConditionalRequestConflict");
}

/* Always one version of it, in the bucket as in the index: what others put between the two calls is theirs, and stays in both. */
int bucket_file_delete(struct workspace *workspace, const char *path, const struct conditions *conditions,
                       const struct interrupt *interrupt, struct problem *problem) {
        struct bucket_own *own = bucket_own(workspace);
        struct workspace_index_file file = { .path = path };
        struct workspace_index_changes changes = { .removed = &file, .removed_count = 1 };
        char etag[128];

        (void)interrupt;
        if (bucket_load(workspace, problem) < 0)
                return -1;
        for (int tries = 1;; tries++) {
                int gone;

                etag[0] = '\0';
                if (check_conditions(workspace, path, conditions, etag, problem) < 0)
                        return -1;
                if (!etag[0]) {
                        forget_file(workspace, path);
                        return workspace_no_file(problem);
                }
                gone = delete_version(workspace, path, etag, problem);
                if (gone < 0)
                        return -1;
                if (gone > 0)
                        break;
                if (has_conditions(conditions) || tries == DELETE_TRIES)
                        return problem_set(
                                problem, PROBLEM_CHANGED,
                                has_conditions(conditions)
                                        ? "the file has another version than the request allows"
                                        : "the file is being written all the time: delete it again");
        }
        file.etag = arena_strdup(own->arena, etag);
        changes.folders_removed = emptied(&own->index, path, own->arena, &changes.folders_removed_count);
        return bucket_change(workspace, &changes, problem);
}
