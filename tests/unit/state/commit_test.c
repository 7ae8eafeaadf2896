/* SPDX-License-Identifier: Apache-2.0 */
/* Group commit by many threads, growth of the map, readers beside a writer. */
#include "support.h"

#include "state/state_parts.h"

#include <pthread.h>

#define THREADS 16
#define ROUNDS 20

struct worker {
        struct state *state;
        int number;
        bool spoil; /* every other commit has an operation that must be refused */
        int failures, wrong;
};

static int commit_one(struct worker *worker, int round) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *address = arena_printf(arena, "Agent/t%02d-%02d", worker->number, round);
        struct record record = make_record(worker->state, arena, address, address);
        struct state_op ops[] = {
                { .type = STATE_PUT_RECORD, .record = &record },
                { .type = STATE_DELETE_RECORD, .address = worker->spoil && round % 2 ? "" : "Agent/none" },
        };
        struct error err = { .kind = ERROR_NONE };
        int result = state_commit(worker->state, ops, 2, &err);

        if (result == 0 && err.kind != ERROR_NONE)
                worker->wrong++; /* untouched on success */
        return result;
}

static void *work(void *context) {
        struct worker *worker = context;

        for (int round = 0; round < ROUNDS; round++) {
                bool should_fail = worker->spoil && round % 2;

                if ((commit_one(worker, round) < 0) != should_fail)
                        worker->wrong++;
                worker->failures += should_fail;
        }
        return NULL;
}

static int read_number(struct store_txn *txn, void *context, struct error *err) {
        (void)err;
        *(uint64_t *)context = store_txn_number(txn);
        return 0;
}

static uint64_t transactions(struct state *state) {
        struct error err = { 0 };
        uint64_t number = 0;

        assert_int_equal(store_read(state->store, read_number, &number, &err), 0);
        return number;
}

/* Whether commits of several threads shared a transaction. Which meet is up to the machine: it is asked again. */
static bool share_transactions(struct state *state) {
        struct worker workers[THREADS];
        pthread_t threads[THREADS];
        uint64_t before = transactions(state);

        for (int i = 0; i < THREADS; i++) {
                workers[i] = (struct worker){ .state = state, .number = i | 1 };
                REQUIRE(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
        }
        for (int i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        return transactions(state) - before < (uint64_t)THREADS * ROUNDS;
}

static void threads_commit_together(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct state *state = open_state(*place, STATE_CREATE);
        struct worker workers[THREADS];
        pthread_t threads[THREADS];
        struct record *records;
        struct error err = { 0 };
        uint64_t before = transactions(state), good = 0;
        size_t count;
        bool shared;

        for (int i = 0; i < THREADS; i++) {
                workers[i] = (struct worker){ .state = state, .number = i, .spoil = i % 4 == 0 };
                REQUIRE(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
        }
        for (int i = 0; i < THREADS; i++) {
                pthread_join(threads[i], NULL);
                assert_int_equal(workers[i].wrong, 0);
                good += (uint64_t)(ROUNDS - workers[i].failures);
        }
        assert_int_equal(state_load_records(state, arena, &records, &count, &err), 0);
        assert_int_equal(count, good);
        assert_int_equal(serial_of(state), good);
        /* Sixteen that wait for each sync share the next one. */
        shared = transactions(state) - before < good;
        for (int again = 0; again < 50 && !shared; again++)
                shared = share_transactions(state);
        assert_true(shared);
        for (size_t i = 0; i < count; i++) {
                assert_int_equal(record_decode(&records[i], arena, &err), 0);
                assert_string_equal(value_get_text(records[i].spec, "text"), records[i].address);
        }
        expect_sound(state);
        state_close(state);
}

#define LARGE_COUNT 200
#define LARGE_SIZE (256 * 1024)

static void map_grows(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct state *state = open_state(*place, STATE_CREATE);
        char *text = arena_alloc(arena, LARGE_SIZE + 1);
        struct state_op *ops = arena_array(arena, LARGE_COUNT, sizeof(*ops));
        struct record *records;
        struct error err = { 0 };
        size_t count;

        memset(text, 'x', LARGE_SIZE);
        for (int i = 0; i < LARGE_COUNT; i++) {
                struct record *record = arena_alloc(arena, sizeof(*record));

                text[i] = 'y';
                *record = make_record(state, arena, arena_printf(arena, "Agent/%03d", i), text);
                ops[i] = (struct state_op){ .type = STATE_PUT_RECORD, .record = record };
        }
        /* 25 MB in one transaction, from a map of 16 MB; then the rest one by one. */
        commit_ops(state, ops, LARGE_COUNT / 2);
        assert_int_equal(serial_of(state), 1);
        for (int i = LARGE_COUNT / 2; i < LARGE_COUNT; i++)
                commit_ops(state, &ops[i], 1);
        assert_int_equal(serial_of(state), 1 + LARGE_COUNT / 2);
        state_close(state);

        state = open_state(*place, STATE_READ);
        assert_int_equal(state_load_records(state, arena, &records, &count, &err), 0);
        assert_int_equal(count, LARGE_COUNT);
        for (size_t i = 0; i < count; i++) {
                assert_int_equal(record_decode(&records[i], arena, &err), 0);
                assert_int_equal(strlen(value_get_text(records[i].spec, "text")), LARGE_SIZE);
                assert_int_equal(value_get_text(records[i].spec, "text")[i], 'y');
        }
        expect_sound(state);
        state_close(state);
}

/* A child fills the store beyond what this process has mapped. */
static int grow_elsewhere(const void *folder) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        char *text = arena_alloc(arena, LARGE_SIZE + 1);
        struct error err = { 0 };
        struct state *state;

        memset(text, 'z', LARGE_SIZE);
        if (state_open(folder, STATE_CREATE, &state, &err) < 0)
                return 1;
        for (int i = 0; i < 100; i++) {
                struct record record = make_record(state, arena, arena_printf(arena, "Agent/%03d", i), text);
                struct state_op op = { .type = STATE_PUT_RECORD, .record = &record };

                if (state_commit(state, &op, 1, &err) < 0)
                        return 2;
        }
        state_close(state);
        return 0;
}

/* LMDB environments do not survive a fork: the child that waits opens its own after the other has begun. */
static int grown_by_another(const void *folder) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        int ready[2], go[2];
        struct error err = { 0 };
        struct state *state;
        struct record *records;
        size_t count;
        pid_t pid;
        char byte = 0;
        int status;

        if (pipe(ready) < 0 || pipe(go) < 0)
                return 10;
        pid = fork();
        if (pid == 0) {
                close(go[1]);
                _exit(read(go[0], &byte, 1) == 1 ? grow_elsewhere(folder) : 11);
        }
        if (state_open(folder, STATE_CREATE, &state, &err) < 0 || write(go[1], &byte, 1) != 1)
                return 12;
        /* Reads and writes of ours meet a file larger than our map. */
        do {
                struct state_op op = { .type = STATE_PUT_META, .meta = { "a", "b" } };

                if (state_load_records(state, arena, &records, &count, &err) < 0 ||
                    state_commit(state, &op, 1, &err) < 0) {
                        fprintf(stderr, "%s\n", err.message);
                        return 13;
                }
        } while (waitpid(pid, &status, WNOHANG) == 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                return 14;
        if (state_load_records(state, arena, &records, &count, &err) < 0 || count != 100)
                return 15;
        state_close(state);
        return 0;
}

static void map_grown_by_another_process(void **place) {
        state_close(open_state(*place, STATE_CREATE));
        assert_int_equal(in_child(grown_by_another, *place), 0);
}

/* Readers see whole commits only: three records change together. */
struct reading {
        struct state *state;
        bool stop;
        int torn;
};

static void *read_along(void *context) {
        struct reading *reading = context;

        while (!__atomic_load_n(&reading->stop, __ATOMIC_ACQUIRE)) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct record *records;
                struct error err = { 0 };
                size_t count;

                if (state_load_records(reading->state, arena, &records, &count, &err) < 0 || count % 3) {
                        reading->torn++;
                        continue;
                }
                for (size_t i = 1; i < count; i++)
                        reading->torn += records[i].serial != records[0].serial;
        }
        return NULL;
}

static void readers_see_whole_commits(void **place) {
        struct state *state = open_state(*place, STATE_CREATE);
        struct reading readings[4];
        pthread_t threads[4];

        for (int i = 0; i < 4; i++) {
                readings[i] = (struct reading){ .state = state };
                REQUIRE(pthread_create(&threads[i], NULL, read_along, &readings[i]) == 0);
        }
        for (int round = 0; round < 100; round++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct record a = make_record(state, arena, "Agent/a", "a");
                struct record b = make_record(state, arena, "Agent/b", "b");
                struct record c = make_record(state, arena, "Agent/c", "c");
                struct state_op ops[] = {
                        { .type = STATE_PUT_RECORD, .record = &a },
                        { .type = STATE_PUT_RECORD, .record = &b },
                        { .type = STATE_PUT_RECORD, .record = &c },
                };

                commit_ops(state, ops, 3);
        }
        for (int i = 0; i < 4; i++) {
                __atomic_store_n(&readings[i].stop, true, __ATOMIC_RELEASE);
                pthread_join(threads[i], NULL);
                assert_int_equal(readings[i].torn, 0);
        }
        state_close(state);
}

/*
 * A file that is removed, or replaced, is written to no more: its writer learns that at the commit.
 */
static void a_file_that_goes_away(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *folder = *state, *file = below(folder, "data.mdb", arena);
        struct state *opened = open_state(folder, STATE_CREATE);
        struct record record = make_record(opened, arena, "Agent/a", "a");
        struct state_op op = { .type = STATE_PUT_RECORD, .record = &record };
        struct error err = { 0 };
        uint64_t serial = serial_of(opened) + 1;

        commit_ops(opened, &op, 1);
        REQUIRE(rename(file, below(folder, "aside.mdb", arena)) == 0);
        assert_int_equal(state_commit(opened, &op, 1, &err), -1);
        assert_non_null(strstr(err.message, "was removed or replaced"));
        folder_write(folder, "data.mdb", "another's");
        assert_int_equal(state_commit(opened, &op, 1, &err), -1);
        assert_non_null(strstr(err.message, "was removed or replaced"));
        REQUIRE(rename(below(folder, "aside.mdb", arena), file) == 0);
        assert_int_equal(serial_of(opened), serial);
        commit_ops(opened, &op, 1);
        state_close(opened);
}

#define STATE_TEST(test) cmocka_unit_test_setup_teardown(test, make_place, remove_place)

int main(void) {
        const struct CMUnitTest tests[] = {
                STATE_TEST(threads_commit_together),      STATE_TEST(map_grows),
                STATE_TEST(map_grown_by_another_process), STATE_TEST(readers_see_whole_commits),
                STATE_TEST(a_file_that_goes_away),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
