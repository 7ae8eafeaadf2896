/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The object's text names the process that holds the lock, for two questions that its age does not answer: is it our own
 * taking, whose answer was lost, and is its holder a process of this machine that died a moment ago? Both spare the next
 * run a minute.
 */
#include "providers/aws/shared/lock.h"

#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"
#include "providers/aws/client/texts.h"
#include "providers/aws/shared/lock_holder.h"
#include "providers/aws/shared/stage_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Date and Last-Modified are whole seconds, cut off: their difference may be a second too much. */
#define WHOLE_SECONDS_MS 1000

char *lock_body(const char *stack, const char *process, const char *holder, const char *taking) {
        json_t *body JSON_CLEANUP = json_pack("{s:s, s:s}", "formatVersion", "2", "taking", taking);

        /* A host may be called anything: what is not UTF-8 is written as \xNN. */
        json_set_text(body, "stack", stack);
        json_set_text(body, "process", process);
        json_set_text(body, "holder", holder);
        return json_compact(body);
}

bool lock_is_stale(const char *text, size_t length, int64_t age_ms, const struct lock_viewer *viewer) {
        json_t *body JSON_CLEANUP = json_loadb(text, length, 0, NULL);
        const char *process = json_text(body, "process");

        if (age_ms > LOCK_LEASE_MS + WHOLE_SECONDS_MS)
                return true;
        if (texts_same(process, viewer->process) && texts_same(json_text(body, "stack"), viewer->stack))
                return true;
        return process && viewer->is_gone(process);
}

static const struct clock *clock_of(const struct stage_turn *turn) {
        return aws_client_clock(turn->provider->client);
}

static int64_t lock_monotonic_ms(const struct stage_turn *turn) {
        return clock_of(turn)->monotonic_ms(clock_of(turn));
}

static int64_t lock_wall_ms(const struct stage_turn *turn) {
        return clock_of(turn)->wall_ms(clock_of(turn));
}

/*
 * Makes the object, or with `if_match` replaces that very one. The second of two PUTs fails its
 * condition.
 */
static int put_lock(struct stage_turn *turn, const struct s3_bucket *bucket, const char *key,
                    const char *if_match) {
        /* 409 ConditionalRequestConflict: two wrote at once; which one won, the next look tells. */
        static const char *const lost[] = { "PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey",
                                            "NoSuchBucket", NULL };
        struct arena *arena = turn->progress->arena;
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        char process[LOCK_HOLDER_SIZE], host[128] = "", holder[192], taking[2 * 16 + 1];
        unsigned char random[16];
        struct aws_request request;
        char *text TEXT_CLEANUP = NULL;
        /* S3 writes Last-Modified at some moment between the request and its answer, which may be a minute apart. */
        int64_t asked_ms = lock_monotonic_ms(turn), asked_wall_ms = lock_wall_ms(turn);
        int result;

        gethostname(host, sizeof(host) - 1);
        snprintf(holder, sizeof(holder), "process %ld on %s", (long)getpid(), host);
        lock_holder_self(process);
        random_bytes(random, sizeof(random));
        digest_hex(random, sizeof(random), taking);
        text = lock_body(turn->provider->stack_name, process, holder, taking);
        request = s3_put_object(bucket, key, text, strlen(text), "application/json", if_match, arena);
        result = stage_call(turn, &request, lost, &response);
        if (result != 0)
                return result;
        if (aws_failed_with(&response, "NoSuchBucket"))
                return LOCK_NO_BUCKET;
        if (*response.error_code) {
                /* Where it was a renewal, the lock that was ours is so no more. */
                value_unset(stage_data(turn), "lockEtag");
                return LOCK_BUSY;
        }
        value_unset(stage_data(turn), "lockSeen");
        value_set_text(arena, stage_data(turn), "lockEtag", response.etag);
        value_set_integer(arena, stage_data(turn), "lockTakenAtMs", asked_ms);
        value_set_integer(arena, stage_data(turn), "lockTakenAtWallMs", asked_wall_ms);
        return LOCK_HELD;
}

int lock_take(struct stage_turn *turn, const struct s3_bucket *bucket, const char *key) {
        return put_lock(turn, bucket, key, NULL);
}

/* The lock that was seen is another's; if none was, the caller renews its own. */
int lock_take_over(struct stage_turn *turn, const struct s3_bucket *bucket, const char *key) {
        const char *seen = value_get_text(turn->progress->data, "lockSeen");

        return put_lock(turn, bucket, key, seen ? seen : value_get_text(turn->progress->data, "lockEtag"));
}

/* Notes which object was seen, for taking it over; returns for how long it has been seen, by our own clock. */
static int64_t seen_for_ms(const struct stage_turn *turn, const char *etag) {
        struct value *data = stage_data(turn);
        const char *seen = value_get_text(data, "lockSeen");
        int64_t now = lock_monotonic_ms(turn);

        if (!seen || strcmp(seen, etag) != 0) {
                value_set_text(turn->progress->arena, data, "lockSeen", etag);
                value_set_integer(turn->progress->arena, data, "lockSeenAtMs", now);
        }
        return now - value_get_integer(data, "lockSeenAtMs", now);
}

/* By S3's clock; -1 where it did not say both, or said that the object was written after it had answered. */
static int64_t age_of(const struct aws_response *response) {
        bool known = response->date_ms > 0 && response->modified_ms > 0 &&
                     response->modified_ms <= response->date_ms + WHOLE_SECONDS_MS;

        return known ? response->date_ms - response->modified_ms : -1;
}

int lock_look(struct stage_turn *turn, const struct s3_bucket *bucket, const char *key) {
        static const char *const none[] = { "NoSuchKey", "NoSuchBucket", NULL };
        char process[LOCK_HOLDER_SIZE];
        struct lock_viewer viewer = {
                .stack = turn->provider->stack_name,
                .process = process,
                .is_gone = lock_holder_is_gone,
        };
        struct aws_request request = s3_get_object(bucket, key, turn->progress->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = stage_call(turn, &request, none, &response);
        int64_t age_ms, seen_ms;

        if (result != 0)
                return result;
        lock_holder_self(process);
        if (*response.error_code)
                return LOCK_FREE;
        seen_ms = seen_for_ms(turn, response.etag);
        age_ms = age_of(&response);
        return lock_is_stale(strbuf_text(&response.body), response.body.length, age_ms < 0 ? seen_ms : age_ms,
                             &viewer)
                       ? LOCK_STALE
                       : LOCK_BUSY;
}

/*
 * The monotonic clock stands still while the machine sleeps, the wall clock is set by people: what either of them says is
 * a reason to renew, which costs one call and is never wrong.
 */
bool lock_is_ageing(const struct stage_turn *turn) {
        const struct value *data = turn->progress->data;
        int64_t now = lock_monotonic_ms(turn), wall = lock_wall_ms(turn);
        int64_t held_ms = now - value_get_integer(data, "lockTakenAtMs", now),
                wall_ms = wall - value_get_integer(data, "lockTakenAtWallMs", wall);

        return held_ms > LOCK_LEASE_MS / 2 || wall_ms > LOCK_LEASE_MS / 2 || wall_ms < -LOCK_LEASE_MS / 2;
}

/* Deletes only our own lock: one that was taken over meanwhile stays. */
int lock_release(struct stage_turn *turn, const struct s3_bucket *bucket, const char *key) {
        static const char *const gone[] = { "NoSuchKey", "NoSuchBucket", "PreconditionFailed",
                                            "ConditionalRequestConflict", NULL };
        const char *etag = value_get_text(turn->progress->data, "lockEtag");
        struct aws_request request = s3_delete_object(bucket, key, etag, turn->progress->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result;

        if (!etag)
                return LOCK_FREE;
        result = stage_call(turn, &request, gone, &response);
        if (result != 0)
                return result;
        value_unset(turn->progress->data, "lockEtag");
        return LOCK_FREE;
}
