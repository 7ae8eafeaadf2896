/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call each, by the client that all of AWS is called by. What an answer means for a conditional write:
 *
 *     2xx                                 carried out
 *     404 NoSuchKey                       there is no such object
 *     412 PreconditionFailed              the condition does not hold
 *     409 ConditionalRequestConflict      two wrote at once: it was not carried out
 *     none, cut off, 429, 5xx             not known, after as many tries as any call gets
 *     anything else                       refused
 *
 * (S3 User Guide, "How to prevent object overwrites with conditional writes".)
 */
#include "providers/aws/state_objects.h"

#include "base/array.h"
#include "base/text.h"
#include "providers/aws/client/aws_client.h"
#include "providers/aws/services/s3.h"

#include <stdlib.h>
#include <string.h>

#define OBJECT_LIMIT ((size_t)1 << 30) /* bytes of an answer */
/*
 * A lease is renewed with 15 s left: a kept connection that has died quietly must not use them up.
 * A large transfer takes as long as its bytes move (30 s without any end each request).
 */
#define SMALL_BYTES 16384
#define SMALL_TIMEOUT_MS 6000
#define LARGE_TIMEOUT_MS (15 * 60 * 1000)
#define OWN_PREFIX "berth" /* where stacks keep their own objects in their buckets */

struct state_objects {
        struct object_store store;
        struct arena *arena;
        struct aws_client *client;
        struct s3_bucket bucket;
        const char *prefix; /* without slashes at its ends */
};

/* Calls */

static struct state_objects *objects_of(struct object_store *store) {
        return (struct state_objects *)(void *)store;
}

static const char *object_key(const struct state_objects *objects, const char *key, struct arena *arena) {
        return arena_printf(arena, "%s/%s", objects->prefix, key);
}

/* What a call came to that has failed with `failure`. */
static int outcome_of(const struct aws_response *response, const struct error *failure, struct error *err) {
        static const char *const moved[] = { "PreconditionFailed", "ConditionalRequestConflict", NULL };

        if (aws_failed_with(response, "NoSuchKey"))
                return OBJECT_ABSENT;
        if (aws_failed_with_any(response, moved))
                return OBJECT_MOVED;
        *err = *failure;
        /* Without an answer there is no status; of bytes that make no sense it is that of a success. */
        if (response->status < 300 || response->status == 429 || response->status >= 500)
                return OBJECT_UNKNOWN;
        return -1;
}

static void note_answer(struct aws_response *response, struct object_answer *ret) {
        object_answer_release(ret);
        memcpy(ret->etag, response->etag, sizeof(ret->etag));
        ret->date_ms = response->date_ms;
        ret->modified_ms = response->modified_ms;
        ret->body = response->body;
        response->body = (struct strbuf)STRBUF_INIT;
}

static int call(struct state_objects *objects, const struct aws_request *request, struct object_answer *ret,
                struct error *err) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct error failure = { 0 };
        int outcome = OBJECT_DONE;

        if (aws_call(objects->client, request, &response, &failure) < 0)
                outcome = outcome_of(&response, &failure, err);
        if (ret && (outcome == OBJECT_DONE || outcome == OBJECT_ABSENT))
                note_answer(&response, ret);
        return outcome;
}

static int get(struct object_store *store, const char *key, struct object_answer *ret, struct error *err) {
        struct state_objects *objects = objects_of(store);
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct aws_request request = s3_get_object(&objects->bucket, object_key(objects, key, arena), arena);

        request.answer_limit = OBJECT_LIMIT;
        request.timeout_ms = LARGE_TIMEOUT_MS;
        return call(objects, &request, ret, err);
}

static int put(struct object_store *store, const char *key, const char *etag, const void *bytes,
               size_t length, struct object_answer *ret, struct error *err) {
        struct state_objects *objects = objects_of(store);
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct aws_request request = s3_put_object(&objects->bucket, object_key(objects, key, arena), bytes,
                                                   length, "application/octet-stream", etag, arena);

        request.timeout_ms = length <= SMALL_BYTES ? SMALL_TIMEOUT_MS : LARGE_TIMEOUT_MS;
        request.finishes = true; /* outcomes of what a run finishes before it ends are recorded too */
        return call(objects, &request, ret, err);
}

static int put_if_absent(struct object_store *store, const char *key, const void *bytes, size_t length,
                         struct object_answer *ret, struct error *err) {
        return put(store, key, NULL, bytes, length, ret, err);
}

static int list_keys(struct object_store *store, const char *prefix, struct arena *arena, const char ***ret,
                     size_t *ret_count, struct error *err) {
        struct state_objects *objects = objects_of(store);
        const char *whole = object_key(objects, prefix, arena), *token = NULL;
        size_t skipped = strlen(objects->prefix) + 1, count = 0;
        const char **keys = NULL;

        do {
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                struct aws_request request = s3_list_objects(&objects->bucket, whole, token);
                struct error failure = { 0 };
                struct s3_page page;

                if (aws_call(objects->client, &request, &response, &failure) < 0)
                        return outcome_of(&response, &failure, err);
                if (s3_read_objects(&response, arena, &page, err) < 0)
                        return -1;
                for (size_t i = 0; i < page.count; i++) {
                        /*
                         * A key beyond the request may be shorter than the prefix that is cut off.
                         */
                        if (!text_begins_with(page.objects[i].key, whole))
                                continue;
                        keys = array_grow(arena, keys, count, sizeof(*keys));
                        keys[count++] = page.objects[i].key + skipped;
                }
                token = page.next;
        } while (token);
        *ret = keys;
        *ret_count = count;
        return OBJECT_DONE;
}

static int remove_objects(struct object_store *store, const char *const *keys, size_t count,
                          struct error *err) {
        struct state_objects *objects = objects_of(store);
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct s3_object *doomed = arena_array(arena, count + 1, sizeof(*doomed));
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request;
        struct error failure = { 0 };

        for (size_t i = 0; i < count; i++)
                doomed[i].key = object_key(objects, keys[i], arena);
        request = s3_delete_objects(&objects->bucket, doomed, count, arena);
        request.timeout_ms = LARGE_TIMEOUT_MS;
        if (aws_call(objects->client, &request, &response, &failure) < 0)
                return outcome_of(&response, &failure, err);
        return s3_read_deleted(&response, arena, err) < 0 ? -1 : OBJECT_DONE;
}

static int keeps_versions(struct object_store *store, bool *ret, struct error *err) {
        struct state_objects *objects = objects_of(store);
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct aws_request request = s3_get_bucket_versioning(&objects->bucket);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;

        if (aws_call(objects->client, &request, &response, err) < 0 ||
            s3_read_versioning(&response, arena, ret, err) < 0)
                return -1;
        return OBJECT_DONE;
}

static void close_objects(struct object_store *store) {
        struct state_objects *objects = objects_of(store);

        if (!objects)
                return;
        aws_client_close(objects->client);
        arena_free(objects->arena);
        free(objects);
}

static const struct object_store_ops ops = {
        .get = get,
        .put_if_absent = put_if_absent,
        .put_if_match = put,
        .list = list_keys,
        .remove = remove_objects,
        .keeps_versions = keeps_versions,
        .close = close_objects,
};

int state_objects_open(const struct state_place *place, const struct value *stack_aws,
                       const struct clock *clock, struct object_store **ret, struct error *err) {
        struct state_objects *objects;
        struct aws_client *client;

        if (strcmp(place->prefix, OWN_PREFIX) == 0 || text_begins_with(place->prefix, OWN_PREFIX "/"))
                return error_set(
                        err,
                        "the state %s: below berth/ lies what stacks keep in their buckets: take another prefix",
                        place->text);
        if (aws_client_open(stack_aws, clock, &client, err) < 0)
                return error_context(err, "the state %s", place->text);
        objects = calloc(1, sizeof(*objects));
        if (!objects)
                abort();
        objects->arena = arena_new();
        objects->client = client;
        objects->bucket.name = arena_strdup(objects->arena, place->bucket);
        objects->prefix = arena_strdup(objects->arena, place->prefix);
        objects->store =
                (struct object_store){ .ops = &ops, .place = arena_strdup(objects->arena, place->text) };
        *ret = &objects->store;
        return 0;
}
