/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two servers on one store, each with a place of its own: whichever of them is asked, every race is
 * decided by the store, nothing runs twice, and what a dead one had is taken over and said to be
 * what it is.
 */
#include "sessions/many_fixture.h"

/* As a client waits that wants no events. */
static const char *await_end(struct fixture *fixture, struct engine_follower *follower, const char *id,
                             int64_t n) {
        struct engine_event event;
        enum engine_next next;

        engine_follower_await_end(follower);
        while ((next = engine_follower_next(follower, &event)) != ENGINE_ENDED) {
                struct pollfd ready = { engine_follower_descriptor(follower), POLLIN, 0 };

                if (next == ENGINE_EVENT)
                        json_decref(event.data);
                else
                        assert_int_equal(poll(&ready, 1, PATIENCE_MS), 1);
        }
        engine_follower_close(follower);
        return status_of(fixture, &alice, id, n);
}

/* One after the other, by turns: none of them asks the other for anything, and each goes on with what the other has noted. */
static void turn_by_turn(void **state) {
        const char *id = session_of(servers[0], &alice);

        (void)state;
        for (int64_t n = 1; n <= 6; n++) {
                runs((size_t)n % 2, id, n, "here");
                /* The server that ran the one before has noted it; the first has none before it. */
                assert_int_equal(servers[n % 2]->place.opened_note, n - 1);
        }
        assert_int_equal(servers[0]->place.executes, 3);
        assert_int_equal(servers[1]->place.executes, 3);
        assert_string_equal(status_of(servers[0], &alice, id, 5), "ok");
        assert_string_equal(status_of(servers[1], &alice, id, 6), "ok");
}

/* What runs at the first is followed from the second as it goes on, and its end is the same there. */
static void followed_from_afar(void **state) {
        const char *id = session_of(servers[0], &alice);
        struct engine_follower *near, *far;
        struct engine_event event;
        struct problem problem;
        enum engine_next next;

        (void)state;
        near = holds_at_first(id, 1, "say before\nhold\nsay after");
        assert_int_equal(engine_follow(servers[1]->engine, &alice, id, 1, 0, &far, &problem), 0);
        assert_string_equal(status_of(servers[1], &alice, id, 1), "running");
        /* Before it has ended. */
        for (int events = 0; events < 2;) {
                struct pollfd ready = { engine_follower_descriptor(far), POLLIN, 0 };

                next = engine_follower_next(far, &event);
                if (next == ENGINE_NOTHING) {
                        assert_int_equal(poll(&ready, 1, PATIENCE_MS), 1);
                        continue;
                }
                assert_int_equal(next, ENGINE_EVENT);
                assert_string_equal(event.name, events == 0 ? "started" : "stdout");
                events++;
                assert_int_equal(event.id, events);
                json_decref(event.data);
        }
        release_when_held(servers[0], id);
        assert_string_equal(hear_all(servers[1], far), "stdout(after) done(ok)");
        assert_string_equal(hear_all(servers[0], near), "stdout(before) stdout(after) done(ok)");
        assert_int_equal(servers[1]->place.executes, 0);
}

/* It waits its turn in the line of who holds the session. */
static void put_in_line_from_afar(void **state) {
        const char *id = session_of(servers[0], &alice);
        struct engine_follower *near = holds_at_first(id, 1, "hold"), *far = NULL, *third = NULL;
        json_t *pending;

        (void)state;
        assert_int_equal(run_code(servers[1], &alice, id, "say second", &far), 2);
        assert_int_equal(run_code(servers[0], &alice, id, "say third", &third), 3);
        pending = result_of(servers[1], &alice, id, 2);
        assert_string_equal(json_text(pending, "status"), "queued");
        assert_int_equal(json_integer_or(pending, "queuePosition", 0), 1);
        json_decref(pending);
        release_when_held(servers[0], id);
        assert_string_equal(hear_all(servers[0], near), "done(ok)");
        assert_string_equal(await_end(servers[1], far, id, 2), "ok");
        assert_string_equal(hear_all(servers[0], third), "started stdout(third) done(ok)");
        assert_int_equal(servers[0]->place.executes, 3);
        assert_int_equal(servers[1]->place.executes, 0);
        /* With nothing open it is the second's for the asking. */
        wait_for(servers[1], &alice, id, "idle");
        runs(1, id, 4, "fourth");
}

static void the_line_has_an_end_from_afar(void **state) {
        const char *id = session_of(servers[0], &alice);
        struct engine_follower *near = holds_at_first(id, 1, "hold");

        (void)state;
        for (int64_t n = 2; n <= ENGINE_QUEUE_MAX + 1; n++)
                assert_int_equal(run_code(servers[n % 2], &alice, id, "say x", NULL), n);
        for (size_t i = 0; i < 2; i++)
                assert_int_equal(run_code(servers[1 - i], &alice, id, "say x", NULL),
                                 -(int64_t)PROBLEM_QUEUE_FULL);
        release_when_held(servers[0], id);
        assert_string_equal(hear_all(servers[0], near), "done(ok)");
        wait_for(servers[1], &alice, id, "idle");
        assert_int_equal(servers[0]->place.executes, ENGINE_QUEUE_MAX + 1);
}

static void interrupted_from_afar(void **state) {
        const char *id = session_of(servers[0], &alice);
        struct engine_follower *near = holds_at_first(id, 1, "hold"), *waits = NULL;
        struct problem problem;

        (void)state;
        assert_int_equal(run_code(servers[1], &alice, id, "say never", &waits), 2);
        assert_int_equal(engine_interrupt(servers[1]->engine, &alice, id, 2, &problem), 0);
        assert_string_equal(await_end(servers[1], waits, id, 2), "interrupted");
        assert_int_equal(engine_interrupt(servers[1]->engine, &alice, id, 1, &problem), 0);
        assert_string_equal(hear_all(servers[0], near), "done(interrupted)");
        wait_for(servers[1], &alice, id, "idle");
        assert_int_equal(engine_interrupt(servers[1]->engine, &alice, id, 1, &problem), -1);
        assert_int_equal(problem.code, PROBLEM_NOT_RUNNING);
        /* No other owner's. */
        assert_int_equal(engine_interrupt(servers[1]->engine, &bob, id, 1, &problem), -1);
        assert_int_equal(problem.code, PROBLEM_NOT_FOUND);
}

/* A client's connection is at the other server. */
static void disconnected_from_afar(void **state) {
        const char *id = session_of(servers[0], &alice);
        struct engine_follower *near = holds_at_first(id, 1, "hold"), *far = NULL;
        const struct engine_code code = { .code = "hold", .code_length = 4, .interrupt_on_disconnect = true };
        struct problem problem;
        int64_t n;

        (void)state;
        assert_int_equal(engine_execute(servers[1]->engine, &alice, id, &code, &n, &far, &problem), 1);
        release_when_held(servers[0], id);
        assert_string_equal(hear_all(servers[0], near), "done(ok)");
        assert_int_equal(engine_follow(servers[0]->engine, &alice, id, n, 0, &near, &problem), 0);
        wait_until_running(servers[0], near);
        engine_follower_close(far);
        assert_string_equal(hear_all(servers[0], near), "done(interrupted)");
}

/* The sandbox is at the first, and goes. */
static void ended_from_afar(void **state) {
        const char *id = session_of(servers[0], &alice);
        struct engine_follower *near = holds_at_first(id, 1, "hold");
        struct problem problem;

        (void)state;
        assert_int_equal(engine_end(servers[1]->engine, &bob, id, &problem), -1);
        assert_int_equal(problem.code, PROBLEM_NOT_FOUND);
        assert_int_equal(engine_end(servers[1]->engine, &alice, id, &problem), 0);
        assert_string_equal(hear_all(servers[0], near), "done(killed)");
        for (size_t i = 0; i < 2; i++) {
                wait_for(servers[i], &alice, id, NULL);
                assert_int_equal(run_code(servers[i], &alice, id, "say x", NULL),
                                 -(int64_t)PROBLEM_NOT_FOUND);
                assert_string_equal(status_of(servers[i], &alice, id, 1), "killed");
        }
        for (int i = 0; i < PATIENCE_MS && fake_lives(&servers[0]->place, id); i++)
                usleep(1000);
        assert_false(fake_lives(&servers[0]->place, id));
}

/* While it runs, and while it does not. */
static void changed_from_afar(void **state) {
        const char *id = session_of(servers[0], &alice);
        struct engine_follower *near = holds_at_first(id, 1, "hold");

        (void)state;
        for (int64_t i = 0; i < 2; i++) {
                const struct engine_patch patch = { .idle_seconds = 70 + i };
                struct problem problem;
                json_t *shown;

                assert_int_equal(engine_patch(servers[1]->engine, &alice, id, &patch, &shown, &problem), 0);
                json_decref(shown);
                if (i > 0)
                        break;
                release_when_held(servers[0], id);
                assert_string_equal(hear_all(servers[0], near), "done(ok)");
                wait_for(servers[0], &alice, id, "idle");
                assert_int_equal(engine_show(servers[0]->engine, &alice, id, &shown, &problem), 0);
                assert_int_equal(json_integer_or(shown, "idleSeconds", 0), 70);
                json_decref(shown);
        }
        {
                struct problem problem;
                json_t *shown JSON_CLEANUP = NULL;

                assert_int_equal(engine_show(servers[0]->engine, &alice, id, &shown, &problem), 0);
                assert_int_equal(json_integer_or(shown, "idleSeconds", 0), 71);
        }
        runs(0, id, 2, "on");
}

/* A kernel is restarted where the session is, and parking says that it is busy. */
static void restarted_and_parked_from_afar(void **state) {
        const char *id = session_of(servers[0], &alice);
        struct engine_follower *near = holds_at_first(id, 1, "hold");
        struct problem problem;
        json_t *shown JSON_CLEANUP = NULL;

        (void)state;
        assert_int_equal(engine_park(servers[1]->engine, &alice, id, &problem), -1);
        assert_int_equal(problem.code, PROBLEM_BUSY);
        assert_int_equal(engine_restart(servers[1]->engine, &alice, id, "main", &problem), 0);
        assert_string_equal(hear_all(servers[0], near), "done(killed)");
        assert_string_equal(servers[0]->place.restarted, "main ");
        wait_for(servers[1], &alice, id, "idle");
        assert_int_equal(engine_park(servers[1]->engine, &alice, id, &problem), 0);
        wait_for(servers[1], &alice, id, "parked");
        assert_int_equal(engine_show(servers[0]->engine, &alice, id, &shown, &problem), 0);
        assert_string_equal(json_text(shown, "status"), "parked");
}

/*
 * The first falls silent in the middle of one: how that ended is unknown, what waited is run once,
 * and by the second.
 */
static void taken_over_from_a_dead_one(void **state) {
        const char *id = session_of(servers[0], &alice);
        struct engine_follower *near = holds_at_first(id, 1, "hold"), *second = NULL, *far = NULL,
                               *third = NULL;
        struct problem problem;
        json_t *result;

        (void)state;
        assert_int_equal(run_code(servers[0], &alice, id, "say second", &second), 2);
        assert_int_equal(run_code(servers[1], &alice, id, "say third", &third), 3);
        assert_int_equal(engine_follow(servers[1]->engine, &alice, id, 1, 0, &far, &problem), 0);
        atomic_store(&views[0]->down, true);
        assert_string_equal(await_end(servers[1], far, id, 1), "failed");
        result = result_of(servers[1], &alice, id, 1);
        assert_non_null(strstr(json_text(result, "detail"), "cut off"));
        assert_true(json_is_null(json_object_get(result, "exitCode")));
        json_decref(result);
        assert_string_equal(await_end(servers[1], third, id, 3), "ok");
        assert_string_equal(status_of(servers[1], &alice, id, 2), "ok");
        assert_int_equal(servers[1]->place.executes, 2);

        /* It comes back, with its code at its end: that is no result any more, and its followers hear the one that is. */
        release_when_held(servers[0], id);
        atomic_store(&views[0]->down, false);
        assert_string_equal(await_end(servers[0], near, id, 1), "failed");
        assert_string_equal(await_end(servers[0], second, id, 2), "ok");
        assert_int_equal(servers[0]->place.executes, 1);
        wait_for(servers[0], &alice, id, "idle");
        runs(0, id, 4, "again");
        runs(1, id, 5, "again");
}

/* A server that goes says so: none waits for it to be silent. */
static void taken_over_from_one_that_stopped(void **state) {
        const char *id = session_of(servers[0], &alice);
        struct engine_follower *near = holds_at_first(id, 1, "hold"), *far;
        struct problem problem;

        (void)state;
        engine_follower_close(near);
        engine_close(servers[0]->engine);
        assert_int_equal(engine_follow(servers[1]->engine, &alice, id, 1, 0, &far, &problem), 0);
        assert_string_equal(await_end(servers[1], far, id, 1), "failed");
        runs(1, id, 2, "on");
        fake_kill(&servers[0]->place, id); /* what ran there is over, as a function's deadline has it */
        open_server(0);
        runs(0, id, 3, "and on");
}

/* How many servers say that they live. */
static size_t count_servers(void) {
        return count_items(SESSION_TABLE_SESSIONS, "~server/");
}

static void await_servers(size_t count) {
        for (int i = 0; i < PATIENCE_MS && count_servers() != count; i++)
                usleep(1000);
        assert_int_equal(count_servers(), count);
}

struct asking {
        const char *id;
        struct engine_follower *follower;
        int64_t n;
};

static void *ask_first(void *context) {
        struct asking *asking = context;

        asking->n = run_code(servers[0], &alice, asking->id, "say late", &asking->follower);
        return NULL;
}

/* The first stands in the write that says that an execution begins, which is made. It goes on when it has been out of touch for too long. */
static void stand_and_lapse(struct asking *asking, void (*meanwhile)(const struct asking *)) {
        pthread_t thread;

        pthread_mutex_lock(&views[0]->shut);
        atomic_store(&views[0]->slow_answer, asking->id);
        assert_int_equal(pthread_create(&thread, NULL, ask_first, asking), 0);
        for (int i = 0; i < PATIENCE_MS && atomic_load(&views[0]->standing) == 0; i++)
                usleep(1000);
        assert_int_equal(atomic_load(&views[0]->standing), 1);
        atomic_store(&views[0]->down, true);
        meanwhile(asking);
        atomic_store(&views[0]->down, false);
        atomic_store(&views[0]->slow_answer, NULL);
        pthread_mutex_unlock(&views[0]->shut);
        pthread_join(thread, NULL);
}

static void second_takes_it(const struct asking *asking) {
        struct engine_follower *far;
        struct problem problem;
        json_t *result;

        assert_int_equal(engine_follow(servers[1]->engine, &alice, asking->id, 2, 0, &far, &problem), 0);
        assert_string_equal(await_end(servers[1], far, asking->id, 2), "failed");
        result = result_of(servers[1], &alice, asking->id, 2);
        assert_non_null(strstr(json_text(result, "detail"), "cut off"));
        json_decref(result);
        runs(1, asking->id, 3, "next");
        atomic_store(&views[0]->down, false);
        await_servers(2);
}

/* The second has ended it, and has begun another: of the first's nothing runs beside that, nor after it. */
static void not_begun_after_a_lapse(void **state) {
        struct asking asking = { .id = session_of(servers[0], &alice) };

        (void)state;
        runs(0, asking.id, 1, "here");
        stand_and_lapse(&asking, second_takes_it);
        assert_int_equal(asking.n, 2);
        assert_string_equal(await_end(servers[0], asking.follower, asking.id, 2), "failed");
        assert_int_equal(servers[0]->place.executes, 1);
        assert_int_equal(servers[1]->place.executes, 1);
        runs(0, asking.id, 4, "on");
        runs(1, asking.id, 5, "on");
}

static void nobody_takes_it(const struct asking *asking) {
        (void)asking;
        usleep(SILENT_MS * 1000);
}

/* No server was there to take it: the first has it still, and begins it once. */
static void begun_where_nobody_took_it(void **state) {
        struct asking asking = { .id = session_of(servers[0], &alice) };

        (void)state;
        runs(0, asking.id, 1, "here");
        engine_close(servers[1]->engine);
        stand_and_lapse(&asking, nobody_takes_it);
        assert_int_equal(asking.n, 2);
        assert_string_equal(hear_all(servers[0], asking.follower), "started stdout(late) done(ok)");
        assert_int_equal(servers[0]->place.executes, 2);
        open_server(1);
        runs(1, asking.id, 3, "on");
}

struct racing {
        struct fixture *fixture;
        const struct engine_wish *wish;
        const char *id;
        char made[ENGINE_ID_SIZE];
        int result;
        int64_t n;
        struct problem problem;
};

static void *race_create(void *context) {
        struct racing *racing = context;
        json_t *json = NULL;

        racing->result =
                engine_create(racing->fixture->engine, &alice, racing->wish, &json, &racing->problem);
        if (racing->result >= 0)
                snprintf(racing->made, sizeof(racing->made), "%s", json_text(json, "id"));
        json_decref(json);
        return NULL;
}

static void *race_execute(void *context) {
        struct racing *racing = context;
        const struct engine_code code = {
                .code = "say once",
                .code_length = 8,
                .once = racing->wish ? racing->wish->once : (struct engine_once){ 0 },
        };

        racing->result = engine_execute(racing->fixture->engine, &alice, racing->id, &code, &racing->n, NULL,
                                        &racing->problem);
        return NULL;
}

#define RACERS 8

static void race(struct racing *racing, const struct engine_wish *wish, const char *id,
                 void *(*run)(void *)) {
        pthread_t threads[RACERS];

        for (size_t i = 0; i < RACERS; i++) {
                racing[i] = (struct racing){ .fixture = servers[i % 2], .wish = wish, .id = id };
                assert_int_equal(pthread_create(&threads[i], NULL, run, &racing[i]), 0);
        }
        for (size_t i = 0; i < RACERS; i++)
                pthread_join(threads[i], NULL);
}

/* The same conversation, or key, at both at once: one session, and one execution. */
static void races(void **state) {
        const struct engine_wish conversation = { .environment = "python", .conversation = "talk" };
        const struct engine_wish key = { .environment = "python",
                                         .once = { .key = "k", .route = "POST /v1/sessions", .body = "b" } };
        const struct engine_wish *const wishes[] = { &conversation, &key };
        const struct engine_wish again = { .once = { .key = "e", .route = "POST executions", .body = "b" } };
        struct racing racing[RACERS];
        const char *id = NULL;

        (void)state;
        for (size_t w = 0; w < 2; w++) {
                int made = 0;

                race(racing, wishes[w], NULL, race_create);
                for (size_t i = 0; i < RACERS; i++) {
                        assert_true(racing[i].result >= 0);
                        assert_string_equal(racing[i].made, racing[0].made);
                        made += racing[i].result;
                }
                /* Each request with the key is answered as the first; one of a conversation only finds it. */
                assert_int_equal(made, wishes[w] == &key ? RACERS : 1);
                id = arena_strdup(servers[0]->arena, racing[0].made);
        }
        race(racing, &again, id, race_execute);
        for (size_t i = 0; i < RACERS; i++) {
                assert_true(racing[i].result >= 0);
                assert_int_equal(racing[i].n, 1);
        }
        wait_for(servers[0], &alice, id, "idle");
        assert_int_equal(servers[0]->place.executes + servers[1]->place.executes, 1);
}

/* Each is run once, whichever server was asked, and no two have one number. */
static void none_is_lost_or_run_twice(void **state) {
        const char *id = session_of(servers[0], &alice);
        bool seen[2 * RACERS + 1] = { false };
        size_t taken = 0;

        (void)state;
        for (int round = 0; round < 2; round++) {
                struct racing racing[RACERS];

                race(racing, NULL, id, race_execute);
                for (size_t i = 0; i < RACERS; i++) {
                        if (racing[i].result < 0) {
                                assert_true(racing[i].problem.code == PROBLEM_QUEUE_FULL ||
                                            racing[i].problem.code == PROBLEM_BUSY);
                                continue;
                        }
                        assert_in_range(racing[i].n, 1, 2 * RACERS);
                        assert_false(seen[racing[i].n]);
                        seen[racing[i].n] = true;
                        taken++;
                }
                /* By their own ends: one server may call the session idle before it has read what the other has just taken. */
                for (int64_t n = 1; n <= 2 * RACERS; n++) {
                        for (int i = 0; seen[n] && i < PATIENCE_MS &&
                                        strcmp(status_of(servers[n % 2], &alice, id, n), "ok") != 0;
                             i++)
                                usleep(1000);
                        if (seen[n])
                                assert_string_equal(status_of(servers[n % 2], &alice, id, n), "ok");
                }
        }
        assert_true(taken >= 2);
        assert_int_equal(servers[0]->place.executes + servers[1]->place.executes, taken);
}

/* What all have is counted and listed together. */
static void lists_and_limits(void **state) {
        const struct engine_filter filter = { .limit = 2 };
        const struct engine_caller observer = { .client = "ops", .observes = true };
        const struct engine_filter all = { .all_owners = true };
        const char *ids[3];
        struct problem problem;
        json_t *list;

        (void)state;
        servers[0]->limits.per_owner = 3;
        engine_close(servers[0]->engine);
        open_server(0);
        for (int i = 0; i < 3; i++) {
                atomic_fetch_add(&now_ms, 1);
                ids[i] = session_of(servers[i % 2], &alice);
        }
        assert_string_equal(make(servers[0], &alice, &(struct engine_wish){ .environment = "python" }, -1),
                            "owner-limit");
        session_of(servers[1], &bob);
        for (size_t s = 0; s < 2; s++) {
                const char *cursor;

                assert_int_equal(engine_list(servers[s]->engine, &alice, &filter, &list, &problem), 0);
                assert_int_equal(json_array_size(json_object_get(list, "items")), 2);
                for (size_t i = 0; i < 2; i++)
                        assert_string_equal(
                                json_text(json_array_get(json_object_get(list, "items"), i), "id"), ids[i]);
                cursor = arena_strdup(servers[0]->arena, json_text(list, "cursor"));
                json_decref(list);
                assert_int_equal(engine_list(servers[s]->engine, &alice,
                                             &(struct engine_filter){ .limit = 2, .cursor = cursor }, &list,
                                             &problem),
                                 0);
                assert_int_equal(json_array_size(json_object_get(list, "items")), 1);
                assert_true(json_is_null(json_object_get(list, "cursor")));
                json_decref(list);
                assert_int_equal(engine_list(servers[s]->engine, &observer, &all, &list, &problem), 0);
                assert_int_equal(json_array_size(json_object_get(list, "items")), 4);
                json_decref(list);
                assert_int_equal(engine_show(servers[s]->engine, &observer, ids[s], &list, &problem), 0);
                json_decref(list);
        }
        /* The workspace of a session that lives is not forgotten, whichever server made it. */
        assert_int_equal(engine_forget(servers[1]->engine, &alice, ids[0], &problem), -1);
        assert_int_equal(problem.code, PROBLEM_HAS_SESSIONS);
}

/* The one that knows it as it was does not end what the other has used since. */
static void age_is_what_the_store_says(void **state) {
        const char *id = session_of(servers[0], &alice);
        json_t *record;

        (void)state;
        wait_for(servers[0], &alice, id, "idle");
        runs(0, id, 1, "first");
        atomic_fetch_add(&now_ms, 3000 * 1000LL);
        runs(1, id, 2, "second");
        atomic_fetch_add(&now_ms, 3000 * 1000LL);
        usleep(2500 * 1000);
        record = record_of(id);
        assert_non_null(record);
        json_decref(record);
        runs(0, id, 3, "third");
        atomic_fetch_add(&now_ms, 3601 * 1000LL);
        for (int i = 0; i < PATIENCE_MS && (record = record_of(id)); i++) {
                json_decref(record);
                usleep(1000);
        }
        assert_null(record);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                MANY_TEST(turn_by_turn),
                MANY_TEST(followed_from_afar),
                MANY_TEST(put_in_line_from_afar),
                MANY_TEST(the_line_has_an_end_from_afar),
                MANY_TEST(interrupted_from_afar),
                MANY_TEST(disconnected_from_afar),
                MANY_TEST(ended_from_afar),
                MANY_TEST(changed_from_afar),
                MANY_TEST(restarted_and_parked_from_afar),
                MANY_TEST(taken_over_from_a_dead_one),
                MANY_TEST(taken_over_from_one_that_stopped),
                MANY_TEST(not_begun_after_a_lapse),
                MANY_TEST(begun_where_nobody_took_it),
                MANY_TEST(races),
                MANY_TEST(none_is_lost_or_run_twice),
                MANY_TEST(lists_and_limits),
                MANY_TEST(age_is_what_the_store_says),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
