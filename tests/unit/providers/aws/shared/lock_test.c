/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/shared/lock.h"

#include "providers/aws/shared/step_support.h"

#include <stdlib.h>
#include <string.h>

static bool nobody_is_gone(const char *process) {
        (void)process;
        return false;
}

static bool he_is_gone(const char *process) {
        return strcmp(process, "boot/pid/2") == 0;
}

static void locks_are_stale_or_held(void **state) {
        static const struct {
                const char *stack, *process;
                int64_t age_ms;
                bool (*is_gone)(const char *process);
                bool stale;
        } cases[] = {
                { "other", "boot/pid/2", 0, nobody_is_gone, false },
                { "other", "boot/pid/2", -1, nobody_is_gone, false },
                { "other", "boot/pid/2", LOCK_LEASE_MS, nobody_is_gone, false },
                /* A second may be missing from the one time, and none from the other. */
                { "other", "boot/pid/2", LOCK_LEASE_MS + 1000, nobody_is_gone, false },
                { "other", "boot/pid/2", LOCK_LEASE_MS + 1001, nobody_is_gone, true },
                { "other", "boot/pid/2", 0, he_is_gone, true },
                { "other", "boot/pid/3", 0, he_is_gone, false },
                /* Our own, whose taking was never answered. */
                { "mine", "boot/pid/1", 0, nobody_is_gone, true },
                /* This process at work for another stack. */
                { "other", "boot/pid/1", 0, nobody_is_gone, false },
                { "mine", "boot/pid/2", 0, nobody_is_gone, false },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                const struct lock_viewer viewer = { "mine", "boot/pid/1", cases[i].is_gone };
                char *body = lock_body(cases[i].stack, cases[i].process, "somebody", "1");

                if (lock_is_stale(body, strlen(body), cases[i].age_ms, &viewer) != cases[i].stale)
                        fail_msg("case %zu: %s", i, body);
                free(body);
        }
}

static void holders_are_called_anything(void **state) {
        char *body = lock_body("mine", "boot/pid/1", "process 1 on caf\xe9", "1");

        (void)state;
        assert_non_null(strstr(body, "\"holder\":\"process 1 on caf\\\\xE9\""));
        free(body);
}

/* Whatever the object holds, S3 says how old it is; what its text says of times is not believed. */
static void unreadable_locks_are_held_for_a_lease(void **state) {
        static const char *const bodies[] = {
                "", "x", "{}", "[]", "{\"expiresAtMs\":1}", "{\"expiresAtMs\":99999999999999}"
        };
        const struct lock_viewer viewer = { "mine", "boot/pid/1", he_is_gone };

        (void)state;
        for (size_t i = 0; i < sizeof(bodies) / sizeof(*bodies); i++) {
                assert_false(lock_is_stale(bodies[i], strlen(bodies[i]), LOCK_LEASE_MS, &viewer));
                assert_true(lock_is_stale(bodies[i], strlen(bodies[i]), 2 * LOCK_LEASE_MS, &viewer));
        }
}

#define HELD "{\"process\":\"elsewhere/1\",\"stack\":\"other\",\"takenAtMs\":1,\"expiresAtMs\":2}"

static int look(struct fixture *fixture, struct provider *provider) {
        static const struct s3_bucket bucket = { "b", ACCOUNT };
        struct observation observed;
        struct error err = { 0 };
        struct stage_turn turn = { provider, NULL, &fixture->progress, &observed, &err };
        int result = lock_look(&turn, &bucket, "berth/locks/x");

        if (result < 0)
                fail_msg("%s", err.message);
        return result;
}

/* Whatever the viewer's wall clock says: it stands at 12:00:00, and the server's is up to ten minutes off it. */
static void age_is_by_the_servers_clock(void **state) {
#define ANSWER(date, modified)                                                  \
        {                                                                       \
                "200 OK\r\nETag: \"1\"\r\nDate: Sat, 31 Jan 2026 " date         \
                " GMT\r\nLast-Modified: Sat, 31 Jan 2026 " modified " GMT\r\n", \
                        HELD                                                    \
        }
        static const struct {
                struct scripted_answer answer;
                int result;
        } cases[] = {
                { ANSWER("11:50:00", "11:49:50"), LOCK_BUSY },
                { ANSWER("12:00:00", "11:59:50"), LOCK_BUSY },
                { ANSWER("12:10:00", "12:09:50"), LOCK_BUSY },
                { ANSWER("11:50:00", "11:48:00"), LOCK_STALE },
                { ANSWER("12:00:00", "11:58:00"), LOCK_STALE },
                { ANSWER("12:10:00", "12:08:00"), LOCK_STALE },
                { ANSWER("12:00:00", "11:58:59"), LOCK_BUSY },
                { ANSWER("12:00:00", "11:58:58"), LOCK_STALE },
        };
        struct provider provider = team;

        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                struct fixture fixture;

                begin(state);
                open_client(&fixture, &cases[i].answer, 1, 1000, NULL);
                provider.client = fixture.client;
                fixture.progress.arena = fixture.arena;
                if (look(&fixture, &provider) != cases[i].result)
                        fail_msg("%s", cases[i].answer.head);
                stop(&fixture);
                release(&fixture);
        }
}

/* A server that does not say when the object was written, or says that it was later: seen for a whole lease then. */
static void undated_locks_are_held_while_they_are_seen(void **state) {
        static const char *const heads[] = {
                "200 OK\r\nETag: \"1\"\r\n",
                "200 OK\r\nETag: \"1\"\r\nDate: Sat, 31 Jan 2026 12:00:00 GMT\r\n",
                "200 OK\r\nETag: \"1\"\r\nLast-Modified: Sat, 31 Jan 2026 10:00:00 GMT\r\n",
                ("200 OK\r\nETag: \"1\"\r\nDate: Sat, 31 Jan 2026 12:00:00 GMT\r\n"
                 "Last-Modified: Sat, 31 Jan 2026 12:00:05 GMT\r\n"),
        };
        struct provider provider = team;

        for (size_t i = 0; i < sizeof(heads) / sizeof(*heads); i++) {
                const struct scripted_answer answer = { heads[i], HELD };
                struct fixture fixture;

                begin(state);
                open_client(&fixture, &answer, 1, 1000, NULL);
                provider.client = fixture.client;
                fixture.progress.arena = fixture.arena;
                assert_int_equal(look(&fixture, &provider), LOCK_BUSY);
                atomic_fetch_add(&elapsed_ms, LOCK_LEASE_MS);
                assert_int_equal(look(&fixture, &provider), LOCK_BUSY);
                atomic_fetch_add(&elapsed_ms, 2000);
                assert_int_equal(look(&fixture, &provider), LOCK_STALE);
                stop(&fixture);
                release(&fixture);
        }
}

/* A machine that slept, a clock that was set: reasons to renew, both. */
static void either_clock_may_say_that_a_lock_is_ageing(void **state) {
        static const struct scripted_answer taken = { "200 OK\r\nETag: \"1\"\r\n", "" };
        static const struct s3_bucket bucket = { "b", ACCOUNT };
        struct provider provider = team;
        struct observation observed;
        struct error err = { 0 };
        struct fixture fixture;
        struct stage_turn turn = { &provider, NULL, &fixture.progress, &observed, &err };

        begin(state);
        open_client(&fixture, &taken, 1, 1000, NULL);
        provider.client = fixture.client;
        fixture.progress.arena = fixture.arena;
        assert_int_equal(lock_take(&turn, &bucket, "berth/locks/x"), LOCK_HELD);
        assert_false(lock_is_ageing(&turn));
        value_set_integer(fixture.arena, fixture.progress.data, "lockTakenAtWallMs", WALL_MS - 31000);
        assert_true(lock_is_ageing(&turn));
        value_set_integer(fixture.arena, fixture.progress.data, "lockTakenAtWallMs", WALL_MS + 31000);
        assert_true(lock_is_ageing(&turn));
        value_set_integer(fixture.arena, fixture.progress.data, "lockTakenAtWallMs", WALL_MS);
        assert_false(lock_is_ageing(&turn));
        atomic_fetch_add(&elapsed_ms, 31000);
        assert_true(lock_is_ageing(&turn));
        assert_int_equal(lock_take_over(&turn, &bucket, "berth/locks/x"), LOCK_HELD);
        assert_false(lock_is_ageing(&turn));
        stop(&fixture);
        /* Each taking is another object: who waits for the one does not take the next for it. */
        assert_string_not_equal(strstr(fixture.server.received[0], "\"taking\""),
                                strstr(fixture.server.received[1], "\"taking\""));
        release(&fixture);
}

/* S3 dates the lock when it writes it, not when its answer comes: each look at the clock is twenty seconds after the last. */
static void a_slow_answer_counts_as_held(void **state) {
        static const struct scripted_answer taken = { "200 OK\r\nETag: \"1\"\r\n", "" };
        static const struct s3_bucket bucket = { "b", ACCOUNT };
        struct provider provider = team;
        struct observation observed;
        struct error err = { 0 };
        struct fixture fixture;
        struct stage_turn turn = { &provider, NULL, &fixture.progress, &observed, &err };
        int64_t before_ms, taken_ms;

        begin(state);
        open_client(&fixture, &taken, 1, 1000, NULL);
        provider.client = fixture.client;
        fixture.progress.arena = fixture.arena;
        tick_ms = 20000;
        before_ms = monotonic_ms(&test_clock) + tick_ms;
        assert_int_equal(lock_take(&turn, &bucket, "berth/locks/x"), LOCK_HELD);
        taken_ms = value_get_integer(fixture.progress.data, "lockTakenAtMs", 0);
        assert_int_equal(taken_ms, before_ms);
        assert_true(lock_is_ageing(&turn));
        stop(&fixture);
        release(&fixture);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(locks_are_stale_or_held),
                cmocka_unit_test(holders_are_called_anything),
                cmocka_unit_test(unreadable_locks_are_held_for_a_lease),
                cmocka_unit_test(age_is_by_the_servers_clock),
                cmocka_unit_test(undated_locks_are_held_while_they_are_seen),
                cmocka_unit_test(either_clock_may_say_that_a_lock_is_ageing),
                cmocka_unit_test(a_slow_answer_counts_as_held),
        };

        return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
