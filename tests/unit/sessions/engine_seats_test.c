/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Agents' limits over two servers on one store. A third party checks whether they hold: a thread
 * counts in how many sandboxes of both places something runs for the agent, again and again.
 */
#include "sessions/many_fixture.h"

static const struct engine_wish of_agent = { .agent = "analyst" };

/* The most that ran at once, since watch() began. */
static struct {
        pthread_t thread;
        atomic_bool stops, without_first;
        atomic_bool releases; /* what holds, every few milliseconds */
        size_t looks;
        atomic_size_t most;
} watcher;

static size_t count_running(struct fake_place *place) {
        size_t count = 0;

        for (size_t i = 0; i < place->count; i++)
                count += place->sandboxes[i].of_agent && place->sandboxes[i].lives &&
                         place->sandboxes[i].running;
        return count;
}

static void release_all(struct fake_place *place) {
        for (size_t i = 0; i < FAKE_SANDBOXES; i++)
                (void)fake_release(place, place->sandboxes[i].id);
}

/* Both at the same moment. */
static void *watch_on(void *context) {
        (void)context;
        while (!atomic_load(&watcher.stops)) {
                bool without = atomic_load(&watcher.without_first);
                size_t count;

                pthread_mutex_lock(&servers[0]->place.lock);
                pthread_mutex_lock(&servers[1]->place.lock);
                count = (without ? 0 : count_running(&servers[0]->place)) + count_running(&servers[1]->place);
                pthread_mutex_unlock(&servers[1]->place.lock);
                pthread_mutex_unlock(&servers[0]->place.lock);
                if (count > atomic_load(&watcher.most))
                        atomic_store(&watcher.most, count);
                usleep(200);
                if (atomic_load(&watcher.releases) && ++watcher.looks % 20 == 0) {
                        release_all(&servers[0]->place);
                        release_all(&servers[1]->place);
                }
        }
        return NULL;
}

static void watch(void) {
        atomic_store(&watcher.stops, false);
        atomic_store(&watcher.without_first, false);
        atomic_store(&watcher.releases, false);
        atomic_store(&watcher.most, 0);
        assert_int_equal(pthread_create(&watcher.thread, NULL, watch_on, NULL), 0);
}

static size_t most_at_once(void) {
        atomic_store(&watcher.stops, true);
        pthread_join(watcher.thread, NULL);
        return atomic_load(&watcher.most);
}

static const char *session_for(size_t at, const struct engine_caller *caller) {
        return make(servers[at], caller, &of_agent, 1);
}

static struct engine_follower *begin(size_t at, const struct engine_caller *caller, const char *id,
                                     const char *code) {
        struct engine_follower *follower = NULL;

        assert_true(run_code(servers[at], caller, id, code, &follower) > 0);
        return follower;
}

/* How many records of seats there are. */
static size_t count_records(void) {
        return count_items(SESSION_TABLE_KEYS, "~seats/");
}

static void await_no_record(void) {
        for (int i = 0; i < PATIENCE_MS && count_records() > 0; i++)
                usleep(1000);
        assert_int_equal(count_records(), 0);
}

/*
 * A session that is idle at the one makes room for a session that waits at the other, and comes
 * back in its turn.
 */
static void one_limit_for_both(void **state) {
        const char *first, *second, *third;
        struct engine_follower *holds, *waits, *behind;

        (void)state;
        atomic_store(&containers, 1);
        watch();
        first = session_for(0, &alice);
        holds = begin(0, &alice, first, "keep mine\nhold");
        wait_until_running(servers[0], holds);
        second = session_for(1, &bob);
        third = session_for(1, &alice);
        waits = begin(1, &bob, second, "say second");
        behind = begin(1, &alice, third, "say third");
        wait_for(servers[1], &bob, second, "queued");
        assert_string_equal(status_of(servers[1], &bob, second, 1), "queued");
        assert_string_equal(status_of(servers[0], &bob, second, 1), "queued");
        release_when_held(servers[0], first);
        assert_string_equal(hear_all(servers[0], holds), "done(ok)");
        assert_string_equal(hear_all(servers[1], waits), "started stdout(second) done(ok)");
        assert_string_equal(hear_all(servers[1], behind), "started stdout(third) done(ok)");
        assert_string_equal(hear_all(servers[0], begin(0, &alice, first, "recall")),
                            "started stdout(mine) done(ok)");
        assert_true(most_at_once() <= 1);
}

/* An execution on each server by turns, however soon the next one is asked for. */
static void nobody_starves(void **state) {
        const char *ids[2];
        const struct engine_caller *callers[2] = { &alice, &bob };
        struct engine_follower *followers[2];

        (void)state;
        atomic_store(&containers, 1);
        watch();
        for (size_t i = 0; i < 2; i++) {
                ids[i] = session_for(i, callers[i]);
                followers[i] = begin(i, callers[i], ids[i], "say x");
        }
        for (int turn = 0; turn < 3; turn++) {
                for (size_t i = 0; i < 2; i++) {
                        assert_string_equal(hear_all(servers[i], followers[i]), "started stdout(x) done(ok)");
                        followers[i] = begin(i, callers[i], ids[i], "say x");
                }
        }
        for (size_t i = 0; i < 2; i++)
                assert_string_equal(hear_all(servers[i], followers[i]), "started stdout(x) done(ok)");
        assert_true(most_at_once() <= 1);
}

static void who_is_turned_away(void **state) {
        const char *first, *second;
        struct engine_follower *holds;

        (void)state;
        atomic_store(&containers, 1);
        atomic_store(&reject, true);
        watch();
        first = session_for(0, &alice);
        holds = begin(0, &alice, first, "hold");
        wait_until_running(servers[0], holds);
        assert_string_equal(make(servers[1], &bob, &of_agent, -1), "agent-limit");
        release_when_held(servers[0], first);
        assert_string_equal(hear_all(servers[0], holds), "done(ok)");
        /* An idle session is no reason to turn a caller away. */
        second = session_for(1, &bob);
        assert_string_equal(hear_all(servers[1], begin(1, &bob, second, "say in")),
                            "started stdout(in) done(ok)");
        assert_true(most_at_once() <= 1);
}

struct customer {
        const char *ids[4];
        size_t at;
        int failed;
};

static void *ask_again_and_again(void *context) {
        struct customer *customer = context;

        for (size_t i = 0; i < 8; i++) {
                struct fixture *fixture = servers[(customer->at + i / 2) % 2];
                const struct engine_code code = { .code = "hold", .code_length = 4 };
                struct engine_follower *follower = NULL;
                struct engine_event event;
                enum engine_next next;
                struct problem problem;
                int64_t n;

                if (engine_execute(fixture->engine, &alice, customer->ids[i % 4], &code, &n, &follower,
                                   &problem) < 0) {
                        customer->failed++;
                        continue;
                }
                while ((next = engine_follower_next(follower, &event)) != ENGINE_ENDED) {
                        struct pollfd ready = { engine_follower_descriptor(follower), POLLIN, 0 };

                        if (next == ENGINE_EVENT)
                                json_decref(event.data);
                        else if (poll(&ready, 1, PATIENCE_MS) != 1)
                                customer->failed += 100;
                }
                engine_follower_close(follower);
        }
        return NULL;
}

/* Sixteen sessions for two seats, at both servers, which hand sessions to one another; and nothing is left of it. */
static void many_for_few(void **state) {
        struct customer customers[4];
        pthread_t threads[4];

        (void)state;
        atomic_store(&containers, 2);
        watch();
        atomic_store(&watcher.releases, true);
        for (size_t i = 0; i < 4; i++) {
                customers[i] = (struct customer){ .at = i % 2 };
                for (size_t j = 0; j < 4; j++)
                        customers[i].ids[j] = session_for((i + j) % 2, &alice);
        }
        for (size_t i = 0; i < 4; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, ask_again_and_again, &customers[i]), 0);
        for (size_t i = 0; i < 4; i++) {
                pthread_join(threads[i], NULL);
                assert_int_equal(customers[i].failed, 0);
        }
        assert_in_range(most_at_once(), 1, 2);
        for (size_t i = 0; i < 4; i++) {
                for (size_t j = 0; j < 4; j++) {
                        struct problem problem;

                        while (engine_end(servers[0]->engine, &alice, customers[i].ids[j], &problem) < 0)
                                assert_int_equal(problem.code, PROBLEM_BUSY);
                }
        }
        await_no_record();
}

/* What waited at a server that died does not begin beside what runs, and is served where it stood. */
static void a_server_dies(void **state) {
        const char *first, *second, *third, *fourth;
        struct engine_follower *holds, *waits, *follower;
        struct problem problem;

        (void)state;
        atomic_store(&containers, 2);
        watch();
        /* One runs at each of them; one waits at each, and had run before, so that there is a note of it. */
        second = session_for(0, &alice);
        assert_string_equal(hear_all(servers[0], begin(0, &alice, second, "say before")),
                            "started stdout(before) done(ok)");
        first = session_for(0, &bob);
        follower = begin(0, &bob, first, "hold");
        wait_until_running(servers[0], follower);
        engine_follower_close(follower);
        third = session_for(1, &alice);
        holds = begin(1, &alice, third, "hold");
        wait_until_running(servers[1], holds);
        engine_follower_close(begin(0, &alice, second, "say second"));
        wait_for(servers[0], &alice, second, "queued");
        fourth = session_for(1, &bob);
        waits = begin(1, &bob, fourth, "say fourth");
        assert_string_equal(status_of(servers[1], &bob, fourth, 1), "queued");
        for (int i = 0; i < PATIENCE_MS && atomic_load(&watcher.most) < 2; i++)
                usleep(1000);
        assert_int_equal(atomic_load(&watcher.most), 2);
        atomic_store(&containers, 1); /* so that no seat is free when that of the dead one is */
        atomic_store(&watcher.without_first, true);
        atomic_store(&watcher.most, 0);
        atomic_store(&views[0]->down, true);
        assert_int_equal(engine_follow(servers[1]->engine, &bob, first, 1, 0, &follower, &problem), 0);
        while (strcmp(status_of(servers[1], &bob, first, 1), "failed") != 0)
                usleep(10000);
        engine_follower_close(follower);
        usleep(2500 * 1000);
        assert_string_equal(status_of(servers[1], &bob, fourth, 1), "queued");
        assert_string_equal(status_of(servers[1], &alice, second, 2), "queued");
        release_when_held(servers[1], third);
        assert_string_equal(hear_all(servers[1], holds), "done(ok)");
        assert_string_equal(hear_all(servers[1], waits), "started stdout(fourth) done(ok)");
        while (strcmp(status_of(servers[1], &alice, second, 2), "ok") != 0)
                usleep(10000);
        assert_true(most_at_once() <= 1);
        release_when_held(servers[0], first);
}

/* It was taken for dead, and what was idle with it has no seat any more when it goes on. */
static void one_stands_still_and_goes_on(void **state) {
        const char *first, *second;
        struct engine_follower *holds, *waits;

        (void)state;
        atomic_store(&containers, 1);
        first = session_for(0, &alice);
        assert_string_equal(hear_all(servers[0], begin(0, &alice, first, "keep mine")), "started done(ok)");
        atomic_store(&views[0]->down, true);
        second = session_for(1, &bob);
        holds = begin(1, &bob, second, "hold");
        wait_until_running(servers[1], holds);
        atomic_store(&views[0]->down, false);
        usleep(500 * 1000); /* it says again that it lives */
        waits = begin(0, &alice, first, "recall");
        usleep(2500 * 1000);
        assert_string_equal(status_of(servers[0], &alice, first, 2), "queued");
        assert_int_equal(servers[0]->place.executes, 1);
        release_when_held(servers[1], second);
        assert_string_equal(hear_all(servers[1], holds), "done(ok)");
        assert_string_equal(hear_all(servers[0], waits), "started stdout(mine) done(ok)");
}

/*
 * A session that has not begun there holds up none that stands in line before it, though a dead
 * server's seat was for it.
 */
static void one_dies_between_two_executions(void **state) {
        const char *first, *second;
        struct engine_follower *holds, *waits;

        (void)state;
        atomic_store(&containers, 1);
        servers[0]->place.slow_park = true;
        first = session_for(0, &alice);
        holds = begin(0, &alice, first, "hold");
        wait_until_running(servers[0], holds);
        engine_follower_close(begin(0, &alice, first, "say next"));
        second = session_for(1, &bob);
        waits = begin(1, &bob, second, "say second");
        wait_for(servers[1], &bob, second, "queued");
        usleep(2500 * 1000); /* the first server has word of it */
        release_when_held(servers[0], first);
        assert_string_equal(hear_all(servers[0], holds), "done(ok)");
        for (int i = 0; i < PATIENCE_MS && servers[0]->place.parks == 0; i++)
                usleep(1000);
        assert_int_equal(servers[0]->place.parks, 1);
        assert_string_equal(status_of(servers[0], &alice, first, 2), "queued");
        atomic_store(&views[0]->down, true);
        assert_string_equal(hear_all(servers[1], waits), "started stdout(second) done(ok)");
        for (int i = 0; i < PATIENCE_MS / 10 && strcmp(status_of(servers[1], &alice, first, 2), "ok") != 0;
             i++)
                usleep(10000);
        assert_string_equal(status_of(servers[1], &alice, first, 2), "ok");
}

/* A session in line stays in line while the store does not answer. */
static void a_store_that_falters(void **state) {
        const char *first, *second;
        struct engine_follower *holds, *waits;

        (void)state;
        atomic_store(&containers, 1);
        first = session_for(0, &alice);
        holds = begin(0, &alice, first, "hold");
        wait_until_running(servers[0], holds);
        second = session_for(1, &bob);
        waits = begin(1, &bob, second, "say second");
        wait_for(servers[1], &bob, second, "queued");
        atomic_store(&views[1]->fail_gets, 2);
        for (int i = 0; i < PATIENCE_MS && atomic_load(&views[1]->fail_gets) > 0; i++)
                usleep(1000);
        assert_int_equal(atomic_load(&views[1]->fail_gets), 0);
        assert_string_equal(status_of(servers[1], &bob, second, 1), "queued");
        release_when_held(servers[0], first);
        assert_string_equal(hear_all(servers[0], holds), "done(ok)");
        assert_string_equal(hear_all(servers[1], waits), "started stdout(second) done(ok)");
}

/* The number of the server that has it. */
static const char *holder_of(const char *id, struct arena *arena) {
        json_t *record JSON_CLEANUP = record_of(id);

        return arena_strdup(arena, json_text(record, "holder"));
}

/* Whatever another program has put there, no session is kept from standing in line by it. */
static void a_record_of_somebody_elses_making(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *first, *second, *name = arena_printf(arena, "%0230d", 0);
        struct session_change change = { SESSION_TABLE_KEYS, NULL, NULL, SESSION_EXPECT_NOTHING, 0 };
        struct engine_follower *holds, *waits;
        struct session_item *items;
        struct error err;
        size_t count;

        (void)state;
        atomic_store(&containers, 1);
        first = session_for(0, &alice);
        holds = begin(0, &alice, first, "hold");
        wait_until_running(servers[0], holds);
        assert_int_equal(session_store_list(table, SESSION_TABLE_KEYS, "~seats/", NULL, false, 10, arena,
                                            &items, &count, &err),
                         0);
        assert_int_equal(count, 1);
        change.key = items[0].key;
        change.value = arena_printf(
                arena,
                "{\"seats\":{\"%s\":[\"%s\",\"%s\",7,\"x\"],\"%s\":[\"%s\"],\"\":[7],\"x\":7,\"y\":[[]]},"
                "\"line\":[7,[],[\"x\"]],\"next\":9223372036854775807,\"at\":\"never\",\"more\":[1]}",
                holder_of(first, arena), first, first, name, first);
        assert_int_equal(session_store_write(table, &change, 1, &err), 1);
        second = session_for(1, &bob);
        waits = begin(1, &bob, second, "say second");
        wait_for(servers[1], &bob, second, "queued");
        assert_string_equal(status_of(servers[1], &bob, second, 1), "queued");
        release_when_held(servers[0], first);
        assert_string_equal(hear_all(servers[0], holds), "done(ok)");
        assert_string_equal(hear_all(servers[1], waits), "started stdout(second) done(ok)");
}

/* What the one record of seats says, to be written in its stead; the key is the arena's. */
static struct session_change record_to_be(const char *value, struct arena *arena) {
        struct session_item *items;
        struct error err;
        size_t count;

        assert_int_equal(session_store_list(table, SESSION_TABLE_KEYS, "~seats/", NULL, false, 10, arena,
                                            &items, &count, &err),
                         0);
        assert_int_equal(count, 1);
        return (struct session_change){ SESSION_TABLE_KEYS, items[0].key, value, SESSION_EXPECT_NOTHING, 0 };
}

/* The record's content; a new reference. */
static json_t *seats_record(void) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct session_item *items;
        struct error err;
        size_t count;

        assert_int_equal(session_store_list(table, SESSION_TABLE_KEYS, "~seats/", NULL, false, 10, arena,
                                            &items, &count, &err),
                         0);
        assert_int_equal(count, 1);
        return json_checked(json_loads(items[0].value, 0, NULL));
}

static void put_record(const char *value) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const struct session_change change = record_to_be(value, arena);
        struct error err;

        assert_int_equal(session_store_write(table, &change, 1, &err), 1);
}

#define NO_SESSION "s-aaaaaaaaaaaaaaaaaaaaaaaaaa"

/* It stands there for a server that lives, and knows nothing of it: that is told so, and gives it back. */
static void a_seat_that_its_server_does_not_know(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *first, *second, *number;
        struct session_change change;
        struct problem problem;
        struct error err;

        (void)state;
        atomic_store(&containers, 1);
        first = session_for(0, &alice);
        assert_string_equal(hear_all(servers[0], begin(0, &alice, first, "say x")),
                            "started stdout(x) done(ok)");
        number = holder_of(first, arena);
        change = record_to_be(NULL, arena);
        assert_int_equal(engine_park(servers[0]->engine, &alice, first, &problem), 0);
        await_no_record();
        change.value = arena_printf(arena, "{\"seats\":{\"%s\":[\"%s\"]},\"line\":[]}", number, first);
        assert_int_equal(session_store_write(table, &change, 1, &err), 1);
        second = session_for(1, &bob);
        assert_string_equal(hear_all(servers[1], begin(1, &bob, second, "say second")),
                            "started stdout(second) done(ok)");
}

/*
 * The same where no session stands in line, and no server gives notice: a seat of an invalid
 * session is free after a while.
 */
static void a_seat_for_no_session(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct engine_follower *holds;
        const char *first, *number;
        struct problem problem;
        json_t *made = NULL;

        (void)state;
        atomic_store(&containers, 1);
        atomic_store(&reject, true);
        ghost_ms = 300;
        engine_close(servers[1]->engine);
        open_server(1);
        first = session_for(0, &alice);
        holds = begin(0, &alice, first, "hold");
        wait_until_running(servers[0], holds);
        number = holder_of(first, arena);
        release_when_held(servers[0], first);
        assert_string_equal(hear_all(servers[0], holds), "done(ok)");
        put_record(arena_printf(arena, "{\"seats\":{\"%s\":[\"" NO_SESSION "\"]},\"line\":[]}", number));
        assert_string_equal(make(servers[1], &bob, &of_agent, -1), "agent-limit");
        for (int i = 0; i < PATIENCE_MS / 100 && !made; i++) {
                (void)!engine_create(servers[1]->engine, &bob, &of_agent, &made, &problem);
                usleep(100 * 1000);
        }
        assert_non_null(made);
        json_decref(made);
}

/* A session that ran at a server that died has a record that cannot be read. */
static void a_session_that_makes_no_sense(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct session_change change = { SESSION_TABLE_SESSIONS, NULL, "no record", SESSION_EXPECT_NOTHING,
                                         0 };
        struct engine_follower *holds, *waits;
        const char *first, *second;
        struct session_item *items;
        struct error err;
        size_t count;

        (void)state;
        atomic_store(&containers, 1);
        ghost_ms = 300;
        engine_close(servers[1]->engine);
        open_server(1);
        first = session_for(0, &alice);
        holds = begin(0, &alice, first, "hold");
        wait_until_running(servers[0], holds);
        atomic_store(&views[0]->down, true);
        assert_int_equal(session_store_list(table, SESSION_TABLE_SESSIONS, "", NULL, false, 1000, arena,
                                            &items, &count, &err),
                         0);
        for (size_t i = 0; i < count; i++) {
                if (*items[i].key != '~' && strstr(items[i].key, first))
                        change.key = items[i].key;
        }
        assert_int_equal(session_store_write(table, &change, 1, &err), 1);
        second = session_for(1, &bob);
        waits = begin(1, &bob, second, "say second");
        assert_string_equal(hear_all(servers[1], waits), "started stdout(second) done(ok)");
        engine_follower_close(holds);
        release_when_held(servers[0], first);
}

/* However much another program has put there. */
static void a_record_that_is_full(void **state) {
        struct strbuf full STRBUF_CLEANUP = STRBUF_INIT, many STRBUF_CLEANUP = STRBUF_INIT;
        const struct strbuf *const records[] = { &full, &many };
        const char *first;

        (void)state;
        atomic_store(&containers, 2);
        first = session_for(0, &alice);
        assert_string_equal(hear_all(servers[0], begin(0, &alice, first, "say x")),
                            "started stdout(x) done(ok)");
        strbuf_printf(&full, "{\"more\":\"");
        while (full.length < SESSION_VALUE_MAX - 2)
                strbuf_append_char(&full, 'x');
        strbuf_printf(&full, "\"}");
        strbuf_printf(&many, "{\"line\":[],\"seats\":{\"x\":[]");
        for (unsigned i = 0; many.length < SESSION_VALUE_MAX - 100; i++)
                strbuf_printf(&many, ",\"%032x\":[\"" NO_SESSION "\"]", i);
        strbuf_printf(&many, "}}");
        for (size_t i = 0; i < 2; i++) {
                const char *id;

                put_record(strbuf_text(records[i]));
                id = session_for(1, &bob);
                assert_string_equal(hear_all(servers[1], begin(1, &bob, id, "say in")),
                                    "started stdout(in) done(ok)");
                assert_int_equal(count_records(), 1);
        }
}

/* Without contact its limit is not enforced: whether there is room is not known. */
static void who_is_out_of_touch_says_so(void **state) {
        struct problem problem = { 0 };
        json_t *made = NULL;

        (void)state;
        atomic_store(&containers, 1);
        for (size_t i = 0; i < 2; i++) {
                atomic_store(&reject, i == 1);
                /* Only that it lives cannot be said. */
                atomic_store(&views[0]->mute, true);
                usleep(SILENT_MS * 1000);
                assert_int_equal(engine_create(servers[0]->engine, &alice, &of_agent, &made, &problem), -1);
                assert_int_equal(problem.code, PROBLEM_PLACE_FAILED);
                atomic_store(&views[0]->mute, false);
        }
        for (int i = 0; i < PATIENCE_MS && !made; i++) {
                if (engine_create(servers[0]->engine, &alice, &of_agent, &made, &problem) < 0)
                        assert_int_equal(problem.code, PROBLEM_PLACE_FAILED);
                usleep(1000);
        }
        assert_non_null(made);
        json_decref(made);
}

static void *begin_at_first(void *context) {
        struct engine_follower *follower = NULL;

        assert_true(run_code(servers[0], &alice, *(const char **)context, "hold", &follower) > 0);
        *(struct engine_follower **)context = follower;
        return NULL;
}

/* Word that others wait comes while it is written that an execution begins: that goes first, and then the session is parked. */
static void what_begins_is_not_parked(void **state) {
        const char *first, *second;
        struct engine_follower *waits, *holds;
        void *asked;
        pthread_t thread;

        (void)state;
        atomic_store(&containers, 1);
        first = session_for(0, &alice);
        assert_string_equal(hear_all(servers[0], begin(0, &alice, first, "say x")),
                            "started stdout(x) done(ok)");
        pthread_mutex_lock(&views[0]->shut);
        atomic_store(&views[0]->slow_answer, first);
        asked = (void *)(uintptr_t)first;
        assert_int_equal(pthread_create(&thread, NULL, begin_at_first, &asked), 0);
        for (int i = 0; i < PATIENCE_MS && atomic_load(&views[0]->standing) == 0; i++)
                usleep(1000);
        second = session_for(1, &bob);
        waits = begin(1, &bob, second, "say second");
        wait_for(servers[1], &bob, second, "queued");
        usleep(2500 * 1000); /* the first server has word of it */
        atomic_store(&views[0]->slow_answer, NULL);
        pthread_mutex_unlock(&views[0]->shut);
        pthread_join(thread, NULL);
        holds = asked;
        wait_until_running(servers[0], holds);
        assert_int_equal(servers[0]->place.parks, 0);
        release_when_held(servers[0], first);
        assert_string_equal(hear_all(servers[0], holds), "done(ok)");
        assert_string_equal(hear_all(servers[1], waits), "started stdout(second) done(ok)");
}

/*
 * A session was about to be parked at the first server when the second took it. Back at the first,
 * it makes room again.
 */
static void what_comes_back_makes_room(void **state) {
        struct fake_place *place = &servers[0]->place;
        struct engine_follower *waits, *there;
        const char *first, *second, *third;

        (void)state;
        atomic_store(&containers, 1);
        place->slow_park = true;
        first = session_for(0, &alice);
        assert_string_equal(hear_all(servers[0], begin(0, &alice, first, "say x")),
                            "started stdout(x) done(ok)");
        second = session_for(1, &bob);
        waits = begin(1, &bob, second, "say second");
        for (int i = 0; i < PATIENCE_MS && place->parks == 0; i++)
                usleep(1000);
        assert_int_equal(place->parks, 1);
        there = begin(1, &alice, first, "say there");
        place->slow_park = false;
        fake_let_park(place, first);
        assert_string_equal(hear_all(servers[1], waits), "started stdout(second) done(ok)");
        assert_string_equal(hear_all(servers[1], there), "started stdout(there) done(ok)");
        assert_string_equal(hear_all(servers[0], begin(0, &alice, first, "say here")),
                            "started stdout(here) done(ok)");
        third = session_for(0, &bob);
        assert_string_equal(hear_all(servers[0], begin(0, &bob, third, "say third")),
                            "started stdout(third) done(ok)");
}

/* The store does not take the record of a parked session: the session is parked again as soon as the store answers. */
static void a_park_that_is_not_written(void **state) {
        struct fake_place *place = &servers[0]->place;
        struct engine_follower *waits;
        const char *first, *second;

        (void)state;
        atomic_store(&containers, 1);
        place->slow_park = true;
        first = session_for(0, &alice);
        assert_string_equal(hear_all(servers[0], begin(0, &alice, first, "say x")),
                            "started stdout(x) done(ok)");
        second = session_for(0, &bob);
        waits = begin(0, &bob, second, "say second");
        for (int i = 0; i < PATIENCE_MS && place->parks == 0; i++)
                usleep(1000);
        assert_int_equal(place->parks, 1);
        atomic_store(&views[0]->refuse, 1);
        place->slow_park = false;
        fake_let_park(place, first);
        assert_string_equal(hear_all(servers[0], waits), "started stdout(second) done(ok)");
}

static void *make_at_first(void *context) {
        *(const char **)context = session_for(0, &alice);
        return NULL;
}

/* Word of who waits comes while the answer to a write does not: what that says is older. */
static void word_overtakes_an_answer(void **state) {
        const char *first, *second = NULL, *third;
        struct engine_follower *holds, *waits;
        pthread_t thread;

        (void)state;
        atomic_store(&containers, 2);
        first = session_for(0, &alice);
        holds = begin(0, &alice, first, "hold");
        wait_until_running(servers[0], holds);
        pthread_mutex_lock(&views[0]->shut);
        atomic_store(&views[0]->slow_answer, "~seats/");
        assert_int_equal(pthread_create(&thread, NULL, make_at_first, &second), 0);
        for (int i = 0; i < PATIENCE_MS && atomic_load(&views[0]->standing) == 0; i++)
                usleep(1000);
        third = session_for(1, &bob);
        waits = begin(1, &bob, third, "say third");
        wait_for(servers[1], &bob, third, "queued");
        usleep(2500 * 1000);
        atomic_store(&views[0]->slow_answer, NULL);
        pthread_mutex_unlock(&views[0]->shut);
        pthread_join(thread, NULL);
        assert_string_equal(hear_all(servers[1], waits), "started stdout(third) done(ok)");
        release_when_held(servers[0], first);
        assert_string_equal(hear_all(servers[0], holds), "done(ok)");
}

/*
 * A session that gives a seat back holds a thread of all sessions', and does not wait for a thread
 * that works on the record.
 */
static void who_goes_does_not_wait(void **state) {
        const char *first, *second = NULL;
        struct problem problem;
        pthread_t thread;

        (void)state;
        atomic_store(&containers, 2);
        first = session_for(0, &alice);
        assert_string_equal(hear_all(servers[0], begin(0, &alice, first, "say x")),
                            "started stdout(x) done(ok)");
        pthread_mutex_lock(&views[0]->shut);
        atomic_store(&views[0]->slow_key, "~seats/");
        assert_int_equal(pthread_create(&thread, NULL, make_at_first, &second), 0);
        for (int i = 0; i < PATIENCE_MS && atomic_load(&views[0]->standing) == 0; i++)
                usleep(1000);
        assert_int_equal(engine_park(servers[0]->engine, &alice, first, &problem), 0);
        wait_for(servers[0], &alice, first, "parked");
        atomic_store(&views[0]->slow_key, NULL);
        pthread_mutex_unlock(&views[0]->shut);
        pthread_join(thread, NULL);
        assert_int_equal(engine_end(servers[0]->engine, &alice, second, &problem), 0);
        await_no_record();
}

/* No more of a dead server's sessions are looked at than the seats that are needed. */
static void a_dead_one_had_many(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct engine_follower *follower;
        json_t *record JSON_CLEANUP = NULL;
        struct session_item *items;
        struct error err;
        const char *id;
        size_t count;

        (void)state;
        atomic_store(&containers, 4);
        for (int i = 0; i < 4; i++) {
                id = session_for(0, &alice);
                assert_string_equal(hear_all(servers[0], begin(0, &alice, id, "say x")),
                                    "started stdout(x) done(ok)");
        }
        atomic_store(&views[0]->down, true);
        id = session_for(1, &bob);
        follower = begin(1, &bob, id, "hold");
        wait_until_running(servers[1], follower);
        assert_int_equal(session_store_list(table, SESSION_TABLE_KEYS, "~seats/", NULL, false, 10, arena,
                                            &items, &count, &err),
                         0);
        assert_int_equal(count, 1);
        record = json_loads(items[0].value, 0, NULL);
        assert_int_equal(
                json_array_size(json_object_iter_value(json_object_iter(json_object_get(record, "seats")))) +
                        json_array_size(json_object_iter_value(
                                json_object_iter_next(json_object_get(record, "seats"),
                                                      json_object_iter(json_object_get(record, "seats"))))),
                4);
        release_when_held(servers[1], id);
        assert_string_equal(hear_all(servers[1], follower), "done(ok)");
}

/*
 * A server that takes over what runs does not hear that its seat is written: the seat is that
 * session's as long as it runs.
 */
static void whose_seat_is_kept_unheard(void **state) {
        struct engine_follower *holds, *waits;
        struct fake_place *place = &servers[1]->place;
        struct fake_sandbox *sandbox = &place->sandboxes[0];
        const char *first, *second;

        (void)state;
        atomic_store(&containers, 1);
        first = session_for(0, &alice);
        holds = begin(0, &alice, first, "hold");
        wait_until_running(servers[0], holds);
        /* The second one finds what runs, as on AWS. */
        pthread_mutex_lock(&place->lock);
        *sandbox = (struct fake_sandbox){ .lives = true,
                                          .of_agent = true,
                                          .last = 1,
                                          .running = 1,
                                          .generation = 1,
                                          .holding = true,
                                          .descriptor = -1 };
        snprintf(sandbox->id, sizeof(sandbox->id), "%s", first);
        snprintf(sandbox->owner, sizeof(sandbox->owner), "%s", servers[0]->place.sandboxes[0].owner);
        place->count = 1;
        pthread_mutex_unlock(&place->lock);
        pthread_mutex_lock(&views[1]->shut);
        atomic_store(&views[1]->slow_key, "~seats/");
        atomic_store(&views[0]->down, true);
        for (int i = 0; i < PATIENCE_MS && atomic_load(&views[1]->standing) == 0; i++)
                usleep(1000);
        assert_int_equal(atomic_load(&views[1]->standing), 1);
        atomic_store(&views[1]->lose, 1);
        atomic_store(&views[1]->slow_key, NULL);
        pthread_mutex_unlock(&views[1]->shut);
        for (int i = 0; i < PATIENCE_MS && atomic_load(&views[1]->lose) > 0; i++)
                usleep(1000);
        second = session_for(1, &bob);
        waits = begin(1, &bob, second, "say second");
        usleep(2500 * 1000); /* meanwhile the record is written once more */
        assert_string_equal(status_of(servers[1], &bob, second, 1), "queued");
        assert_string_equal(status_of(servers[1], &alice, first, 1), "running");
        release_when_held(servers[1], first);
        assert_string_equal(hear_all(servers[1], waits), "started stdout(second) done(ok)");
        assert_string_equal(status_of(servers[1], &alice, first, 1), "ok");
        engine_follower_close(holds);
        release_when_held(servers[0], first);
}

/* Answers are lost, and writes: nothing is counted twice for long, and nothing that runs is forgotten. */
static void answers_are_lost(void **state) {
        (void)state;
        atomic_store(&containers, 1);
        watch();
        for (int i = 0; i < 24; i++) {
                struct problem problem = { 0 };
                json_t *json JSON_CLEANUP = NULL;
                const char *id;

                for (int before = 0; before < i % 4; before++)
                        usleep(1000);
                atomic_store(i % 2 ? &views[0]->lose : &views[0]->refuse, 1 + i % 3);
                if (engine_create(servers[0]->engine, &alice, &of_agent, &json, &problem) < 0)
                        continue;
                id = arena_strdup(servers[0]->arena, json_text(json, "id"));
                (void)run_code(servers[0], &alice, id, "say x", NULL);
        }
        atomic_store(&views[0]->lose, 0);
        atomic_store(&views[0]->refuse, 0);
        for (size_t i = 0; i < 4; i++) {
                const char *id = session_for(i % 2, &bob);

                assert_string_equal(hear_all(servers[i % 2], begin(i % 2, &bob, id, "say in")),
                                    "started stdout(in) done(ok)");
        }
        assert_true(most_at_once() <= 1);
}

/* Stands still at the gate of a server's store, once code has ended. */
static void await_standing(size_t at, int count) {
        for (int i = 0; i < PATIENCE_MS && atomic_load(&views[at]->standing) < count; i++)
                usleep(1000);
        assert_int_equal(atomic_load(&views[at]->standing), count);
}

/* An execution that was cut off counts until its end is recorded: until then clients read that it runs. */
static void a_cut_off_end_comes_first(void **state) {
        const char *first;
        struct engine_follower *holds;
        size_t records;

        (void)state;
        atomic_store(&containers, 1);
        for (int refused = 0; refused < 2; refused++) {
                first = session_for(0, &alice);
                holds = begin(0, &alice, first, "hold\ndie");
                wait_until_running(servers[0], holds);
                atomic_store(&views[0]->standing, 0);
                pthread_mutex_lock(&views[0]->shut);
                atomic_store(&views[0]->slow_key, first);
                release_when_held(servers[0], first);
                await_standing(0, 1);
                records = count_records();
                atomic_store(&views[0]->refuse, refused);
                atomic_store(&views[0]->slow_key, NULL);
                pthread_mutex_unlock(&views[0]->shut);
                assert_int_equal(records, 1);
                assert_string_equal(hear_all(servers[0], holds), "done(failed)");
                await_no_record();
        }
}

/* A session stands in line at one server, and is given work at another: from then on that one acquires its slot. */
static void a_slot_goes_with_its_session(void **state) {
        const char *first, *second;
        struct engine_follower *holds, *there;

        (void)state;
        atomic_store(&containers, 1);
        watch();
        first = session_for(0, &alice);
        holds = begin(0, &alice, first, "hold");
        wait_until_running(servers[0], holds);
        second = session_for(1, &bob);
        there = begin(0, &bob, second, "hold");
        release_when_held(servers[0], first);
        assert_string_equal(hear_all(servers[0], holds), "done(ok)");
        wait_until_running(servers[0], there);
        assert_int_equal(servers[1]->place.opens, 0);
        release_when_held(servers[0], second);
        assert_string_equal(hear_all(servers[0], there), "done(ok)");
        assert_int_equal(servers[1]->place.opens, 0);
        assert_true(most_at_once() <= 1);
}

/* The same where both have room for it: what runs keeps its slot. */
static void a_living_holder_keeps_its_slot(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *first, *second, *number;
        struct engine_follower *holds, *there;
        json_t *record JSON_CLEANUP = NULL;

        (void)state;
        atomic_store(&containers, 1);
        first = session_for(0, &alice);
        holds = begin(0, &alice, first, "hold");
        wait_until_running(servers[0], holds);
        number = holder_of(first, arena);
        second = session_for(1, &bob);
        there = begin(0, &bob, second, "hold");
        atomic_store(&containers, 3);
        wait_until_running(servers[0], there);
        /* The other one has looked at its line, and left it. */
        for (int i = 0; i < PATIENCE_MS / 10; i++) {
                json_decref(record);
                record = seats_record();
                if (json_array_size(json_object_get(record, "line")) == 0)
                        break;
                usleep(10000);
        }
        assert_int_equal(json_array_size(json_object_get(record, "line")), 0);
        assert_int_equal(json_object_size(json_object_get(record, "seats")), 1);
        assert_int_equal(json_array_size(json_object_get(json_object_get(record, "seats"), number)), 2);
        release_when_held(servers[0], first);
        release_when_held(servers[0], second);
        assert_string_equal(hear_all(servers[0], holds), "done(ok)");
        assert_string_equal(hear_all(servers[0], there), "done(ok)");
}

/* An agent without a limit has no record; a new limit counts what begins from then on. */
static void a_limit_comes_and_goes(void **state) {
        const char *first = session_for(0, &alice), *second = session_for(1, &bob);
        struct engine_follower *holds, *waits;
        int gets = atomic_load(&views[0]->gets), writes = atomic_load(&views[0]->writes);

        (void)state;
        assert_string_equal(hear_all(servers[0], begin(0, &alice, first, "say x")),
                            "started stdout(x) done(ok)");
        assert_string_equal(hear_all(servers[1], begin(1, &bob, second, "say x")),
                            "started stdout(x) done(ok)");
        assert_int_equal(count_records(), 0);
        atomic_store(&containers, 1);
        holds = begin(0, &alice, first, "hold");
        wait_until_running(servers[0], holds);
        assert_int_equal(count_records(), 1);
        waits = begin(1, &bob, second, "say second");
        usleep(1500 * 1000);
        assert_string_equal(status_of(servers[1], &bob, second, 2), "queued");
        atomic_store(&containers, 0);
        assert_string_equal(hear_all(servers[1], waits), "started stdout(second) done(ok)");
        release_when_held(servers[0], first);
        assert_string_equal(hear_all(servers[0], holds), "done(ok)");
        /* An execution in a session that has its seat asks the store for nothing more than without one. */
        atomic_store(&containers, 2);
        assert_string_equal(hear_all(servers[0], begin(0, &alice, first, "say x")),
                            "started stdout(x) done(ok)");
        gets = atomic_load(&views[0]->gets);
        writes = atomic_load(&views[0]->writes);
        assert_string_equal(hear_all(servers[0], begin(0, &alice, first, "say x")),
                            "started stdout(x) done(ok)");
        assert_int_equal(atomic_load(&views[0]->gets) - gets, 0);
        assert_int_equal(atomic_load(&views[0]->writes) - writes, 2);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                MANY_TEST(one_limit_for_both),
                MANY_TEST(nobody_starves),
                MANY_TEST(who_is_turned_away),
                MANY_TEST(many_for_few),
                MANY_TEST(a_server_dies),
                MANY_TEST(one_stands_still_and_goes_on),
                MANY_TEST(one_dies_between_two_executions),
                MANY_TEST(a_store_that_falters),
                MANY_TEST(word_overtakes_an_answer),
                MANY_TEST(a_dead_one_had_many),
                MANY_TEST(who_goes_does_not_wait),
                MANY_TEST(a_record_of_somebody_elses_making),
                MANY_TEST(a_seat_that_its_server_does_not_know),
                MANY_TEST(a_seat_for_no_session),
                MANY_TEST(a_session_that_makes_no_sense),
                MANY_TEST(a_record_that_is_full),
                MANY_TEST(who_is_out_of_touch_says_so),
                MANY_TEST(what_begins_is_not_parked),
                MANY_TEST(what_comes_back_makes_room),
                MANY_TEST(a_park_that_is_not_written),
                MANY_TEST(whose_seat_is_kept_unheard),
                MANY_TEST(answers_are_lost),
                MANY_TEST(a_cut_off_end_comes_first),
                MANY_TEST(a_slot_goes_with_its_session),
                MANY_TEST(a_living_holder_keeps_its_slot),
                MANY_TEST(a_limit_comes_and_goes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
