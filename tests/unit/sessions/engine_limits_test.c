/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: as many sessions of an agent live at once as its limits say, and who comes beyond that. */
#include "sessions/engine_fixture.h"

static const struct engine_wish of_agent = { .agent = "analyst" };

static void let_at_most(struct fixture *fixture, size_t count) {
        pthread_mutex_lock(&fixture->place.lock);
        fixture->place.agent_max = count;
        pthread_mutex_unlock(&fixture->place.lock);
        atomic_store(&containers, (long long)count);
}

static const char *run_whole(struct fixture *fixture, const struct engine_caller *caller, const char *id,
                             const char *code) {
        struct engine_follower *follower = NULL;

        assert_true(run_code(fixture, caller, id, code, &follower) > 0);
        return hear_all(fixture, follower);
}

/* A session that runs something until it is released. */
static const char *make_busy(struct fixture *fixture, struct engine_follower **ret) {
        const char *id = make(fixture, &alice, &of_agent, 1);

        assert_int_equal(run_code(fixture, &alice, id, "keep this\nhold", ret), 1);
        wait_until_running(fixture, *ret);
        return id;
}

static void the_longest_idle_makes_room(void **state) {
        struct fixture *fixture = *state;
        const char *first, *second, *third;

        let_at_most(fixture, 2);
        atomic_store(&reject, true); /* it is no reason to turn a caller away */
        first = make(fixture, &alice, &of_agent, 1);
        assert_string_equal(run_whole(fixture, &alice, first, "keep mine"), "started done(ok)");
        atomic_fetch_add(&now_ms, 1000);
        second = make(fixture, &bob, &of_agent, 1);
        assert_string_equal(run_whole(fixture, &bob, second, "keep his"), "started done(ok)");
        atomic_fetch_add(&now_ms, 1000);
        third = make(fixture, &bob, &of_agent, 1);
        assert_string_equal(run_whole(fixture, &bob, third, "say in"), "started stdout(in) done(ok)");
        wait_for(fixture, &alice, first, "parked");
        assert_true(fake_lives(&fixture->place, second));
        assert_int_equal(fake_count_agents(&fixture->place), 2);
        /* It comes back with its memory, in the place of the next one. */
        assert_string_equal(run_whole(fixture, &alice, first, "recall"), "started stdout(mine) done(ok)");
        wait_for(fixture, &bob, second, "parked");
        assert_int_equal(fake_count_agents(&fixture->place), 2);
        /* The limit ignores sessions without the agent. */
        assert_string_equal(run_whole(fixture, &alice, session_of(fixture, &alice), "say x"),
                            "started stdout(x) done(ok)");
        assert_true(fake_lives(&fixture->place, first));
}

static void who_comes_later_waits(void **state) {
        struct fixture *fixture = *state;
        struct engine_follower *busy, *second_busy, *third_busy;
        struct problem problem;
        const char *first, *second, *third, *fourth;

        let_at_most(fixture, 1);
        first = make_busy(fixture, &busy);
        second = make(fixture, &bob, &of_agent, 1);
        third = make(fixture, &alice, &of_agent, 1);
        fourth = make(fixture, &alice, &of_agent, 1);
        wait_for(fixture, &bob, second, "queued");
        assert_int_equal(run_code(fixture, &alice, third, "say third", &third_busy), 1);
        assert_int_equal(run_code(fixture, &bob, second, "say second\nhold", &second_busy), 1);
        assert_string_equal(status_of(fixture, &alice, third, 1), "queued");
        /* A session that is ended, or that others interrupt, leaves the line. */
        assert_int_equal(engine_end(fixture->engine, &alice, fourth, &problem), 0);
        assert_true(fake_release(&fixture->place, first));
        assert_string_equal(hear_all(fixture, busy), "done(ok)");
        /* The one that waits longest gets the place of the one that is idle now. */
        wait_until_running(fixture, second_busy);
        assert_string_equal(status_of(fixture, &alice, third, 1), "queued");
        wait_for(fixture, &alice, first, "parked");
        release_when_held(fixture, second);
        assert_string_equal(hear_all(fixture, second_busy), "stdout(second) done(ok)");
        assert_string_equal(hear_all(fixture, third_busy), "started stdout(third) done(ok)");
        assert_int_equal(fake_count_agents(&fixture->place), 1);
}

static void who_is_turned_away(void **state) {
        struct fixture *fixture = *state;
        struct engine_follower *busy, *other_busy;
        const char *first, *parked;
        json_t *list JSON_CLEANUP = NULL;
        struct problem problem;

        let_at_most(fixture, 2);
        atomic_store(&reject, true);
        parked = make(fixture, &alice, &of_agent, 1);
        assert_string_equal(run_whole(fixture, &alice, parked, "keep this"), "started done(ok)");
        assert_int_equal(engine_park(fixture->engine, &alice, parked, &problem), 0);
        wait_for(fixture, &alice, parked, "parked");
        first = make_busy(fixture, &busy);
        (void)make_busy(fixture, &other_busy);
        assert_string_equal(make(fixture, &bob, &of_agent, -1), "agent-limit");
        assert_int_equal(run_code(fixture, &alice, parked, "recall", NULL), -(int64_t)PROBLEM_AGENT_LIMIT);
        /* What else runs for the agent is known to the place alone: nothing of a session is left. */
        atomic_store(&containers, 100);
        assert_string_equal(make(fixture, &bob, &of_agent, -1), "agent-limit");
        assert_int_equal(engine_list(fixture->engine, &bob, &(struct engine_filter){ 0 }, &list, &problem),
                         0);
        assert_int_equal(json_array_size(json_object_get(list, "items")), 0);
        /* A refused execution has no number: the session is as it was. */
        assert_true(fake_release(&fixture->place, first));
        assert_string_equal(hear_all(fixture, busy), "done(ok)");
        assert_string_equal(run_whole(fixture, &alice, parked, "recall"), "started stdout(this) done(ok)");
        engine_follower_close(other_busy);
}

/*
 * A session that cannot be parked makes no room; what then ends does, and so does a limit that is
 * raised.
 */
static void what_cannot_be_parked(void **state) {
        struct fixture *fixture = *state;
        struct engine_follower *follower;
        const char *first, *second, *third;
        struct problem problem;

        let_at_most(fixture, 1);
        fixture->place.fail_park = true;
        first = make(fixture, &alice, &of_agent, 1);
        assert_string_equal(run_whole(fixture, &alice, first, "keep this"), "started done(ok)");
        second = make(fixture, &bob, &of_agent, 1);
        assert_int_equal(run_code(fixture, &bob, second, "say second", &follower), 1);
        wait_for(fixture, &bob, second, "queued");
        assert_int_equal(engine_end(fixture->engine, &alice, first, &problem), 0);
        assert_string_equal(hear_all(fixture, follower), "started stdout(second) done(ok)");
        third = make(fixture, &alice, &of_agent, 1);
        assert_int_equal(run_code(fixture, &alice, third, "say third", &follower), 1);
        let_at_most(fixture, 2);
        assert_string_equal(hear_all(fixture, follower), "started stdout(third) done(ok)");
}

/* An execution came while the session was parked, and ran in it; now the session is idle again. */
static void what_stayed_makes_room(void **state) {
        struct fixture *fixture = *state;
        struct engine_follower *waits, *follower;
        const char *first, *second;

        let_at_most(fixture, 1);
        fixture->place.slow_park = true;
        first = make(fixture, &alice, &of_agent, 1);
        assert_string_equal(run_whole(fixture, &alice, first, "keep this"), "started done(ok)");
        second = make(fixture, &bob, &of_agent, 1);
        assert_int_equal(run_code(fixture, &bob, second, "say second", &waits), 1);
        assert_int_equal(fixture->place.parks, 1);
        assert_int_equal(run_code(fixture, &alice, first, "recall", &follower), 2);
        fixture->place.slow_park = false;
        fake_let_park(&fixture->place, first);
        assert_string_equal(hear_all(fixture, follower), "started stdout(this) done(ok)");
        assert_string_equal(hear_all(fixture, waits), "started stdout(second) done(ok)");
        wait_for(fixture, &alice, first, "parked");
}

/* The first sandbox of a session could not be parked; it has another, which can. */
static void a_new_sandbox_makes_room(void **state) {
        struct fixture *fixture = *state;
        struct engine_follower *waits;
        const char *first, *second;

        let_at_most(fixture, 1);
        fixture->place.fail_park = true;
        first = make(fixture, &alice, &of_agent, 1);
        assert_string_equal(run_whole(fixture, &alice, first, "say x"), "started stdout(x) done(ok)");
        second = make(fixture, &bob, &of_agent, 1);
        wait_for(fixture, &alice, first, "idle");
        assert_int_equal(fixture->place.parks, 1);
        assert_string_equal(run_whole(fixture, &alice, first, "die"), "started done(failed)");
        assert_int_equal(run_code(fixture, &bob, second, "say second", &waits), 1);
        assert_string_equal(hear_all(fixture, waits), "started stdout(second) done(ok)");
        fixture->place.fail_park = false;
        assert_string_equal(run_whole(fixture, &alice, first, "say again"), "started stdout(again) done(ok)");
        assert_string_equal(run_whole(fixture, &bob, second, "say room"), "started stdout(room) done(ok)");
}

/* A place may refuse for a moment: it is asked again soon. */
static void a_park_that_is_refused_once(void **state) {
        struct fixture *fixture = *state;
        struct engine_follower *waits;
        const char *first, *second;

        let_at_most(fixture, 1);
        first = make(fixture, &alice, &of_agent, 1);
        assert_string_equal(run_whole(fixture, &alice, first, "say x"), "started stdout(x) done(ok)");
        fixture->place.refuse_park = true;
        second = make(fixture, &bob, &of_agent, 1);
        assert_int_equal(run_code(fixture, &bob, second, "say second", &waits), 1);
        assert_int_equal(fixture->place.parks, 0);
        fixture->place.refuse_park = false;
        atomic_fetch_add(&now_ms, 1000);
        assert_string_equal(hear_all(fixture, waits), "started stdout(second) done(ok)");
}

static int64_t position_of(struct fixture *fixture, const struct engine_caller *caller, const char *id) {
        json_t *json JSON_CLEANUP = NULL;
        struct problem problem;

        assert_int_equal(engine_show(fixture->engine, caller, id, &json, &problem), 0);
        return json_integer_or(json, "queuePosition", 0);
}

/* The line outlives the server, in its order, with what was asked of those who stand in it. */
static void a_server_that_dies(void **state) {
        struct fixture *fixture = *state;
        struct engine_follower *busy, *follower, *third_busy;
        const char *first, *second, *third;
        struct problem problem;

        let_at_most(fixture, 1);
        first = make_busy(fixture, &busy);
        second = make(fixture, &bob, &of_agent, 1);
        third = make(fixture, &alice, &of_agent, 1);
        wait_for(fixture, &bob, second, "queued");
        wait_for(fixture, &alice, third, "queued");
        run_code(fixture, &alice, third, "say third", NULL);
        engine_follower_close(busy);
        restart(fixture);
        wait_for(fixture, &alice, first, "running");
        wait_for(fixture, &bob, second, "queued");
        wait_for(fixture, &alice, third, "queued");
        assert_int_equal(position_of(fixture, &bob, second), 1);
        assert_int_equal(position_of(fixture, &alice, third), 2);
        assert_int_equal(position_of(fixture, &alice, first), 0);
        assert_int_equal(engine_follow(fixture->engine, &alice, third, 1, 0, &third_busy, &problem), 0);
        assert_int_equal(run_code(fixture, &bob, second, "say at last", &follower), 1);
        release_when_held(fixture, first);
        assert_string_equal(hear_all(fixture, follower), "started stdout(at last) done(ok)");
        assert_string_equal(hear_all(fixture, third_busy), "started stdout(third) done(ok)");
        assert_string_equal(status_of(fixture, &alice, first, 1), "ok");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(the_longest_idle_makes_room), TEST(who_comes_later_waits),
                TEST(who_is_turned_away),          TEST(what_cannot_be_parked),
                TEST(what_stayed_makes_room),      TEST(a_new_sandbox_makes_room),
                TEST(a_park_that_is_refused_once), TEST(a_server_that_dies),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
