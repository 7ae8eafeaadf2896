/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine, where something of one owner's is slow: sandboxes that are opened, left or cleared, what dead ones have left, files.
 * Others are answered meanwhile, and what they run is heard. Where they are not, these tests never end.
 */
#include "sessions/engine_fixture.h"

#include <dirent.h>

/* All that another owner does goes on while the gate is shut. */
static void others_go_on(struct fixture *fixture, const char *living) {
        struct engine_follower *follower;
        struct problem problem;
        json_t *json = NULL;
        const char *id = session_of(fixture, &bob);

        assert_true(run_code(fixture, &bob, living, "say here", &follower) > 0);
        assert_string_equal(hear_all(fixture, follower), "started stdout(here) done(ok)");
        assert_int_equal(run_code(fixture, &bob, id, "keep this\nsay new", &follower), 1);
        assert_string_equal(hear_all(fixture, follower), "started stdout(new) done(ok)");
        assert_int_equal(engine_park(fixture->engine, &bob, id, &problem), 0);
        wait_for(fixture, &bob, id, "parked");
        assert_int_equal(run_code(fixture, &bob, id, "recall\ndie", &follower), 2);
        assert_string_equal(hear_all(fixture, follower), "started stdout(this) done(failed)");
        assert_int_equal(engine_list(fixture->engine, &bob, &(struct engine_filter){ 0 }, &json, &problem),
                         0);
        json_decref(json);
        assert_int_equal(engine_end(fixture->engine, &bob, id, &problem), 0);
        wait_for(fixture, &bob, id, NULL);
}

struct asking {
        struct fixture *fixture;
        const char *id;
        pthread_t thread;
};

static void *make_one(void *context) {
        struct asking *asking = context;
        struct problem problem;
        json_t *json = NULL;

        assert_int_equal(engine_create(asking->fixture->engine, &alice,
                                       &(struct engine_wish){ .environment = "python" }, &json, &problem),
                         1);
        asking->id = strdup(json_text(json, "id"));
        json_decref(json);
        return NULL;
}

/* More of them than an owner has threads for. */
static void made_slowly(void **state, struct fake_gate *gate) {
        struct fixture *fixture = *state;
        const char *living = session_of(fixture, &bob);
        struct asking asking[8];
        int before = atomic_load(&gate->came);

        pthread_mutex_lock(&gate->shut);
        for (size_t i = 0; i < 8; i++) {
                asking[i] = (struct asking){ .fixture = fixture };
                assert_int_equal(pthread_create(&asking[i].thread, NULL, make_one, &asking[i]), 0);
        }
        fake_await(gate, before);
        others_go_on(fixture, living);
        pthread_mutex_unlock(&gate->shut);
        for (size_t i = 0; i < 8; i++) {
                struct engine_follower *follower;

                pthread_join(asking[i].thread, NULL);
                assert_int_equal(run_code(fixture, &alice, asking[i].id, "say at last", &follower), 1);
                assert_string_equal(hear_all(fixture, follower), "started stdout(at last) done(ok)");
                free((void *)(uintptr_t)asking[i].id);
        }
}

static void an_opening(void **state) {
        made_slowly(state, &fake_opening);
}

static void files_that_are_made(void **state) {
        made_slowly(state, &files_made);
}

/* Of sandboxes that are opened again: who asks for an execution has its number at once. */
static void another_opening(void **state) {
        struct fixture *fixture = *state;
        const char *living = session_of(fixture, &bob), *ids[6], *ended;
        struct engine_follower *followers[6];
        struct problem problem;
        int before;

        for (size_t i = 0; i < 6; i++) {
                ids[i] = session_of(fixture, &alice);
                assert_int_equal(run_code(fixture, &alice, ids[i], "die", &followers[i]), 1);
                hear_all(fixture, followers[i]);
                wait_for(fixture, &alice, ids[i], "idle");
        }
        before = atomic_load(&fake_opening.came);
        pthread_mutex_lock(&fake_opening.shut);
        for (size_t i = 0; i < 6; i++)
                assert_int_equal(run_code(fixture, &alice, ids[i], "say up", &followers[i]), 2);
        fake_await(&fake_opening, before);
        others_go_on(fixture, living);
        /* A session that ends meanwhile gets no sandbox. */
        ended = ids[0];
        assert_int_equal(engine_end(fixture->engine, &alice, ended, &problem), 0);
        pthread_mutex_unlock(&fake_opening.shut);
        assert_string_equal(hear_all(fixture, followers[0]), "done(killed)");
        for (size_t i = 1; i < 6; i++)
                assert_string_equal(hear_all(fixture, followers[i]), "started stdout(up) done(ok)");
        for (int i = 0; i < PATIENCE_MS && fake_lives(&fixture->place, ended); i++)
                usleep(1000);
        assert_false(fake_lives(&fixture->place, ended));
}

/* `gate` is on the way of one that dies. */
static void dies_slowly(void **state, struct fake_gate *gate) {
        struct fixture *fixture = *state;
        const char *living = session_of(fixture, &bob), *id = session_of(fixture, &alice);
        struct engine_follower *follower, *next;
        int before = atomic_load(&gate->came);

        pthread_mutex_lock(&gate->shut);
        assert_int_equal(run_code(fixture, &alice, id, "die", &follower), 1);
        fake_await(gate, before);
        assert_int_equal(run_code(fixture, &alice, id, "say on", &next), 2);
        others_go_on(fixture, living);
        assert_string_equal(status_of(fixture, &alice, id, 2), "queued");
        pthread_mutex_unlock(&gate->shut);
        assert_string_equal(hear_all(fixture, follower), "started done(failed)");
        assert_string_equal(hear_all(fixture, next), "started stdout(on) done(ok)");
}

static void a_sandbox_that_is_left(void **state) {
        dies_slowly(state, &fake_going);
}

static void what_a_worker_has_left(void **state) {
        dies_slowly(state, &fake_adopting);
}

/* Also when the engine starts, before any caller is served. */
static void what_a_worker_has_left_at_the_start(void **state) {
        struct fixture *fixture = *state;
        const char *living = session_of(fixture, &bob), *id = session_of(fixture, &alice);
        struct engine_follower *follower;
        int before;

        assert_int_equal(run_code(fixture, &alice, id, "hold", &follower), 1);
        wait_until_running(fixture, follower);
        engine_follower_close(follower);
        engine_close(fixture->engine);
        fake_kill(&fixture->place, id);
        before = atomic_load(&fake_adopting.came);
        pthread_mutex_lock(&fake_adopting.shut);
        start(fixture);
        fake_await(&fake_adopting, before);
        assert_int_equal(run_code(fixture, &alice, id, "say on", &follower), 2);
        others_go_on(fixture, living);
        pthread_mutex_unlock(&fake_adopting.shut);
        assert_string_equal(hear_all(fixture, follower), "started stdout(on) done(ok)");
        assert_string_equal(status_of(fixture, &alice, id, 1), "failed");
}

static void what_is_cleared(void **state) {
        struct fixture *fixture = *state;
        const char *living = session_of(fixture, &bob), *id = session_of(fixture, &alice);
        struct problem problem;
        int before = atomic_load(&fake_clearing.came);

        pthread_mutex_lock(&fake_clearing.shut);
        assert_int_equal(engine_end(fixture->engine, &alice, id, &problem), 0);
        fake_await(&fake_clearing, before);
        others_go_on(fixture, living);
        /* The same of the next engine, which finds that it was ended. */
        pthread_mutex_unlock(&fake_clearing.shut);
}

static void files_that_are_removed(void **state) {
        struct fixture *fixture = *state;
        const char *living = session_of(fixture, &bob), *id = session_of(fixture, &alice);
        const struct engine_code code = { .code = "say x", .code_length = 5, .staged = "0123" };
        struct engine_follower *follower;
        struct problem problem;
        int64_t n;
        int before = atomic_load(&files_removed.came), dropped = atomic_load(&stages_dropped);

        assert_int_equal(run_code(fixture, &alice, id, "hold", &follower), 1);
        wait_until_running(fixture, follower);
        engine_follower_close(follower);
        assert_int_equal(engine_execute(fixture->engine, &alice, id, &code, &n, NULL, &problem), 1);
        pthread_mutex_lock(&files_removed.shut);
        assert_int_equal(engine_interrupt(fixture->engine, &alice, id, n, &problem), 0);
        assert_string_equal(status_of(fixture, &alice, id, n), "interrupted");
        fake_await(&files_removed, before);
        others_go_on(fixture, living);
        pthread_mutex_unlock(&files_removed.shut);
        for (int i = 0; i < PATIENCE_MS && atomic_load(&stages_dropped) == dropped; i++)
                usleep(1000);
        assert_int_equal(atomic_load(&stages_dropped), dropped + 1);
}

/* Of two that make one at the same time, the one that is slower leaves no workspace; nor does one that gets no sandbox. */
static void files_of_what_was_never_made(void **state) {
        struct fixture *fixture = *state;
        const struct engine_wish talk = { .environment = "python", .conversation = "one" };
        struct asking asking = { .fixture = fixture };
        int before = atomic_load(&files_made.came);

        pthread_mutex_lock(&files_made.shut);
        assert_int_equal(pthread_create(&asking.thread, NULL, make_one, &asking), 0);
        fake_await(&files_made, before);
        pthread_mutex_unlock(&files_made.shut);
        pthread_join(asking.thread, NULL);
        free((void *)(uintptr_t)asking.id);
        assert_int_equal(atomic_load(&workspace_count), 1);
        (void)make(fixture, &alice, &talk, 1);
        (void)make(fixture, &alice, &talk, 0);
        assert_int_equal(atomic_load(&workspace_count), 2);
        fixture->place.refuse_open = true;
        assert_string_equal(make(fixture, &bob, &(struct engine_wish){ .environment = "python" }, -1),
                            "place-failed");
        for (int i = 0; i < PATIENCE_MS && atomic_load(&workspace_count) > 2; i++)
                usleep(1000);
        assert_int_equal(atomic_load(&workspace_count), 2);
}

static void restart_kernel(struct fixture *fixture, const char *id, const char *context) {
        struct problem problem;

        assert_int_equal(engine_restart(fixture->engine, &alice, id, context, &problem), 0);
}

/* Kernels that must be fresh ones once there is a sandbox: each of them is, once. */
static void restarts_of_several_kernels(void **state) {
        struct fixture *fixture = *state;
        const char *id = session_of(fixture, &alice);
        struct engine_follower *follower;
        int before;

        assert_int_equal(run_code(fixture, &alice, id, "die", &follower), 1);
        hear_all(fixture, follower);
        wait_for(fixture, &alice, id, "idle");
        before = atomic_load(&fake_opening.came);
        pthread_mutex_lock(&fake_opening.shut);
        restart_kernel(fixture, id, "one");
        fake_await(&fake_opening, before);
        restart_kernel(fixture, id, "two");
        restart_kernel(fixture, id, "one");
        pthread_mutex_unlock(&fake_opening.shut);
        assert_int_equal(run_code(fixture, &alice, id, "say on", &follower), 2);
        assert_string_equal(hear_all(fixture, follower), "started stdout(on) done(ok)");
        pthread_mutex_lock(&fixture->place.lock);
        assert_string_equal(fixture->place.restarted, "one two ");
        pthread_mutex_unlock(&fixture->place.lock);
}

/* Keys that came long ago, as many as an owner may have sent, and a disk that is slow. */

struct slow_store {
        struct session_store store; /* first */
        struct session_store *inner;
};

static struct fake_gate keys_read = { .shut = PTHREAD_MUTEX_INITIALIZER };

static int slow_get(struct session_store *store, enum session_table table, const char *key,
                    struct arena *arena, struct session_item *ret, struct error *err) {
        return session_store_get(((struct slow_store *)store)->inner, table, key, arena, ret, err);
}

static int slow_write(struct session_store *store, const struct session_change *changes, size_t count,
                      struct error *err) {
        return session_store_write(((struct slow_store *)store)->inner, changes, count, err);
}

static int slow_list(struct session_store *store, enum session_table table, const char *prefix,
                     const char *after, bool backwards, size_t limit, struct arena *arena,
                     struct session_item **ret, size_t *ret_count, struct error *err) {
        fake_pass(&keys_read, table == SESSION_TABLE_KEYS ? FAKE_SLOW_OWNER : NULL);
        return session_store_list(((struct slow_store *)store)->inner, table, prefix, after, backwards, limit,
                                  arena, ret, ret_count, err);
}

static void slow_close(struct session_store *store) {
        session_store_close(((struct slow_store *)store)->inner);
        free(store);
}

static const struct session_store_class slow_class = {
        .get = slow_get, .write = slow_write, .list = slow_list, .close = slow_close
};

/* An engine looks for them when it begins, and each hour. */
static void keys_of_long_ago(void **state) {
        struct fixture *fixture = *state;
        struct slow_store *made = calloc(1, sizeof(*made));
        int before = atomic_load(&keys_read.came);
        const char *living;

        engine_close(fixture->engine);
        *made = (struct slow_store){ .store.class = &slow_class, .inner = fixture->store };
        fixture->store = &made->store;
        pthread_mutex_lock(&keys_read.shut);
        start(fixture);
        fake_await(&keys_read, before);
        living = session_of(fixture, &bob);
        others_go_on(fixture, living);
        pthread_mutex_unlock(&keys_read.shut);
}

static size_t threads_at_first; /* before any engine began */

static size_t count_threads(void) {
        DIR *tasks = opendir("/proc/self/task");
        size_t count = 0;

        assert_non_null(tasks);
        for (const struct dirent *entry; (entry = readdir(tasks));)
                count += entry->d_name[0] != '.';
        closedir(tasks);
        return count;
}

static void wait_for_threads(size_t wanted) {
        for (int i = 0; i < PATIENCE_MS && count_threads() != wanted; i++)
                usleep(1000);
        assert_int_equal(count_threads(), wanted);
}

/*
 * As many as an owner's slow things take, and again when the owner has more of them: in between one
 * stays, and serves.
 */
static void threads_that_nobody_needs(void **state) {
        struct fixture *fixture = *state;
        struct engine_follower *follower;
        struct problem problem;
        const char *living;
        const size_t others = threads_at_first + 1; /* the store has one */

        /* A thread that was waited for may still be counted for a while. */
        engine_close(fixture->engine);
        wait_for_threads(others);
        fixture->thread_idle_ms = 1;
        start(fixture);
        for (int round = 0; round < 3; round++) {
                int before = atomic_load(&fake_clearing.came);
                const char *ids[8];

                /* The engine's own, the one that starts others, and one for what takes long. */
                wait_for_threads(others + 3);
                living = session_of(fixture, &bob);
                for (size_t i = 0; i < 8; i++)
                        ids[i] = session_of(fixture, &alice);
                pthread_mutex_lock(&fake_clearing.shut);
                for (size_t i = 0; i < 8; i++)
                        assert_int_equal(engine_end(fixture->engine, &alice, ids[i], &problem), 0);
                while (atomic_load(&fake_clearing.came) < before + 4)
                        usleep(1000);
                /* The threads of all that the owner may have, and one that is free, for bob's. */
                wait_for_threads(others + 7);
                assert_int_equal(run_code(fixture, &bob, living, "say here", &follower), 1);
                assert_string_equal(hear_all(fixture, follower), "started stdout(here) done(ok)");
                pthread_mutex_unlock(&fake_clearing.shut);
        }
        wait_for_threads(others + 3);
}

/*
 * The kernel takes as long as it likes for a thread, while a program's processes fork without end.
 */

static struct fake_gate thread_started = { .shut = PTHREAD_MUTEX_INITIALIZER };
static atomic_bool slow_threads;

int __real_pthread_create(pthread_t *ret, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *context);
int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *context);

int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *context) {
        if (atomic_load(&slow_threads))
                fake_pass(&thread_started, FAKE_SLOW_OWNER);
        return __real_pthread_create(ret, attributes, run, context);
}

/* More of hers than there are threads by then: one more is wanted, and does not come. */
static void threads_that_start_slowly(void **state) {
        struct fixture *fixture = *state;
        const char *living = session_of(fixture, &bob), *hers[8];
        int before = atomic_load(&thread_started.came);
        struct engine_follower *follower;
        struct problem problem;

        for (size_t i = 0; i < 8; i++)
                hers[i] = session_of(fixture, &alice);
        pthread_mutex_lock(&thread_started.shut);
        pthread_mutex_lock(&fake_clearing.shut);
        atomic_store(&slow_threads, true);
        for (size_t i = 0; i < 8; i++)
                assert_int_equal(engine_end(fixture->engine, &alice, hers[i], &problem), 0);
        fake_await(&thread_started, before);
        for (int64_t n = 1; n <= 3; n++) {
                assert_int_equal(run_code(fixture, &bob, living, "say here", &follower), n);
                assert_string_equal(hear_all(fixture, follower), "started stdout(here) done(ok)");
        }
        atomic_store(&slow_threads, false);
        pthread_mutex_unlock(&thread_started.shut);
        pthread_mutex_unlock(&fake_clearing.shut);
        others_go_on(fixture, living);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(an_opening),
                TEST(another_opening),
                TEST(files_that_are_made),
                TEST(a_sandbox_that_is_left),
                TEST(what_a_worker_has_left),
                TEST(what_a_worker_has_left_at_the_start),
                TEST(what_is_cleared),
                TEST(files_that_are_removed),
                TEST(files_of_what_was_never_made),
                TEST(restarts_of_several_kernels),
                TEST(keys_of_long_ago),
                TEST(threads_that_nobody_needs),
                TEST(threads_that_start_slowly),
        };

        threads_at_first = count_threads();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
