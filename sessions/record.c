/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owners have up to 600 bytes of any script, keys 256 of ASCII: so a key has the owner's digest, and the record the owner. Whoever
 * reads a record by an owner's key holds its owner against his own once more.
 */
#include "sessions/record.h"

#include "base/digest.h"
#include "base/json.h"
#include "base/strbuf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void record_dispose(struct record_session *record) {
        free(record->owner);
        free(record->environment);
        free(record->agent);
        free(record->conversation);
        json_decref(record->labels);
        json_decref(record->variables);
        json_decref(record->contexts);
        json_decref(record->note);
        json_decref(record->restarts);
        json_decref(record->interrupts);
        *record = (struct record_session){ 0 };
}

int64_t record_ends_ms(const struct record_session *record, bool busy) {
        int64_t age = record->created_ms + record->ttl_seconds * 1000;
        int64_t idle = record->active_ms + record->idle_seconds * 1000;

        return busy || age < idle ? age : idle;
}

bool record_is_open(const struct record_session *record) {
        return record->ending || record->oldest_n <= record->last_n || json_array_size(record->restarts) > 0;
}

static const struct {
        const char *name, *why;
} endings[] = {
        [RECORD_ENDED] = { "ended", "the session was ended" },
        [RECORD_EXPIRED] = { "expired", "the session has expired" },
        [RECORD_UNMADE] = { "unmade", "its sandbox could not be started" },
};
#define ENDING_COUNT (sizeof(endings) / sizeof(endings[0]))

const char *record_why_ended(enum record_ending ending) {
        return endings[ending ? ending : RECORD_ENDED].why;
}

/* A name that a newer server wrote is an end, too. */
static enum record_ending ending_of(const char *name) {
        size_t i = RECORD_ENDED;

        if (!name)
                return RECORD_LIVES;
        while (i < ENDING_COUNT && strcmp(endings[i].name, name) != 0)
                i++;
        return i < ENDING_COUNT ? (enum record_ending)i : RECORD_ENDED;
}

char *record_to_text(const struct record_session *record) {
        json_t *json JSON_CLEANUP = json_checked(
                json_pack("{s:s, s:s, s:s, s:s?, s:s?, s:O?, s:O?}", "id", record->id, "owner", record->owner,
                          "environment", record->environment, "agent", record->agent, "conversation",
                          record->conversation, "labels", record->labels, "variables", record->variables));

        json_put(json, "createdMs", json_integer(record->created_ms));
        json_put(json, "activeMs", json_integer(record->active_ms));
        json_put(json, "idleSeconds", json_integer(record->idle_seconds));
        /* For a server that does not know `ending`, the session has expired. */
        json_put(json, "ttlSeconds", json_integer(record->ending ? 0 : record->ttl_seconds));
        if (record->ending)
                json_put(json, "ending", json_string(endings[record->ending].name));
        json_put(json, "generation", json_integer(record->generation));
        json_put(json, "generationBase", json_integer(record->generation_base));
        if (record->contexts)
                json_put(json, "contexts", json_incref(record->contexts));
        if (record->queued_ms > 0)
                json_put(json, "queuedMs", json_integer(record->queued_ms));
        json_put(json, "lastN", json_integer(record->last_n));
        json_put(json, "takenN", json_integer(record->taken_n));
        json_put(json, "oldestN", json_integer(record->oldest_n));
        json_put(json, "historyBytes", json_integer(record->history_bytes));
        if (record->trimmed_n > 0)
                json_put(json, "trimmedN", json_integer(record->trimmed_n));
        json_put(json, "parked", json_boolean(record->parked));
        if (record->note)
                json_put(json, "place", json_incref(record->note));
        if (record->checkpoint.digest[0])
                json_put(json, "checkpoint",
                         json_pack("{s:s, s:I, s:I}", "sha256", record->checkpoint.digest, "bytes",
                                   (json_int_t)record->checkpoint.bytes, "takenMs",
                                   (json_int_t)record->checkpoint.taken_ms));
        if (record->holder[0])
                json_put(json, "holder", json_string(record->holder));
        if (json_array_size(record->restarts) > 0)
                json_put(json, "restarts", json_incref(record->restarts));
        if (json_array_size(record->interrupts) > 0)
                json_put(json, "interrupts", json_incref(record->interrupts));
        if (record->followed_n > 0)
                json_put(json, "followedN", json_integer(record->followed_n));
        if (record->by[0])
                json_put(json, "by", json_string(record->by));
        return json_plain(json);
}

char *record_copy_text(const char *text) {
        char *copy = text ? strdup(text) : NULL;

        if (text && !copy)
                abort();
        return copy;
}

int record_from_text(const struct session_item *item, struct record_session *ret, struct error *err) {
        json_error_t where;
        json_t *json JSON_CLEANUP = json_loads(item->value, JSON_REJECT_DUPLICATES, &where);
        const char *id = json_text(json, "id"), *owner = json_text(json, "owner");
        const char *environment = json_text(json, "environment");
        json_t *labels = json_object_get(json, "labels"), *variables = json_object_get(json, "variables");
        json_t *contexts = json_object_get(json, "contexts"),
               *checkpoint = json_object_get(json, "checkpoint"), *note = json_object_get(json, "place");
        const char *digest = json_text(checkpoint, "sha256"), *by = json_text(json, "by");
        const char *holder = json_text(json, "holder");
        json_t *restarts = json_object_get(json, "restarts"),
               *interrupts = json_object_get(json, "interrupts");

        if (!id || !record_is_id(id) || !owner || !environment)
                return error_set(err, "the record of the session %s is corrupt", item->key);
        *ret = (struct record_session){
                .owner = record_copy_text(owner),
                .environment = record_copy_text(environment),
                .agent = record_copy_text(json_text(json, "agent")),
                .conversation = record_copy_text(json_text(json, "conversation")),
                .labels = json_is_object(labels) ? json_incref(labels) : NULL,
                .variables = json_is_object(variables) ? json_incref(variables) : NULL,
                .created_ms = json_integer_or(json, "createdMs", 0),
                .active_ms = json_integer_or(json, "activeMs", 0),
                .idle_seconds = json_integer_or(json, "idleSeconds", 0),
                .ttl_seconds = json_integer_or(json, "ttlSeconds", 0),
                .generation = json_integer_or(json, "generation", 0),
                .generation_base = json_integer_or(json, "generationBase", 0),
                .contexts = json_is_object(contexts) ? json_incref(contexts) : NULL,
                .queued_ms = json_integer_or(json, "queuedMs", 0),
                .last_n = json_integer_or(json, "lastN", 0),
                .taken_n = json_integer_or(json, "takenN", 0),
                .oldest_n = json_integer_or(json, "oldestN", 1),
                .history_bytes = json_integer_or(json, "historyBytes", 0),
                .trimmed_n = json_integer_or(json, "trimmedN", 0),
                .parked = json_is_true(json_object_get(json, "parked")),
                .note = note ? json_incref(note) : NULL,
                .ending = ending_of(json_text(json, "ending")),
                .restarts = json_is_array(restarts) ? json_incref(restarts) : NULL,
                .interrupts = json_is_array(interrupts) ? json_incref(interrupts) : NULL,
                .followed_n = json_integer_or(json, "followedN", 0),
                .version = item->version,
        };
        snprintf(ret->id, sizeof(ret->id), "%s", id);
        if (by && strlen(by) < sizeof(ret->by))
                snprintf(ret->by, sizeof(ret->by), "%s", by);
        if (holder && strlen(holder) < sizeof(ret->holder))
                snprintf(ret->holder, sizeof(ret->holder), "%s", holder);
        if (digest && strlen(digest) == sizeof(ret->checkpoint.digest) - 1) {
                memcpy(ret->checkpoint.digest, digest, sizeof(ret->checkpoint.digest));
                ret->checkpoint.bytes = (uint64_t)json_integer_or(checkpoint, "bytes", 0);
                ret->checkpoint.taken_ms = json_integer_or(checkpoint, "takenMs", 0);
        }
        return 0;
}

static const char base32[] = "abcdefghijklmnopqrstuvwxyz234567"; /* RFC 4648, in lower case */

void record_new_id(char id[ENGINE_ID_SIZE]) {
        uint8_t bytes[17] = { 0 }; /* one more, so that the last character finds two */
        char *at = id;

        random_bytes(bytes, 16);
        *at++ = 's';
        *at++ = '-';
        for (unsigned bit = 0; bit < 128; bit += 5) {
                unsigned pair = (unsigned)bytes[bit / 8] << 8 | bytes[bit / 8 + 1];

                *at++ = base32[pair >> (11 - bit % 8) & 31];
        }
        *at = '\0';
}

bool record_is_id(const char *id) {
        return strlen(id) == ENGINE_ID_SIZE - 1 && id[0] == 's' && id[1] == '-' &&
               strspn(id + 2, base32) == ENGINE_ID_SIZE - 3;
}

void record_digest(const char *const *texts, size_t count, char digest[RECORD_DIGEST_SIZE]) {
        struct strbuf joined STRBUF_CLEANUP = STRBUF_INIT;
        char hex[SHA256_HEX_SIZE];

        for (size_t i = 0; i < count; i++) {
                strbuf_append_char(&joined, texts[i] ? '+' : '-');
                strbuf_append_bytes(&joined, texts[i] ? texts[i] : "", (texts[i] ? strlen(texts[i]) : 0) + 1);
        }
        digest_sha256_hex(strbuf_text(&joined), joined.length, hex);
        snprintf(digest, RECORD_DIGEST_SIZE, "%.*s", RECORD_DIGEST_SIZE - 1, hex);
}

const char *record_session_prefix(const char *owner, struct arena *arena) {
        char digest[RECORD_DIGEST_SIZE];

        record_digest(&owner, 1, digest);
        return arena_printf(arena, "%s/", digest);
}

const char *record_session_key(const char *owner, const char *id, struct arena *arena) {
        return arena_printf(arena, "%s%s", record_session_prefix(owner, arena), id);
}

const char *record_conversation_key(const struct record_session *record, struct arena *arena) {
        const char *const what[] = { record->agent ? NULL : record->environment, record->agent,
                                     record->conversation };
        char owner[RECORD_DIGEST_SIZE], digest[RECORD_DIGEST_SIZE];

        record_digest((const char *const[]){ record->owner }, 1, owner);
        record_digest(what, 3, digest);
        return arena_printf(arena, "%s/%s", owner, digest);
}

const char *record_executions_prefix(const char *owner, const char *id, struct arena *arena) {
        return arena_printf(arena, "%s/", record_session_key(owner, id, arena));
}

const char *record_execution_key(const char *owner, const char *id, int64_t n, struct arena *arena) {
        return arena_printf(arena, "%s%010lld", record_executions_prefix(owner, id, arena), (long long)n);
}

const char *record_live_prefix(const char *id, int64_t n, struct arena *arena) {
        return arena_printf(arena, "~live/%s/%010lld/", id, (long long)n);
}

const char *record_live_key(const char *id, int64_t n, int64_t event, struct arena *arena) {
        return arena_printf(arena, "%s%010lld", record_live_prefix(id, n, arena), (long long)event);
}

/* Of the others the engine decides: what lies elsewhere goes with them. */
int64_t record_expires_ms(enum session_table table, const char *value) {
        json_t *json JSON_CLEANUP = table == SESSION_TABLE_KEYS ? json_loads(value, 0, NULL) : NULL;
        json_int_t at_ms = json_integer_or(json, "at", 0);

        json_int_t seconds = json_integer_or(json, "keepSeconds", ENGINE_KEY_SECONDS);

        return at_ms > 0 ? (int64_t)at_ms + (int64_t)seconds * 1000 : 0;
}
