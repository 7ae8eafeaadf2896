/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a session. The record says it first, and is removed last. Where a server dies in between, the next one does what the table of
 * a session's life says (sessions/model/). Each death is tried with a store of one server, and with a store that servers share.
 */
#include "sessions/many_fixture.h"
#include "sessions/model/life.h"
#include "sessions/record.h"

/* The sandbox, as the next server finds it. */
enum left {
        LEFT_NONE,
        LEFT_IDLE,
        LEFT_RUNNING,
        LEFT_WITHOUT_IT /* it has not had the execution that is recorded as begun */
};

struct death {
        const char *died;
        enum left left;
        bool begun, waits; /* executions that the record knows */
        bool ending;       /* the sandbox was told to end, and its kernels flush */
        bool parked;
        const char *why;    /* `ending` of the record; NULL: "ended" */
        const char *detail; /* of what ends with it; NULL: "the session was ended" */
};

static const struct death deaths[] = {
        { "before an idle sandbox was told to end", LEFT_IDLE, .why = NULL },
        { "before a sandbox was told to end that runs one", LEFT_RUNNING, .begun = true },
        { "before the end of what waits was written", LEFT_RUNNING, .begun = true, .waits = true },
        { "while kernels flush", LEFT_IDLE, .ending = true },
        { "while a kernel flushes that runs one", LEFT_RUNNING, .begun = true, .ending = true },
        { "while a kernel flushes, and one waits", LEFT_RUNNING, .begun = true, .waits = true,
          .ending = true },
        { "after the sandbox, before its execution's end was written", LEFT_NONE, .begun = true },
        { "after the sandbox, before two ends were written", LEFT_NONE, .begun = true, .waits = true },
        { "before the sandbox had the execution", LEFT_WITHOUT_IT, .begun = true },
        { "of a session that had expired, and whose sandbox had gone", LEFT_NONE, .begun = true,
          .why = "expired", .detail = "the session has expired" },
        { "that knew a reason which this one does not", LEFT_RUNNING, .begun = true, .why = "another" },
        { "when all had ended but the record", LEFT_NONE, .why = "expired" },
        { "when it was parked", LEFT_NONE, .parked = true },
        { "when it was parked, and its sandbox lived", LEFT_IDLE, .parked = true },
        { "when its first sandbox could not be started", LEFT_NONE, .why = "unmade" },
};

/* What the table has the next server do. */
struct doing {
        size_t joins, told, ends;
};

static struct doing by_table(const struct death *death) {
        static const enum life_event answers[] = { LIFE_OPEN_FAILED, LIFE_OPENED, LIFE_OPENED_RUNNING,
                                                   LIFE_OPENED };
        struct life_state state = { .life = LIFE_ENDING,
                                    .execution = death->begun ? LIFE_RUNNING : LIFE_IDLE,
                                    .waiting = death->waits };
        enum life_event event = LIFE_TAKEN_OVER;
        struct doing doing = { 0 };
        unsigned effects;

        state = life_recorded(&state);
        while (state.life != LIFE_GONE) {
                assert_true(life_next(&state, event, &state, &effects));
                doing.joins += (effects & LIFE_DO_JOIN) != 0;
                doing.told += (effects & LIFE_DO_END) != 0;
                doing.ends += state.writing == LIFE_WRITES_END && (effects & LIFE_DO_STORE);
                event = state.writing                          ? LIFE_STORED
                        : state.sandbox == LIFE_SANDBOX_SOUGHT ? answers[death->left]
                        : state.sandbox == LIFE_SANDBOX_ENDING ? LIFE_ENDED
                                                               : LIFE_TICK;
        }
        return doing;
}

static const char *key_of(const struct fixture *fixture, const char *id) {
        return record_session_key(alice.owner, id, fixture->arena);
}

/* A new reference, or NULL where it has gone. */
static json_t *stored(const struct fixture *fixture, const char *id, uint64_t *ret_version) {
        struct session_item item = { 0 };
        struct error err;
        int found = session_store_get(fixture->store, SESSION_TABLE_SESSIONS, key_of(fixture, id),
                                      fixture->arena, &item, &err);

        assert_true(found >= 0);
        *ret_version = item.version;
        return found ? json_checked(json_loads(item.value, 0, NULL)) : NULL;
}

static void await_gone(const struct fixture *fixture, const char *id) {
        for (int i = 0; i < PATIENCE_MS; i++) {
                uint64_t version;
                json_t *json JSON_CLEANUP = stored(fixture, id, &version);

                if (!json)
                        return;
                usleep(1000);
        }
        fail_msg("its record stays");
}

/* As a server leaves the record that dies once it has written the end. */
static void write_end_of(const struct fixture *fixture, const char *id, const struct death *death) {
        struct session_change change = { SESSION_TABLE_SESSIONS, key_of(fixture, id), NULL,
                                         SESSION_EXPECT_VERSION, 0 };
        json_t *json JSON_CLEANUP = stored(fixture, id, &change.version);
        struct error err;
        char *text;

        assert_non_null(json);
        json_put(json, "ending", json_string(death->why ? death->why : "ended"));
        json_put(json, "ttlSeconds", json_integer(0));
        if (death->left == LEFT_WITHOUT_IT) {
                json_put(json, "takenN", json_integer(2));
                json_put(json, "oldestN", json_integer(2));
        }
        change.value = text = json_compact(json);
        assert_int_equal(session_store_write(fixture->store, &change, 1, &err), 1);
        free(text);
}

/* Executions from number *ret_first on have not ended. */
static const char *prepare(struct fixture *fixture, const struct death *death, int64_t *ret_first) {
        const char *id = session_of(fixture, &alice);
        struct engine_follower *follower;
        struct problem problem;
        int64_t n = 0;

        *ret_first = 1;
        if (death->begun) {
                n = run_code(fixture, &alice, id, "hold", &follower);
                wait_until_running(fixture, follower);
                engine_follower_close(follower);
        }
        if (death->waits || death->left == LEFT_WITHOUT_IT)
                assert_int_equal(run_code(fixture, &alice, id, "say never", NULL), n + 1);
        if (death->left == LEFT_WITHOUT_IT)
                *ret_first = 2;
        if (death->parked) {
                run_code(fixture, &alice, id, "say x", &follower);
                (void)hear_all(fixture, follower);
                assert_int_equal(engine_park(fixture->engine, &alice, id, &problem), 0);
                wait_for(fixture, &alice, id, "parked");
        }
        return id;
}

/* Brings the sandbox into the state that the death left it in. */
static void leave_sandbox(struct fixture *fixture, const char *id, const struct death *death) {
        struct fake_place *place = &fixture->place;

        if (death->left == LEFT_NONE)
                fake_kill(place, id);
        if (death->left == LEFT_WITHOUT_IT)
                release_when_held(fixture, id);
        if (death->left != LEFT_NONE)
                fake_find(place, id)->lives = true;
        fake_find(place, id)->ending = death->ending;
        place->slow_end = death->ending;
        place->ends = place->kills = place->opens = place->executes = 0;
}

static void check_end_of(struct fixture *fixture, const char *id, int64_t n, const char *why) {
        json_t *result JSON_CLEANUP = result_of(fixture, &alice, id, n);

        assert_string_equal(json_text(result, "status"), "killed");
        assert_string_equal(json_text(result, "detail"), why);
}

/* The next server has the same sandboxes and the same store. */
static void die_and_go_on(struct fixture *fixture, const struct death *death,
                          void (*open)(struct fixture *)) {
        struct doing doing = by_table(death);
        int workspaces_before = atomic_load(&workspace_count), lives_before;
        struct fake_place *place = &fixture->place;
        struct problem problem;
        int64_t first;
        const char *id = prepare(fixture, death, &first);

        print_message("died %s\n", death->died);
        engine_close(fixture->engine);
        write_end_of(fixture, id, death);
        leave_sandbox(fixture, id, death);
        lives_before = atomic_load(&lives_asked);
        open(fixture);
        if (death->ending) {
                /* Clients do not find it while it ends. */
                for (int i = 0; i < PATIENCE_MS && place->ends == 0; i++)
                        usleep(1000);
                assert_int_equal(engine_show(fixture->engine, &alice, id, NULL, &problem), -1);
                assert_int_equal(problem.code, PROBLEM_NOT_FOUND);
                fake_let_end(place);
        }
        await_gone(fixture, id);
        assert_int_equal(place->opens, doing.joins);
        assert_int_equal(place->ends, doing.told);
        assert_int_equal(place->kills, 0);
        assert_int_equal(place->executes, 0);
        assert_false(fake_lives(place, id));
        for (size_t i = 0; i < doing.ends; i++)
                check_end_of(fixture, id, first + (int64_t)i,
                             death->detail ? death->detail : "the session was ended");
        assert_int_equal(engine_show(fixture->engine, &alice, id, NULL, &problem), -1);
        if (death->why && strcmp(death->why, "unmade") == 0)
                assert_int_equal(atomic_load(&workspace_count), workspaces_before);
        else
                assert_true(atomic_load(&lives_asked) > lives_before);
}

static void each_death_alone(void **state) {
        for (size_t i = 0; i < sizeof(deaths) / sizeof(deaths[0]); i++)
                die_and_go_on(*state, &deaths[i], start);
}

static void open_first(struct fixture *fixture) {
        (void)fixture;
        open_server(0);
}

static void each_death_of_many(void **state) {
        (void)state;
        engine_close(servers[1]->engine);
        servers[1]->engine = NULL;
        for (size_t i = 0; i < sizeof(deaths) / sizeof(deaths[0]); i++)
                die_and_go_on(servers[0], &deaths[i], open_first);
        /* No other item of theirs is left. */
        assert_int_equal(count_items(SESSION_TABLE_SESSIONS, "~owner/"), 0);
}

/* What runs ends when its sandbox has ended, and what waits ends at once. Clients do not find the session meanwhile. */
static void recorded_when_it_is_so(void **state) {
        struct fixture *fixture = *state;
        const struct engine_wish wish = { .environment = "python", .conversation = "talk" };
        const char *id = make(fixture, &alice, &wish, 1), *other;
        struct engine_follower *runs, *waits;
        struct problem problem;
        json_t *json;
        uint64_t version;

        fixture->place.slow_end = true;
        run_code(fixture, &alice, id, "hold", &runs);
        wait_until_running(fixture, runs);
        run_code(fixture, &alice, id, "say never", &waits);
        assert_int_equal(engine_end(fixture->engine, &alice, id, &problem), 0);
        assert_string_equal(hear_all(fixture, waits), "done(killed)");
        assert_string_equal(status_of(fixture, &alice, id, 1), "running");
        json = stored(fixture, id, &version);
        assert_string_equal(json_text(json, "ending"), "ended");
        /* For a server that does not know `ending`, it has expired. */
        assert_int_equal(json_integer_or(json, "ttlSeconds", -1), 0);
        json_decref(json);
        assert_int_equal(engine_show(fixture->engine, &alice, id, NULL, &problem), -1);
        assert_int_equal(engine_end(fixture->engine, &alice, id, &problem), -1);
        other = make(fixture, &alice, &wish, 1);
        assert_string_not_equal(other, id);
        fake_let_end(&fixture->place);
        assert_string_equal(hear_all(fixture, runs), "done(killed)");
        check_end_of(fixture, id, 1, "the session was ended");
        await_gone(fixture, id);
        assert_string_equal(make(fixture, &alice, &wish, 0), other);
}

/* A server that has no sandbox of the session joins the one that lives before it ends it. */
static void one_is_sought(void **state) {
        struct fake_place *place = &servers[0]->place;
        const char *id = session_of(servers[0], &alice);
        struct problem problem;

        (void)state;
        runs(0, id, 1, "x");
        engine_close(servers[0]->engine);
        open_server(0);
        place->ends = place->kills = 0;
        assert_int_equal(engine_end(servers[0]->engine, &alice, id, &problem), 0);
        await_gone(servers[0], id);
        assert_int_equal(place->ends, 1);
        assert_int_equal(place->kills, 0);
}

/* The end was left to the session's holder, which is dead. */
static void left_to_one_that_dies(void **state) {
        const char *id = session_of(servers[0], &alice);
        struct engine_follower *near = holds_at_first(id, 1, "hold"), *far;
        struct problem problem;

        (void)state;
        atomic_store(&views[0]->down, true);
        assert_int_equal(engine_follow(servers[1]->engine, &alice, id, 1, 0, &far, &problem), 0);
        assert_int_equal(engine_end(servers[1]->engine, &alice, id, &problem), 0);
        assert_int_equal(engine_show(servers[1]->engine, &alice, id, NULL, &problem), -1);
        assert_string_equal(hear_all(servers[1], far), "done(killed)");
        check_end_of(servers[1], id, 1, "the session was ended");
        await_gone(servers[1], id);
        atomic_store(&views[0]->down, false);
        engine_follower_close(near);
}

/* Its holder writes the end of what runs before it reads that the session ends: that write finds it. What waits does not begin. */
static void found_by_a_write(void **state) {
        const char *id = session_of(servers[0], &alice);
        struct engine_follower *near = holds_at_first(id, 1, "hold"), *waits = NULL;
        struct problem problem;

        (void)state;
        assert_int_equal(run_code(servers[0], &alice, id, "say never", &waits), 2);
        assert_int_equal(engine_end(servers[1]->engine, &alice, id, &problem), 0);
        release_when_held(servers[0], id);
        assert_string_equal(hear_all(servers[0], waits), "done(killed)");
        engine_follower_close(near);
        await_gone(servers[1], id);
        assert_int_equal(servers[0]->place.executes, 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(each_death_alone),   MANY_TEST(each_death_of_many),    TEST(recorded_when_it_is_so),
                MANY_TEST(one_is_sought), MANY_TEST(left_to_one_that_dies), MANY_TEST(found_by_a_write),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
