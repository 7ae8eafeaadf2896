/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store beyond a network: only the caller waits for it, and of a write whose answer was lost
 * nothing is believed.
 */
#include "sessions/engine_fixture.h"
#include "sessions/shared_store.h"

static struct shared_store *shared;

static int setup_shared(void **state) {
        struct fixture *fixture;

        if (setup(state) < 0)
                return -1;
        fixture = *state;
        engine_close(fixture->engine);
        shared = shared_store_new(fixture->store);
        fixture->store = &shared->store;
        start(fixture);
        return 0;
}

struct asking {
        struct fixture *fixture;
        const char *id, *code;
        struct engine_follower *follower;
        int64_t n;
};

static void *ask(void *context) {
        struct asking *asking = context;

        asking->n = run_code(asking->fixture, &alice, asking->id, asking->code, &asking->follower);
        return NULL;
}

static void await_standing(int more) {
        for (int i = 0; i < PATIENCE_MS && atomic_load(&shared->standing) < more; i++)
                usleep(1000);
        assert_true(atomic_load(&shared->standing) >= more);
}

static void runs(struct fixture *fixture, const struct engine_caller *caller, const char *id, int64_t n) {
        struct engine_follower *follower;

        assert_int_equal(run_code(fixture, caller, id, "say here", &follower), n);
        assert_string_equal(hear_all(fixture, follower), "started stdout(here) done(ok)");
}

/*
 * An execution that is put in line, and an execution whose end is written: others' sessions go on,
 * and so do other sessions of the same owner.
 */
static void a_write_that_stands_still(void **state) {
        struct fixture *fixture = *state;
        const char *slow = session_of(fixture, &alice), *own = session_of(fixture, &alice);
        const char *other = session_of(fixture, &bob);
        struct asking asking = { .fixture = fixture, .id = slow, .code = "hold\nsay late" };
        pthread_t thread;

        wait_for(fixture, &alice, slow, "idle");
        pthread_mutex_lock(&shared->shut);
        atomic_store(&shared->slow_key, slow);
        assert_int_equal(pthread_create(&thread, NULL, ask, &asking), 0);
        await_standing(1);
        runs(fixture, &bob, other, 1);
        runs(fixture, &alice, own, 1);
        assert_false(fake_release(&fixture->place, slow)); /* nothing of it runs before it is written */
        pthread_mutex_unlock(&shared->shut);
        pthread_join(thread, NULL);
        assert_int_equal(asking.n, 1);

        wait_until_running(fixture, asking.follower);
        pthread_mutex_lock(&shared->shut);
        release_when_held(fixture, slow);
        await_standing(2);
        runs(fixture, &bob, other, 2);
        runs(fixture, &alice, own, 2);
        assert_string_equal(status_of(fixture, &alice, slow, 1),
                            "running"); /* no caller hears of its end before */
        pthread_mutex_unlock(&shared->shut);
        assert_string_equal(hear_all(fixture, asking.follower), "stdout(late) done(ok)");
        atomic_store(&shared->slow_key, NULL);
        runs(fixture, &alice, slow, 2);
}

/* All that is written of an execution is made, and none of the answers comes: each is looked for. */
static void answers_that_are_lost(void **state) {
        struct fixture *fixture = *state;
        const char *id;

        atomic_store(&shared->lose, 1);
        id = session_of(fixture, &alice);
        for (int64_t n = 1; n <= 3; n++) {
                atomic_store(&shared->lose, 2);
                runs(fixture, &alice, id, n);
                wait_for(fixture, &alice, id, "idle");
                assert_int_equal(atomic_load(&shared->lose), 0);
        }
        atomic_store(&shared->lose, 1);
        {
                const struct engine_patch patch = { .idle_seconds = 77 };
                struct problem problem;
                json_t *json JSON_CLEANUP = NULL;

                assert_int_equal(engine_patch(fixture->engine, &alice, id, &patch, &json, &problem), 0);
                assert_int_equal(json_integer_or(json, "idleSeconds", 0), 77);
        }
        assert_int_equal(fixture->place.executes, 3);
}

/* Not made, as is seen: who asked hears of it, and it can be asked again. An end is written later. */
static void writes_that_are_not_made(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);
        struct engine_follower *follower;

        wait_for(fixture, &alice, id, "idle");
        atomic_store(&shared->refuse, 1);
        assert_int_equal(run_code(fixture, &alice, id, "say x", NULL), -(int64_t)PROBLEM_STORE_FAILED);
        assert_int_equal(fixture->place.executes, 0);
        assert_true(run_code(fixture, &alice, id, "hold\nsay one", &follower) > 0);
        wait_until_running(fixture, follower);
        atomic_store(&shared->refuse, 1);
        release_when_held(fixture, id);
        assert_string_equal(hear_all(fixture, follower), "stdout(one) done(ok)");
        assert_int_equal(fixture->place.executes, 1);
        assert_int_equal(fixture->place.opens, 1); /* it is held all the while */
}

/*
 * Made, but the answer is lost, and it cannot be looked for: the caller is told that its fate is
 * unknown. The next execution does not take its number, so that the key which was written with it
 * stands for nothing else.
 */
static void what_cannot_be_looked_for(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);
        struct engine_follower *follower;

        wait_for(fixture, &alice, id, "idle");
        atomic_store(&shared->lose, 1);
        atomic_store(&shared->fail_gets, 1);
        assert_int_equal(run_code(fixture, &alice, id, "say first", NULL), -(int64_t)PROBLEM_STORE_FAILED);
        assert_int_equal(fixture->place.executes, 0);
        assert_int_equal(run_code(fixture, &alice, id, "say second", &follower), 2);
        assert_string_equal(hear_all(fixture, follower), "started stdout(second) done(ok)");
}

static void *create(void *context) {
        struct asking *asking = context;
        struct problem problem;
        json_t *json JSON_CLEANUP = NULL;

        asking->n = engine_create(asking->fixture->engine, &alice,
                                  &(struct engine_wish){ .environment = "python" }, &json, &problem);
        return NULL;
}

/* While the one is written, the other is not let in as if there were none. */
static void limits_while_the_store_is_waited_for(void **state) {
        struct fixture *fixture = *state;
        struct asking asking = { .fixture = fixture };
        pthread_t thread;

        fixture->limits = (struct engine_limits){ .per_owner = 1, .total = 2 };
        restart(fixture);
        pthread_mutex_lock(&shared->shut);
        atomic_store(&shared->slow_key, "/s-");
        assert_int_equal(pthread_create(&thread, NULL, create, &asking), 0);
        await_standing(1);
        assert_string_equal(make(fixture, &alice, &(struct engine_wish){ .environment = "python" }, -1),
                            "owner-limit");
        pthread_mutex_unlock(&shared->shut);
        pthread_join(thread, NULL);
        assert_int_equal(asking.n, 1);
        atomic_store(&shared->slow_key, NULL);
        session_of(fixture, &bob);
}

#define SHARED_TEST(function) cmocka_unit_test_setup_teardown(function, setup_shared, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                SHARED_TEST(a_write_that_stands_still),
                SHARED_TEST(answers_that_are_lost),
                SHARED_TEST(writes_that_are_not_made),
                SHARED_TEST(what_cannot_be_looked_for),
                SHARED_TEST(limits_while_the_store_is_waited_for),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
