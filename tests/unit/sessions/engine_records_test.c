/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: what is kept of sessions, how much of it, and what it counts as. */
#include "sessions/engine_fixture.h"

#include "sessions/engine_parts.h"

/* What the table has, all of it. */
static size_t count_items(struct fixture *fixture, enum session_table table, size_t *ret_bytes) {
        struct session_item *items;
        struct error err;
        size_t count, bytes = 0;

        assert_int_equal(session_store_list(fixture->store, table, "", NULL, false, 1000, fixture->arena,
                                            &items, &count, &err),
                         0);
        for (size_t i = 0; i < count; i++)
                bytes += strlen(items[i].value);
        if (ret_bytes)
                *ret_bytes = bytes;
        return count;
}

static void run_whole(struct fixture *fixture, const char *id, const char *code, const char *heard) {
        struct engine_follower *follower = NULL;

        assert_true(run_code(fixture, &alice, id, code, &follower) > 0);
        assert_string_equal(hear_all(fixture, follower), heard);
}

/* A thin one would be no shorter. */
static void what_is_short_stays_whole(void **state) {
        struct fixture *fixture = *state;
        const char *id;

        fixture->limits = (struct engine_limits){ .history_whole = 1, .history_most = 4 };
        restart(fixture);
        id = session_of(fixture, &alice);
        for (int i = 0; i < 4; i++)
                run_whole(fixture, id, "say text", "started stdout(text) done(ok)");
        for (int64_t n = 1; n <= 4; n++) {
                json_t *json JSON_CLEANUP = result_of(fixture, &alice, id, n);

                assert_string_equal(json_text(json_object_get(json, "stdout"), "content"), "text");
        }
}

/* Older ones go a little later. */
static void wait_for_history(struct fixture *fixture, size_t most) {
        for (int i = 0; i < PATIENCE_MS && count_items(fixture, SESSION_TABLE_EXECUTIONS, NULL) > most; i++)
                usleep(1000);
}

/* However many an engine before this one has left behind: its thread was never as far, or it always died before. */
static void all_that_is_old_goes(void **state) {
        struct fixture *fixture = *state;
        const char *id;

        fixture->limits = (struct engine_limits){ .history_whole = 1000, .history_most = 1000 };
        restart(fixture);
        id = session_of(fixture, &alice);
        for (int i = 0; i < 120; i++)
                run_whole(fixture, id, "say text", "started stdout(text) done(ok)");
        assert_int_equal(count_items(fixture, SESSION_TABLE_EXECUTIONS, NULL), 120);
        fixture->limits = (struct engine_limits){ .history_whole = 2, .history_most = 4 };
        restart(fixture);
        run_whole(fixture, id, "say text", "started stdout(text) done(ok)");
        wait_for_history(fixture, 4);
        assert_int_equal(count_items(fixture, SESSION_TABLE_EXECUTIONS, NULL), 4);
}

/* The newest whole, older ones without what they said, the oldest not at all; and so after a restart. */
static void history_has_an_end(void **state) {
        struct fixture *fixture = *state;
        char text[3001], *code, *heard;
        struct problem problem;
        json_t *json = NULL;
        size_t bytes;
        const char *id;

        memset(text, 'x', sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        code = arena_printf(fixture->arena, "say %s\nshow shown", text);
        heard = arena_printf(fixture->arena, "started stdout(%s) display done(ok)", text);

        fixture->limits = (struct engine_limits){ .history_whole = 2, .history_most = 4 };
        restart(fixture);
        id = session_of(fixture, &alice);
        for (int i = 0; i < 6; i++)
                run_whole(fixture, id, code, heard);
        wait_for_history(fixture, 4);
        assert_int_equal(count_items(fixture, SESSION_TABLE_EXECUTIONS, NULL), 4);
        for (int i = 0; i < 2; i++) {
                for (int64_t n = 1; n <= 6; n++) {
                        const json_t *out;

                        if (n <= 2) {
                                assert_int_equal(
                                        engine_result(fixture->engine, &alice, id, n, &json, &problem), -1);
                                assert_int_equal(problem.code, PROBLEM_NOT_FOUND);
                                continue;
                        }
                        json = result_of(fixture, &alice, id, n);
                        out = json_object_get(json, "stdout");
                        assert_string_equal(json_text(json, "status"), "ok");
                        assert_int_equal(json_integer_or(out, "bytesTotal", 0), sizeof(text) - 1);
                        assert_non_null(json_text(out, "sha256"));
                        assert_string_equal(json_text(out, "content"), n > 4 ? text : "");
                        assert_int_equal(json_is_true(json_object_get(out, "truncated")), n <= 4);
                        assert_int_equal(json_array_size(json_object_get(json, "displays")), n > 4);
                        json_decref(json);
                }
                restart(fixture);
        }
        assert_int_equal(count_items(fixture, SESSION_TABLE_EXECUTIONS, &bytes), 4);
        /* An old one tells that it has ended, and that its output is gone. */
        {
                struct engine_follower *follower;

                assert_int_equal(engine_follow(fixture->engine, &alice, id, 3, 0, &follower, &problem), 0);
                assert_string_equal(hear_all(fixture, follower), "started gap done(ok)");
        }
        /* The size of its history is told when it has ended. */
        assert_int_equal(engine_end(fixture->engine, &alice, id, &problem), 0);
        for (int i = 0; i < PATIENCE_MS && atomic_load(&history_told) != (long long)bytes; i++)
                usleep(1000);
        assert_int_equal(atomic_load(&history_told), bytes);
}

static void a_disk_that_is_full(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);

        atomic_store(&disk_full, true);
        assert_int_equal(run_code(fixture, &alice, id, "say x", NULL), -(int64_t)PROBLEM_WORKSPACE_FULL);
        atomic_store(&disk_full, false);
        run_whole(fixture, id, "say x", "started stdout(x) done(ok)");
}

static int64_t wait_with(struct fixture *fixture, const struct engine_caller *caller, const char *id,
                         const char *text, size_t length) {
        const struct engine_code code = { .code = text, .code_length = length };
        struct problem problem;
        int64_t n;

        return engine_execute(fixture->engine, caller, id, &code, &n, NULL, &problem) < 0
                       ? -(int64_t)problem.code
                       : n;
}

/* Waiting work is in memory: a session and an owner have a limit each. */
static void what_waits_has_a_size(void **state) {
        struct fixture *fixture = *state;
        size_t length = (size_t)12 << 20;
        char *text = malloc(length + 1);
        const char *ids[4];
        struct problem problem;

        memset(text, ' ', length);
        text[length] = '\0';
        for (size_t i = 0; i < 4; i++) {
                const struct engine_caller *caller = i < 3 ? &alice : &bob;
                struct engine_follower *follower;

                ids[i] = session_of(fixture, caller);
                assert_int_equal(run_code(fixture, caller, ids[i], "hold", &follower), 1);
                wait_until_running(fixture, follower);
                engine_follower_close(follower);
        }
        for (size_t i = 0; i < 2; i++) {
                assert_int_equal(wait_with(fixture, &alice, ids[i], text, length), 2);
                assert_int_equal(wait_with(fixture, &alice, ids[i], text, length), 3);
                assert_int_equal(wait_with(fixture, &alice, ids[i], text, length), -PROBLEM_QUEUE_FULL);
        }
        assert_int_equal(wait_with(fixture, &alice, ids[2], text, length), 2);
        assert_int_equal(wait_with(fixture, &alice, ids[2], text, length), -PROBLEM_QUEUE_FULL);
        assert_int_equal(wait_with(fixture, &bob, ids[3], text, length), 2);
        assert_int_equal(wait_with(fixture, &bob, ids[3], text, length), 3);
        /* Work that is interrupted, or has ended, waits no more. */
        assert_int_equal(engine_interrupt(fixture->engine, &alice, ids[0], 2, &problem), 0);
        assert_int_equal(wait_with(fixture, &alice, ids[2], text, length), 3);
        assert_int_equal(engine_end(fixture->engine, &alice, ids[0], &problem), 0);
        assert_int_equal(engine_end(fixture->engine, &alice, ids[2], &problem), 0);
        assert_int_equal(wait_with(fixture, &alice, ids[1], text, length), -PROBLEM_QUEUE_FULL);
        free(text);
}

/* A follower that reads nothing costs little, however large the events are. */
static void notices_are_small(void **state) {
        struct fixture *fixture = *state;
        json_t *labels JSON_CLEANUP = json_object();
        const struct engine_wish wish = { .environment = "python", .labels = labels };
        struct engine_follower *follower;
        struct engine_event event;
        struct problem problem;
        size_t before, sessions = 0;
        char text[257];
        const char *id;

        for (int i = 0; i < 64; i++) {
                memset(text, 'a' + i % 26, 256);
                text[256] = '\0';
                text[0] = (char)('0' + i / 10);
                text[1] = (char)('0' + i % 10);
                json_put(labels, text, json_string(text));
        }
        id = make(fixture, &alice, &wish, 1);
        run_whole(fixture, id, "say x", "started stdout(x) done(ok)");
        assert_int_equal(engine_follow_all(fixture->engine, &alice, ENGINE_OF_SESSIONS | ENGINE_OF_CONTAINERS,
                                           false, &follower, &problem),
                         0);
        before = heap_in_use();
        for (int i = 0; i < 200; i++)
                run_whole(fixture, id, "say x", "started stdout(x) done(ok)");
        assert_true(heap_in_use() < before + ((size_t)4 << 20));
        while (engine_follower_next(follower, &event) == ENGINE_EVENT) {
                if (strcmp(event.name, "session") == 0) {
                        sessions++;
                        assert_int_equal(json_object_size(json_object_get(event.data, "labels")), 64);
                        assert_string_equal(json_text(event.data, "status"),
                                            sessions % 2 ? "running" : "idle");
                }
                json_decref(event.data);
        }
        assert_true(sessions >= 2);
        engine_follower_close(follower);
}

/*
 * Its workspace was removed when it had expired, and no server had noticed yet: nothing of it is
 * written any more.
 */
static void what_is_forgotten_stays_so(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);
        struct engine_follower *follower;
        struct problem problem;

        assert_int_equal(run_code(fixture, &alice, id, "hold", &follower), 1);
        wait_until_running(fixture, follower);
        assert_int_equal(run_code(fixture, &alice, id, "say x", NULL), 2);
        assert_int_equal(engine_forget(fixture->engine, &alice, id, &problem), -1);
        assert_int_equal(problem.code, PROBLEM_HAS_SESSIONS);
        atomic_fetch_add(&now_ms, 86401000);
        assert_int_equal(engine_forget(fixture->engine, &alice, id, &problem), 0);
        assert_string_equal(hear_all(fixture, follower), "done(killed)");
        for (int i = 0; i < PATIENCE_MS && count_items(fixture, SESSION_TABLE_SESSIONS, NULL) > 0; i++)
                usleep(1000);
        assert_int_equal(count_items(fixture, SESSION_TABLE_SESSIONS, NULL), 0);
        assert_int_equal(count_items(fixture, SESSION_TABLE_EXECUTIONS, NULL), 0);
}

/* A session that has expired ends after its conversation got another session, which keeps it. */
static void a_conversation_outlives_its_session(void **state) {
        const struct engine_wish talk = { .environment = "python", .conversation = "one" };
        struct fixture *fixture = *state;
        const char *first = make(fixture, &alice, &talk, 1), *second;

        atomic_fetch_add(&now_ms, 86401000);
        second = make(fixture, &alice, &talk, 1);
        assert_string_not_equal(first, second);
        for (int i = 0; i < PATIENCE_MS && fake_lives(&fixture->place, first); i++)
                usleep(1000);
        assert_string_equal(make(fixture, &alice, &talk, 0), second);
}

static void a_key_of_what_leaves_no_record(void **state) {
        const struct engine_once once = { "key", "POST r", "aa" }, other = { "key", "POST r", "bb" };
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);
        struct problem problem;
        json_t *answer = NULL, *large JSON_CLEANUP = json_array();

#define BEGIN(caller, once) engine_once_begin(fixture->engine, caller, once, id, &answer, &problem)
        assert_int_equal(BEGIN(&alice, &(struct engine_once){ 0 }), 0);
        assert_int_equal(BEGIN(&alice, &once), 0);
        assert_int_equal(BEGIN(&alice, &once), -1);
        assert_int_equal(problem.code, PROBLEM_BUSY);
        assert_int_equal(BEGIN(&bob, &once), 0);
        /* A request that was not done may be done. */
        engine_once_end(fixture->engine, &alice, &once, id, NULL);
        assert_int_equal(BEGIN(&alice, &once), 0);
        /* Whom a death met in the middle of it may do it again, once. */
        restart(fixture);
        assert_int_equal(BEGIN(&alice, &once), 0);
        assert_int_equal(BEGIN(&alice, &once), -1);
        engine_once_end(fixture->engine, &alice, &once, id, json_null());
        assert_int_equal(BEGIN(&alice, &once), 1);
        assert_true(json_is_null(answer));
        assert_int_equal(BEGIN(&alice, &other), -1);
        assert_int_equal(problem.code, PROBLEM_KEY_REUSED);
        restart(fixture);
        assert_int_equal(BEGIN(&alice, &once), 1);
        atomic_fetch_add(&now_ms, 86401000);
        assert_int_equal(BEGIN(&alice, &once), 0);
        for (int i = 0; i < 30000; i++)
                json_add(large, json_string("text"));
        engine_once_end(fixture->engine, &alice, &once, id, large);
        assert_int_equal(BEGIN(&alice, &once), -1);
        assert_int_equal(problem.code, PROBLEM_CONFLICT);
}

#define SHARE (20U << 10)
#define BYTES_OF_NULL (512 + 4) /* of a key under which null is kept */

/* Begins and ends something under that key. 1: it had been done; 0: it is done now; else the problem, negative. */
static int do_once(struct fixture *fixture, const struct engine_caller *caller, const char *key,
                   const json_t *result, struct problem *problem) {
        const struct engine_once once = { key, "POST r", "aa" };
        json_t *answer JSON_CLEANUP = NULL;
        int begun = engine_once_begin(fixture->engine, caller, &once, "s", &answer, problem);

        if (begun == 0)
                engine_once_end(fixture->engine, caller, &once, "s", result);
        return begun < 0 ? -(int)problem->code : begun;
}

/* New keys until one is refused; how many were taken. */
static int fill_share(struct fixture *fixture, const struct engine_caller *caller, const char *prefix,
                      const json_t *result, struct problem *problem) {
        for (int i = 0;; i++) {
                const char *key = arena_printf(fixture->arena, "%s%d", prefix, i);
                int done = do_once(fixture, caller, key, result, problem);

                if (done == -(int)PROBLEM_KEYS_FULL)
                        return i;
                assert_int_equal(done, 0);
        }
}

static void wait_until_counted(struct fixture *fixture) {
        bool counting = true;

        for (int i = 0; i < PATIENCE_MS && counting; i++) {
                usleep(1000);
                pthread_mutex_lock(&fixture->engine->lock);
                counting = fixture->engine->once_counting;
                pthread_mutex_unlock(&fixture->engine->lock);
        }
        assert_false(counting);
}

/* The door to work that makes a record of its own is another: sessions and executions. */
static void assert_all_refused(struct fixture *fixture, const char *id) {
        const struct engine_wish wish = { .environment = "python", .once = { "new", "POST s", "aa" } };
        const struct engine_code code = { .code = "say x",
                                          .code_length = 5,
                                          .once = { "new", "POST e", "aa" } };
        size_t sessions = count_items(fixture, SESSION_TABLE_SESSIONS, NULL),
               executions = count_items(fixture, SESSION_TABLE_EXECUTIONS, NULL);
        struct problem problem;
        const char *session;
        int64_t n;

        assert_string_equal(make(fixture, &alice, &wish, -1), "idempotency-keys-full");
        assert_int_equal(engine_execute(fixture->engine, &alice, id, &code, &n, NULL, &problem), -1);
        assert_int_equal(problem.code, PROBLEM_KEYS_FULL);
        assert_int_equal(
                engine_repeats(fixture->engine, &alice, &code.once, fixture->arena, &session, &n, &problem),
                -1);
        assert_int_equal(problem.code, PROBLEM_KEYS_FULL);
        assert_int_equal(count_items(fixture, SESSION_TABLE_SESSIONS, NULL), sessions);
        assert_int_equal(count_items(fixture, SESSION_TABLE_EXECUTIONS, NULL), executions);
        assert_true(run_code(fixture, &alice, id, "say x", NULL) > 0); /* without a key */
}

static void keys_have_a_share(void **state) {
        struct fixture *fixture = *state;
        json_t *large JSON_CLEANUP = json_array();
        struct problem problem;
        const char *id;
        int taken;

        for (int i = 0; i < 2000; i++)
                json_add(large, json_string("text"));
        fixture->limits = (struct engine_limits){ .keys_bytes = SHARE };
        restart(fixture);
        id = session_of(fixture, &alice);
        /* Work that fails leaves nothing, however often. */
        for (int i = 0; i < 100; i++)
                assert_int_equal(do_once(fixture, &alice, "fails", NULL, &problem), 0);
        taken = fill_share(fixture, &alice, "a", large, &problem);
        assert_in_range(taken, 1, 2);
        assert_in_range(problem_retry_seconds(&problem), 86400 - 3600, 86400 + 3600);
        assert_all_refused(fixture, id);
        /* A request that was done is answered, and another owner has a share of its own. */
        assert_int_equal(do_once(fixture, &alice, "a0", large, &problem), 1);
        assert_int_equal(fill_share(fixture, &bob, "b", json_null(), &problem), SHARE / BYTES_OF_NULL);
        /* After a start it is counted again, by a thread. */
        restart(fixture);
        wait_until_counted(fixture);
        assert_all_refused(fixture, id);
        assert_int_equal(do_once(fixture, &alice, "a0", large, &problem), 1);
        /* A day later, and up to an hour more, all of it is free. */
        atomic_fetch_add(&now_ms, (int64_t)(86400 + 3600) * 1000);
        assert_int_equal(fill_share(fixture, &alice, "c", large, &problem), taken);
        assert_int_equal(fill_share(fixture, &bob, "d", json_null(), &problem), SHARE / BYTES_OF_NULL);
}

/* Of many in the store a thread counts the rest, while new ones come: none is missed, and none counts twice. */
static void many_keys_are_counted(void **state) {
        struct fixture *fixture = *state;
        struct problem problem;

        for (int i = 0; i < 1300; i++)
                assert_int_equal(do_once(fixture, &alice, arena_printf(fixture->arena, "a%d", i), json_null(),
                                         &problem),
                                 0);
        fixture->limits = (struct engine_limits){ .keys_bytes = 1600 * BYTES_OF_NULL };
        restart(fixture);
        for (int i = 0; i < 100; i++) {
                const char *key = arena_printf(fixture->arena, "b%d", i);

                assert_int_equal(do_once(fixture, &alice, key, i % 2 ? json_null() : NULL, &problem), 0);
        }
        wait_until_counted(fixture);
        assert_int_equal(fill_share(fixture, &alice, "c", json_null(), &problem), 250);
}

/* Each key of a session and of an execution is one of them. */
static void keys_with_records_count(void **state) {
        struct fixture *fixture = *state;
        struct problem problem;
        const char *id;
        int64_t n;

        fixture->limits = (struct engine_limits){ .keys_bytes = 4 * 512 };
        restart(fixture);
        id = make(fixture, &alice,
                  &(struct engine_wish){ .environment = "python", .once = { "k", "s", "aa" } }, 1);
        for (int i = 0; i < 4; i++) {
                const struct engine_code code = { .code = "say x",
                                                  .code_length = 5,
                                                  .once = { arena_printf(fixture->arena, "k%d", i), "e",
                                                            "aa" } };

                assert_int_equal(engine_execute(fixture->engine, &alice, id, &code, &n, NULL, &problem),
                                 i < 3 ? 1 : -1);
        }
        assert_int_equal(problem.code, PROBLEM_KEYS_FULL);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(all_that_is_old_goes),           TEST(history_has_an_end),
                TEST(what_is_short_stays_whole),      TEST(a_disk_that_is_full),
                TEST(what_waits_has_a_size),          TEST(notices_are_small),
                TEST(what_is_forgotten_stays_so),     TEST(a_conversation_outlives_its_session),
                TEST(a_key_of_what_leaves_no_record), TEST(keys_have_a_share),
                TEST(many_keys_are_counted),          TEST(keys_with_records_count),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
