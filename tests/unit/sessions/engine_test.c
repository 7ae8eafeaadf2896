/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: owners, races, lines, ends, restarts. */
#include "sessions/engine_fixture.h"

#include "sessions/record.h"

#include <sys/resource.h>

static void one_execution(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);
        struct engine_follower *follower = NULL;
        json_t *result = NULL, *session JSON_CLEANUP = NULL, *stream;
        struct problem problem;

        assert_int_equal(strlen(id), 28);
        assert_int_equal(run_code(fixture, &alice, id, "say hello\nshow chart", &follower), 1);
        assert_string_equal(hear_all(fixture, follower), "started stdout(hello) display done(ok)");
        result = result_of(fixture, &alice, id, 1);
        assert_string_equal(json_text(result, "status"), "ok");
        assert_string_equal(json_text(result, "session"), id);
        assert_int_equal(json_integer_or(result, "exitCode", -1), 0);
        stream = json_object_get(result, "stdout");
        assert_string_equal(json_text(stream, "content"), "hello");
        assert_int_equal(json_integer_or(stream, "bytesTotal", -1), 5);
        assert_string_equal(json_text(stream, "sha256"),
                            "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824");
        assert_int_equal(json_array_size(json_object_get(result, "displays")), 1);
        assert_string_equal(json_text(json_object_get(result, "environment"), "imageDigest"), "sha256:abc");
        json_decref(result);
        assert_int_equal(engine_show(fixture->engine, &alice, id, &session, &problem), 0);
        assert_string_equal(json_text(session, "status"), "idle");
        assert_string_equal(json_text(session, "createdAt"), "2023-11-14T22:13:20Z");
        assert_int_equal(run_code(fixture, &alice, id, "fail", &follower), 2);
        assert_string_equal(hear_all(fixture, follower), "started done(error)");
        /* And again, from what history has. */
        assert_int_equal(engine_follow(fixture->engine, &alice, id, 1, 0, &follower, &problem), 0);
        assert_string_equal(hear_all(fixture, follower), "started stdout(hello) display done(ok)");
        assert_int_equal(engine_follow(fixture->engine, &alice, id, 1, 3, &follower, &problem), 0);
        assert_string_equal(hear_all(fixture, follower), "display done(ok)");
        assert_int_equal(engine_follow(fixture->engine, &alice, id, 1, 5, &follower, &problem), 0);
        assert_string_equal(hear_all(fixture, follower), "");
}

/* As many descriptors as the process may have: each way to follow says so, no code is in line, and it passes. */
static void without_a_descriptor(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);
        const struct engine_code code = { .code = "say again" };
        struct engine_follower *follower = NULL;
        struct rlimit before, none;
        struct problem problems[5];
        int64_t n = 0;
        int results[5];

        assert_int_equal(run_code(fixture, &alice, id, "say hello", &follower), 1);
        assert_string_equal(hear_all(fixture, follower), "started stdout(hello) done(ok)");
        follower = NULL;
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        none = (struct rlimit){ 0, before.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        results[0] = engine_execute(fixture->engine, &alice, id, &code, &n, &follower, &problems[0]);
        results[1] = engine_follow(fixture->engine, &alice, id, 1, 0, &follower, &problems[1]);
        results[2] = engine_follow_session(fixture->engine, &alice, id, &follower, &problems[2]);
        results[3] = engine_follow_all(fixture->engine, &alice, ENGINE_OF_SESSIONS, false, &follower,
                                       &problems[3]);
        results[4] = engine_bring_files(fixture->engine, &alice, id, &follower, &problems[4]);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        for (size_t i = 0; i < 5; i++) {
                assert_int_equal(results[i], -1);
                assert_int_equal(problems[i].code, PROBLEM_EXHAUSTED);
                assert_string_equal(problems[i].detail,
                                    "what happens cannot be followed: Too many open files");
        }
        assert_null(follower);
        assert_int_equal(run_code(fixture, &alice, id, "say there", &follower), 2);
        assert_string_equal(hear_all(fixture, follower), "started stdout(there) done(ok)");
}

/* Each question of the catalog opens the stack's state. */
static void what_a_sandbox_runs_is_looked_up_once(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);
        struct engine_follower *follower = NULL;
        json_t *result JSON_CLEANUP = NULL;
        int asked;

        run_code(fixture, &alice, id, "say one", &follower);
        hear_all(fixture, follower);
        asked = atomic_load(&environments_asked);
        for (int i = 0; i < 3; i++) {
                run_code(fixture, &alice, id, "say more", &follower);
                hear_all(fixture, follower);
        }
        assert_int_equal(atomic_load(&environments_asked), asked);
        result = result_of(fixture, &alice, id, 4);
        assert_string_equal(json_text(json_object_get(result, "environment"), "imageDigest"), "sha256:abc");
}

/*
 * Whatever another owner asks about a session, the answer equals the answer for a session that
 * never was.
 */
static void not_yours_is_not_there(void **state) {
        static const char never[] = "s-aaaaaaaaaaaaaaaaaaaaaaaaaa";
        const struct engine_caller others[] = {
                bob,
                { .client = "app", .owner = "app/alice/" },
                { .client = "app", .owner = NULL },
                { .client = "app",
                  .owner = "app/alice",
                  .environments = (const char *const[]){ "other", NULL } },
        };
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);
        struct engine_follower *follower = NULL;

        run_code(fixture, &alice, id, "say secret", &follower);
        hear_all(fixture, follower);
        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
                const char *const ids[] = { id, never, "", "s-", "../../etc/passwd" };
                struct problem answers[5][9];
                json_t *json = NULL;
                int64_t n;

                memset(answers, 0, sizeof(answers));
                for (size_t k = 0; k < 5; k++) {
                        const struct engine_code code = { .code = "x", .code_length = 1 };
                        const struct engine_patch patch = { .idle_seconds = 5 };
                        struct problem *at = answers[k];

                        assert_int_equal(engine_show(fixture->engine, &others[i], ids[k], &json, at++), -1);
                        assert_int_equal(
                                engine_patch(fixture->engine, &others[i], ids[k], &patch, &json, at++), -1);
                        assert_int_equal(engine_end(fixture->engine, &others[i], ids[k], at++), -1);
                        assert_int_equal(
                                engine_execute(fixture->engine, &others[i], ids[k], &code, &n, NULL, at++),
                                -1);
                        assert_int_equal(engine_result(fixture->engine, &others[i], ids[k], 1, &json, at++),
                                         -1);
                        assert_int_equal(
                                engine_history(fixture->engine, &others[i], ids[k], 0, NULL, &json, at++),
                                -1);
                        assert_int_equal(engine_interrupt(fixture->engine, &others[i], ids[k], 1, at++), -1);
                        assert_int_equal(
                                engine_follow(fixture->engine, &others[i], ids[k], 1, 0, &follower, at++),
                                -1);
                        assert_int_equal(engine_park(fixture->engine, &others[i], ids[k], at++), -1);
                        assert_memory_equal(answers[k], answers[0], sizeof(answers[0]));
                        assert_int_equal(answers[k][0].code, PROBLEM_NOT_FOUND);
                }
        }
        assert_string_equal(status_of(fixture, &alice, id, 1), "ok");
}

static void who_observes_sees_states_and_ends_nothing(void **state) {
        const struct engine_caller watcher = { .client = "w", .owner = "w/eve", .observes = true };
        const struct engine_caller ruler = { .client = "r", .owner = "r/root", .ends_any = true };
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);
        json_t *json = NULL;
        struct problem problem;

        assert_int_equal(engine_show(fixture->engine, &watcher, id, &json, &problem), 0);
        json_decref(json);
        assert_int_equal(engine_list(fixture->engine, &watcher, &(struct engine_filter){ .all_owners = true },
                                     &json, &problem),
                         0);
        assert_int_equal(json_array_size(json_object_get(json, "items")), 1);
        json_decref(json);
        assert_int_equal(engine_list(fixture->engine, &bob, &(struct engine_filter){ .all_owners = true },
                                     &json, &problem),
                         0);
        assert_int_equal(json_array_size(json_object_get(json, "items")), 0);
        json_decref(json);
        assert_int_equal(engine_history(fixture->engine, &watcher, id, 0, NULL, &json, &problem), -1);
        assert_int_equal(engine_end(fixture->engine, &watcher, id, &problem), -1);
        assert_int_equal(engine_show(fixture->engine, &ruler, id, &json, &problem), -1);
        assert_int_equal(engine_end(fixture->engine, &ruler, id, &problem), 0);
        assert_int_equal(engine_show(fixture->engine, &alice, id, &json, &problem), -1);
}

static void what_cannot_be_made(void **state) {
        static const struct {
                struct engine_wish wish;
                const char *code;
        } cases[] = {
                { { .environment = "nowhere" }, "unknown-environment" },
                { { .agent = "nobody" }, "unknown-agent" },
                { { 0 }, "invalid" },
                { { .environment = "python", .agent = "analyst" }, "invalid" },
                { { .environment = "python", .idle_seconds = 1209601 }, "invalid" },
                { { .environment = "python", .ttl_seconds = -1 }, "invalid" },
                { { .environment = "python", .conversation = "" }, "invalid" },
                { { .environment = "python", .conversation = "a\nb" }, "invalid" },
        };
        struct fixture *fixture = *state;

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                assert_string_equal(make(fixture, &alice, &cases[i].wish, -1), cases[i].code);
        make(fixture, &alice,
             &(struct engine_wish){
                     .environment = "python", .idle_seconds = 1209600, .ttl_seconds = 1209600 },
             1);
        fixture->place.refuse_open = true;
        assert_string_equal(make(fixture, &alice, &(struct engine_wish){ .environment = "python" }, -1),
                            "place-failed");
}

static void an_agent_out_of_service(void **state) {
        struct fixture *fixture = *state;
        const char *id = make(fixture, &alice, &(struct engine_wish){ .agent = "analyst" }, 1);
        struct engine_follower *follower;

        assert_int_equal(run_code(fixture, &alice, id, "say a", &follower), 1);
        hear_all(fixture, follower);
        atomic_store(&in_service, false);
        assert_int_equal(run_code(fixture, &alice, id, "say b", NULL), -PROBLEM_AGENT_OUT_OF_SERVICE);
        assert_string_equal(make(fixture, &alice, &(struct engine_wish){ .agent = "analyst" }, -1),
                            "agent-out-of-service");
        atomic_store(&in_service, true);
        assert_int_equal(run_code(fixture, &alice, id, "say c", &follower), 2);
        hear_all(fixture, follower);
}

struct talker {
        struct fixture *fixture;
        pthread_t thread;
        char id[64];
        int made;
};

static void *talk(void *context) {
        const struct engine_wish wish = { .environment = "python", .conversation = "chat 1" };
        struct talker *talker = context;
        struct problem problem;
        json_t *json = NULL;

        talker->made = engine_create(talker->fixture->engine, &alice, &wish, &json, &problem);
        snprintf(talker->id, sizeof(talker->id), "%s", json_text(json, "id"));
        json_decref(json);
        return NULL;
}

static void a_conversation_has_one_session(void **state) {
        const struct engine_wish wish = { .environment = "python", .conversation = "chat 1" };
        struct fixture *fixture = *state;
        struct talker talkers[8] = { 0 };
        struct problem problem;
        int made = 0;

        for (size_t i = 0; i < 8; i++) {
                talkers[i].fixture = fixture;
                assert_int_equal(pthread_create(&talkers[i].thread, NULL, talk, &talkers[i]), 0);
        }
        for (size_t i = 0; i < 8; i++) {
                pthread_join(talkers[i].thread, NULL);
                assert_string_equal(talkers[i].id, talkers[0].id);
                made += talkers[i].made;
        }
        assert_int_equal(made, 1);
        /* Another owner's, another environment's and another conversation are others. */
        assert_string_not_equal(make(fixture, &bob, &wish, 1), talkers[0].id);
        make(fixture, &alice, &(struct engine_wish){ .environment = "other", .conversation = "chat 1" }, 1);
        make(fixture, &alice, &(struct engine_wish){ .agent = "analyst", .conversation = "chat 1" }, 1);
        make(fixture, &alice, &(struct engine_wish){ .environment = "python", .conversation = "chat 2" }, 1);
        /* It outlives the engine, and ends with its session. */
        restart(fixture);
        assert_string_equal(make(fixture, &alice, &wish, 0), talkers[0].id);
        assert_int_equal(engine_end(fixture->engine, &alice, talkers[0].id, &problem), 0);
        assert_string_not_equal(make(fixture, &alice, &wish, 1), talkers[0].id);
}

static void a_line_of_eight(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);
        struct engine_follower *followers[9];
        struct problem problem;

        for (int i = 0; i < 9; i++) {
                assert_int_equal(
                        run_code(fixture, &alice, id, i == 0 ? "hold\nsay 0" : "say next", &followers[i]),
                        i + 1);
                if (i == 0)
                        wait_until_running(fixture, followers[0]);
        }
        assert_string_equal(status_of(fixture, &alice, id, 1), "running");
        assert_string_equal(status_of(fixture, &alice, id, 2), "queued");
        assert_int_equal(run_code(fixture, &alice, id, "say too much", NULL), -PROBLEM_QUEUE_FULL);
        /* One in the middle of the line, and the last. */
        assert_int_equal(engine_interrupt(fixture->engine, &alice, id, 5, &problem), 0);
        assert_int_equal(engine_interrupt(fixture->engine, &alice, id, 9, &problem), 0);
        assert_string_equal(status_of(fixture, &alice, id, 5), "interrupted");
        assert_int_equal(engine_interrupt(fixture->engine, &alice, id, 5, &problem), -1);
        assert_int_equal(problem.code, PROBLEM_NOT_RUNNING);
        assert_int_equal(engine_park(fixture->engine, &alice, id, &problem), -1);
        assert_int_equal(problem.code, PROBLEM_BUSY);
        release_when_held(fixture, id);
        assert_string_equal(hear_all(fixture, followers[0]), "stdout(0) done(ok)");
        for (int i = 1; i < 9; i++)
                assert_string_equal(hear_all(fixture, followers[i]),
                                    i == 4 || i == 8 ? "done(interrupted)" : "started stdout(next) done(ok)");
}

static void interrupts(void **state) {
        const struct engine_code code = { .code = "hold", .code_length = 4, .interrupt_on_disconnect = true };
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);
        struct engine_follower *follower, *second;
        struct problem problem;
        int64_t n;

        run_code(fixture, &alice, id, "hold", &follower);
        wait_until_running(fixture, follower);
        assert_int_equal(engine_interrupt(fixture->engine, &alice, id, 1, &problem), 0);
        assert_string_equal(hear_all(fixture, follower), "done(interrupted)");
        /* The last one who follows goes. */
        assert_int_equal(engine_execute(fixture->engine, &alice, id, &code, &n, &follower, &problem), 1);
        wait_until_running(fixture, follower);
        assert_int_equal(engine_follow(fixture->engine, &alice, id, n, 0, &second, &problem), 0);
        engine_follower_close(follower);
        assert_string_equal(status_of(fixture, &alice, id, n), "running");
        engine_follower_close(second);
        wait_for(fixture, &alice, id, "idle");
        assert_string_equal(status_of(fixture, &alice, id, n), "interrupted");
}

static void ends_by_age_and_by_idleness(void **state) {
        struct fixture *fixture = *state;
        const char *idle = make(fixture, &alice,
                                &(struct engine_wish){ .environment = "python", .idle_seconds = 60 }, 1);
        const char *old =
                make(fixture, &alice,
                     &(struct engine_wish){
                             .environment = "python", .idle_seconds = 1209600, .ttl_seconds = 1209600 },
                     1);
        struct engine_follower *follower;
        struct problem problem;
        json_t *json = NULL;

        /* What runs is active. */
        run_code(fixture, &alice, idle, "hold", &follower);
        wait_until_running(fixture, follower);
        atomic_fetch_add(&now_ms, 61000);
        assert_int_equal(engine_show(fixture->engine, &alice, idle, &json, &problem), 0);
        json_decref(json);
        release_when_held(fixture, idle);
        hear_all(fixture, follower);
        atomic_fetch_add(&now_ms, 59000);
        assert_int_equal(engine_show(fixture->engine, &alice, idle, &json, &problem), 0);
        json_decref(json);
        atomic_fetch_add(&now_ms, 2000);
        assert_int_equal(engine_show(fixture->engine, &alice, idle, &json, &problem), -1);
        wait_for(fixture, &alice, idle, NULL);
        /* 14 days, but a moment; then over, whatever runs. */
        atomic_store(&now_ms, 1700000000000 + 1209599000LL);
        run_code(fixture, &alice, old, "hold", &follower);
        wait_until_running(fixture, follower);
        atomic_fetch_add(&now_ms, 1000);
        assert_string_equal(hear_all(fixture, follower), "done(killed)");
        assert_int_equal(engine_show(fixture->engine, &alice, old, &json, &problem), -1);
        for (int i = 0; i < PATIENCE_MS && fake_lives(&fixture->place, old); i++)
                usleep(1000);
        assert_false(fake_lives(&fixture->place, old));
        assert_string_equal(status_of(fixture, &alice, old, 1), "killed");
}

/* The clock jumps, by which idleness cannot be told: what runs has its time, and after it the sandbox its idleness. */
static void a_clock_that_jumps_ends_nothing_that_runs(void **state) {
        struct fixture *fixture = *state;
        const struct engine_wish wish = { .environment = "python", .idle_seconds = 60 };
        const char *id = make(fixture, &alice, &wish, 1);
        json_t *labels JSON_CLEANUP = json_pack("{s:s}", "team", "blue");
        struct engine_follower *follower;
        struct problem problem;
        json_t *json = NULL;
        size_t expires;

        run_code(fixture, &alice, id, "hold", &follower);
        wait_until_running(fixture, follower);
        engine_follower_close(follower);
        expires = fixture->place.expires;
        atomic_fetch_add(&now_ms, 7200000);
        assert_int_equal(engine_patch(fixture->engine, &alice, id, &(struct engine_patch){ .labels = labels },
                                      &json, &problem),
                         0);
        json_decref(json);
        assert_int_equal(fixture->place.expires, expires);
        assert_int_equal(engine_patch(fixture->engine, &alice, id,
                                      &(struct engine_patch){ .idle_seconds = 50 }, &json, &problem),
                         0);
        json_decref(json);
        assert_int_equal(fixture->place.expires, expires + 1);
        assert_true(fixture->place.life.idle_ms > 50000 && fixture->place.life.age_ms > 60000);
        restart(fixture);
        assert_int_equal(engine_follow(fixture->engine, &alice, id, 1, 0, &follower, &problem), 0);
        wait_until_running(fixture, follower);
        assert_true(fixture->place.life.idle_ms > 50000 && fixture->place.life.age_ms > 60000);
        release_when_held(fixture, id);
        assert_string_equal(hear_all(fixture, follower), "done(ok)");
}

static void the_end_and_what_stays(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);
        struct engine_follower *follower, *waiting;
        struct problem problem;
        json_t *json = NULL;

        run_code(fixture, &alice, id, "hold", &follower);
        wait_until_running(fixture, follower);
        run_code(fixture, &alice, id, "say x", &waiting);
        assert_int_equal(engine_forget(fixture->engine, &alice, id, &problem), -1);
        assert_int_equal(problem.code, PROBLEM_HAS_SESSIONS);
        assert_int_equal(engine_end(fixture->engine, &alice, id, &problem), 0);
        assert_string_equal(hear_all(fixture, follower), "done(killed)");
        assert_string_equal(hear_all(fixture, waiting), "done(killed)");
        assert_int_equal(engine_show(fixture->engine, &alice, id, &json, &problem), -1);
        assert_int_equal(engine_end(fixture->engine, &alice, id, &problem), -1);
        assert_int_equal(run_code(fixture, &alice, id, "x", NULL), -PROBLEM_NOT_FOUND);
        for (int i = 0; i < PATIENCE_MS && fake_lives(&fixture->place, id); i++)
                usleep(1000);
        /* History stays its owner's, until the workspace goes. */
        assert_int_equal(engine_history(fixture->engine, &alice, id, 0, NULL, &json, &problem), 0);
        assert_int_equal(json_array_size(json_object_get(json, "items")), 2);
        json_decref(json);
        assert_int_equal(engine_history(fixture->engine, &bob, id, 0, NULL, &json, &problem), -1);
        assert_int_equal(engine_forget(fixture->engine, &bob, id, &problem), 0);
        assert_string_equal(status_of(fixture, &alice, id, 1), "killed");
        assert_int_equal(engine_forget(fixture->engine, &alice, id, &problem), 0);
        assert_int_equal(engine_history(fixture->engine, &alice, id, 0, NULL, &json, &problem), -1);
}

/* By then the engine is closing, or the test finds nothing. */
static void *let_end_later(void *context) {
        struct fixture *fixture = context;

        usleep(300000);
        fake_let_end(&fixture->place);
        return NULL;
}

struct ender {
        struct fixture *fixture;
        const char *id;
};

static void *end_it(void *context) {
        const struct ender *ender = context;
        struct problem problem;

        assert_int_equal(engine_end(ender->fixture->engine, &alice, ender->id, &problem), 0);
        return NULL;
}

/*
 * A caller that moves one owner's files holds up no other owner, though a session that ends waits
 * for it. Where it does, this never ends.
 */
static void an_end_that_waits_for_files(void **state) {
        struct fixture *fixture = *state;
        struct ender ender = { fixture, session_of(fixture, &alice) };
        const char *other = session_of(fixture, &bob);
        int asked = atomic_load(&lives_asked);
        struct problem problem;
        json_t *json = NULL;
        pthread_t thread;

        pthread_mutex_lock(&files_in_use);
        assert_int_equal(pthread_create(&thread, NULL, end_it, &ender), 0);
        while (atomic_load(&lives_asked) == asked)
                usleep(1000);
        assert_int_equal(engine_show(fixture->engine, &bob, other, &json, &problem), 0);
        json_decref(json);
        assert_int_equal(engine_show(fixture->engine, &alice, ender.id, &json, &problem), -1);
        pthread_mutex_unlock(&files_in_use);
        pthread_join(thread, NULL);
}

/* Numbers that are missing would tell how much happens to others. */
static void events_of_others_have_no_number(void **state) {
        struct fixture *fixture = *state;
        struct engine_follower *follower;
        struct problem problem;
        struct engine_event event;
        int64_t count = 0;

        assert_int_equal(engine_follow_all(fixture->engine, &bob, ENGINE_OF_SESSIONS | ENGINE_OF_CONTAINERS,
                                           false, &follower, &problem),
                         0);
        (void)session_of(fixture, &bob);
        (void)session_of(fixture, &alice);
        (void)session_of(fixture, &bob);
        while (engine_follower_next(follower, &event) == ENGINE_EVENT) {
                assert_int_equal(event.id, ++count);
                assert_string_equal(json_text(event.data, "owner"), bob.owner);
                json_decref(event.data);
        }
        assert_true(count >= 2);
        engine_follower_close(follower);
}

/* A server that is stopped then, and never started again, leaves no sandbox that waits to be heard. */
static void the_end_just_before_the_engines(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice), *other = session_of(fixture, &bob);
        struct engine_follower *follower;
        struct problem problem;
        pthread_t thread;

        run_code(fixture, &bob, other, "hold", &follower);
        wait_until_running(fixture, follower);
        engine_follower_close(follower);
        run_code(fixture, &alice, id, "say x", &follower);
        hear_all(fixture, follower);
        fixture->place.slow_end = true;
        assert_int_equal(engine_end(fixture->engine, &alice, id, &problem), 0);
        assert_int_equal(pthread_create(&thread, NULL, let_end_later, fixture), 0);
        engine_close(fixture->engine);
        pthread_join(thread, NULL);
        assert_false(fake_lives(&fixture->place, id));
        assert_true(fake_lives(&fixture->place, other));
        start(fixture);
}

static void a_key_makes_one(void **state) {
        const struct engine_once once = { "key", "POST /v1/sessions", "aa" },
                                 other = { "key", "POST /v1/sessions", "bb" };
        const struct engine_caller elsewhere = { .client = "else", .owner = "app/alice" };
        struct fixture *fixture = *state;
        struct engine_wish wish = { .environment = "python", .once = once };
        const char *id = make(fixture, &alice, &wish, 1);
        struct engine_code code = { .code = "say 1", .code_length = 5, .once = { "run", "POST e", "cc" } };
        struct engine_follower *follower;
        struct problem problem;
        int64_t n;

        assert_string_equal(make(fixture, &alice, &wish, 1), id);
        assert_string_not_equal(make(fixture, &elsewhere, &wish, 1), id);
        assert_string_not_equal(make(fixture, &bob, &wish, 1), id);
        wish.once = other;
        assert_string_equal(make(fixture, &alice, &wish, -1), "idempotency-key-reused");
        assert_int_equal(engine_execute(fixture->engine, &alice, id, &code, &n, &follower, &problem), 1);
        hear_all(fixture, follower);
        restart(fixture);
        assert_int_equal(engine_execute(fixture->engine, &alice, id, &code, &n, &follower, &problem), 0);
        assert_int_equal(n, 1);
        assert_string_equal(hear_all(fixture, follower), "started stdout(1) done(ok)");
        code.once.body = "dd";
        assert_int_equal(engine_execute(fixture->engine, &alice, id, &code, &n, NULL, &problem), -1);
        assert_int_equal(problem.code, PROBLEM_KEY_REUSED);
        /* A day later any request may use the key. */
        atomic_fetch_add(&now_ms, 86401000);
        make(fixture, &alice, &wish, 1);
}

static void limits(void **state) {
        struct fixture *fixture = *state;
        const char *first;
        struct problem problem;

        fixture->limits = (struct engine_limits){ .per_owner = 2, .total = 3 };
        restart(fixture);
        first = session_of(fixture, &alice);
        session_of(fixture, &alice);
        assert_string_equal(make(fixture, &alice, &(struct engine_wish){ .environment = "python" }, -1),
                            "owner-limit");
        session_of(fixture, &bob);
        assert_string_equal(make(fixture, &bob, &(struct engine_wish){ .environment = "python" }, -1),
                            "server-limit");
        assert_int_equal(engine_end(fixture->engine, &alice, first, &problem), 0);
        session_of(fixture, &bob);
}

static void lists(void **state) {
        struct fixture *fixture = *state;
        json_t *labels JSON_CLEANUP = json_pack("{s:s, s:s}", "team", "a", "tier", "");
        const char *ids[5];
        const struct {
                struct engine_filter filter;
                size_t count;
        } cases[] = {
                { { 0 }, 5 },
                { { .environments = (const char *const[]){ "other", NULL } }, 1 },
                { { .environments = (const char *const[]){ "other", "python", NULL } }, 5 },
                { { .agents = (const char *const[]){ "analyst", NULL } }, 1 },
                { { .labels = (const char *const[]){ "team=a", NULL } }, 1 },
                { { .labels = (const char *const[]){ "team=a", "tier", NULL } }, 1 },
                { { .labels = (const char *const[]){ "team=b", NULL } }, 0 },
                { { .statuses = (const char *const[]){ "parked", NULL } }, 0 },
        };
        struct problem problem;
        json_t *json = NULL;
        size_t seen = 0;
        const char *cursor = NULL;

        for (size_t i = 0; i < 5; i++) {
                struct engine_wish wish = { .environment = i == 1 ? "other" : "python" };

                if (i == 2)
                        wish = (struct engine_wish){ .agent = "analyst" };
                wish.labels = i == 3 ? labels : NULL;
                ids[i] = make(fixture, &alice, &wish, 1);
                atomic_fetch_add(&now_ms, i / 2);
        }
        session_of(fixture, &bob);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                assert_int_equal(engine_list(fixture->engine, &alice, &cases[i].filter, &json, &problem), 0);
                assert_int_equal(json_array_size(json_object_get(json, "items")), cases[i].count);
                json_decref(json);
        }
        /* Piece by piece, over a restart: each once. */
        do {
                struct engine_filter filter = { .limit = 2, .cursor = cursor };
                size_t index;
                json_t *item;

                assert_int_equal(engine_list(fixture->engine, &alice, &filter, &json, &problem), 0);
                json_array_foreach (json_object_get(json, "items"), index, item) {
                        size_t at = 0;

                        while (at < 5 && strcmp(ids[at], json_text(item, "id")) != 0)
                                at++;
                        assert_true(at < 5);
                        ids[at] = "";
                        seen++;
                }
                cursor = arena_strdup(fixture->arena, json_text(json, "cursor"));
                json_decref(json);
                restart(fixture);
        } while (cursor);
        assert_int_equal(seen, 5);
        assert_int_equal(engine_list(fixture->engine, &alice, &(struct engine_filter){ .cursor = "x" }, &json,
                                     &problem),
                         -1);
        assert_int_equal(engine_list(fixture->engine, &alice, &(struct engine_filter){ .limit = 1001 }, &json,
                                     &problem),
                         -1);
}

static void history_in_pieces(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice), *cursor = NULL;
        struct problem problem;
        int64_t next = 1;

        for (int i = 0; i < 5; i++) {
                struct engine_follower *follower;

                run_code(fixture, &alice, id, "say x", &follower);
                hear_all(fixture, follower);
        }
        do {
                json_t *json = NULL, *item;
                size_t index;

                assert_int_equal(engine_history(fixture->engine, &alice, id, 2, cursor, &json, &problem), 0);
                json_array_foreach (json_object_get(json, "items"), index, item) {
                        assert_int_equal(json_integer_or(item, "n", 0), next++);
                        assert_string_equal(json_text(item, "code"), "say x");
                        assert_null(json_object_get(item, "stdout"));
                }
                cursor = arena_strdup(fixture->arena, json_text(json, "cursor"));
                json_decref(json);
        } while (cursor);
        assert_int_equal(next, 6);
}

/* The engine dies while something runs, and its sandbox lives on: nothing is lost, and nothing told twice. */
static void a_sandbox_that_outlives_the_engine(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);
        struct engine_follower *follower, *waiting;
        struct problem problem;

        run_code(fixture, &alice, id, "say before\nhold\nsay after", &follower);
        wait_until_running(fixture, follower);
        run_code(fixture, &alice, id, "say waited", &waiting);
        engine_follower_close(follower);
        engine_follower_close(waiting);
        restart(fixture);
        assert_int_equal(engine_follow(fixture->engine, &alice, id, 1, 0, &follower, &problem), 0);
        release_when_held(fixture, id);
        assert_string_equal(hear_all(fixture, follower), "started stdout(before) stdout(after) done(ok)");
        assert_int_equal(engine_follow(fixture->engine, &alice, id, 2, 0, &follower, &problem), 0);
        assert_string_equal(hear_all(fixture, follower), "started stdout(waited) done(ok)");
        run_code(fixture, &alice, id, "say more", &follower);
        assert_string_equal(hear_all(fixture, follower), "started stdout(more) done(ok)");
}

/* An execution's record, changed while no engine is there: `with` in its request, or, without it, no request. */
static void spoil(struct fixture *fixture, const char *id, int64_t n, const char *with) {
        const char *key = record_execution_key(alice.owner, id, n, fixture->arena);
        struct session_change change = { SESSION_TABLE_EXECUTIONS, key, NULL, SESSION_EXPECT_NOTHING, 0 };
        struct session_item item;
        struct error err;
        json_t *json JSON_CLEANUP = NULL;
        char *text;

        assert_int_equal(session_store_get(fixture->store, change.table, key, fixture->arena, &item, &err),
                         1);
        json = json_loads(item.value, JSON_ALLOW_NUL, NULL);
        if (with)
                json_put(json_object_get(json, "request"), with, json_true());
        else
                assert_int_equal(json_object_del(json, "request"), 0);
        change.value = text = json_compact(json);
        assert_int_equal(session_store_write(fixture->store, &change, 1, &err), 1);
        free(text);
}

/*
 * The machine died, with three in line behind what ran: the first is run in the next sandbox, once, with all that was asked of it; that
 * of a client whose connection was to end it is not; and one whose request is damaged says so.
 */
static void what_waited_is_run_after_a_death(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);
        json_t *variables JSON_CLEANUP = json_pack("{s:s}", "NAME", "text"), *shown JSON_CLEANUP = NULL;
        struct engine_code code = { .code = "say waited",
                                    .code_length = 10,
                                    .input = "in\0\xff",
                                    .input_length = 4,
                                    .variables = variables,
                                    .timeout_seconds = 17 };
        struct engine_follower *follower;
        struct problem problem;
        int64_t n;

        run_code(fixture, &alice, id, "hold", &follower);
        wait_until_running(fixture, follower);
        engine_follower_close(follower);
        assert_int_equal(engine_execute(fixture->engine, &alice, id, &code, &n, NULL, &problem), 1);
        run_code(fixture, &alice, id, "say tied", NULL);
        run_code(fixture, &alice, id, "say damaged", NULL);
        shown = result_of(fixture, &alice, id, 3);
        assert_int_equal(json_integer_or(shown, "queuePosition", 0), 2);
        engine_close(fixture->engine);
        spoil(fixture, id, 3, "connected");
        spoil(fixture, id, 4, NULL);
        fake_kill_all(&fixture->place);
        fixture->place.executes = 0;
        start(fixture);
        assert_int_equal(engine_follow(fixture->engine, &alice, id, 2, 0, &follower, &problem), 0);
        assert_string_equal(hear_all(fixture, follower), "started stdout(waited) done(ok)");
        assert_string_equal(status_of(fixture, &alice, id, 1), "failed");
        assert_string_equal(status_of(fixture, &alice, id, 3), "interrupted");
        assert_string_equal(status_of(fixture, &alice, id, 4), "failed");
        assert_int_equal(fixture->place.asked_ms, 17000);
        assert_memory_equal(fixture->place.asked_input, "in\0\xff", 4);
        assert_string_equal(fixture->place.asked_name, "text");
        restart(fixture);
        assert_string_equal(status_of(fixture, &alice, id, 2), "ok");
        assert_int_equal(fixture->place.executes, 1);
}

/* As a server leaves it that dies right after it has written that the sandbox gets this one. */
static void pretend_taken(struct fixture *fixture, const char *id, int64_t n) {
        const char *key = record_session_key(alice.owner, id, fixture->arena);
        struct session_change change = { SESSION_TABLE_SESSIONS, key, NULL, SESSION_EXPECT_NOTHING, 0 };
        struct session_item item;
        struct error err;
        json_t *json JSON_CLEANUP = NULL;
        char *text;

        assert_int_equal(session_store_get(fixture->store, change.table, key, fixture->arena, &item, &err),
                         1);
        json = json_loads(item.value, 0, NULL);
        json_put(json, "takenN", json_integer(n));
        json_put(json, "oldestN", json_integer(n));
        change.value = text = json_compact(json);
        assert_int_equal(session_store_write(fixture->store, &change, 1, &err), 1);
        free(text);
}

/* The server wrote that its sandbox gets it, and died before it did: the sandbox, which lives, says so, and gets it now. */
static void what_no_sandbox_had_is_run(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);
        struct engine_follower *follower;
        struct problem problem;

        run_code(fixture, &alice, id, "hold\nsay first", &follower);
        wait_until_running(fixture, follower);
        engine_follower_close(follower);
        run_code(fixture, &alice, id, "say second", NULL);
        engine_close(fixture->engine);
        pretend_taken(fixture, id, 2);
        release_when_held(fixture, id);
        fixture->place.executes = 0;
        start(fixture);
        assert_int_equal(engine_follow(fixture->engine, &alice, id, 2, 0, &follower, &problem), 0);
        assert_string_equal(hear_all(fixture, follower), "started stdout(second) done(ok)");
        assert_int_equal(fixture->place.executes, 1);
}

/* Its sandbox was dying when it came, which was not known yet: the next one runs it, once. */
static void what_a_dying_sandbox_was_given(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);
        struct engine_follower *follower;

        run_code(fixture, &alice, id, "say before", &follower);
        assert_string_equal(hear_all(fixture, follower), "started stdout(before) done(ok)");
        fixture->place.die_executing = true;
        fixture->place.executes = 0;
        run_code(fixture, &alice, id, "say after", &follower);
        assert_string_equal(hear_all(fixture, follower), "started stdout(after) done(ok)");
        assert_int_equal(fixture->place.executes, 1);
}

/*
 * The same, of one that was taken at once, and the server dies before there is another sandbox: nothing of it ran, which is known, so the
 * next server runs it. Another that waits behind it comes after it.
 */
static void what_a_dying_sandbox_was_given_and_a_death(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);
        struct engine_follower *follower;
        struct problem problem;

        run_code(fixture, &alice, id, "say before", &follower);
        assert_string_equal(hear_all(fixture, follower), "started stdout(before) done(ok)");
        fixture->place.die_executing = fixture->place.slow_end = true;
        fixture->place.executes = 0;
        assert_int_equal(run_code(fixture, &alice, id, "say after", NULL), 2);
        assert_int_equal(run_code(fixture, &alice, id, "say last", NULL), 3);
        assert_string_equal(status_of(fixture, &alice, id, 2), "queued");
        engine_close(fixture->engine);
        fake_kill_all(&fixture->place);
        fixture->place.slow_end = false;
        start(fixture);
        for (int64_t n = 2; n <= 3; n++) {
                assert_int_equal(engine_follow(fixture->engine, &alice, id, n, 0, &follower, &problem), 0);
                assert_string_equal(hear_all(fixture, follower), n == 2 ? "started stdout(after) done(ok)"
                                                                        : "started stdout(last) done(ok)");
        }
        assert_int_equal(fixture->place.executes, 2);
}

/* It had ended while no server was there. */
static void an_end_that_nobody_saw(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);
        struct engine_follower *follower;
        struct problem problem;

        run_code(fixture, &alice, id, "hold\nsay done", &follower);
        wait_until_running(fixture, follower);
        engine_follower_close(follower);
        engine_close(fixture->engine);
        release_when_held(fixture, id);
        start(fixture);
        assert_int_equal(engine_follow(fixture->engine, &alice, id, 1, 0, &follower, &problem), 0);
        assert_string_equal(hear_all(fixture, follower), "started stdout(done) done(ok)");
}

/* The machine died: what ran is said to be cut off, and never to be well. */
static void cut_off_by_a_death(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);
        struct engine_follower *follower;
        json_t *result JSON_CLEANUP = NULL;

        run_code(fixture, &alice, id, "say half\nhold", &follower);
        wait_until_running(fixture, follower);
        engine_follower_close(follower);
        engine_close(fixture->engine);
        fake_kill_all(&fixture->place);
        start(fixture);
        wait_for(fixture, &alice, id, "idle"); /* what its worker may have left is looked at first */
        result = result_of(fixture, &alice, id, 1);
        assert_string_equal(json_text(result, "status"), "failed");
        assert_true(json_is_null(json_object_get(result, "exitCode")));
        assert_non_null(strstr(json_text(result, "detail"), "cut off"));
        run_code(fixture, &alice, id, "say again", &follower);
        assert_string_equal(hear_all(fixture, follower), "started stdout(again) done(ok)");
        /* And once more: what is recorded as ended stays so. */
        restart(fixture);
        assert_string_equal(status_of(fixture, &alice, id, 1), "failed");
        assert_string_equal(status_of(fixture, &alice, id, 2), "ok");
}

/* What the execution says of the kernel that it began with. */
static void began_with(struct fixture *fixture, const char *id, int64_t n, int64_t generation,
                       const char *was, const char *reason) {
        json_t *result JSON_CLEANUP = result_of(fixture, &alice, id, n);
        const json_t *said = json_object_get(result, "state");

        assert_int_equal(json_integer_or(said, "generation", 0), generation);
        assert_string_equal(json_text(said, "was"), was);
        if (reason)
                assert_non_null(strstr(json_text(said, "reason"), reason));
        else
                assert_null(json_text(said, "reason"));
}

/* The next one knows nothing of it: that memory was lost, and why, is still said. */
static void a_sandbox_that_dies(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);
        struct engine_follower *follower;

        run_code(fixture, &alice, id, "say x\ndie", &follower);
        assert_string_equal(hear_all(fixture, follower), "started stdout(x) done(failed)");
        run_code(fixture, &alice, id, "say y", &follower);
        assert_string_equal(hear_all(fixture, follower), "started stdout(y) done(ok)");
        run_code(fixture, &alice, id, "say z", &follower);
        hear_all(fixture, follower);
        began_with(fixture, id, 1, 1, "new", NULL);
        began_with(fixture, id, 2, 2, "lost", "it was ended");
        began_with(fixture, id, 3, 2, "kept", NULL);
        /* The machine is started again; and once more before anything ran. */
        engine_close(fixture->engine);
        fake_kill_all(&fixture->place);
        start(fixture);
        restart(fixture);
        run_code(fixture, &alice, id, "say x", &follower);
        hear_all(fixture, follower);
        began_with(fixture, id, 4, 3, "lost", "did not live any more");
}

/*
 * It holds up no caller: others are answered, and its own session takes what is asked of it. Where
 * it does, this never ends.
 */
static void a_sandbox_that_goes_slowly(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice), *other = session_of(fixture, &bob);
        struct engine_follower *follower, *next;
        int leaves = atomic_load(&fake_going.came);
        struct problem problem;

        pthread_mutex_lock(&fake_going.shut);
        run_code(fixture, &alice, id, "die", &follower);
        while (atomic_load(&fake_going.came) == leaves)
                usleep(1000);
        run_code(fixture, &alice, id, "say x", &next);
        assert_int_equal(engine_end(fixture->engine, &bob, other, &problem), 0);
        pthread_mutex_unlock(&fake_going.shut);
        assert_string_equal(hear_all(fixture, follower), "started done(failed)");
        assert_string_equal(hear_all(fixture, next), "started stdout(x) done(ok)");
        id = session_of(fixture, &alice);
        leaves = atomic_load(&fake_going.came);
        pthread_mutex_lock(&fake_going.shut);
        run_code(fixture, &alice, id, "die", &follower);
        while (atomic_load(&fake_going.came) == leaves)
                usleep(1000);
        assert_int_equal(engine_end(fixture->engine, &alice, id, &problem), 0);
        pthread_mutex_unlock(&fake_going.shut);
        assert_string_equal(hear_all(fixture, follower), "started done(killed)");
}

static void a_sandbox_that_does_not_start(void **state) {
        struct fixture *fixture = *state;
        const char *id;
        struct engine_follower *follower;

        fixture->place.fail_start = true;
        id = session_of(fixture, &alice);
        run_code(fixture, &alice, id, "say x", &follower);
        assert_string_equal(hear_all(fixture, follower), "done(failed)");
        wait_for(fixture, &alice, id, "idle");
        fixture->place.fail_start = false;
        run_code(fixture, &alice, id, "say y", &follower);
        assert_string_equal(hear_all(fixture, follower), "started stdout(y) done(ok)");
}

/* A session that was ended when its server died: its sandbox is found and ended by the next. */
static void no_sandbox_is_forgotten(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);
        struct session_change changes[] = { { SESSION_TABLE_SESSIONS, NULL, NULL, SESSION_EXPECT_NOTHING, 0 },
                                            { SESSION_TABLE_SESSIONS, NULL, alice.owner,
                                              SESSION_EXPECT_ABSENT, 0 } };
        struct engine_follower *follower;
        struct session_item *items;
        struct error err;
        size_t count;

        run_code(fixture, &alice, id, "say x", &follower);
        hear_all(fixture, follower);
        engine_close(fixture->engine);
        assert_int_equal(session_store_list(fixture->store, SESSION_TABLE_SESSIONS, "", NULL, false, 2,
                                            fixture->arena, &items, &count, &err),
                         0);
        assert_int_equal(count, 1);
        changes[0].key = items[0].key;
        changes[1].key = arena_printf(fixture->arena, "~ending/%s", id);
        assert_int_equal(session_store_write(fixture->store, changes, 2, &err), 1);
        assert_true(fake_lives(&fixture->place, id));
        start(fixture);
        for (int i = 0; i < PATIENCE_MS && fake_lives(&fixture->place, id); i++)
                usleep(1000);
        assert_false(fake_lives(&fixture->place, id));
        /* And that it was is written nowhere any more. */
        do {
                usleep(1000);
                assert_int_equal(session_store_list(fixture->store, SESSION_TABLE_SESSIONS, "", NULL, false,
                                                    2, fixture->arena, &items, &count, &err),
                                 0);
        } while (count > 0);
}

static void patches(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);
        json_t *labels JSON_CLEANUP = json_pack("{s:s}", "a", "b"), *json = NULL;
        const struct engine_patch patch = { labels, 120, 240 };
        struct problem problem;

        assert_int_equal(engine_patch(fixture->engine, &alice, id, &patch, &json, &problem), 0);
        assert_int_equal(json_integer_or(json, "idleSeconds", 0), 120);
        assert_string_equal(json_text(json, "expiresAt"), "2023-11-14T22:15:20Z");
        json_decref(json);
        restart(fixture);
        assert_int_equal(engine_show(fixture->engine, &alice, id, &json, &problem), 0);
        assert_string_equal(json_text(json_object_get(json, "labels"), "a"), "b");
        assert_int_equal(json_integer_or(json, "ttlSeconds", 0), 240);
        json_decref(json);
        assert_int_equal(engine_patch(fixture->engine, &alice, id,
                                      &(struct engine_patch){ .ttl_seconds = 1209601 }, &json, &problem),
                         -1);
}

static void users_of_an_environment(void **state) {
        struct fixture *fixture = *state;
        json_t *owners = NULL;
        size_t count = 9;

        assert_int_equal(engine_users_of(fixture->engine, "python", &count, &owners), 0);
        assert_int_equal(count, 0);
        json_decref(owners);
        session_of(fixture, &alice);
        make(fixture, &alice, &(struct engine_wish){ .agent = "analyst" }, 1);
        session_of(fixture, &bob);
        make(fixture, &bob, &(struct engine_wish){ .environment = "other" }, 1);
        assert_int_equal(engine_users_of(fixture->engine, "python", &count, &owners), 0);
        assert_int_equal(count, 3);
        assert_int_equal(json_array_size(owners), 2);
        for (size_t i = 0; i < 2; i++) {
                json_t *row = json_array_get(owners, i);
                bool is_alice = strcmp(json_text(row, "owner"), alice.owner) == 0;

                assert_int_equal(json_integer_or(row, "sessions", 0), is_alice ? 2 : 1);
        }
        json_decref(owners);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(one_execution),
                TEST(without_a_descriptor),
                TEST(what_waited_is_run_after_a_death),
                TEST(what_no_sandbox_had_is_run),
                TEST(what_a_dying_sandbox_was_given),
                TEST(what_a_dying_sandbox_was_given_and_a_death),
                TEST(what_a_sandbox_runs_is_looked_up_once),
                TEST(not_yours_is_not_there),
                TEST(who_observes_sees_states_and_ends_nothing),
                TEST(what_cannot_be_made),
                TEST(an_agent_out_of_service),
                TEST(a_conversation_has_one_session),
                TEST(a_line_of_eight),
                TEST(interrupts),
                TEST(ends_by_age_and_by_idleness),
                TEST(a_clock_that_jumps_ends_nothing_that_runs),
                TEST(the_end_and_what_stays),
                TEST(an_end_that_waits_for_files),
                TEST(events_of_others_have_no_number),
                TEST(the_end_just_before_the_engines),
                TEST(a_key_makes_one),
                TEST(limits),
                TEST(lists),
                TEST(history_in_pieces),
                TEST(a_sandbox_that_outlives_the_engine),
                TEST(an_end_that_nobody_saw),
                TEST(cut_off_by_a_death),
                TEST(a_sandbox_that_dies),
                TEST(a_sandbox_that_goes_slowly),
                TEST(a_sandbox_that_does_not_start),
                TEST(no_sandbox_is_forgotten),

                TEST(patches),
                TEST(users_of_an_environment),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
