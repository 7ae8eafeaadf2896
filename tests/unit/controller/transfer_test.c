/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A state that moves, cut off at every request, its answers lost at every request, and then finished or undone: it lives in one
 * place at the most at every moment, in exactly one at the end, and is the same there.
 */
#include "folder.h"
#include "state/state_past.h"

#include "controller/transfer.h"
#include "state/memory_objects.h"

#include <pthread.h>

#define PLACES 2
#define MEMORY_TEMPLATE "/dev/shm/berth-test-XXXXXX" /* a disk would sync each of thousands of commits */
#define REQUESTS_MAX 500

static struct memory_objects buckets[PLACES];
static char top[sizeof(MEMORY_TEMPLATE)], folder[64];

/* Requests that are answered; then the machine is dead. -1: all of them. */
static int left;
static bool last_is_done; /* the last request is carried out, and its answer lost */

static enum memory_fault count_down(void *context, const char *operation, const char *key) {
        (void)context;
        (void)operation;
        (void)key;
        if (left < 0)
                return FAULT_NONE;
        if (left == 0)
                return FAULT_REFUSED;
        return --left == 0 && last_is_done ? FAULT_LOST_ANSWER : FAULT_NONE;
}

/* A store that is opened and closed, while the objects stay. */
struct view {
        struct object_store store;
        struct memory_objects *memory;
};

/* Entries are read by several threads at once, and the store in memory is of one. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int unlocked(int outcome) {
        pthread_mutex_unlock(&lock);
        return outcome;
}

static struct object_store *inside(struct object_store *store) {
        pthread_mutex_lock(&lock);
        return &((struct view *)(void *)store)->memory->store;
}

static int view_get(struct object_store *store, const char *key, struct object_answer *ret,
                    struct error *err) {
        return unlocked(memory_ops.get(inside(store), key, ret, err));
}

static int view_put_if_absent(struct object_store *store, const char *key, const void *bytes, size_t length,
                              struct object_answer *ret, struct error *err) {
        return unlocked(memory_ops.put_if_absent(inside(store), key, bytes, length, ret, err));
}

static int view_put_if_match(struct object_store *store, const char *key, const char *etag, const void *bytes,
                             size_t length, struct object_answer *ret, struct error *err) {
        return unlocked(memory_ops.put_if_match(inside(store), key, etag, bytes, length, ret, err));
}

static int view_list(struct object_store *store, const char *prefix, struct arena *arena, const char ***ret,
                     size_t *ret_count, struct error *err) {
        return unlocked(memory_ops.list(inside(store), prefix, arena, ret, ret_count, err));
}

static int view_remove(struct object_store *store, const char *const *keys, size_t count, struct error *err) {
        return unlocked(memory_ops.remove(inside(store), keys, count, err));
}

static int view_keeps_versions(struct object_store *store, bool *ret, struct error *err) {
        return unlocked(memory_ops.keeps_versions(inside(store), ret, err));
}

static void view_close(struct object_store *store) {
        if (!store)
                return;
        free((void *)(uintptr_t)store->place);
        free(store);
}

static const struct object_store_ops view_ops = {
        .get = view_get,
        .put_if_absent = view_put_if_absent,
        .put_if_match = view_put_if_match,
        .list = view_list,
        .remove = view_remove,
        .keeps_versions = view_keeps_versions,
        .close = view_close,
};

static int open_objects(const struct state_place *place, const struct value *stack_aws,
                        const struct clock *clock, struct object_store **ret, struct error *err) {
        struct view *view = calloc(1, sizeof(*view));
        char *text = strdup(place->text);

        (void)stack_aws;
        (void)clock;
        (void)err;
        if (!view || !text)
                abort();
        view->memory = &buckets[strcmp(place->bucket, "one") == 0 ? 0 : 1];
        view->store = (struct object_store){ .ops = &view_ops, .place = text };
        *ret = &view->store;
        return 0;
}

static const struct provider_registry registry = { .open_objects = open_objects };

static int64_t now_of(const struct clock *clock) {
        (void)clock;
        return buckets[0].now_ms;
}

static const struct clock clock_of_test = { .wall_ms = now_of, .monotonic_ms = now_of };

/* Long enough that a run that died has lost its lock. */
static void pass_time(void) {
        for (size_t i = 0; i < PLACES; i++)
                buckets[i].now_ms += 120000;
}

static int begin(void **context) {
        (void)context;
        snprintf(top, sizeof(top), MEMORY_TEMPLATE);
        if (!mkdtemp(top))
                folder_make_temporary(top);
        snprintf(folder, sizeof(folder), "%s/state", top);
        setenv("XDG_CACHE_HOME", top, 1);
        left = -1;
        for (size_t i = 0; i < PLACES; i++)
                buckets[i] = (struct memory_objects){ .store = { &memory_ops, "memory" },
                                                      .now_ms = 1700000000000,
                                                      .fault = count_down };
        return 0;
}

static int end(void **context) {
        (void)context;
        for (size_t i = 0; i < PLACES; i++)
                memory_close(&buckets[i].store);
        folder_remove(top);
        return 0;
}

static int open_at(const char *place, enum state_mode mode, bool gone_too, struct state **ret,
                   struct error *err) {
        const struct stack_state_args args = {
                .registry = &registry, .place = place, .clock = &clock_of_test, .gone_too = gone_too
        };

        return stack_state_open(&args, mode, ret, err);
}

/* Records one thing in a state that is not there yet. */
static void make_state(const char *place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const struct record record = {
                .address = "Agent/a", .provider = "aws", .id = "a", .spec = value_new_map(arena)
        };
        const struct state_op op = { .type = STATE_PUT_RECORD, .record = &record };
        struct state *state = NULL;
        struct error err = { 0 };

        if (open_at(place, STATE_CREATE, false, &state, &err) < 0 ||
            state_lease_acquire(state, "apply", &err) < 0 || state_commit(state, &op, 1, &err) < 0)
                fail_msg("%s", err.message);
        state_close(state);
}

/* Whether it lives there; then all of it is there. */
static bool lives(const char *place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct state *state = NULL;
        struct record *records = NULL;
        struct error err = { 0 };
        size_t count = 0;
        bool present;

        if (open_at(place, STATE_READ, false, &state, &err) < 0) {
                if (!strstr(err.message, "has moved to") && !strstr(err.message, "has not arrived yet"))
                        fail_msg("%s", err.message);
                return false;
        }
        present = *state_lineage(state);
        assert_int_equal(state_load_records(state, arena, &records, &count, &err), 0);
        assert_int_equal(count, present);
        state_close(state);
        return present;
}

static int transfer(const char *from, const char *to, enum transfer_work *ret, struct error *err) {
        const struct transfer_args args = {
                .registry = &registry, .clock = &clock_of_test, .from = from, .to = to
        };
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct transfer moving;
        int result = transfer_begin(&args, arena, &moving, err);

        *ret = moving.work;
        if (result == 0)
                result = transfer_carry_out(&moving, err);
        transfer_close(&moving);
        return result;
}

static void expect_transfer(const char *from, const char *to) {
        enum transfer_work work;
        struct error err = { 0 };

        if (transfer(from, to, &work, &err) < 0)
                fail_msg("from %s to %s: %s", from, to, err.message);
        assert_true(lives(to));
        assert_false(lives(from));
}

/* True where the move was cut off after `requests`. */
static bool is_cut_off(const char *from, const char *to, int requests) {
        enum transfer_work work;
        struct error err = { 0 };
        int result;

        left = requests;
        result = transfer(from, to, &work, &err);
        /* Requests behind the last step may be lost without harm. */
        if (result == 0 && left > 0) {
                left = -1;
                return false;
        }
        left = -1;
        pass_time();
        return true;
}

static void cut_off_at(const char *from, const char *to, int requests, bool undone) {
        enum transfer_work work;
        struct error err = { 0 };

        assert_true(lives(from) + lives(to) <= 1);
        if (undone && transfer(to, from, &work, &err) == 0) {
                assert_true(lives(from));
                assert_false(lives(to));
        } else {
                if (undone && err.kind != ERROR_NOT_FOUND)
                        fail_msg("undone after %d requests: %s", requests, err.message);
        }
        expect_transfer(from, to);
        expect_transfer(to, from);
}

/* Again and again there and back: the first time the target is made, later it is there. */
static void cut_off_everywhere(const char *from, const char *to) {
        make_state(from);
        for (int variant = 0; variant < 4; variant++) {
                int requests = 1;

                last_is_done = variant & 1;
                while (requests < REQUESTS_MAX && is_cut_off(from, to, requests)) {
                        cut_off_at(from, to, requests, variant & 2);
                        requests++;
                }
                assert_in_range(requests, 8, REQUESTS_MAX - 1);
                assert_true(lives(to));
                expect_transfer(to, from);
        }
}

static void from_a_folder(void **context) {
        (void)context;
        cut_off_everywhere(folder, "s3://one/a");
}

static void to_a_folder(void **context) {
        (void)context;
        cut_off_everywhere("s3://one/a", folder);
}

static void from_objects_to_objects(void **context) {
        (void)context;
        cut_off_everywhere("s3://one/a", "s3://two/b");
}

/* As above, each time to a place that has never been one. */
static void cut_off_as_it_is_made(void **context) {
        static const char *const from = "s3://two/b";

        (void)context;
        make_state(from);
        for (int variant = 0; variant < 4; variant++) {
                bool going_on = true;

                last_is_done = variant & 1;
                for (int requests = 1; going_on; requests++) {
                        assert_true(requests < REQUESTS_MAX);
                        memory_close(&buckets[0].store);
                        going_on = is_cut_off(from, "s3://one/a", requests);
                        if (going_on)
                                cut_off_at(from, "s3://one/a", requests, variant & 2);
                }
                expect_transfer("s3://one/a", from);
        }
}

static void nothing_is_written_where_it_has_gone(void **context) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const struct record record = { .address = "Agent/b",
                                       .provider = "aws",
                                       .spec = value_new_map(arena) };
        const struct state_op op = { .type = STATE_PUT_RECORD, .record = &record },
                              note = { .type = STATE_PUT_META, .meta = { STATE_META_SOURCE, "{}" } };
        static const char *const place = "s3://one/a";

        (void)context;
        make_state(folder);
        for (int i = 0; i < 2; i++) {
                const char *from = i == 0 ? folder : place, *to = i == 0 ? place : folder;
                struct state *late = NULL, *state = NULL;
                struct error err = { 0 };
                uint64_t run;

                /* A state that was opened before finds out, too. */
                if (i == 1)
                        assert_int_equal(open_at(from, STATE_CREATE, false, &late, &err), 0);
                expect_transfer(from, to);
                if (late) {
                        assert_int_equal(state_lease_acquire(late, "apply", &err), -1);
                        assert_non_null(strstr(err.message, to));
                        state_close(late);
                }
                assert_int_equal(open_at(from, STATE_CREATE, true, &state, &err), 0);
                assert_int_equal(state_lease_acquire(state, "apply", &err), -1);
                assert_non_null(strstr(err.message, "has moved to"));
                err.message[0] = '\0';
                assert_int_equal(state_new_run(state, &run, &err), -1);
                assert_int_equal(state_commit(state, &op, 1, &err), -1);
                assert_non_null(strstr(err.message, "has moved to"));
                /* A controller's notes are no part of it. */
                if (i == 0)
                        assert_int_equal(state_commit(state, &note, 1, &err), 0);
                state_close(state);
                assert_true(lives(to));
        }
}

static void what_is_another_state_stays(void **context) {
        enum transfer_work work;
        struct error err = { 0 };

        (void)context;
        make_state(folder);
        make_state("s3://one/a");
        assert_int_equal(transfer(folder, "s3://one/a", &work, &err), -1);
        assert_non_null(strstr(err.message, "there is another state in s3://one/a"));
        assert_true(lives(folder));
        assert_true(lives("s3://one/a"));
        assert_int_equal(transfer("s3://two/b", folder, &work, &err), -1);
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
}

/* A copy from before the move has the lineage, and no mark: it is not where the state went. */
static void an_older_copy_is_not_where_it_went(void **context) {
        char copy[sizeof(folder) + 8];
        enum transfer_work work;
        struct state *state = NULL;
        struct error err = { 0 };

        (void)context;
        make_state(folder);
        snprintf(copy, sizeof(copy), "%s-copy", folder);
        assert_int_equal(open_at(folder, STATE_READ, false, &state, &err), 0);
        assert_int_equal(state_backup(state, copy, &err), 0);
        state_close(state);
        expect_transfer(folder, "s3://one/a");
        assert_int_equal(transfer(folder, copy, &work, &err), -1);
        assert_non_null(strstr(err.message, "has moved to s3://one/a"));
        assert_int_equal(transfer(folder, "s3://one/a", &work, &err), 0);
        assert_int_equal(work, TRANSFER_NOTHING);
}

/* The log of its new place begins with the move. */
static void what_was_before_the_move_is_not_there(void **context) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct state *state = NULL;
        struct state_past past;
        struct error err = { 0 };

        (void)context;
        make_state(folder);
        expect_transfer(folder, "s3://one/a");
        assert_int_equal(open_at("s3://one/a", STATE_READ, false, &state, &err), 0);
        assert_int_equal(state_past_read(state, 0, arena, &past, &err), -1);
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
        assert_non_null(strstr(err.message, "it came there at serial 1"));
        state_close(state);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(from_a_folder, begin, end),
                cmocka_unit_test_setup_teardown(to_a_folder, begin, end),
                cmocka_unit_test_setup_teardown(from_objects_to_objects, begin, end),
                cmocka_unit_test_setup_teardown(cut_off_as_it_is_made, begin, end),
                cmocka_unit_test_setup_teardown(nothing_is_written_where_it_has_gone, begin, end),
                cmocka_unit_test_setup_teardown(what_is_another_state_stays, begin, end),
                cmocka_unit_test_setup_teardown(an_older_copy_is_not_where_it_went, begin, end),
                cmocka_unit_test_setup_teardown(what_was_before_the_move_is_not_there, begin, end),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
