/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of one execution are three objects: `content`, all files one behind the other; `paths`,
 * which of them is where, and which is put last of the two; and `request`. Another server than the
 * one that took them may be the one that places them. Placing is done again after a death: each
 * file is put over itself.
 */
#include "providers/aws/workspace/bucket_body.h"

#include "base/array.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "providers/aws/workspace/layout.h"
#include "sessions/workspace_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONTENT "content"
#define PATHS "paths"
#define REQUEST "request"
#define PATHS_MAX ((size_t)32 << 20)
#define PIECE ((size_t)128 << 10)

static const char *staged_key(const struct workspace *workspace, const char *name, const char *what,
                              struct arena *arena) {
        return arena_printf(arena, "%s%s", layout_staged(workspace->id, name, arena), what);
}

/* Where each file begins in the content. */
struct staging {
        uint64_t offsets[WORKSPACE_STAGE_FILES + 1];
        bool written; /* something of it may lie in the bucket */
};

int bucket_stage_begin(struct workspace_stage *stage, struct problem *problem) {
        struct staging *staging = calloc(1, sizeof(*staging));

        if (!staging)
                abort();
        workspace_stage_new_name(stage->name);
        if (bucket_spool(bucket_own(stage->workspace)->spool, &stage->file, problem) < 0) {
                free(staging);
                return -1;
        }
        stage->own = staging;
        return 0;
}

int bucket_stage_file(struct workspace_stage *stage, size_t number, struct problem *problem) {
        struct staging *staging = stage->own;

        (void)problem;
        staging->offsets[number] = stage->bytes;
        return 0;
}

static int digest_part(int descriptor, uint64_t from, uint64_t length, char sha256[SHA256_HEX_SIZE]) {
        char *piece TEXT_CLEANUP = malloc(PIECE);
        struct digest_stream *digest = digest_stream_new();
        int result = 0;

        if (!piece)
                abort();
        while (length > 0 && result == 0) {
                ssize_t count =
                        pread(descriptor, piece, length < PIECE ? (size_t)length : PIECE, (off_t)from);

                if (count < 0 && errno == EINTR)
                        continue;
                if (count <= 0) {
                        result = -1;
                        break;
                }
                digest_stream_add(digest, piece, (size_t)count);
                from += (uint64_t)count;
                length -= (uint64_t)count;
        }
        digest_stream_end(digest, sha256);
        return result;
}

static int put_part(const struct workspace *workspace, const char *key, int descriptor, uint64_t from,
                    uint64_t length, char sha256[SHA256_HEX_SIZE], struct workspace_index_file *ret,
                    struct problem *problem) {
        struct bucket_own *own = bucket_own(workspace);
        const struct bucket_put put = {
                .key = key,
                .environment = own->index.environment,
                .file = { .descriptor = descriptor, .offset = from, .length = length, .sha256 = sha256 },
        };
        char etag[128] = "";
        struct error err;
        int64_t written_ms;

        if (digest_part(descriptor, from, length, sha256) < 0)
                return problem_set(problem, PROBLEM_WORKSPACE_FAILED, "cannot read the uploaded file: %s",
                                   strerror(errno));
        if (bucket_put(own->where, &put, etag, &written_ms, &err) < 0)
                return bucket_fail(&err, problem);
        if (ret) {
                ret->etag = arena_strdup(own->arena, etag);
                ret->written_ms = written_ms;
        }
        return 0;
}

static int put_staged(const struct workspace *workspace, const char *key, const void *bytes, size_t length,
                      struct problem *problem) {
        struct bucket_own *own = bucket_own(workspace);
        const struct s3_write write = { .key = key,
                                        .body = bytes,
                                        .length = length,
                                        .content_type = "application/octet-stream",
                                        .tagging = layout_tag_header(own->index.environment, own->arena) };
        struct aws_request request = s3_write_object(&own->where->bucket, &write, own->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct error err;

        request.quiet_ms = 60 * 1000;
        return aws_call(own->where->client, &request, &response, &err) < 0 ? bucket_fail(&err, problem) : 0;
}

int bucket_stage_finish(struct workspace_stage *stage, const char *paths, struct problem *problem) {
        const struct workspace *workspace = stage->workspace;
        struct arena *arena = bucket_own(workspace)->arena;
        struct staging *staging = stage->own;
        json_t *list JSON_CLEANUP = json_checked(json_loads(paths, 0, NULL)), *path;
        json_t *files JSON_CLEANUP = json_checked(json_array());
        char *text TEXT_CLEANUP = NULL;
        char sha256[SHA256_HEX_SIZE];
        size_t i;

        staging->offsets[json_array_size(list)] = stage->bytes;
        json_array_foreach (list, i, path)
                json_add(files, json_pack("[O, I]", path,
                                          (json_int_t)(staging->offsets[i + 1] - staging->offsets[i])));
        text = json_compact(files);
        staging->written = true;
        if (stage->bytes && put_part(workspace, staged_key(workspace, stage->name, CONTENT, arena),
                                     stage->file, 0, stage->bytes, sha256, NULL, problem) < 0)
                return -1;
        return put_staged(workspace, staged_key(workspace, stage->name, PATHS, arena), text, strlen(text),
                          problem);
}

void bucket_stage_close(struct workspace_stage *stage) {
        struct staging *staging = stage->own;

        if (staging && staging->written && !stage->kept)
                bucket_stage_drop(stage->workspace, stage->name);
        free(staging);
        stage->own = NULL;
}

void bucket_stage_drop(const struct workspace *workspace, const char *name) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *keys[3];
        struct error ignored;

        if (!workspace_stage_is_name(name))
                return;
        /* Without its paths nothing of it is placed any more. */
        keys[0] = staged_key(workspace, name, PATHS, arena);
        keys[1] = staged_key(workspace, name, CONTENT, arena);
        keys[2] = staged_key(workspace, name, REQUEST, arena);
        (void)!bucket_delete(bucket_own(workspace)->where, keys, NULL, 3, &ignored);
}

struct keeping {
        const char *prefix;
        const char *const *names;
        size_t count;
};

static bool is_kept(void *context, const char *key) {
        const struct keeping *keeping = context;
        const char *name = key + strlen(keeping->prefix);

        for (size_t i = 0; i < keeping->count; i++) {
                if (text_begins_with(name, keeping->names[i]) && name[strlen(keeping->names[i])] == '/')
                        return true;
        }
        return false;
}

void bucket_stage_keep(const struct workspace *workspace, const char *const *names, size_t count) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct keeping keeping = { layout_all_staged(workspace->id, arena), names, count };
        struct error ignored;

        (void)!bucket_delete_all(bucket_own(workspace)->where, keeping.prefix, is_kept, &keeping, &ignored);
}

int bucket_stage_request(const struct workspace *workspace, const void *bytes, size_t length,
                         char name[WORKSPACE_STAGE_NAME], struct problem *problem) {
        struct arena *arena = bucket_own(workspace)->arena;

        if (!name[0])
                workspace_stage_new_name(name);
        return put_staged(workspace, staged_key(workspace, name, REQUEST, arena), bytes, length, problem);
}

int bucket_stage_read_request(const struct workspace *workspace, const char *name, size_t most,
                              struct strbuf *ret) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct error ignored;

        return workspace_stage_is_name(name) && bucket_read(bucket_own(workspace)->where,
                                                            staged_key(workspace, name, REQUEST, arena), most,
                                                            ret, &ignored) > 0
                       ? 0
                       : -1;
}

/* --- into the workspace --- */

struct placing {
        struct workspace *workspace;
        const struct workspace_limits *limits;
        struct arena *arena;
        int content;
        struct workspace_index grown; /* the index as it is with those that were put */
        struct workspace_index_file *put;
        size_t count;
        struct workspace_skipped *skipped;
        size_t skipped_count;
};

static int place_one(struct placing *placing, const char *path, uint64_t from, uint64_t length,
                     struct problem *problem) {
        struct bucket_own *own = bucket_own(placing->workspace);
        const struct workspace_index_file *known = workspace_index_find(&own->index, path);
        struct workspace_index_file file = { .path = arena_strdup(own->arena, path), .bytes = length };
        struct workspace_limits limits = *placing->limits;
        char sha256[SHA256_HEX_SIZE];

        placing->grown.bytes = own->index.bytes;
        for (size_t i = 0; i < placing->count; i++) {
                const struct workspace_index_file *old =
                        workspace_index_find(&own->index, placing->put[i].path);

                placing->grown.bytes += placing->put[i].bytes - (old ? old->bytes : 0);
                limits.files_max -= limits.files_max > 1 && !old;
        }
        if (bucket_check_place(&own->index, path, problem) < 0 ||
            bucket_check_room(&placing->grown, path, length, &limits, problem) < 0 ||
            put_part(placing->workspace, layout_file(placing->workspace->id, path, own->arena),
                     placing->content, from, length, sha256, &file, problem) < 0)
                return -1;
        file.sha256 = arena_strdup(own->arena, sha256);
        file.executable = known && known->executable;
        placing->put[placing->count++] = file;
        return 0;
}

static int place_all(struct placing *placing, const json_t *files, const struct interrupt *interrupt,
                     struct problem *problem) {
        const json_t *file;
        uint64_t from = 0;
        size_t i;

        placing->grown = bucket_own(placing->workspace)->index;
        json_array_foreach (files, i, file) {
                const char *path = json_string_value(json_array_get(file, 0));
                uint64_t length = (uint64_t)json_integer_value(json_array_get(file, 1));
                struct problem own;

                if (interrupt_level(interrupt) > INTERRUPT_NONE)
                        return problem_set(problem, PROBLEM_STOPPING, "interrupted");
                if (!path || workspace_path_problem(path))
                        return problem_set(problem, PROBLEM_WORKSPACE_FAILED,
                                           "the list of their paths cannot be read");
                if (place_one(placing, path, from, length, &own) < 0) {
                        /* Without a file that could be there nothing is to run: what asked for it knows of no such case. */
                        if (own.code != PROBLEM_CONFLICT && own.code != PROBLEM_WORKSPACE_FULL) {
                                *problem = own;
                                return -1;
                        }
                        placing->skipped = array_grow(placing->arena, placing->skipped,
                                                      placing->skipped_count, sizeof(*placing->skipped));
                        placing->skipped[placing->skipped_count++] =
                                (struct workspace_skipped){ .path = arena_strdup(placing->arena, path),
                                                            .reason = arena_strdup(placing->arena,
                                                                                   own.detail) };
                }
                from += length;
        }
        return 0;
}

/* 1: the list, and the content in a file; 0: there is nothing to be placed. */
static int fetch(struct workspace *workspace, const char *name, json_t **ret_files, int *ret_content,
                 struct problem *problem) {
        struct bucket_own *own = bucket_own(workspace);
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        json_t *files JSON_CLEANUP = NULL, *file;
        uint64_t bytes = 0;
        struct error err;
        size_t i;
        int found = bucket_read(own->where, staged_key(workspace, name, PATHS, own->arena), PATHS_MAX, &text,
                                &err);

        if (found <= 0)
                return found < 0 ? bucket_fail(&err, problem) : 0;
        files = json_loadb(strbuf_text(&text), text.length, 0, NULL);
        if (!json_is_array(files))
                return problem_set(problem, PROBLEM_WORKSPACE_FAILED,
                                   "the list of their paths cannot be read");
        json_array_foreach (files, i, file)
                bytes += (uint64_t)json_integer_value(json_array_get(file, 1));
        if (bucket_spool(own->spool, ret_content, problem) < 0)
                return -1;
        found = bucket_fetch(own->where, staged_key(workspace, name, CONTENT, own->arena), NULL, 0, bytes,
                             *ret_content, &err);
        if (found < 0)
                return bucket_fail(&err, problem);
        if (found == 0)
                return problem_set(problem, PROBLEM_WORKSPACE_FAILED, "the files of the execution are gone");
        *ret_files = json_incref(files);
        return 1;
}

int bucket_stage_place(struct workspace *workspace, const char *name, const struct workspace_limits *limits,
                       const struct interrupt *interrupt, struct arena *arena, struct workspace_skipped **ret,
                       size_t *ret_count, struct problem *problem) {
        struct bucket_own *own = bucket_own(workspace);
        json_t *files JSON_CLEANUP = NULL;
        int content DESCRIPTOR_CLEANUP = -1;
        struct placing placing = { .workspace = workspace, .limits = limits, .arena = arena };
        struct workspace_index_changes changes = { 0 };
        int found;

        *ret = NULL;
        *ret_count = 0;
        if (!workspace_stage_is_name(name))
                return 0;
        found = fetch(workspace, name, &files, &content, problem);
        if (found > 0) {
                placing.content = content;
                placing.put = arena_array(own->arena, json_array_size(files) + 1, sizeof(*placing.put));
                if (bucket_load(workspace, problem) < 0 || place_all(&placing, files, interrupt, problem) < 0)
                        return -1;
                changes.put = placing.put;
                changes.put_count = placing.count;
                if (placing.count && bucket_change(workspace, &changes, problem) < 0)
                        return -1;
        }
        if (found < 0)
                return -1;
        bucket_stage_drop(workspace, name);
        *ret = placing.skipped;
        *ret_count = placing.skipped_count;
        return 0;
}
