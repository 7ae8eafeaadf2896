/* SPDX-License-Identifier: Apache-2.0 */
#include "sessions/once.h"

#include "base/json.h"
#include "base/log.h"
#include "sessions/checks.h"

#include <stdlib.h>
#include <string.h>

#define ANSWER_MAX ((size_t)64 << 10) /* bytes of one that is kept */

static const char *key_of(const struct engine_caller *caller, const struct engine_once *once,
                          struct arena *arena) {
        const char *const texts[] = { caller->client, caller->owner, once->route, once->key };
        char *digest = arena_alloc(arena, RECORD_DIGEST_SIZE);

        record_digest(texts, 4, digest);
        return digest;
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
        found = session_store_get(engine->config.store, SESSION_TABLE_KEYS, key_of(caller, once, arena),
                                  arena, &item, &err);
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

                if (session_store_write(engine->config.store, &change, 1, &err) < 0)
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
        return 1;
}

struct session_change once_change(const struct engine_caller *caller, const struct engine_once *once,
                                  const char *session, int64_t n, int64_t now_ms, struct arena *arena) {
        json_t *json JSON_CLEANUP =
                json_checked(json_pack("{s:s, s:s, s:I, s:I}", "body", once->body ? once->body : "",
                                       "session", session, "n", (json_int_t)n, "at", (json_int_t)now_ms));
        char *text = json_compact(json);
        struct session_change change = { SESSION_TABLE_KEYS, key_of(caller, once, arena),
                                         arena_strdup(arena, text), SESSION_EXPECT_ABSENT, 0 };

        free(text);
        return change;
}

/* As once_change(), of what is not a record of its own. `by`: who has begun it; else it has ended, with that answer. */
static char *step_text(const struct engine *engine, const struct engine_once *once, const char *session,
                       const char *by, const char *answer) {
        json_t *json JSON_CLEANUP =
                json_checked(json_pack("{s:s, s:s, s:i, s:I}", "body", once->body ? once->body : "",
                                       "session", session, "n", 0, "at", (json_int_t)engine_now(engine)));

        json_set_text(json, "begunBy", by);
        json_set_text(json, "answer", answer);
        return json_compact(json);
}

static int write_step(struct engine *engine, struct session_change *change, struct problem *problem) {
        struct error err;
        int stored = session_store_write(engine->config.store, change, 1, &err);

        return stored < 0 ? problem_from_error(problem, PROBLEM_STORE_FAILED, &err) : stored;
}

int engine_once_begin(struct engine *engine, const struct engine_caller *caller,
                      const struct engine_once *once, const char *session, json_t **ret,
                      struct problem *problem) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct once_answer before = { 0 };
        struct session_change change = { .table = SESSION_TABLE_KEYS, .expect = SESSION_EXPECT_ABSENT };
        char *text;
        int seen, stored;

        if (!once->key)
                return 0;
        if (check_once(once, problem) < 0 ||
            (seen = once_look(engine, caller, once, arena, &before, problem)) < 0)
                return -1;
        if (seen == 1 && !before.begun) {
                *ret = before.answer ? json_loads(before.answer, JSON_DECODE_ANY, NULL) : NULL;
                return *ret ? 1
                            : problem_set(problem, PROBLEM_CONFLICT,
                                          "that was done, and its answer was too long to be kept");
        }
        if (seen == 1 && !before.by_another)
                return problem_set(problem, PROBLEM_BUSY, "the same request is under way");
        if (seen == 1) {
                change.expect = SESSION_EXPECT_VERSION;
                change.version = before.version;
        }
        change.key = key_of(caller, once, arena);
        change.value = text = step_text(engine, once, session, engine->number, NULL);
        stored = write_step(engine, &change, problem);
        free(text);
        return stored == 0 ? problem_set(problem, PROBLEM_BUSY, "the same request is under way")
                           : (stored < 0 ? -1 : 0);
}

void engine_once_end(struct engine *engine, const struct engine_caller *caller,
                     const struct engine_once *once, const char *session, const json_t *answer) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct session_change change = { .table = SESSION_TABLE_KEYS };
        struct problem problem;
        char *text = NULL, *said = NULL;

        if (!once->key)
                return;
        change.key = key_of(caller, once, arena);
        if (answer) {
                said = json_dumps(answer, JSON_COMPACT | JSON_ENCODE_ANY);
                if (strlen(said) > ANSWER_MAX) {
                        free(said);
                        said = NULL;
                }
                change.value = text = step_text(engine, once, session, NULL, said);
        }
        if (write_step(engine, &change, &problem) < 0)
                log_warning("session %s: an Idempotency-Key cannot be kept: %s", session, problem.detail);
        free(said);
        free(text);
}
