/* SPDX-License-Identifier: Apache-2.0 */
/* A store that takes nothing for a while: what has ended waits until it is written, and is told then. */
#include "engine_fixture.h"

struct full_store {
        struct session_store store; /* first */
        struct session_store *inner;
};

static atomic_bool full;
static atomic_int refused;

static int full_get(struct session_store *store, enum session_table table, const char *key,
                    struct arena *arena, struct session_item *ret, struct error *err) {
        return session_store_get(((struct full_store *)store)->inner, table, key, arena, ret, err);
}

static int full_write(struct session_store *store, const struct session_change *changes, size_t count,
                      struct error *err) {
        if (atomic_load(&full)) {
                atomic_fetch_add(&refused, 1);
                return error_set(err, "no space left on device");
        }
        return session_store_write(((struct full_store *)store)->inner, changes, count, err);
}

static int full_list(struct session_store *store, enum session_table table, const char *prefix,
                     const char *after, bool backwards, size_t limit, struct arena *arena,
                     struct session_item **ret, size_t *ret_count, struct error *err) {
        return session_store_list(((struct full_store *)store)->inner, table, prefix, after, backwards, limit,
                                  arena, ret, ret_count, err);
}

static void full_close(struct session_store *store) {
        session_store_close(((struct full_store *)store)->inner);
        free(store);
}

static const struct session_store_class full_class = {
        .get = full_get, .write = full_write, .list = full_list, .close = full_close
};

static int setup_full(void **state) {
        struct full_store *made = calloc(1, sizeof(*made));
        struct fixture *fixture;

        if (setup(state) < 0)
                return -1;
        fixture = *state;
        engine_close(fixture->engine);
        *made = (struct full_store){ .store.class = &full_class, .inner = fixture->store };
        fixture->store = &made->store;
        atomic_store(&full, false);
        start(fixture);
        return 0;
}

static void wait_for_refusals(int more) {
        int before = atomic_load(&refused);

        for (int i = 0; i < PATIENCE_MS && atomic_load(&refused) < before + more; i++)
                usleep(1000);
        assert_true(atomic_load(&refused) >= before + more);
}

static struct engine_follower *begin_holding(struct fixture *fixture, const char *id, const char *code) {
        struct engine_follower *follower;

        assert_int_equal(run_code(fixture, &alice, id, code, &follower), 1);
        wait_until_running(fixture, follower);
        return follower;
}

static void test_an_end_waits_until_it_is_written(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);
        struct engine_follower *first = begin_holding(fixture, id, "hold\nsay one"), *second, *third;

        assert_int_equal(run_code(fixture, &alice, id, "say two", &second), 2);
        atomic_store(&full, true);
        release_when_held(fixture, id);
        wait_for_refusals(3); /* it is tried again and again */
        assert_string_equal(status_of(fixture, &alice, id, 1), "running");
        assert_string_equal(status_of(fixture, &alice, id, 2), "queued");
        assert_true(run_code(fixture, &alice, id, "say three", &third) < 0);
        atomic_store(&full, false);
        assert_string_equal(hear_all(fixture, first), "stdout(one) done(ok)");
        assert_string_equal(hear_all(fixture, second), "started stdout(two) done(ok)");
        assert_string_equal(status_of(fixture, &alice, id, 1), "ok");
        assert_int_equal(run_code(fixture, &alice, id, "say three", &third), 3);
        assert_string_equal(hear_all(fixture, third), "started stdout(three) done(ok)");
}

/* The server dies before there is room again: the place has kept the end for the next one. */
static void test_an_end_that_no_record_has(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);
        struct engine_follower *follower = begin_holding(fixture, id, "hold\nsay one");
        struct problem problem;

        atomic_store(&full, true);
        release_when_held(fixture, id);
        wait_for_refusals(2);
        engine_follower_close(follower);
        engine_close(fixture->engine);
        atomic_store(&full, false);
        start(fixture);
        assert_int_equal(engine_follow(fixture->engine, &alice, id, 1, 0, &follower, &problem), 0);
        assert_string_equal(hear_all(fixture, follower), "started stdout(one) done(ok)");
        assert_string_equal(status_of(fixture, &alice, id, 1), "ok");
}

/* Its sandbox is gone as well: its record is written nevertheless, and then forgotten. */
static void test_what_died_meanwhile(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);
        struct engine_follower *follower = begin_holding(fixture, id, "hold\ndie");

        atomic_store(&full, true);
        release_when_held(fixture, id);
        wait_for_refusals(2);
        assert_string_equal(status_of(fixture, &alice, id, 1), "running");
        atomic_store(&full, false);
        assert_string_equal(hear_all(fixture, follower), "done(failed)");
        assert_int_equal(run_code(fixture, &alice, id, "say on", &follower), 2);
        assert_string_equal(hear_all(fixture, follower), "started stdout(on) done(ok)");
}

#undef TEST
static int begin_once(struct fixture *fixture, const struct engine_once *once, const char *id,
                      struct problem *problem) {
        json_t *answer JSON_CLEANUP = NULL;
        int begun = engine_once_begin(fixture->engine, &alice, once, id, &answer, problem);

        if (begun == 1)
                assert_string_equal(json_text(answer, "status"), "parked");
        return begun;
}

/*
 * What had an Idempotency-Key and ended when nothing could be written: who asks again hears how, before it can be written and after; what was
 * not done may be done then.
 */
static void test_a_key_whose_end_waits(void **state) {
        const struct engine_once done = { "done", "POST r", "aa" }, failed = { "failed", "POST r", "aa" },
                                 other = { "done", "POST r", "bb" }, large = { "large", "POST r", "aa" };
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);
        json_t *answer JSON_CLEANUP = json_checked(json_pack("{s:s}", "status", "parked")),
                       *long_one JSON_CLEANUP = json_array();
        struct problem problem;

        for (int i = 0; i < 30000; i++)
                json_add(long_one, json_string("text"));
        assert_int_equal(begin_once(fixture, &done, id, &problem), 0);
        assert_int_equal(begin_once(fixture, &failed, id, &problem), 0);
        assert_int_equal(begin_once(fixture, &large, id, &problem), 0);
        atomic_store(&full, true);
        assert_int_equal(begin_once(fixture, &done, id, &problem), -1);
        assert_int_equal(problem.code, PROBLEM_BUSY);
        engine_once_end(fixture->engine, &alice, &done, id, answer);
        engine_once_end(fixture->engine, &alice, &failed, id, NULL);
        engine_once_end(fixture->engine, &alice, &large, id, long_one);
        wait_for_refusals(2);
        assert_int_equal(begin_once(fixture, &done, id, &problem), 1);
        assert_int_equal(begin_once(fixture, &done, id, &problem), 1);
        assert_int_equal(begin_once(fixture, &other, id, &problem), -1);
        assert_int_equal(problem.code, PROBLEM_KEY_REUSED);
        assert_int_equal(begin_once(fixture, &large, id, &problem), -1);
        assert_int_equal(problem.code, PROBLEM_CONFLICT);
        assert_int_equal(begin_once(fixture, &failed, id, &problem), -1);
        assert_int_equal(problem.code, PROBLEM_STORE_FAILED);
        atomic_store(&full, false);
        assert_int_equal(begin_once(fixture, &failed, id, &problem), 0);
        assert_int_equal(begin_once(fixture, &failed, id, &problem), -1);
        assert_int_equal(problem.code, PROBLEM_BUSY);
        assert_int_equal(begin_once(fixture, &done, id, &problem), 1);
        /* It is written already, or when the engine ends. */
        restart(fixture);
        assert_int_equal(begin_once(fixture, &done, id, &problem), 1);
        assert_int_equal(begin_once(fixture, &large, id, &problem), -1);
        assert_int_equal(problem.code, PROBLEM_CONFLICT);
}

/* The engine dies before there is room again: it is what a death met in the middle, and may be done again, once. */
static void test_a_key_whose_end_is_lost(void **state) {
        const struct engine_once once = { "key", "POST r", "aa" };
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);
        json_t *answer JSON_CLEANUP = json_checked(json_pack("{s:s}", "status", "parked"));
        struct problem problem;

        assert_int_equal(begin_once(fixture, &once, id, &problem), 0);
        atomic_store(&full, true);
        engine_once_end(fixture->engine, &alice, &once, id, answer);
        engine_close(fixture->engine);
        atomic_store(&full, false);
        start(fixture);
        assert_int_equal(begin_once(fixture, &once, id, &problem), 0);
        assert_int_equal(begin_once(fixture, &once, id, &problem), -1);
        assert_int_equal(problem.code, PROBLEM_BUSY);
}

#define TEST(function) cmocka_unit_test_setup_teardown(test_##function, setup_full, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(an_end_waits_until_it_is_written),
                TEST(an_end_that_no_record_has),
                TEST(what_died_meanwhile),
                TEST(a_key_whose_end_waits),
                TEST(a_key_whose_end_is_lost),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
