/* SPDX-License-Identifier: Apache-2.0 */
#include "sessions/once.h"

#include "base/json.h"

#include <stdlib.h>
#include <string.h>

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
        *ret = (struct once_answer){ arena_strdup(arena, session), json_integer_or(json, "n", 0) };
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
