/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A change is a loop: read it, merge, put it back on condition that it is still the same. A put
 * whose answer was lost may have been made: the next try finds another version (412), reads it
 * again and merges the same into it, which changes nothing then.
 *
 * Of an owner's rows, the first one is there from the beginning to the end. Another one has in its
 * key the size, in whole MiB, and until when the session lives: where they change, the new one is
 * put behind the index, and the old one removed. Of two that a death or a race leaves the larger
 * one counts, until the next check. A failure there is not reported: the index is what holds.
 */
#include "providers/aws/workspace/workspace_index.h"

#include "base/array.h"
#include "base/digest.h"
#include "base/json.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "providers/aws/client/texts.h"
#include "providers/aws/workspace/layout.h"
#include "sessions/workspace_tree.h"

#include <stdlib.h>
#include <string.h>

#define VERSION 1
#define INDEX_LIMIT ((size_t)256 << 20)
/* A head is an owner of at most 2,400 bytes, each of which may be six in JSON, and names. */
#define HEAD_BYTES 65536
#define TRIES_MAX 16
#define PAGE_MAX 1000
#define MEGABYTE ((uint64_t)1 << 20)

static const char *const absent_codes[] = { "NoSuchKey", "NotFound", NULL };
static const char *const moved_codes[] = { "PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey",
                                           NULL };

/* --- text --- */

static json_t *head_json(const struct workspace_index *index, const char *stack, const char *id) {
        json_t *json = json_checked(
                json_pack("{s:i, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "berth", VERSION, "stack",
                          stack, "id", id, "owner", index->owner, "environment", index->environment,
                          "createdMs", (json_int_t)index->created_ms, "livesUntilMs",
                          (json_int_t)index->lives_until_ms, "checkedMs", (json_int_t)index->checked_ms,
                          "bytes", (json_int_t)index->bytes, "files", (json_int_t)index->count));

        json_set_text(json, "agent", index->agent);
        return json;
}

static json_t *file_json(const struct workspace_index_file *file) {
        json_t *json =
                json_checked(json_pack("{s:s, s:I, s:I}", "path", file->path, "bytes",
                                       (json_int_t)file->bytes, "writtenMs", (json_int_t)file->written_ms));

        json_set_text(json, "sha256", file->sha256);
        json_set_text(json, "etag", file->etag);
        if (file->executable)
                json_put(json, "executable", json_true());
        return json;
}

static void add_line(struct strbuf *text, json_t *json) {
        char *line = json_plain(json);

        strbuf_append(text, line);
        strbuf_append_char(text, '\n');
        free(line);
        json_decref(json);
}

const char *workspace_index_write(const struct workspace_index *index, const char *stack, const char *id,
                                  struct arena *arena, size_t *ret_length) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        add_line(&text, head_json(index, stack, id));
        for (size_t i = 0; i < index->count; i++)
                add_line(&text, file_json(&index->files[i]));
        for (size_t i = 0; i < index->folder_count; i++)
                add_line(&text, json_checked(json_pack("{s:s}", "folder", index->folders[i])));
        *ret_length = text.length;
        return arena_strndup(arena, strbuf_text(&text), text.length);
}

static int makes_no_sense(const char *id, struct error *err) {
        return error_set(err, "the index of the workspace %s is corrupt: " LAYOUT_INDEXES "%s in the bucket",
                         id, id);
}

/* 1; 0: it is another stack's. */
static int read_index_head(const json_t *json, const char *stack, const char *id, struct arena *arena,
                           struct workspace_index *ret, struct error *err) {
        const char *owner = json_text(json, "owner"), *environment = json_text(json, "environment");
        json_int_t bytes = json_integer_or(json, "bytes", -1), files = json_integer_or(json, "files", -1);

        if (json_integer_or(json, "berth", 0) != VERSION || !texts_same(json_text(json, "id"), id) ||
            !owner || !environment || !json_text(json, "stack") || bytes < 0 || files < 0)
                return makes_no_sense(id, err);
        if (strcmp(json_text(json, "stack"), stack) != 0)
                return 0;
        ret->owner = arena_strdup(arena, owner);
        ret->environment = arena_strdup(arena, environment);
        ret->agent = arena_strdup(arena, json_text(json, "agent"));
        ret->created_ms = json_integer_or(json, "createdMs", 0);
        ret->lives_until_ms = json_integer_or(json, "livesUntilMs", 0);
        ret->checked_ms = json_integer_or(json, "checkedMs", 0);
        ret->bytes = (uint64_t)bytes;
        ret->file_count = (uint64_t)files;
        return 1;
}

static bool read_file_line(const json_t *json, struct arena *arena, struct workspace_index_file *ret) {
        const char *path = json_text(json, "path"), *sha256 = json_text(json, "sha256");
        json_int_t bytes = json_integer_or(json, "bytes", -1);

        if (!path || workspace_path_problem(path) || bytes < 0 ||
            (sha256 && strlen(sha256) != SHA256_HEX_SIZE - 1))
                return false;
        *ret = (struct workspace_index_file){
                .path = arena_strdup(arena, path),
                .bytes = (uint64_t)bytes,
                .sha256 = arena_strdup(arena, sha256),
                .etag = arena_strdup(arena, json_text(json, "etag")),
                .written_ms = json_integer_or(json, "writtenMs", 0),
                .executable = json_is_true(json_object_get(json, "executable")),
        };
        return true;
}

/* Lines behind the head: files, then folders, each in order. */
static bool read_index_line(const json_t *json, struct arena *arena, struct workspace_index *index) {
        const char *folder = json_text(json, "folder");
        struct workspace_index_file file;

        if (folder) {
                if (workspace_path_problem(folder) ||
                    (index->folder_count && strcmp(index->folders[index->folder_count - 1], folder) >= 0))
                        return false;
                index->folders =
                        array_grow(arena, index->folders, index->folder_count, sizeof(*index->folders));
                index->folders[index->folder_count++] = arena_strdup(arena, folder);
                return true;
        }
        if (!read_file_line(json, arena, &file) ||
            (index->count && strcmp(index->files[index->count - 1].path, file.path) >= 0))
                return false;
        index->files = array_grow(arena, index->files, index->count, sizeof(*index->files));
        index->files[index->count++] = file;
        return true;
}

/* The end of the line that begins there; NULL where it has none. */
static const char *line_end(const char *at, const char *end) {
        return at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
}

int workspace_index_parse(const char *text, size_t length, const char *stack, const char *id,
                          struct arena *arena, struct workspace_index *ret, struct error *err) {
        const char *end = text + length, *stop = line_end(text, end);
        struct workspace_index index = { 0 };
        uint64_t bytes = 0;
        int found;

        if (!stop)
                return makes_no_sense(id, err);
        for (const char *at = text; at < end; at = stop + 1) {
                json_t *json JSON_CLEANUP = NULL;

                stop = line_end(at, end);
                json = stop ? json_loadb(at, (size_t)(stop - at), JSON_REJECT_DUPLICATES, NULL) : NULL;
                if (!json || (at != text && !read_index_line(json, arena, &index)))
                        return makes_no_sense(id, err);
                if (at == text && (found = read_index_head(json, stack, id, arena, &index, err)) <= 0)
                        return found;
        }
        for (size_t i = 0; i < index.count; i++)
                bytes += index.files[i].bytes;
        if (bytes != index.bytes || index.count != index.file_count)
                return makes_no_sense(id, err);
        index.whole = true;
        *ret = index;
        return 1;
}

/* --- what is in it --- */

struct workspace_index workspace_index_copy(const struct workspace_index *index, struct arena *arena) {
        struct workspace_index copy = *index;

        copy.owner = arena_strdup(arena, index->owner);
        copy.environment = arena_strdup(arena, index->environment);
        copy.agent = arena_strdup(arena, index->agent);
        copy.files = arena_array(arena, index->count + 1, sizeof(*copy.files));
        for (size_t i = 0; i < index->count; i++) {
                copy.files[i] = index->files[i];
                copy.files[i].path = arena_strdup(arena, index->files[i].path);
                copy.files[i].sha256 = arena_strdup(arena, index->files[i].sha256);
                copy.files[i].etag = arena_strdup(arena, index->files[i].etag);
        }
        copy.folders = arena_array(arena, index->folder_count + 1, sizeof(*copy.folders));
        for (size_t i = 0; i < index->folder_count; i++)
                copy.folders[i] = arena_strdup(arena, index->folders[i]);
        return copy;
}

const struct workspace_index_file *workspace_index_find(const struct workspace_index *index,
                                                        const char *path) {
        size_t low = 0, high = index->count;

        while (low < high) {
                size_t middle = low + (high - low) / 2;
                int order = strcmp(index->files[middle].path, path);

                if (order == 0)
                        return &index->files[middle];
                if (order < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        return NULL;
}

static bool lies_below(const char *path, const char *folder) {
        size_t length = strlen(folder);

        return strncmp(path, folder, length) == 0 && path[length] == '/';
}

bool workspace_index_has_folder(const struct workspace_index *index, const char *path) {
        for (size_t i = 0; i < index->count; i++) {
                if (lies_below(index->files[i].path, path))
                        return true;
        }
        for (size_t i = 0; i < index->folder_count; i++) {
                if (strcmp(index->folders[i], path) == 0 || lies_below(index->folders[i], path))
                        return true;
        }
        return false;
}

/* --- reading --- */

int workspace_index_read(const struct workspace_bucket *where, const char *id, struct arena *arena,
                         struct workspace_index *ret, struct error *err) {
        struct aws_request request = s3_get_object(&where->bucket, layout_index(id, arena), arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int found;

        request.answer_limit = INDEX_LIMIT;
        if (aws_call_accepting(where->client, &request, absent_codes, &response, err) < 0)
                return -1;
        if (*response.error_code)
                return 0;
        found = workspace_index_parse(strbuf_text(&response.body), response.body.length, where->stack, id,
                                      arena, ret, err);
        if (found > 0)
                memcpy(ret->etag, response.etag, sizeof(ret->etag));
        return found;
}

int workspace_index_read_head(const struct workspace_bucket *where, const char *id, struct arena *arena,
                              struct workspace_index *ret, struct error *err) {
        struct aws_request request =
                s3_get_object_part(&where->bucket, layout_index(id, arena), 0, HEAD_BYTES, NULL, arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct workspace_index index = { 0 };
        json_t *json JSON_CLEANUP = NULL;
        const char *text, *stop;
        int found;

        if (aws_call_accepting(where->client, &request, absent_codes, &response, err) < 0)
                return -1;
        if (*response.error_code)
                return 0;
        text = strbuf_text(&response.body);
        if (response.body.length < HEAD_BYTES) {
                found = workspace_index_parse(text, response.body.length, where->stack, id, arena, &index,
                                              err);
                if (found <= 0)
                        return found;
                memcpy(index.etag, response.etag, sizeof(index.etag));
                *ret = index;
                return 1;
        }
        stop = line_end(text, text + response.body.length);
        json = stop ? json_loadb(text, (size_t)(stop - text), JSON_REJECT_DUPLICATES, NULL) : NULL;
        if (!json)
                return makes_no_sense(id, err);
        found = read_index_head(json, where->stack, id, arena, &index, err);
        if (found <= 0)
                return found;
        memcpy(index.etag, response.etag, sizeof(index.etag));
        *ret = index;
        return 1;
}

/* --- writing --- */

static uint64_t megabytes_of(const struct workspace_index *index) {
        return (index->bytes + MEGABYTE - 1) / MEGABYTE;
}

static const char *row_key(const struct workspace_bucket *where, const char *id,
                           const struct workspace_index *index, bool first, struct arena *arena) {
        const struct layout_row row = { .id = id,
                                        .environment = index->environment,
                                        .agent = index->agent,
                                        .created_ms = index->created_ms,
                                        .first = first,
                                        .megabytes = megabytes_of(index),
                                        .lives_until_ms = index->lives_until_ms };

        return layout_row_key(where->stack, index->owner, &row, arena);
}

static int put_row(const struct workspace_bucket *where, const char *key, struct arena *arena,
                   struct error *err) {
        const struct s3_write write = { .key = key, .content_type = "text/plain" };
        struct aws_request request = s3_write_object(&where->bucket, &write, arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;

        return aws_call(where->client, &request, &response, err);
}

static int remove_row(const struct workspace_bucket *where, const char *key, struct arena *arena,
                      struct error *err) {
        struct aws_request request = s3_delete_object(&where->bucket, key, NULL, arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;

        return aws_call_accepting(where->client, &request, absent_codes, &response, err);
}

/* 1, and the index has its new ETag; 0: another server's is there, or none. */
static int put_index(const struct workspace_bucket *where, const char *id, struct workspace_index *index,
                     const char *if_match, struct arena *arena, struct error *err) {
        struct s3_write write = { .key = layout_index(id, arena),
                                  .content_type = "application/jsonl",
                                  .if_match = if_match,
                                  .if_absent = !if_match };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct arena *own ARENA_CLEANUP =
                arena_new(); /* megabytes, and a try may follow, and another change */
        struct aws_request request;

        write.body = workspace_index_write(index, where->stack, id, own, &write.length);
        request = s3_write_object(&where->bucket, &write, own);
        request.finishes = true; /* files lie in the bucket already: what was begun is finished */
        if (aws_call_accepting(where->client, &request, moved_codes, &response, err) < 0)
                return -1;
        if (*response.error_code)
                return 0;
        memcpy(index->etag, response.etag, sizeof(index->etag));
        return 1;
}

/*
 * The index comes first: a row without one would be listed, but an index without a row was not
 * reported to any client yet.
 */
int workspace_index_make(const struct workspace_bucket *where, const char *id,
                         const struct workspace_index *index, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct workspace_index own = *index, there = { 0 };
        int made = put_index(where, id, &own, NULL, arena, err);

        if (made < 0)
                return -1;
        if (made == 0) {
                /* By a try of this very call, whose answer was lost: ids are random. */
                int found = workspace_index_read_head(where, id, arena, &there, err);

                if (found < 0)
                        return -1;
                if (found == 0 || !texts_same(there.owner, own.owner) || there.created_ms != own.created_ms)
                        return 0;
        }
        return put_row(where, row_key(where, id, &own, true, arena), arena, err) < 0 ? -1 : 1;
}

/* --- merging --- */

static int compare_files(const void *a, const void *b) {
        return strcmp(((const struct workspace_index_file *)a)->path,
                      ((const struct workspace_index_file *)b)->path);
}

static struct workspace_index_file *sorted_files(const struct workspace_index_file *files, size_t count,
                                                 struct arena *arena) {
        struct workspace_index_file *copy = arena_array(arena, count + 1, sizeof(*copy));

        if (count) {
                memcpy(copy, files, count * sizeof(*copy));
                qsort(copy, count, sizeof(*copy), compare_files);
        }
        return copy;
}

static bool is_removed(const struct workspace_index_file *file, const struct workspace_index_file *removed,
                       size_t count) {
        const struct workspace_index_file *found =
                count ? bsearch(file, removed, count, sizeof(*removed), compare_files) : NULL;

        return found && (!found->etag || !file->etag || strcmp(found->etag, file->etag) == 0);
}

static bool is_others(const struct workspace_index *since, const struct workspace_index_file *now) {
        const struct workspace_index_file *was = workspace_index_find(since, now->path);

        return now->etag && !(was && was->etag && strcmp(was->etag, now->etag) == 0);
}

/* Both lists are in order: of one path the newer one stays. */
static void merge_files(const struct workspace_index *old, const struct workspace_index_changes *changes,
                        struct arena *arena, struct workspace_index *ret) {
        const struct workspace_index_file *put = sorted_files(changes->put, changes->put_count, arena);
        const struct workspace_index_file *removed =
                sorted_files(changes->removed, changes->removed_count, arena);
        size_t i = 0, j = 0;

        ret->files = arena_array(arena, old->count + changes->put_count + 1, sizeof(*ret->files));
        ret->count = 0;
        ret->bytes = 0;
        while (i < old->count || j < changes->put_count) {
                int order = i == old->count           ? 1
                            : j == changes->put_count ? -1
                                                      : compare_files(&old->files[i], &put[j]);
                const struct workspace_index_file *next = order < 0 ? &old->files[i] : &put[j];

                if (order <= 0)
                        i++;
                if (order >= 0)
                        j++;
                if (order < 0 && is_removed(next, removed, changes->removed_count))
                        continue;
                /*
                 * A sandbox may report one path twice: an index with both could not be read any
                 * more.
                 */
                if (ret->count && compare_files(&ret->files[ret->count - 1], next) == 0)
                        ret->bytes -= ret->files[--ret->count].bytes;
                ret->files[ret->count] = *next;
                if (order == 0 && changes->since && !next->etag &&
                    is_others(changes->since, &old->files[i - 1]))
                        ret->files[ret->count].sha256 = NULL;
                ret->count++;
                ret->bytes += next->bytes;
        }
        ret->file_count = ret->count;
}

static void merge_folders(const struct workspace_index *old, const struct workspace_index_changes *changes,
                          struct arena *arena, struct workspace_index *ret) {
        size_t all = old->folder_count + changes->folder_count, kept = 0;
        const char **folders = arena_array(arena, all + 1, sizeof(*folders));

        if (old->folder_count)
                memcpy(folders, old->folders, old->folder_count * sizeof(*folders));
        if (changes->folder_count)
                memcpy(folders + old->folder_count, changes->folders,
                       changes->folder_count * sizeof(*folders));
        if (all)
                qsort(folders, all, sizeof(*folders), text_compare);
        for (size_t i = 0; i < all; i++) {
                bool gone = (kept && strcmp(folders[kept - 1], folders[i]) == 0) ||
                            workspace_index_find(ret, folders[i]);

                for (size_t j = 0; !gone && j < changes->folders_removed_count; j++)
                        gone = strcmp(changes->folders_removed[j], folders[i]) == 0;
                if (!gone)
                        folders[kept++] = folders[i];
        }
        ret->folders = folders;
        ret->folder_count = kept;
}

static struct workspace_index merge(const struct workspace_index *old,
                                    const struct workspace_index_changes *changes, struct arena *arena) {
        struct workspace_index merged = *old;

        merge_files(old, changes, arena, &merged);
        merge_folders(old, changes, arena, &merged);
        if (changes->lives_until_ms)
                merged.lives_until_ms = *changes->lives_until_ms;
        if (changes->checked_ms)
                merged.checked_ms = *changes->checked_ms;
        return merged;
}

static void move_row(const struct workspace_bucket *where, const char *id, const struct workspace_index *old,
                     const struct workspace_index *merged, struct arena *arena) {
        const char *before = row_key(where, id, old, false, arena),
                   *after = row_key(where, id, merged, false, arena);
        struct error err;

        if (strcmp(before, after) == 0)
                return;
        if (put_row(where, after, arena, &err) < 0 || remove_row(where, before, arena, &err) < 0)
                log_debug("the row of the workspace %s: %s", id, err.message);
}

/* 1; 0: another has changed it meanwhile. */
static int put_merged(const struct workspace_bucket *where, const char *id, const struct workspace_index *old,
                      struct workspace_index *merged, struct arena *arena, struct error *err) {
        int put = put_index(where, id, merged, old->etag, arena, err);

        if (put > 0)
                move_row(where, id, old, merged, arena);
        return put;
}

static int wait_before_retry(const struct workspace_bucket *where, unsigned tries, struct error *err) {
        const struct clock *clock = aws_client_clock(where->client);
        const struct aws_request request = { .service = AWS_S3, .operation = "PutObject", .finishes = true };
        int64_t wait_ms = (int64_t)((0.5 + random_unit()) * (double)(10 << (tries < 6 ? tries : 6)));

        return aws_wait_until(where->client, clock->monotonic_ms(clock) + wait_ms, &request, err);
}

int workspace_index_change(const struct workspace_bucket *where, const char *id,
                           const struct workspace_index *known, const struct workspace_index_changes *changes,
                           struct arena *arena, struct workspace_index *ret, struct error *err) {
        for (unsigned tries = 0; tries < TRIES_MAX; tries++) {
                struct workspace_index old, merged;
                int found = 1, put;

                if (tries == 0 && known)
                        old = *known;
                else
                        found = workspace_index_read(where, id, arena, &old, err);
                if (found <= 0)
                        return found;
                merged = merge(&old, changes, arena);
                put = put_merged(where, id, &old, &merged, arena, err);
                if (put < 0)
                        return -1;
                if (put > 0) {
                        *ret = merged;
                        return 1;
                }
                if (wait_before_retry(where, tries, err) < 0)
                        return -1;
        }
        return error_set(err, "the index of the workspace %s was changed by others each time: try again", id);
}

/* --- against the bucket --- */

static bool digest_piece(void *context, const char *bytes, size_t length) {
        digest_stream_add(context, bytes, length);
        return true;
}

int workspace_index_hash(const struct workspace_bucket *where, const char *key,
                         struct workspace_index_file *file, const struct interrupt *interrupt,
                         struct arena *arena, struct error *err) {
        struct aws_request request = s3_get_object(&where->bucket, key, arena);

        request.sink = digest_piece;
        request.quiet_ms = 60 * 1000;
        request.ended_by = interrupt;
        for (unsigned attempts = 1;; attempts++) {
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                struct digest_stream *digest = digest_stream_new();
                char sha256[SHA256_HEX_SIZE];
                struct error failure = { 0 };
                enum aws_try what;
                int result;

                request.context = digest;
                result = aws_call_once(where->client, &request, &response, &what, &failure);
                digest_stream_end(digest, sha256);
                if (result == 0 && strcmp(response.etag, file->etag) == 0) {
                        file->sha256 = arena_strdup(arena, sha256);
                        return 1;
                }
                if (result == 0 || aws_failed_with_any(&response, absent_codes))
                        return 0;
                if (attempts == 3 || (what == AWS_TRY_REFUSED && response.status < 500)) {
                        *err = failure;
                        return -1;
                }
                if (wait_before_retry(where, attempts, err) < 0)
                        return -1;
        }
}

/* What the index says of an object, as far as it is still that version. */
static struct workspace_index_file checked_file(const struct workspace_index *index,
                                                const struct s3_object *object, const char *path) {
        const struct workspace_index_file *known = workspace_index_find(index, path);
        struct workspace_index_file file = { .path = path,
                                             .bytes = (uint64_t)object->size,
                                             .etag = object->etag,
                                             .written_ms = object->modified_ms };

        if (known && known->bytes == file.bytes && (!known->etag || strcmp(known->etag, file.etag) == 0)) {
                file.sha256 = known->sha256;
                file.executable = known->executable;
                if (known->etag)
                        file.written_ms = known->written_ms;
        }
        return file;
}

static int list_objects(const struct workspace_bucket *where, const char *id,
                        const struct workspace_index *index, const struct interrupt *interrupt,
                        struct arena *arena, struct workspace_index *listed, struct error *err) {
        const char *prefix = layout_files(id, arena), *token = NULL;

        do {
                struct aws_request request = s3_list_objects(&where->bucket, prefix, token);
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                struct s3_page page;

                request.ended_by = interrupt;
                if (aws_call(where->client, &request, &response, err) < 0 ||
                    s3_read_objects(&response, arena, &page, err) < 0)
                        return -1;
                for (size_t i = 0; i < page.count; i++) {
                        const char *path = page.objects[i].key + strlen(prefix);

                        if (!text_begins_with(page.objects[i].key, prefix) || workspace_path_problem(path))
                                continue;
                        listed->files =
                                array_grow(arena, listed->files, listed->count, sizeof(*listed->files));
                        listed->files[listed->count++] = checked_file(index, &page.objects[i], path);
                }
                token = page.next;
        } while (token);
        if (listed->count)
                qsort(listed->files, listed->count, sizeof(*listed->files), compare_files);
        return 0;
}

/* Rows of what is not so any more. */
static void heal_rows(const struct workspace_bucket *where, const char *id,
                      const struct workspace_index *index, struct arena *arena) {
        const char *owner = layout_owner(where->stack, index->owner, arena);
        struct aws_request request = s3_list_objects_after(
                &where->bucket, arena_printf(arena, "%s%s/", owner, id), NULL, PAGE_MAX, arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct s3_page page = { 0 };
        struct layout_row row;
        struct error err = { 0 };
        int result = aws_call(where->client, &request, &response, &err);

        if (result == 0)
                result = s3_read_objects(&response, arena, &page, &err);
        for (size_t i = 0; result == 0 && i < page.count; i++) {
                if (layout_row_read(owner, page.objects[i].key, arena, &row) && !row.first &&
                    (row.megabytes != megabytes_of(index) || row.lives_until_ms != index->lives_until_ms))
                        result = remove_row(where, page.objects[i].key, arena, &err);
        }
        if (result < 0)
                log_debug("the row of the workspace %s: %s", id, err.message);
}

/* What turns the one into the other. */
static struct workspace_index_changes differences(const struct workspace_index *index,
                                                  const struct workspace_index *listed, struct arena *arena) {
        struct workspace_index_file *removed = arena_array(arena, index->count + 1, sizeof(*removed));
        struct workspace_index_changes changes = { .put = listed->files,
                                                   .put_count = listed->count,
                                                   .removed = removed };

        for (size_t i = 0; i < index->count; i++) {
                if (!workspace_index_find(listed, index->files[i].path))
                        removed[changes.removed_count++] = index->files[i];
        }
        return changes;
}

/* One try; 0 also where another has changed it meanwhile: *ret_moved then. */
static int check_once(const struct workspace_bucket *where, const char *id, uint64_t read_max,
                      const struct interrupt *interrupt, struct arena *arena, struct workspace_index *ret,
                      bool *ret_moved, struct error *err) {
        const struct clock *clock = aws_client_clock(where->client);
        int64_t now_ms = clock->wall_ms(clock);
        struct workspace_index index, listed = { 0 }, merged;
        struct workspace_index_changes changes;
        int found = workspace_index_read(where, id, arena, &index, err);
        size_t kept = 0;

        if (found <= 0)
                return found;
        if (list_objects(where, id, &index, interrupt, arena, &listed, err) < 0)
                return -1;
        for (size_t i = 0; i < listed.count; i++)
                listed.bytes += listed.files[i].bytes;
        for (size_t i = 0; i < listed.count; i++) {
                struct workspace_index_file *file = &listed.files[i];

                if (!file->sha256 && listed.bytes <= read_max &&
                    (found = workspace_index_hash(where, layout_file(id, file->path, arena), file, interrupt,
                                                  arena, err)) <= 0) {
                        if (found < 0)
                                return -1;
                        continue;
                }
                listed.files[kept++] = *file;
        }
        listed.count = kept;
        changes = differences(&index, &listed, arena);
        changes.checked_ms = &now_ms;
        merged = merge(&index, &changes, arena);
        found = put_merged(where, id, &index, &merged, arena, err);
        if (found < 0)
                return -1;
        if (found > 0)
                heal_rows(where, id, &merged, arena);
        *ret_moved = found == 0;
        *ret = merged;
        return found;
}

/* On that very version of the index alone: a file that another has put since would be taken for one that is not listed. */
int workspace_index_check(const struct workspace_bucket *where, const char *id, uint64_t read_max,
                          const struct interrupt *interrupt, struct arena *arena, struct workspace_index *ret,
                          struct error *err) {
        for (unsigned tries = 0; tries < TRIES_MAX; tries++) {
                bool moved = false;
                int checked = check_once(where, id, read_max, interrupt, arena, ret, &moved, err);

                if (checked != 0 || !moved)
                        return checked;
                if (wait_before_retry(where, tries, err) < 0)
                        return -1;
        }
        return error_set(err, "the index of the workspace %s was changed by others each time: try again", id);
}
