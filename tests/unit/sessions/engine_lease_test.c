/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server that others may take for dead begins nothing in its sandboxes: another server may have its sessions by then. It
 * reaches the store nevertheless; only that it lives cannot be written.
 */
#include "sessions/many_fixture.h"

static void fall_silent(void) {
        atomic_store(&views[0]->mute, true);
        usleep(SILENT_MS * 1000);
}

/* Until the first server has looked at a session's record, or has begun something. */
static void await_look(const size_t *begun) {
        int gets = atomic_load(&views[0]->gets);

        for (int i = 0; i < PATIENCE_MS && atomic_load(&views[0]->gets) == gets && *begun == 0; i++)
                usleep(1000);
}

static void nothing_is_parked(void **state) {
        struct fake_place *place = &servers[0]->place;
        const char *id = session_of(servers[0], &alice);
        struct problem problem;

        (void)state;
        runs(0, id, 1, "x");
        fall_silent();
        atomic_fetch_add(&now_ms, 301 * 1000);
        await_look(&place->parks);
        assert_int_equal(place->parks, 0);
        assert_int_equal(engine_park(servers[0]->engine, &alice, id, &problem), -1);
        assert_int_equal(problem.code, PROBLEM_BUSY);
        assert_int_equal(place->parks, 0);
        atomic_store(&views[0]->mute, false);
        wait_for(servers[0], &alice, id, "parked");
}

static void nothing_is_brought(void **state) {
        struct fake_place *place = &servers[0]->place;
        const char *id = session_of(servers[0], &alice);
        struct engine_follower *follower;
        struct problem problem;

        (void)state;
        runs(0, id, 1, "x");
        place->slow_bring = true;
        fall_silent();
        assert_int_equal(engine_bring_files(servers[0]->engine, &alice, id, &follower, &problem), 0);
        assert_non_null(follower);
        assert_int_equal(place->brings, 0);
        atomic_store(&views[0]->mute, false);
        for (int i = 0; i < PATIENCE_MS && place->brings == 0; i++)
                usleep(1000);
        assert_int_equal(place->brings, 1);
        fake_let_bring(place, id);
        (void)hear_all(servers[0], follower);
}

/* The other server does it, in a sandbox of its own. */
static void no_kernel_is_restarted(void **state) {
        struct fake_place *place = &servers[0]->place;
        const char *id = session_of(servers[0], &alice);
        struct problem problem;

        (void)state;
        runs(0, id, 1, "x");
        fall_silent();
        assert_int_equal(engine_restart(servers[0]->engine, &alice, id, "main", &problem), 0);
        assert_string_equal(place->restarted, "");
        runs(1, id, 2, "there");
        assert_string_equal(place->restarted, "");
        assert_string_equal(servers[1]->place.restarted, "main ");
        atomic_store(&views[0]->mute, false);
}

static void nothing_is_opened(void **state) {
        struct fake_place *place = &servers[0]->place;
        const char *id = session_of(servers[0], &alice);
        struct problem problem;

        (void)state;
        runs(0, id, 1, "x");
        assert_int_equal(engine_park(servers[0]->engine, &alice, id, &problem), 0);
        wait_for(servers[0], &alice, id, "parked");
        fall_silent();
        assert_int_equal(run_code(servers[0], &alice, id, "say late", NULL), 2);
        runs(1, id, 3, "there");
        assert_int_equal(place->opens, 1);
        assert_int_equal(servers[1]->place.executes, 2);
        atomic_store(&views[0]->mute, false);
}

/*
 * A parked session is recorded so, and its sandbox told to end after that: when others may have it
 * already.
 */
static void nothing_is_ended(void **state) {
        struct fake_place *place = &servers[0]->place;
        const char *id = session_of(servers[0], &alice);
        struct problem problem;

        (void)state;
        runs(0, id, 1, "x");
        pthread_mutex_lock(&views[0]->shut);
        atomic_store(&views[0]->slow_answer, id);
        assert_int_equal(engine_park(servers[0]->engine, &alice, id, &problem), 0);
        for (int i = 0; i < PATIENCE_MS && atomic_load(&views[0]->standing) == 0; i++)
                usleep(1000);
        fall_silent();
        atomic_store(&views[0]->slow_answer, NULL);
        pthread_mutex_unlock(&views[0]->shut);
        wait_for(servers[0], &alice, id, "idle");
        assert_false(fake_is_ending(place, id));
        atomic_store(&views[0]->mute, false);
        runs(0, id, 2, "on");
        assert_int_equal(place->opens, 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                MANY_TEST(nothing_is_parked),      MANY_TEST(nothing_is_brought),
                MANY_TEST(no_kernel_is_restarted), MANY_TEST(nothing_is_opened),
                MANY_TEST(nothing_is_ended),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
