/* SPDX-License-Identifier: Apache-2.0 */
#include "sessions/once.h"

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "sessions/checks.h"
#include "sessions/servers.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_MAX ((size_t)64 << 10) /* bytes of one that is kept */
#define KEY_BYTES 512                 /* that a record takes up on the disk without its answer */

static const char *key_of(const struct engine_caller *caller, const struct engine_once *once,
                          struct arena *arena) {
        const char *const texts[] = { caller->client, caller->owner, once->route, once->key };
        char *digest = arena_alloc(arena, RECORD_DIGEST_SIZE);

        record_digest(texts, 4, digest);
        return digest;
}

/* In the arena. */
static const char *owner_of(const struct engine_caller *caller, struct arena *arena) {
        char *digest = arena_alloc(arena, RECORD_DIGEST_SIZE);

        record_digest(&caller->owner, 1, digest);
        return digest;
}

static void count_bytes(struct engine *engine, const struct engine_caller *caller, uint64_t bytes) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        int64_t now_ms = engine_now(engine);

        once_share_add(&engine->once_shares, owner_of(caller, arena), bytes, now_ms, now_ms);
}

static void discount_bytes(struct engine *engine, const struct engine_caller *caller, uint64_t bytes) {
        struct arena *arena ARENA_CLEANUP = arena_new();

        once_share_take(&engine->once_shares, owner_of(caller, arena), bytes);
}

int once_check_room(const struct engine *engine, const struct engine_caller *caller,
                    const struct engine_once *once, struct problem *problem) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        uint64_t most = engine->config.limits.keys_bytes, bytes;
        int64_t now_ms = engine_now(engine), frees_ms;

        if (!once->key)
                return 0;
        bytes = once_share_bytes(&engine->once_shares, owner_of(caller, arena), now_ms, &frees_ms);
        if (bytes + KEY_BYTES <= most)
                return 0;
        (void)problem_set(problem, PROBLEM_KEYS_FULL,
                          "the Idempotency-Keys of the last 24 hours, with their answers, have %llu bytes "
                          "together, and may have %llu",
                          (unsigned long long)bytes, (unsigned long long)most);
        problem->retry_seconds = (frees_ms - now_ms + 999) / 1000;
        return -1;
}

void once_count(struct engine *engine, const struct engine_caller *caller, const struct engine_once *once) {
        if (once->key)
                count_bytes(engine, caller, KEY_BYTES);
}

/* Other items of the table have no owner; neither have records of versions before this, which are gone within a day. */
void once_count_item(struct engine *engine, const struct session_item *item) {
        json_t *json JSON_CLEANUP = json_loads(item->value, 0, NULL);
        const char *owner = json_text(json, "owner"), *by = json_text(json, "by"),
                   *answer = json_text(json, "answer");

        if (owner && by && strcmp(by, engine->number) != 0)
                once_share_add(&engine->once_shares, owner, KEY_BYTES + (answer ? strlen(answer) : 0),
                               json_integer_or(json, "at", 0), engine_now(engine));
}

int once_look(struct engine *engine, const struct engine_caller *caller, const struct engine_once *once,
              struct arena *arena, struct once_answer *ret, struct problem *problem) {
        int64_t oldest_ms = engine_now(engine) - (int64_t)ENGINE_KEY_SECONDS * 1000;
        json_t *json JSON_CLEANUP = NULL;
        struct session_item item = { 0 };
        const char *body, *session;
        struct error err;
        int found;

        if (!once->key)
                return 0;
        found = engine_get(engine, SESSION_TABLE_KEYS, key_of(caller, once, arena), arena, &item, &err);
        if (found < 0)
                return problem_from_error(problem, PROBLEM_STORE_FAILED, &err);
        json = found ? json_loads(item.value, 0, NULL) : NULL;
        body = json_text(json, "body");
        session = json_text(json, "session");
        if (!body || !session)
                return 0;
        if (json_integer_or(json, "at", 0) < oldest_ms) {
                struct session_change change = { SESSION_TABLE_KEYS, item.key, NULL, SESSION_EXPECT_VERSION,
                                                 item.version };

                if (engine_write(engine, &change, 1, &err) < 0)
                        return problem_from_error(problem, PROBLEM_STORE_FAILED, &err);
                return 0;
        }
        if (strcmp(body, once->body ? once->body : "") != 0)
                return problem_set(problem, PROBLEM_KEY_REUSED,
                                   "this Idempotency-Key came before, with another request");
        *ret = (struct once_answer){ .session = arena_strdup(arena, session),
                                     .n = json_integer_or(json, "n", 0),
                                     .answer = json_text(json, "answer")
                                                       ? arena_strdup(arena, json_text(json, "answer"))
                                                       : NULL,
                                     .begun = json_text(json, "begunBy"),
                                     .key = item.key,
                                     .version = item.version };
        ret->by_another = ret->begun && strcmp(json_text(json, "begunBy"), engine->number) != 0;
        if (ret->by_another && engine->servers) {
                pthread_mutex_unlock(&engine->lock);
                found = servers_lives(engine->servers, json_text(json, "begunBy"), &err);
                pthread_mutex_lock(&engine->lock);
                if (found < 0)
                        return problem_from_error(problem, PROBLEM_STORE_FAILED, &err);
                if (found > 0)
                        return problem_set(problem, PROBLEM_BUSY, "the same request is under way");
        }
        return 1;
}

struct session_change once_change(const struct engine *engine, const struct engine_caller *caller,
                                  const struct engine_once *once, const char *session, int64_t n,
                                  int64_t now_ms, struct arena *arena) {
        json_t *json JSON_CLEANUP =
                json_checked(json_pack("{s:s, s:s, s:I, s:I, s:s, s:s}", "body", once->body ? once->body : "",
                                       "session", session, "n", (json_int_t)n, "at", (json_int_t)now_ms,
                                       "owner", owner_of(caller, arena), "by", engine->number));
        char *text = json_compact(json);
        struct session_change change = { SESSION_TABLE_KEYS, key_of(caller, once, arena),
                                         arena_strdup(arena, text), SESSION_EXPECT_ABSENT, 0 };

        free(text);
        return change;
}

/*
 * An end that the store did not take: it is written with a later sweep, and known here meanwhile, so that whoever asks again hears it. Its
 * key's record says still that this engine is about it. When this engine dies before, it is what a death met in the middle.
 */
struct once_end {
        struct once_end *next;
        char *text;   /* for the store; NULL: it was not done, and the key goes */
        char *answer; /* NULL: there is none, or it is too long to be kept */
        char key[RECORD_DIGEST_SIZE];
};

#define UNWRITTEN_MAX 1024

static void free_end(struct once_end *end) {
        free(end->text);
        free(end->answer);
        free(end);
}

static struct once_end **unwritten_of(struct engine *engine, const char *key) {
        struct once_end **link = &engine->unwritten_ends;

        while (*link && strcmp((*link)->key, key) != 0)
                link = &(*link)->next;
        return link;
}

/* The oldest is forgotten where there are too many: of that nobody knows any more how it ended, and its key says so for a day. */
static void keep_end(struct engine *engine, const struct session_change *change, const char *answer) {
        struct once_end *end = calloc(1, sizeof(*end)), **last = &engine->unwritten_ends;
        size_t count = 1;

        if (!end)
                abort();
        end->text = record_copy_text(change->value);
        end->answer = record_copy_text(answer);
        snprintf(end->key, sizeof(end->key), "%s", change->key);
        for (; *last; last = &(*last)->next)
                count++;
        *last = end;
        if (count > UNWRITTEN_MAX) {
                end = engine->unwritten_ends;
                engine->unwritten_ends = end->next;
                free_end(end);
        }
}

void once_write_ends(struct engine *engine) {
        struct once_end *end;

        while ((end = engine->unwritten_ends)) {
                const struct session_change change = { SESSION_TABLE_KEYS, end->key, end->text,
                                                       SESSION_EXPECT_NOTHING, 0 };
                struct error ignored;

                /* The lock may be released meanwhile: nobody else is to free it. */
                engine->unwritten_ends = end->next;
                if (engine_write(engine, &change, 1, &ignored) < 0) {
                        end->next = engine->unwritten_ends;
                        engine->unwritten_ends = end;
                        return;
                }
                free_end(end);
        }
}

void once_forget_ends(struct engine *engine) {
        while (engine->unwritten_ends) {
                struct once_end *end = engine->unwritten_ends;

                engine->unwritten_ends = end->next;
                free_end(end);
        }
}

static int answer_again(const char *answer, json_t **ret, struct problem *problem) {
        *ret = answer ? json_loads(answer, JSON_DECODE_ANY, NULL) : NULL;
        return *ret ? 1
                    : problem_set(problem, PROBLEM_CONFLICT,
                                  "that was done, and its answer was too long to be kept");
}

/* As once_change(), of what is not a record of its own. `by`: who has begun it; else it has ended, with that answer. */
static char *step_text(const struct engine *engine, const struct engine_caller *caller,
                       const struct engine_once *once, const char *session, const char *by,
                       const char *answer) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        json_t *json JSON_CLEANUP =
                json_checked(json_pack("{s:s, s:s, s:i, s:I, s:s, s:s}", "body", once->body ? once->body : "",
                                       "session", session, "n", 0, "at", (json_int_t)engine_now(engine),
                                       "owner", owner_of(caller, arena), "by", engine->number));

        json_set_text(json, "begunBy", by);
        json_set_text(json, "answer", answer);
        return json_compact(json);
}

static int write_step(struct engine *engine, struct session_change *change, struct problem *problem) {
        struct error err;
        int stored = engine_write(engine, change, 1, &err);

        return stored < 0 ? problem_from_error(problem, PROBLEM_STORE_FAILED, &err) : stored;
}

/* As engine_once_begin(), with the lock, of a key that this engine is about, or was when its end could not be written. */
static int begin_again(struct engine *engine, const struct engine_caller *caller,
                       struct session_change *change, json_t **ret, struct problem *problem) {
        struct once_end **link = unwritten_of(engine, change->key), *end = *link;
        int stored;

        if (!end)
                return problem_set(problem, PROBLEM_BUSY, "the same request is under way");
        if (end->text)
                return answer_again(end->answer, ret, problem);
        stored = write_step(engine, change, problem);
        if (stored <= 0)
                return stored < 0 ? -1 : problem_set(problem, PROBLEM_BUSY, "the same request is under way");
        count_bytes(engine, caller, KEY_BYTES);
        link = unwritten_of(engine, change->key); /* who else has seen to it meanwhile */
        end = *link;
        if (end) {
                *link = end->next;
                free_end(end);
        }
        return 0;
}

static int begin_once(struct engine *engine, const struct engine_caller *caller,
                      const struct engine_once *once, const char *session, json_t **ret,
                      struct problem *problem) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct once_answer before = { 0 };
        struct session_change change = { .table = SESSION_TABLE_KEYS, .expect = SESSION_EXPECT_ABSENT };
        char *text TEXT_CLEANUP = NULL;
        int seen, stored;

        seen = once_look(engine, caller, once, arena, &before, problem);
        if (seen < 0)
                return -1;
        if (seen == 1 && !before.begun)
                return answer_again(before.answer, ret, problem);
        if (seen == 0 && once_check_room(engine, caller, once, problem) < 0)
                return -1;
        if (seen == 1) {
                change.expect = SESSION_EXPECT_VERSION;
                change.version = before.version;
        }
        change.key = key_of(caller, once, arena);
        change.value = text = step_text(engine, caller, once, session, engine->number, NULL);
        if (seen == 1 && !before.by_another)
                return begin_again(engine, caller, &change, ret, problem);
        stored = write_step(engine, &change, problem);
        if (stored > 0)
                count_bytes(engine, caller, KEY_BYTES);
        return stored == 0 ? problem_set(problem, PROBLEM_BUSY, "the same request is under way")
                           : (stored < 0 ? -1 : 0);
}

int engine_once_begin(struct engine *engine, const struct engine_caller *caller,
                      const struct engine_once *once, const char *session, json_t **ret,
                      struct problem *problem) {
        int begun;

        if (!once->key)
                return 0;
        if (check_once(once, problem) < 0)
                return -1;
        pthread_mutex_lock(&engine->lock);
        begun = begin_once(engine, caller, once, session, ret, problem);
        pthread_mutex_unlock(&engine->lock);
        return begun;
}

void engine_once_end(struct engine *engine, const struct engine_caller *caller,
                     const struct engine_once *once, const char *session, const json_t *answer) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct session_change change = { .table = SESSION_TABLE_KEYS };
        char *text TEXT_CLEANUP = NULL, *said TEXT_CLEANUP = NULL;
        struct problem problem;

        if (!once->key)
                return;
        change.key = key_of(caller, once, arena);
        if (answer) {
                said = json_dumps(answer, JSON_COMPACT | JSON_ENCODE_ANY);
                if (said && strlen(said) > ANSWER_MAX) {
                        free(said);
                        said = NULL;
                }
                change.value = text = step_text(engine, caller, once, session, NULL, said);
        }
        pthread_mutex_lock(&engine->lock);
        if (said)
                count_bytes(engine, caller, strlen(said));
        else if (!answer)
                discount_bytes(engine, caller, KEY_BYTES);
        if (write_step(engine, &change, &problem) < 0) {
                log_warning("session %s: the end of what had an Idempotency-Key cannot be written yet: %s",
                            session, problem.detail);
                keep_end(engine, &change, said);
        }
        pthread_mutex_unlock(&engine->lock);
}
