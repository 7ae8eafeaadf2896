/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: sessions that are parked, and what their executions are told about their memory. */
#include "sessions/engine_fixture.h"

/* "GENERATION WAS: REASON" of what one began with. */
static const char *state_of(struct fixture *fixture, const char *id, int64_t n) {
        json_t *result JSON_CLEANUP = result_of(fixture, &alice, id, n);
        const json_t *state = json_object_get(result, "state");
        const char *reason = json_text(state, "reason");

        return arena_printf(fixture->arena, "%lld %s%s%s",
                            (long long)json_integer_or(state, "generation", -1), json_text(state, "was"),
                            reason ? ": " : "", reason ? reason : "");
}

static const char *run_whole(struct fixture *fixture, const char *id, const char *code) {
        struct engine_follower *follower = NULL;

        assert_true(run_code(fixture, &alice, id, code, &follower) > 0);
        return hear_all(fixture, follower);
}

static void park(struct fixture *fixture, const char *id) {
        struct problem problem = { 0 };

        if (engine_park(fixture->engine, &alice, id, &problem) < 0)
                fail_msg("%s", problem.detail);
}

static void ask_to_restart(struct fixture *fixture, const char *id) {
        struct problem problem;

        assert_int_equal(engine_restart(fixture->engine, &alice, id, NULL, &problem), 0);
}

static void parks(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);

        assert_string_equal(run_whole(fixture, id, "keep this"), "started done(ok)");
        assert_string_equal(state_of(fixture, id, 1), "1 new");
        park(fixture, id);
        wait_for(fixture, &alice, id, "parked");
        assert_false(fake_lives(&fixture->place, id));
        restart(fixture);
        wait_for(fixture, &alice, id, "parked");
        assert_false(fake_lives(&fixture->place, id));
        park(fixture, id); /* is there already */
        assert_string_equal(run_whole(fixture, id, "recall"), "started stdout(this) done(ok)");
        assert_string_equal(state_of(fixture, id, 2), "2 restored: it was parked");
        /* Told while it was opened for an execution that waited: without a server, idleness ends this sandbox too. */
        assert_true(fixture->place.life.idle_ms < fixture->place.life.age_ms);
        assert_string_equal(run_whole(fixture, id, "recall"), "started stdout(this) done(ok)");
        assert_string_equal(state_of(fixture, id, 3), "2 kept");
        /* By idleness. */
        atomic_fetch_add(&now_ms, 301000);
        wait_for(fixture, &alice, id, "parked");
        assert_string_equal(run_whole(fixture, id, "recall"), "started stdout(this) done(ok)");
        assert_string_equal(state_of(fixture, id, 4), "3 restored: it was parked");
        park(fixture, id);
        wait_for(fixture, &alice, id, "parked");
        ask_to_restart(fixture, id);
        wait_for(fixture, &alice, id, "idle");
}

/*
 * Asked for while the checkpoint is taken: it runs in the sandbox that lives, once, and the
 * checkpoint is not used.
 */
static void an_execution_comes_while_it_is_parked(void **state) {
        struct fixture *fixture = *state;
        struct engine_follower *followers[2];
        struct problem problem;
        const char *id = session_of(fixture, &alice);

        run_whole(fixture, id, "keep this");
        fixture->place.slow_park = true;
        park(fixture, id);
        park(fixture, id); /* is on its way */
        assert_int_equal(run_code(fixture, &alice, id, "recall", &followers[0]), 2);
        assert_int_equal(run_code(fixture, &alice, id, "say two", &followers[1]), 3);
        assert_string_equal(status_of(fixture, &alice, id, 2), "queued");
        assert_int_equal(engine_park(fixture->engine, &alice, id, &problem), -1);
        assert_int_equal(problem.code, PROBLEM_BUSY);
        fake_let_park(&fixture->place, id);
        assert_string_equal(hear_all(fixture, followers[0]), "started stdout(this) done(ok)");
        assert_string_equal(hear_all(fixture, followers[1]), "started stdout(two) done(ok)");
        assert_string_equal(state_of(fixture, id, 2), "1 kept");
        assert_int_equal(fixture->place.opens, 1);
        /* An execution that is interrupted meanwhile does not count. */
        park(fixture, id);
        assert_int_equal(run_code(fixture, &alice, id, "say never", NULL), 4);
        assert_int_equal(engine_interrupt(fixture->engine, &alice, id, 4, &problem), 0);
        fake_let_park(&fixture->place, id);
        wait_for(fixture, &alice, id, "parked");
        assert_string_equal(run_whole(fixture, id, "recall"), "started stdout(this) done(ok)");
        /* And one that is ended while it is parked is gone. */
        park(fixture, id);
        assert_int_equal(engine_end(fixture->engine, &alice, id, &problem), 0);
        wait_for(fixture, &alice, id, NULL);
}

static void a_checkpoint_that_cannot_be_taken(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);

        run_whole(fixture, id, "keep this");
        fixture->place.slow_park = fixture->place.fail_park = true;
        park(fixture, id);
        fake_let_park(&fixture->place, id);
        wait_for(fixture, &alice, id, "idle");
        assert_string_equal(run_whole(fixture, id, "recall"), "started stdout(this) done(ok)");
        assert_string_equal(state_of(fixture, id, 2), "1 kept");
        /* Not tried all the time, but again. */
        fixture->place.slow_park = fixture->place.fail_park = false;
        atomic_fetch_add(&now_ms, 301000);
        wait_for(fixture, &alice, id, "parked");
}

static void what_is_lost_is_said(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);

        run_whole(fixture, id, "keep this");
        park(fixture, id);
        wait_for(fixture, &alice, id, "parked");
        fixture->place.lose_checkpoints = true;
        assert_string_equal(run_whole(fixture, id, "recall"), "started done(ok)");
        assert_string_equal(state_of(fixture, id, 2), "2 lost: the checkpoint is not there");
        /* It is not looked for again. */
        run_whole(fixture, id, "keep that\ndie");
        assert_string_equal(run_whole(fixture, id, "recall"), "started done(ok)");
        assert_string_equal(state_of(fixture, id, 4), "3 lost: it was ended");
}

/*
 * A checkpoint that kills each sandbox that loads it: what waits is run nevertheless, once, without
 * it.
 */
static void a_checkpoint_that_kills(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);

        run_whole(fixture, id, "keep this");
        park(fixture, id);
        wait_for(fixture, &alice, id, "parked");
        fixture->place.die_restoring = true;
        assert_string_equal(run_whole(fixture, id, "recall\nsay once"), "started stdout(once) done(ok)");
        assert_string_equal(state_of(fixture, id, 2),
                            "2 lost: its sandbox ended while its checkpoint was restored: it was ended");
        assert_int_equal(fixture->place.opens, 3);
}

/* A fresh kernel was asked for: what it replaced does not come back when it dies. */
static void a_restart_forgets(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);

        run_whole(fixture, id, "keep this");
        park(fixture, id);
        wait_for(fixture, &alice, id, "parked");
        ask_to_restart(fixture, id);
        run_whole(fixture, id, "die");
        assert_string_equal(run_whole(fixture, id, "recall"), "started done(ok)");
        assert_string_equal(state_of(fixture, id, 3), "4 lost: it was ended");
}

/* The sandbox dies after more has run: the older checkpoint is better than nothing, and said to be old. */
static void an_older_checkpoint(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);
        const char *older =
                "; this is the checkpoint of 2023-11-14T22:13:20Z, and what came after it is lost";

        run_whole(fixture, id, "keep old");
        park(fixture, id);
        wait_for(fixture, &alice, id, "parked");
        run_whole(fixture, id, "keep new\ndie");
        assert_string_equal(run_whole(fixture, id, "recall"), "started stdout(old) done(ok)");
        assert_string_equal(state_of(fixture, id, 3),
                            arena_printf(fixture->arena, "3 restored: it was ended%s", older));
        /* The machine is started again: no sandbox lives. */
        run_whole(fixture, id, "keep newer");
        engine_close(fixture->engine);
        fake_kill_all(&fixture->place);
        start(fixture);
        wait_for(fixture, &alice, id, "idle");
        assert_string_equal(run_whole(fixture, id, "recall"), "started stdout(old) done(ok)");
        assert_string_equal(state_of(fixture, id, 5),
                            arena_printf(fixture->arena, "4 restored: %s%s",
                                         "the server was restarted, and its sandbox did not live any more",
                                         older));
        /* A session that was parked has lost nothing by that. */
        run_whole(fixture, id, "keep last");
        park(fixture, id);
        wait_for(fixture, &alice, id, "parked");
        engine_close(fixture->engine);
        fake_kill_all(&fixture->place);
        start(fixture);
        wait_for(fixture, &alice, id, "parked");
        assert_string_equal(run_whole(fixture, id, "recall"), "started stdout(last) done(ok)");
        assert_string_equal(state_of(fixture, id, 7), "5 restored: it was parked");
}

/* The engine dies when its record says "parked", and the sandbox has not ended yet: that is found, and nothing was lost. */
static void a_sandbox_that_lives_though_it_is_parked(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);

        run_whole(fixture, id, "keep this");
        fixture->place.slow_end = true;
        park(fixture, id);
        while (!fake_is_ending(&fixture->place, id))
                usleep(1000);
        engine_close(fixture->engine);
        fake_revive(&fixture->place, id);
        start(fixture);
        wait_for(fixture, &alice, id, "idle");
        assert_string_equal(run_whole(fixture, id, "recall"), "started stdout(this) done(ok)");
        assert_string_equal(state_of(fixture, id, 2), "1 kept");
}

static void a_worker_that_is_told_to_end(void **state) {
        struct fixture *fixture = *state;
        struct engine_follower *followers[2];
        const char *id = session_of(fixture, &alice);

        assert_int_equal(run_code(fixture, &alice, id, "keep this\nhold", &followers[0]), 1);
        wait_until_running(fixture, followers[0]);
        assert_int_equal(run_code(fixture, &alice, id, "recall", &followers[1]), 2);
        fake_tell_to_leave(&fixture->place, id);
        release_when_held(fixture, id);
        assert_string_equal(hear_all(fixture, followers[0]), "done(ok)");
        assert_string_equal(hear_all(fixture, followers[1]), "started stdout(this) done(ok)");
        assert_string_equal(state_of(fixture, id, 2), "2 restored: it was parked");
        assert_int_equal(fixture->place.opens, 2);
        /* By itself, while no engine is there. */
        park(fixture, id);
        wait_for(fixture, &alice, id, "parked");
        run_whole(fixture, id, "say more");
        engine_close(fixture->engine);
        fake_kill_all(&fixture->place);
        fixture->place.adopts = true;
        start(fixture);
        wait_for(fixture, &alice, id, "parked");
        assert_string_equal(run_whole(fixture, id, "recall"), "started stdout(this) done(ok)");
        assert_string_equal(state_of(fixture, id, 4), "4 restored: it was parked");
}

static void a_conversation_that_is_parked(void **state) {
        const struct engine_wish wish = { .environment = "python", .conversation = "chat" };
        struct fixture *fixture = *state;
        const struct engine_patch patch = { .idle_seconds = 100 };
        json_t *json JSON_CLEANUP = NULL;
        struct problem problem;
        const char *id = make(fixture, &alice, &wish, 1);

        wait_for(fixture, &alice, id, "idle");
        park(fixture, id);
        wait_for(fixture, &alice, id, "parked");
        assert_string_equal(make(fixture, &alice, &wish, 0), id);
        assert_int_equal(engine_patch(fixture->engine, &alice, id, &patch, &json, &problem), 0);
        wait_for(fixture, &alice, id, "parked");
        /* It ends by idleness as any other. */
        atomic_fetch_add(&now_ms, 101000);
        wait_for(fixture, &alice, id, NULL);
        assert_string_not_equal(make(fixture, &alice, &wish, 1), id);
}

static void a_thousand(void **state) {
        struct fixture *fixture = *state;
        struct session_change change = { .table = SESSION_TABLE_SESSIONS, .expect = SESSION_EXPECT_NOTHING };
        struct session_item *items;
        struct error err;
        size_t count, before;
        const char *id = session_of(fixture, &alice), *at;

        run_whole(fixture, id, "keep this");
        park(fixture, id);
        wait_for(fixture, &alice, id, "parked");
        engine_close(fixture->engine);
        assert_int_equal(session_store_list(fixture->store, SESSION_TABLE_SESSIONS, "", NULL, false, 2,
                                            fixture->arena, &items, &count, &err),
                         0);
        assert_int_equal(count, 1);
        at = strstr(items[0].value, id);
        assert_non_null(at);
        for (int i = 0; i < 1000; i++) {
                char text[4096];
                const char digits[] = "abcdefghij";

                snprintf(text, sizeof(text), "%s", items[0].value);
                for (int place = 0, rest = i; place < 3; place++, rest /= 10)
                        text[at - items[0].value + 2 + place] = digits[rest % 10];
                change.value = text;
                change.key =
                        arena_printf(fixture->arena, "%.*s%.*s", (int)(strlen(items[0].key) - strlen(id)),
                                     items[0].key, (int)strlen(id), text + (at - items[0].value));
                assert_int_equal(session_store_write(fixture->store, &change, 1, &err), 1);
        }
        before = heap_in_use();
        start(fixture);
        wait_for(fixture, &alice, id, "parked");
        print_message("%zu bytes a session\n", (heap_in_use() - before) / 1001);
        assert_true(heap_in_use() - before < (size_t)1001 * 2048);
}

static atomic_int given_back;

/* In place of heap_give_back(), as the linker has it (-Wl,--wrap). */
void __wrap_heap_give_back(void);
void __wrap_heap_give_back(void) {
        atomic_fetch_add(&given_back, 1);
}

/* Whenever as many sandboxes have gone as there are. */
static void memory_is_given_back(void **state) {
        struct fixture *fixture = *state;
        const char *ids[4];
        int before;

        for (int i = 0; i < 4; i++) {
                ids[i] = session_of(fixture, &alice);
                run_whole(fixture, ids[i], "keep this");
        }
        before = given_back;
        for (int i = 0; i < 4; i++) {
                park(fixture, ids[i]);
                wait_for(fixture, &alice, ids[i], "parked");
        }
        while (given_back == before)
                nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        assert_string_equal(run_whole(fixture, ids[0], "recall"), "started stdout(this) done(ok)");
        before = given_back;
        park(fixture, ids[0]);
        wait_for(fixture, &alice, ids[0], "parked");
        while (given_back == before)
                nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

static void bring(struct fixture *fixture, const char *id, struct engine_follower **ret) {
        struct problem problem;

        assert_int_equal(engine_bring_files(fixture->engine, &alice, id, ret, &problem), 0);
}

/*
 * A caller reads its files, and reads again: it is parked nevertheless, once what is under way has
 * come to its end.
 */
static void a_park_while_files_are_read(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);
        struct engine_follower *readers[3] = { NULL };

        assert_string_equal(run_whole(fixture, id, "keep this"), "started done(ok)");
        fixture->place.slow_bring = true;
        bring(fixture, id, &readers[0]);
        assert_non_null(readers[0]);
        park(fixture, id);
        assert_true(engine_is_parking(fixture->engine, &alice, id));
        park(fixture, id);
        bring(fixture, id, &readers[1]);
        assert_int_equal(fixture->place.parks, 0);
        fake_let_bring(&fixture->place, id);
        assert_string_equal(hear_all(fixture, readers[0]), "");
        wait_for(fixture, &alice, id, "parked");
        /* A later caller reads what there is: all that was written until then. */
        assert_string_equal(hear_all(fixture, readers[1]), "");
        assert_int_equal(fixture->place.parks, 1);
        assert_int_equal(fixture->place.brings, 1);
        assert_false(engine_is_parking(fixture->engine, &alice, id));
        assert_string_equal(run_whole(fixture, id, "recall"), "started stdout(this) done(ok)");
        /* By idleness, too: to read is not to use it. */
        bring(fixture, id, &readers[0]);
        atomic_fetch_add(&now_ms, 301000);
        for (int i = 0; i < PATIENCE_MS && !engine_is_parking(fixture->engine, &alice, id); i++)
                usleep(1000);
        bring(fixture, id, &readers[1]);
        fake_let_bring(&fixture->place, id);
        wait_for(fixture, &alice, id, "parked");
        assert_string_equal(hear_all(fixture, readers[0]), "");
        assert_string_equal(hear_all(fixture, readers[1]), "");
        assert_int_equal(fixture->place.parks, 2);
}

/*
 * Work that is asked for meanwhile goes first, and then the session is not parked; nor is one that
 * ends, or whose sandbox dies.
 */
static void what_comes_before_a_park(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);
        struct engine_follower *reader, *follower;
        struct problem problem;

        assert_string_equal(run_whole(fixture, id, "keep this"), "started done(ok)");
        fixture->place.slow_bring = true;
        bring(fixture, id, &reader);
        park(fixture, id);
        assert_int_equal(run_code(fixture, &alice, id, "recall", &follower), 2);
        assert_int_equal(engine_park(fixture->engine, &alice, id, &problem), -1);
        assert_int_equal(problem.code, PROBLEM_BUSY);
        fake_let_bring(&fixture->place, id);
        assert_string_equal(hear_all(fixture, follower), "started stdout(this) done(ok)");
        assert_string_equal(hear_all(fixture, reader), "");
        assert_false(engine_is_parking(fixture->engine, &alice, id));
        wait_for(fixture, &alice, id, "idle");
        assert_int_equal(fixture->place.parks, 0);
        /* Its sandbox dies in the middle, and what had been asked for is not held up by that. */
        bring(fixture, id, &reader);
        park(fixture, id);
        fake_die(&fixture->place, id);
        assert_string_equal(hear_all(fixture, reader), "");
        assert_string_equal(run_whole(fixture, id, "say again"), "started stdout(again) done(ok)");
        assert_false(engine_is_parking(fixture->engine, &alice, id));
        /* It is ended. */
        bring(fixture, id, &reader);
        park(fixture, id);
        assert_int_equal(engine_end(fixture->engine, &alice, id, &problem), 0);
        assert_string_equal(hear_all(fixture, reader), "");
        assert_false(engine_is_parking(fixture->engine, &alice, id));
        assert_int_equal(fixture->place.parks, 0);
}

/*
 * The last note that it was told comes back with each opening, also by an engine that was not
 * there.
 */
static void a_place_s_note(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);

        fixture->place.notes = true;
        run_whole(fixture, id, "keep this");
        assert_int_equal(fixture->place.opened_note, 0);
        run_whole(fixture, id, "recall");
        restart(fixture);
        assert_int_equal(fixture->place.opened_note, 2);
        assert_false(fixture->place.opened_parked);
        run_whole(fixture, id, "recall"); /* it is open by then */
        park(fixture, id);
        wait_for(fixture, &alice, id, "parked");
        restart(fixture);
        assert_true(fixture->place.opened_parked);
        run_whole(fixture, id, "recall");
        assert_int_equal(fixture->place.opened_note, 3);
        restart(fixture);
        assert_int_equal(fixture->place.opened_note, 4);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(parks),
                TEST(an_execution_comes_while_it_is_parked),
                TEST(a_checkpoint_that_cannot_be_taken),
                TEST(what_is_lost_is_said),
                TEST(a_checkpoint_that_kills),
                TEST(a_restart_forgets),
                TEST(an_older_checkpoint),
                TEST(a_sandbox_that_lives_though_it_is_parked),
                TEST(a_worker_that_is_told_to_end),
                TEST(a_conversation_that_is_parked),
                TEST(a_park_while_files_are_read),
                TEST(a_place_s_note),
                TEST(what_comes_before_a_park),
                TEST(a_thousand),
                TEST(memory_is_given_back),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
