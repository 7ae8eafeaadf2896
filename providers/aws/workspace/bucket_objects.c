/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects as files: brought and put without memory for their content. Each is tried again by itself here, since what has come of a body
 * before a connection broke is not the beginning of what comes next, and since only here it is known whether an earlier try may have been
 * carried out: then a condition that does not hold any more may be our own doing, and the content says whether it is.
 */
#include "providers/aws/workspace/bucket_body.h"

#include "base/array.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/text.h"
#include "providers/aws/workspace/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRIES_MAX 5
#define QUIET_MS (60 * 1000)
#define DELETE_MAX 1000
#define PIECE ((size_t)128 << 10)

static const char *const absent_codes[] = { "NoSuchKey", "NotFound", NULL };
static const char *const other_codes[] = { "NoSuchKey", "NotFound", "PreconditionFailed", "InvalidRange",
                                           NULL };
static const char *const unmet_codes[] = { "PreconditionFailed", "NoSuchKey", "NotFound", NULL };

int bucket_fail(const struct error *err, struct problem *problem) {
        return problem_from_error(
                problem, err->kind == ERROR_INTERRUPTED ? PROBLEM_STOPPING : PROBLEM_WORKSPACE_FAILED, err);
}

int bucket_spool(const char *folder, int *ret_descriptor, struct problem *problem) {
        struct error err;
        int descriptor;

        if (folder_make(folder, &err) < 0)
                return bucket_fail(&err, problem);
        descriptor = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        if (descriptor < 0)
                return problem_set(problem, PROBLEM_WORKSPACE_FAILED,
                                   "cannot make a file for what is on its way in %s: %s", folder,
                                   strerror(errno));
        *ret_descriptor = descriptor;
        return 0;
}

static int wait_for_try(const struct workspace_bucket *where, unsigned tries,
                        const struct aws_request *request, struct error *err) {
        const struct clock *clock = aws_client_clock(where->client);

        return aws_wait_until(where->client,
                              clock->monotonic_ms(clock) + aws_retry_delay_ms(where->client, tries), request,
                              err);
}

/* Whether another try may bring another answer. */
static bool is_worth_it(enum aws_try what, const struct aws_response *response) {
        return what != AWS_TRY_REFUSED || response->status >= 500 || response->status == 429 ||
               aws_failed_with(response, "RequestTimeout") ||
               aws_failed_with(response, "ConditionalRequestConflict");
}

int bucket_head(const struct workspace_bucket *where, const char *key, char ret_etag[128],
                uint64_t *ret_bytes, int64_t *ret_modified_ms, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct aws_request request = s3_head_object(&where->bucket, key, arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;

        if (aws_call_accepting(where->client, &request, absent_codes, &response, err) < 0)
                return -1;
        if (*response.error_code)
                return 0;
        if (response.content_length < 0 || !*response.etag)
                return error_set(err, "the answer to s3 HeadObject has no length, or no ETag");
        memcpy(ret_etag, response.etag, sizeof(response.etag));
        *ret_bytes = (uint64_t)response.content_length;
        *ret_modified_ms = response.modified_ms;
        return 1;
}

/* --- bringing --- */

struct bringing {
        int descriptor;
        uint64_t length, most;
        int reason; /* errno, where it could not be written */
};

static bool bring_piece(void *context, const char *bytes, size_t length) {
        struct bringing *bringing = context;

        bringing->length += length;
        if (bringing->length > bringing->most)
                return false;
        if (descriptor_write(bringing->descriptor, bytes, length) == 0)
                return true;
        bringing->reason = errno;
        return false;
}

int bucket_fetch(const struct workspace_bucket *where, const char *key, const char *etag, uint64_t from,
                 uint64_t length, int descriptor, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct aws_request request = s3_get_object_part(&where->bucket, key, from, length, etag, arena);

        if (length == 0)
                return 1;
        request.sink = bring_piece;
        request.quiet_ms = QUIET_MS;
        for (unsigned tries = 1;; tries++) {
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                struct bringing bringing = { .descriptor = descriptor, .most = length };
                struct error failure = { 0 };
                enum aws_try what;
                int result;

                request.context = &bringing;
                if (ftruncate(descriptor, 0) < 0 || lseek(descriptor, 0, SEEK_SET) < 0)
                        return error_set(err, "cannot keep what comes: %s", strerror(errno));
                result = aws_call_once(where->client, &request, &response, &what, &failure);
                if (bringing.reason)
                        return error_set(err, "cannot keep what comes: %s", strerror(bringing.reason));
                if (result == 0)
                        return bringing.length == length && lseek(descriptor, 0, SEEK_SET) == 0 ? 1 : 0;
                if (aws_failed_with_any(&response, other_codes))
                        return 0;
                if (tries == TRIES_MAX || !is_worth_it(what, &response)) {
                        *err = failure;
                        return -1;
                }
                if (wait_for_try(where, tries, &request, err) < 0)
                        return -1;
        }
}

int bucket_read(const struct workspace_bucket *where, const char *key, size_t most, struct strbuf *ret,
                struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct aws_request request = s3_get_object(&where->bucket, key, arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;

        request.answer_limit = most;
        if (aws_call_accepting(where->client, &request, absent_codes, &response, err) < 0)
                return -1;
        if (*response.error_code)
                return 0;
        strbuf_append_bytes(ret, strbuf_text(&response.body), response.body.length);
        return 1;
}

/* --- putting --- */

/* 1: the object is what was put, whoever did it; 0: it is not. */
static int is_same_object(const struct workspace_bucket *where, const struct bucket_put *put,
                          char ret_etag[128], int64_t *ret_written_ms, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct workspace_index_file file = { .bytes = 0 };
        uint64_t bytes;
        int there = bucket_head(where, put->key, ret_etag, &bytes, ret_written_ms, err);

        if (there <= 0 || bytes != put->file.length)
                return there < 0 ? -1 : 0;
        file.etag = ret_etag;
        there = workspace_index_hash(where, put->key, &file, NULL, arena, err);
        return there <= 0 ? there : strcmp(file.sha256, put->file.sha256) == 0;
}

int bucket_put(const struct workspace_bucket *where, const struct bucket_put *put, char ret_etag[128],
               int64_t *ret_written_ms, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const struct s3_write write = {
                .key = put->key,
                .file = &put->file,
                .content_type = "application/octet-stream",
                .if_match = put->conditional ? put->etag : NULL,
                .if_absent = put->conditional && !put->etag,
                .tagging = layout_tag_header(put->environment, arena),
        };
        struct aws_request request = s3_write_object(&where->bucket, &write, arena);
        const struct clock *clock = aws_client_clock(where->client);
        bool uncertain = false;

        request.quiet_ms = QUIET_MS;
        for (unsigned tries = 1;; tries++) {
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                struct error failure = { 0 };
                enum aws_try what;

                if (aws_call_once(where->client, &request, &response, &what, &failure) == 0) {
                        memcpy(ret_etag, response.etag, sizeof(response.etag));
                        *ret_written_ms = response.date_ms ? response.date_ms : clock->wall_ms(clock);
                        return 1;
                }
                if (put->conditional && aws_failed_with_any(&response, unmet_codes))
                        return uncertain ? is_same_object(where, put, ret_etag, ret_written_ms, err) : 0;
                uncertain = uncertain || what == AWS_TRY_UNKNOWN || response.status >= 500;
                if (tries == TRIES_MAX || !is_worth_it(what, &response)) {
                        *err = failure;
                        return -1;
                }
                if (wait_for_try(where, tries, &request, err) < 0)
                        return -1;
        }
}

/* --- deleting --- */

static int delete_alone(const struct workspace_bucket *where, const char *key, const char *etag,
                        struct error *err) {
        static const char *const stays[] = { "PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey",
                                             "NotFound", NULL };
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request = s3_delete_object(&where->bucket, key, etag, arena);

        return aws_call_accepting(where->client, &request, etag ? stays : absent_codes, &response, err);
}

/* A name with a control character must not be in the way of all others, nor of a workspace that is removed. */
int bucket_delete(const struct workspace_bucket *where, const char *const *keys, const char *const *etags,
                  size_t count, struct error *err) {
        for (size_t done = 0; done < count;) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct s3_object *objects = arena_array(arena, DELETE_MAX, sizeof(*objects));
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                struct aws_request request;
                const char **stay;
                size_t some = 0, stay_count;

                for (; done < count && some < DELETE_MAX; done++) {
                        const char *etag = etags ? etags[done] : NULL;

                        if (s3_is_for_xml(keys[done]))
                                objects[some++] = (struct s3_object){ .key = keys[done], .only = etag };
                        else if (delete_alone(where, keys[done], etag, err) < 0)
                                return -1;
                }
                request = s3_delete_objects(&where->bucket, objects, some, arena);
                if (some > 0 && (aws_call(where->client, &request, &response, err) < 0 ||
                                 s3_read_deleted_but(&response, arena, &stay, &stay_count, err) < 0))
                        return -1;
        }
        return 0;
}

int bucket_delete_all(const struct workspace_bucket *where, const char *prefix,
                      bool (*keep)(void *context, const char *key), void *context, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *token = NULL;

        do {
                struct aws_request request = s3_list_objects(&where->bucket, prefix, token);
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                const char **keys;
                struct s3_page page;
                size_t count = 0;

                if (aws_call(where->client, &request, &response, err) < 0 ||
                    s3_read_objects(&response, arena, &page, err) < 0)
                        return -1;
                keys = arena_array(arena, page.count + 1, sizeof(*keys));
                for (size_t i = 0; i < page.count; i++) {
                        const char *key = page.objects[i].key;

                        if (text_begins_with(key, prefix) && !(keep && keep(context, key)))
                                keys[count++] = key;
                }
                if (bucket_delete(where, keys, NULL, count, err) < 0)
                        return -1;
                token = page.next;
        } while (token);
        return 0;
}
