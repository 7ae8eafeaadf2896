/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/shared/lock.h"

#include "base/files.h"
#include "base/json.h"
#include "providers/aws/client/texts.h"
#include "providers/aws/shared/stage_call.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Boot and process namespace together say which processes a pid is among: containers share the former only. */
static void this_place(char *buffer, size_t size) {
        struct strbuf boot STRBUF_CLEANUP = STRBUF_INIT;
        char space[64] = "";
        struct error ignored;
        ssize_t length = readlink("/proc/self/ns/pid", space, sizeof(space) - 1);

        space[length > 0 ? length : 0] = '\0';
        if (file_read("/proc/sys/kernel/random/boot_id", 256, &boot, &ignored) < 0)
                strbuf_clear(&boot);
        snprintf(buffer, size, "%.*s/%s/", (int)strcspn(strbuf_text(&boot), "\n"), strbuf_text(&boot), space);
}

const char *lock_process(char *buffer, size_t size) {
        char place[160];

        this_place(place, sizeof(place));
        snprintf(buffer, size, "%s%ld", place, (long)getpid());
        return buffer;
}

bool lock_process_is_gone(const char *process) {
        char place[160], *end;
        long pid;

        this_place(place, sizeof(place));
        /* An unknown place ("//") is no place to compare with. */
        if (strlen(place) < 8 || strncmp(process, place, strlen(place)) != 0)
                return false;
        pid = strtol(process + strlen(place), &end, 10);
        if (*end || pid <= 0)
                return false;
        return kill((pid_t)pid, 0) < 0 && errno == ESRCH;
}

char *lock_body(const char *stack, const char *process, const char *holder, int64_t now_ms) {
        json_t *body JSON_CLEANUP =
                json_pack("{s:s, s:I, s:I}", "formatVersion", "1", "takenAtMs", (json_int_t)now_ms,
                          "expiresAtMs", (json_int_t)(now_ms + LOCK_LEASE_MS));

        /* A host may be called anything: what is not UTF-8 is written as \xNN. */
        json_set_text(body, "stack", stack);
        json_set_text(body, "process", process);
        json_set_text(body, "holder", holder);
        return json_compact(body);
}

bool lock_body_is_stale(const char *text, size_t length, const struct lock_viewer *viewer) {
        json_t *body JSON_CLEANUP = json_loadb(text, length, 0, NULL);
        const char *process = json_text(body, "process");
        json_int_t expires = json_integer_or(body, "expiresAtMs", -1);

        /* What does not say until when is held until it has been seen for a whole lease. */
        if (expires < 0)
                return false;
        if (texts_same(process, viewer->process) && texts_same(json_text(body, "stack"), viewer->stack))
                return true;
        return expires < viewer->now_ms || (process && viewer->is_gone(process));
}

static const struct clock *clock_of(const struct stage_turn *turn) {
        return aws_client_clock(turn->provider->client);
}

static int64_t monotonic_now(const struct stage_turn *turn) {
        return clock_of(turn)->monotonic_ms(clock_of(turn));
}

static int put(struct stage_turn *turn, const struct s3_bucket *bucket, const char *key,
               const char *if_match) {
        /* 409 ConditionalRequestConflict: two wrote at once; which one won, the next look tells. */
        static const char *const lost[] = { "PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey",
                                            "NoSuchBucket", NULL };
        struct arena *arena = turn->progress->arena;
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        char process[256], host[128] = "", holder[192];
        struct aws_request request;
        char *text TEXT_CLEANUP = NULL;
        int result;

        gethostname(host, sizeof(host) - 1);
        snprintf(holder, sizeof(holder), "process %ld on %s", (long)getpid(), host);
        text = lock_body(turn->provider->stack_name, lock_process(process, sizeof(process)), holder,
                         clock_of(turn)->wall_ms(clock_of(turn)));
        request = s3_put_object(bucket, key, text, strlen(text), "application/json", if_match, arena);
        result = stage_call(turn, &request, lost, NULL, &response);
        if (result != 0)
                return result;
        if (aws_failed_with(&response, "NoSuchBucket"))
                return LOCK_NO_BUCKET;
        if (*response.error_code) {
                value_unset(stage_data(turn), "lockEtag");
                return LOCK_BUSY;
        }
        value_unset(stage_data(turn), "lockSeen");
        value_set_text(arena, stage_data(turn), "lockEtag", response.etag);
        value_set_integer(arena, stage_data(turn), "lockTakenAtMs", monotonic_now(turn));
        return LOCK_HELD;
}

int lock_take(struct stage_turn *turn, const struct s3_bucket *bucket, const char *key) {
        return put(turn, bucket, key, NULL);
}

int lock_take_over(struct stage_turn *turn, const struct s3_bucket *bucket, const char *key) {
        const char *seen = value_get_text(turn->progress->data, "lockSeen");

        return put(turn, bucket, key, seen ? seen : value_get_text(turn->progress->data, "lockEtag"));
}

/* Whether the object with this ETag has been there, by our own clock, for a whole lease. */
static bool seen_long_enough(const struct stage_turn *turn, const char *etag) {
        struct value *data = stage_data(turn);
        const char *seen = value_get_text(data, "lockSeen");
        int64_t now = monotonic_now(turn);

        if (!seen || strcmp(seen, etag) != 0) {
                value_set_text(turn->progress->arena, data, "lockSeen", etag);
                value_set_integer(turn->progress->arena, data, "lockSeenAtMs", now);
        }
        return now - value_get_integer(data, "lockSeenAtMs", now) >= LOCK_LEASE_MS;
}

int lock_look(struct stage_turn *turn, const struct s3_bucket *bucket, const char *key) {
        static const char *const none[] = { "NoSuchKey", "NoSuchBucket", NULL };
        char process[256];
        struct lock_viewer viewer = {
                .stack = turn->provider->stack_name,
                .process = lock_process(process, sizeof(process)),
                .now_ms = clock_of(turn)->wall_ms(clock_of(turn)),
                .is_gone = lock_process_is_gone,
        };
        struct aws_request request = s3_get_object(bucket, key, turn->progress->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = stage_call(turn, &request, none, NULL, &response);

        if (result != 0)
                return result;
        if (*response.error_code)
                return LOCK_FREE;
        if (seen_long_enough(turn, response.etag))
                return LOCK_STALE;
        return lock_body_is_stale(strbuf_text(&response.body), response.body.length, &viewer) ? LOCK_STALE
                                                                                              : LOCK_BUSY;
}

bool lock_is_ageing(const struct stage_turn *turn) {
        int64_t now = monotonic_now(turn);

        return now - value_get_integer(turn->progress->data, "lockTakenAtMs", now) > LOCK_LEASE_MS / 2;
}

int lock_release(struct stage_turn *turn, const struct s3_bucket *bucket, const char *key) {
        static const char *const gone[] = { "NoSuchKey", "NoSuchBucket", "PreconditionFailed",
                                            "ConditionalRequestConflict", NULL };
        const char *etag = value_get_text(turn->progress->data, "lockEtag");
        struct aws_request request = s3_delete_object(bucket, key, etag, turn->progress->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result;

        if (!etag)
                return LOCK_FREE;
        result = stage_call(turn, &request, gone, NULL, &response);
        if (result != 0)
                return result;
        value_unset(turn->progress->data, "lockEtag");
        return LOCK_FREE;
}
