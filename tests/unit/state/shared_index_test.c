/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a shared state's log that are kept, and that no reader is deceived by what has gone.
 */
#include "support.h"

#include "memory_objects.h"
#include "state/shared_index.h"

#include <pthread.h>

#define LINEAGE "11111111-2222-4333-8444-555555555555"
#define OTHER_LINEAGE "22222222-2222-4333-8444-555555555555"

static const struct shared_change one_change[] = { { STORE_RECORDED, "Agent/a", "one", 3 } };

static struct shared_log make_log(struct memory_objects *memory) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct shared_entry root = { .lineage = LINEAGE, .changes = one_change, .count = 1 }, read;
        struct shared_log log;
        struct error err = { 0 };

        shared_new_id(root.id);
        assert_int_equal(shared_log_create(&memory->store, &root, &err), 0);
        assert_int_equal(shared_log_begin(&memory->store, arena, &log, &read, &err), 1);
        return log;
}

/* The serial is the number. */
static int append(struct shared_log *log) {
        struct shared_entry entry = {
                .epoch = 1, .serial = log->number + 1, .changes = one_change, .count = 1
        };
        struct error err = { 0 };

        shared_new_id(entry.id);
        return shared_log_append(log, &entry, &err);
}

static void append_many(struct shared_log *log, int count) {
        for (int i = 0; i < count; i++)
                assert_int_equal(append(log), SHARED_APPENDED);
}

static int put_snapshot(const struct shared_log *log, struct error *err) {
        struct shared_entry snapshot = { .serial = log->number, .changes = one_change, .count = 1 };

        shared_new_id(snapshot.id);
        if (shared_log_put_snapshot(log, &snapshot, err) < 0)
                return -1;
        return shared_index_note(log, snapshot.serial, err);
}

static void note_snapshot(const struct shared_log *log) {
        struct error err = { 0 };

        if (put_snapshot(log, &err) < 0)
                fail_msg("%s", err.message);
}

static void clear(const struct shared_log *log) {
        struct error err = { 0 };

        if (shared_index_clear(log, &err) < 0)
                fail_msg("%s", err.message);
}

static size_t count_of(struct memory_objects *memory, const char *prefix) {
        size_t count = 0;

        for (const struct memory_object *object = memory->objects; object; object = object->next)
                count += strncmp(object->key, prefix, strlen(prefix)) == 0;
        return count;
}

/* The number that a reader without a memory ends at, and where it began; -1 where it fails. */
static int64_t read_cold(struct memory_objects *memory, uint64_t serial, uint64_t *ret_from,
                         struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct shared_entry entries[SHARED_LOG_AT_ONCE], root;
        struct shared_log log;
        size_t count;
        int found;

        assert_int_equal(shared_log_begin(&memory->store, arena, &log, &root, err), 1);
        if (shared_log_snapshot(&log, serial, arena, &root, err) < 0)
                return -1;
        *ret_from = log.number;
        do
                found = shared_log_next_many(&log, 1, arena, entries, &count, NULL, err);
        while (found == 1);
        return found < 0 ? -1 : (int64_t)log.number;
}

static void what_is_old_goes_and_the_rest_is_read(void **place) {
        struct memory_objects memory = MEMORY_OBJECTS_INIT;
        struct shared_log log = make_log(&memory);
        struct error err = { 0 };
        uint64_t from;

        (void)place;
        append_many(&log, 10);
        note_snapshot(&log);
        append_many(&log, 10);
        clear(&log);
        assert_int_equal(count_of(&memory, "log/"), 20); /* nothing is old */
        assert_int_equal(read_cold(&memory, 5, &from, &err), 20);
        assert_int_equal(from, 0);
        memory.now_ms += SHARED_KEEP_MS;
        note_snapshot(&log);
        clear(&log);
        assert_int_equal(count_of(&memory, "log/"), 11); /* 10 to 20 */
        assert_null(memory_at(&memory, "log/000000000009"));
        assert_int_equal(read_cold(&memory, SHARED_SERIAL_NEWEST, &from, &err), 20);
        assert_int_equal(from, 20);
        assert_int_equal(read_cold(&memory, 15, &from, &err), 20);
        assert_int_equal(from, 10);
        assert_int_equal(read_cold(&memory, 5, &from, &err), -1);
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
        expect_text(err.message, "older than what is kept");
        /* Again, from where it has come to. */
        append_many(&log, 10);
        memory.now_ms += SHARED_KEEP_MS;
        note_snapshot(&log);
        clear(&log);
        assert_int_equal(count_of(&memory, "log/"), 11); /* 20 to 30 */
        assert_int_equal(count_of(&memory, "snapshot/"), 2);
        memory_close(&memory.store);
}

static void a_clock_that_is_not_told_keeps_all(void **place) {
        struct memory_objects memory = MEMORY_OBJECTS_INIT;
        struct shared_log log;

        (void)place;
        memory.no_dates = true;
        log = make_log(&memory);
        for (int i = 0; i < 4; i++) {
                append_many(&log, 5);
                note_snapshot(&log);
                memory.now_ms += 2 * SHARED_KEEP_MS;
        }
        clear(&log);
        assert_int_equal(count_of(&memory, "log/"), 20);
        memory_close(&memory.store);
}

/* Ten a day for forty days: what is kept is bounded, and each serial of the last thirty days can be had. */
static void snapshots_are_thinned_out(void **place) {
        struct memory_objects memory = MEMORY_OBJECTS_INIT;
        struct shared_log log = make_log(&memory);
        struct error err = { 0 };
        uint64_t from;

        (void)place;
        for (int i = 0; i < 400; i++) {
                append_many(&log, 1);
                note_snapshot(&log);
                clear(&log);
                assert_in_range(count_of(&memory, "snapshot/"), 1,
                                SHARED_KEEP_DAYS + SHARED_SNAPSHOTS_NEWEST + 2);
                memory.now_ms += SHARED_DAY_MS / 10;
        }
        assert_in_range(count_of(&memory, "log/"), 10 * SHARED_KEEP_DAYS, 10 * (SHARED_KEEP_DAYS + 2));
        for (uint64_t serial = 400 - 10 * SHARED_KEEP_DAYS; serial <= 400; serial++) {
                assert_int_equal(read_cold(&memory, serial, &from, &err), 400);
                assert_in_range(from, 1, serial);
        }
        memory_close(&memory.store);
}

/* What fails at each request in turn is gone on with by the next one. */
static int fails_at;

static enum memory_fault fail_once(void *context, const char *operation, const char *key) {
        (void)operation;
        (void)key;
        return fails_at-- == 0 ? *(enum memory_fault *)context : FAULT_NONE;
}

static void whoever_dies_leaves_it_to_the_next(void **place) {
        static enum memory_fault faults[] = { FAULT_REFUSED, FAULT_LOST_REQUEST, FAULT_LOST_ANSWER };

        (void)place;
        for (int at = 0; at < 60; at++) {
                for (size_t i = 0; i < 3; i++) {
                        struct memory_objects memory = MEMORY_OBJECTS_INIT;
                        struct shared_log log = make_log(&memory);
                        struct error err = { 0 };
                        uint64_t from;

                        append_many(&log, 10);
                        note_snapshot(&log);
                        append_many(&log, 10);
                        note_snapshot(&log);
                        memory.now_ms += SHARED_KEEP_MS;
                        append_many(&log, 5);
                        fails_at = at;
                        memory.fault = fail_once;
                        memory.context = &faults[i];
                        if (put_snapshot(&log, &err) == 0)
                                (void)!shared_index_clear(&log, &err);
                        memory.fault = NULL;
                        /* Whatever is there when it reads, a reader is right. */
                        assert_int_equal(read_cold(&memory, SHARED_SERIAL_NEWEST, &from, &err), 25);
                        append_many(&log, 5);
                        note_snapshot(&log);
                        clear(&log);
                        assert_int_equal(read_cold(&memory, SHARED_SERIAL_NEWEST, &from, &err), 30);
                        assert_int_equal(count_of(&memory, "log/"), 11); /* 20 to 30 */
                        assert_null(memory_at(&memory, "snapshot/000000000010"));
                        memory_close(&memory.store);
                }
        }
}

/*
 * A machine that remembers a place, and one that slept as it wrote: the number that it writes under
 * was freed meanwhile. A reader that goes on from before it is told; a reader that starts over does
 * not see it.
 */
static void what_is_written_under_a_freed_number_is_nobodys(void **place) {
        struct memory_objects memory = MEMORY_OBJECTS_INIT;
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct shared_entry entries[SHARED_LOG_AT_ONCE];
        struct shared_log log = make_log(&memory), sleeper, reader;
        struct error err = { 0 };
        uint64_t from;
        size_t count;
        bool holds;

        (void)place;
        append_many(&log, 5);
        sleeper = reader = log;
        append_many(&log, 5);
        note_snapshot(&log);
        assert_int_equal(append(&sleeper), SHARED_TAKEN); /* as long as it is there */
        sleeper = reader;
        assert_int_equal(shared_index_keeps(&memory.store, LINEAGE, reader.number, &err), 1);
        memory.now_ms += SHARED_KEEP_MS;
        append_many(&log, 5);
        note_snapshot(&log);
        clear(&log);
        assert_int_equal(append(&sleeper), SHARED_APPENDED);
        assert_non_null(memory_at(&memory, "log/000000000006"));
        assert_int_equal(shared_index_keeps(&memory.store, LINEAGE, sleeper.number - 1, &err), 0);
        assert_int_equal(shared_index_keeps(&memory.store, LINEAGE, log.number, &err), 1);
        assert_int_equal(shared_log_next_many(&reader, 1, arena, entries, &count, &holds, &err), 0);
        assert_false(holds);
        assert_int_equal(read_cold(&memory, SHARED_SERIAL_NEWEST, &from, &err), 15);
        assert_int_equal(from, 15);
        memory_close(&memory.store);
}

static void an_index_that_is_lost_or_another_ones(void **place) {
        static const char *const texts[] = {
                "",
                "{}",
                "{\"formatVersion\":\"2\",\"lineage\":\"" LINEAGE "\"}",
                "{\"cleared\":0,\"floor\":7,\"formatVersion\":\"1\",\"going\":[],\"lineage\":\"" LINEAGE
                "\",\"snapshots\":[]}", /* an invalid floor */
                "{\"cleared\":0,\"floor\":0,\"formatVersion\":\"1\",\"going\":[-1],\"lineage\":\"" LINEAGE
                "\",\"snapshots\":[]}",
                "{\"cleared\":0,\"floor\":0,\"formatVersion\":\"1\",\"going\":[],\"lineage\":\"" OTHER_LINEAGE
                "\",\"snapshots\":[]}",
                "{\"cleared\":0,\"floor\":0,\"formatVersion\":\"1\",\"going\":[],\"lineage\":\"" LINEAGE
                "\",\"snapshots\":[{\"number\":4,\"serial\":1},{\"number\":3,\"serial\":1}]}",
        };
        struct memory_objects memory = MEMORY_OBJECTS_INIT;
        struct shared_log log = make_log(&memory);
        struct error err = { 0 };
        uint64_t from;

        (void)place;
        append_many(&log, 10);
        note_snapshot(&log);
        append_many(&log, 10);
        memory.now_ms += SHARED_KEEP_MS;
        note_snapshot(&log);
        clear(&log);
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                memory_remove(&memory, SHARED_INDEX_KEY);
                assert_int_equal(
                        memory_write(&memory, SHARED_INDEX_KEY, "", texts[i], strlen(texts[i]), NULL),
                        OBJECT_DONE);
                assert_int_equal(read_cold(&memory, SHARED_SERIAL_NEWEST, &from, &err), -1);
                assert_int_equal(shared_index_keeps(&memory.store, LINEAGE, 20, &err), -1);
                assert_int_equal(shared_index_clear(&log, &err), -1);
        }
        /* Without one the newest snapshot that is listed will do. */
        memory_remove(&memory, SHARED_INDEX_KEY);
        assert_int_equal(read_cold(&memory, SHARED_SERIAL_NEWEST, &from, &err), 20);
        assert_int_equal(from, 20);
        memory_close(&memory.store);
}

/* The store in memory is of one thread at a time. */
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static int get_alone(struct object_store *store, const char *key, struct object_answer *ret,
                     struct error *err) {
        int outcome;

        pthread_mutex_lock(&one_at_a_time);
        outcome = memory_get(store, key, ret, err);
        pthread_mutex_unlock(&one_at_a_time);
        return outcome;
}

/* Many at once: whatever becomes of one answer, the entries come in order. */
static enum memory_fault spoil(void *context, const char *operation, const char *key) {
        enum memory_fault *fault = context;

        if (strcmp(operation, "get") == 0 && strcmp(key, "log/000000000003") == 0) {
                enum memory_fault now = *fault;

                *fault = FAULT_NONE;
                return now;
        }
        return FAULT_NONE;
}

static void entries_come_in_order(void **place) {
        static const enum memory_fault faults[] = { FAULT_NONE, FAULT_CUT, FAULT_LOST_ANSWER, FAULT_REFUSED };

        (void)place;
        for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
                struct memory_objects memory = MEMORY_OBJECTS_INIT;
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct shared_entry entries[SHARED_LOG_AT_ONCE];
                struct shared_log log = make_log(&memory), reader = log;
                enum memory_fault fault = faults[i];
                struct object_store_ops ops = memory_ops;
                struct error err = { 0 };
                size_t count, all = 0;
                bool holds;
                int found;

                ops.get = get_alone;
                append_many(&log, 40);
                memory.store.ops = &ops;
                memory.fault = spoil;
                memory.context = &fault;
                do {
                        found = shared_log_next_many(&reader, SHARED_LOG_AT_ONCE, arena, entries, &count,
                                                     &holds, &err);
                        assert_true(holds);
                        for (size_t k = 0; k < count; k++)
                                assert_int_equal(entries[k].number, ++all);
                } while (found == 1);
                assert_int_equal(found, 0);
                assert_int_equal(all, 40);
                assert_memory_equal(reader.hash, log.hash, SHA256_SIZE);
                memory_close(&memory.store);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_is_old_goes_and_the_rest_is_read),
                cmocka_unit_test(a_clock_that_is_not_told_keeps_all),
                cmocka_unit_test(snapshots_are_thinned_out),
                cmocka_unit_test(whoever_dies_leaves_it_to_the_next),
                cmocka_unit_test(what_is_written_under_a_freed_number_is_nobodys),
                cmocka_unit_test(an_index_that_is_lost_or_another_ones),
                cmocka_unit_test(entries_come_in_order),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
