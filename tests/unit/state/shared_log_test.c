/* SPDX-License-Identifier: Apache-2.0 */
/* The log of a shared state: one writer a number, whatever becomes of the answers; readers that are not deceived. */
#include "support.h"

#include "memory_objects.h"
#include "state/shared_log.h"

#define LINEAGE "11111111-2222-4333-8444-555555555555"

static const struct shared_change two_changes[] = {
        { STORE_RECORDED, "Agent/a", "one", 3 },
        { STORE_BINDINGS, "Agent/b", NULL, 0 },
};

static struct shared_entry new_entry(const char *command) {
        struct shared_entry entry = {
                .epoch = 1, .command = command, .who = "anna", .changes = two_changes, .count = 2
        };

        shared_new_id(entry.id);
        return entry;
}

static struct shared_log make_log(struct memory_objects *memory) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct shared_entry root = { .lineage = LINEAGE, .changes = two_changes, .count = 1 }, read;
        struct error err = { 0 };
        struct shared_log log;

        shared_new_id(root.id);
        assert_int_equal(shared_log_create(&memory->store, &root, &err), 0);
        assert_int_equal(shared_log_begin(&memory->store, arena, &log, &read, &err), 1);
        assert_string_equal(read.lineage, LINEAGE);
        assert_int_equal(read.count, 1);
        return log;
}

static int append(struct shared_log *log, const char *command, struct error *err) {
        struct shared_entry entry = new_entry(command);

        return shared_log_append(log, &entry, err);
}

/* All commands from the root on, as "abc". */
static const char *read_all(struct memory_objects *memory, struct arena *arena) {
        struct shared_entry entry;
        struct shared_log log;
        struct error err = { 0 };
        const char *all = "";

        assert_int_equal(shared_log_begin(&memory->store, arena, &log, &entry, &err), 1);
        while (shared_log_next(&log, arena, &entry, &err) == 1)
                all = arena_printf(arena, "%s%s", all, entry.command);
        return all;
}

static void what_is_written_is_read(void **place) {
        struct memory_objects memory = MEMORY_OBJECTS_INIT;
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct shared_log log, reader;
        struct shared_entry entry;
        struct error err = { 0 };

        (void)place;
        log = make_log(&memory);
        reader = log;
        assert_int_equal(append(&log, "a", &err), SHARED_APPENDED);
        assert_int_equal(append(&log, "b", &err), SHARED_APPENDED);
        assert_int_equal(shared_log_next(&reader, arena, &entry, &err), 1);
        assert_string_equal(entry.command, "a");
        assert_string_equal(entry.who, "anna");
        assert_null(entry.note);
        assert_int_equal(entry.number, 1);
        assert_int_equal(entry.count, 2);
        assert_string_equal(entry.changes[0].key, "Agent/a");
        assert_memory_equal(entry.changes[0].value, "one", 3);
        assert_null(entry.changes[1].value);
        assert_int_equal(shared_log_next(&reader, arena, &entry, &err), 1);
        assert_int_equal(shared_log_next(&reader, arena, &entry, &err), 0);
        assert_int_equal(shared_log_holds(&reader, &err), 1);
        memory_close(&memory.store);
}

static void two_writers_get_different_numbers(void **place) {
        struct memory_objects memory = MEMORY_OBJECTS_INIT;
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct shared_log first, second;
        struct shared_entry entry;
        struct error err = { 0 };

        (void)place;
        first = make_log(&memory);
        second = first;
        assert_int_equal(append(&first, "a", &err), SHARED_APPENDED);
        assert_int_equal(append(&second, "b", &err), SHARED_TAKEN);
        assert_int_equal(second.number, 0);
        assert_int_equal(shared_log_next(&second, arena, &entry, &err), 1);
        assert_int_equal(append(&second, "c", &err), SHARED_APPENDED);
        assert_int_equal(append(&first, "d", &err), SHARED_TAKEN);
        assert_string_equal(read_all(&memory, arena), "ac");
        memory_close(&memory.store);
}

/* The next put of the log ends in `fault`, and then `after` more. */
struct script {
        enum memory_fault put[4], get[4];
        size_t puts, gets;
};

static enum memory_fault play(void *context, const char *operation, const char *key) {
        struct script *script = context;

        if (strncmp(key, SHARED_LOG_PREFIX, strlen(SHARED_LOG_PREFIX)) != 0)
                return FAULT_NONE;
        if (strcmp(operation, "put") == 0 && script->puts < 4)
                return script->put[script->puts++];
        if (strcmp(operation, "get") == 0 && script->gets < 4)
                return script->get[script->gets++];
        return FAULT_NONE;
}

static void an_answer_that_is_lost_is_found_out(void **place) {
        static const struct script scripts[] = {
                { .put = { FAULT_LOST_ANSWER } },
                { .put = { FAULT_LOST_REQUEST } },
                { .put = { FAULT_AGAIN } },
                { .put = { FAULT_CONFLICT } },
                { .put = { FAULT_CONFLICT, FAULT_LOST_REQUEST, FAULT_LOST_ANSWER } },
                { .put = { FAULT_LATE } },
                { .put = { FAULT_LOST_ANSWER }, .get = { FAULT_CUT } },
        };

        (void)place;
        for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
                struct memory_objects memory = MEMORY_OBJECTS_INIT;
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct script script = scripts[i];
                struct shared_log log = make_log(&memory);
                struct error err = { 0 };

                memory.fault = play;
                memory.context = &script;
                assert_int_equal(append(&log, "a", &err), SHARED_APPENDED);
                memory.fault = NULL;
                memory_deliver(&memory);
                assert_int_equal(append(&log, "b", &err), SHARED_APPENDED);
                assert_string_equal(read_all(&memory, arena), "ab");
                memory_close(&memory.store);
        }
}

static void what_is_not_known_is_said(void **place) {
        struct memory_objects memory = MEMORY_OBJECTS_INIT;
        struct script script = { .put = { FAULT_LATE, FAULT_LOST_REQUEST, FAULT_LOST_REQUEST,
                                          FAULT_LOST_REQUEST } };
        struct shared_log log = make_log(&memory);
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct shared_entry entry;
        struct error err = { 0 };

        (void)place;
        memory.fault = play;
        memory.context = &script;
        assert_int_equal(append(&log, "a", &err), -1);
        expect_text(err.message, "whether memory:test/log/000000000001 was written is not known");
        assert_int_equal(log.number, 0);
        memory.fault = NULL;
        memory_deliver(&memory); /* it was, after all: a machine that goes on reads on first */
        assert_int_equal(append(&log, "b", &err), SHARED_TAKEN);
        assert_int_equal(shared_log_next(&log, arena, &entry, &err), 1);
        assert_string_equal(entry.command, "a");
        memory_close(&memory.store);
}

static void refused_is_an_error(void **place) {
        struct memory_objects memory = MEMORY_OBJECTS_INIT;
        struct script script = { .put = { FAULT_REFUSED } };
        struct shared_log log = make_log(&memory);
        struct error err = { 0 };

        (void)place;
        memory.fault = play;
        memory.context = &script;
        assert_int_equal(append(&log, "a", &err), -1);
        expect_text(err.message, "AccessDenied");
        memory_close(&memory.store);
}

static void second_root_is_refused(void **place) {
        struct memory_objects memory = MEMORY_OBJECTS_INIT;
        struct shared_entry root = { .lineage = LINEAGE };
        struct error err = { 0 };

        (void)place;
        make_log(&memory);
        shared_new_id(root.id);
        assert_int_equal(shared_log_create(&memory.store, &root, &err), -1);
        assert_int_equal(err.kind, ERROR_LOCKED);
        memory_close(&memory.store);
}

static enum memory_fault lag(void *context, const char *operation, const char *key) {
        (void)context;
        (void)key;
        return strcmp(operation, "list") == 0 ? FAULT_LAGGING : FAULT_NONE;
}

static void a_list_that_lags_loses_nothing(void **place) {
        struct memory_objects memory = MEMORY_OBJECTS_INIT;
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct shared_log log = make_log(&memory);
        struct error err = { 0 };

        (void)place;
        for (int i = 0; i < 3; i++) {
                struct shared_entry snapshot = { .changes = two_changes, .count = 2 };

                assert_int_equal(append(&log, "a", &err), SHARED_APPENDED);
                shared_new_id(snapshot.id);
                assert_int_equal(shared_log_put_snapshot(&log, &snapshot, &err), 0);
        }
        for (int lagging = 0; lagging < 2; lagging++) {
                struct shared_log reader;
                struct shared_entry entry;

                memory.fault = lagging ? lag : NULL;
                assert_int_equal(shared_log_begin(&memory.store, arena, &reader, &entry, &err), 1);
                assert_int_equal(shared_log_snapshot(&reader, SHARED_SERIAL_NEWEST, arena, &entry, &err), 1);
                assert_int_equal(reader.number, lagging ? 2 : 3);
                while (shared_log_next(&reader, arena, &entry, &err) == 1)
                        ;
                assert_int_equal(reader.number, 3);
                assert_memory_equal(reader.hash, log.hash, SHA256_SIZE);
        }
        memory_close(&memory.store);
}

/* Every byte of an entry flipped, and every length: an error each time, never another meaning. */
static void damage_is_noticed(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct shared_entry entry = new_entry("a"), read;
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
        struct error err = { 0 };

        (void)place;
        memcpy(entry.lineage, LINEAGE, sizeof(entry.lineage));
        assert_int_equal(shared_form_write(&entry, &bytes, &err), 0);
        assert_int_equal(shared_form_read(bytes.data, bytes.length, SHARED_LOG, "x", arena, &read, &err), 0);
        assert_int_equal(shared_form_read(bytes.data, bytes.length, SHARED_SNAPSHOT, "x", arena, &read, &err),
                         -1);
        for (size_t i = 0; i < bytes.length; i++) {
                bytes.data[i] ^= 1;
                assert_int_equal(
                        shared_form_read(bytes.data, bytes.length, SHARED_LOG, "x", arena, &read, &err), -1);
                bytes.data[i] ^= 1;
                assert_int_equal(shared_form_read(bytes.data, i, SHARED_LOG, "x", arena, &read, &err), -1);
        }
}

/* The copy on a machine lies in a folder of the lineage's name. */
static void a_lineage_that_is_a_path_is_refused(void **place) {
        static const char *const paths[] = { "../../../../../../../../../tmp/berth",
                                             "/aaaaaaa/bbbb-4ccc-8ddd-eeeeeeeeeeee",
                                             "11111111-2222-4333-8444-55555555555G" };
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct error err = { 0 };

        (void)place;
        for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
                struct shared_entry entry = new_entry("a"), read;
                struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;

                snprintf(entry.lineage, sizeof(entry.lineage), "%s.", paths[i]);
                assert_int_equal(strlen(entry.lineage), SHARED_LINEAGE_SIZE - 1);
                assert_int_equal(shared_form_write(&entry, &bytes, &err), 0);
                assert_int_equal(
                        shared_form_read(bytes.data, bytes.length, SHARED_LOG, "x", arena, &read, &err), -1);
        }
}

static void an_entry_of_elsewhere_is_refused(void **place) {
        struct memory_objects memory = MEMORY_OBJECTS_INIT, other = MEMORY_OBJECTS_INIT;
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct shared_log log = make_log(&memory), elsewhere = make_log(&other), reader = log, theirs;
        struct memory_object *object;
        struct shared_entry entry;
        struct error err = { 0 };

        (void)place;
        assert_int_equal(append(&log, "a", &err), SHARED_APPENDED);
        assert_int_equal(append(&elsewhere, "b", &err), SHARED_APPENDED);
        theirs = elsewhere;
        assert_int_equal(append(&elsewhere, "c", &err), SHARED_APPENDED);
        /* The same lineage, copied and gone on elsewhere: its second entry does not follow our first. */
        object = memory_at(&other, "log/000000000002");
        assert_int_equal(memory_write(&memory, object->key, "", object->bytes, object->length, NULL),
                         OBJECT_DONE);
        assert_int_equal(shared_log_next(&reader, arena, &entry, &err), 1);
        assert_int_equal(shared_log_next(&reader, arena, &entry, &err), -1);
        expect_text(err.message, "does not follow");
        theirs.store = &memory.store;
        assert_int_equal(shared_log_holds(&theirs, &err), 0);
        assert_int_equal(shared_log_holds(&reader, &err), 1);
        memory_close(&memory.store);
        memory_close(&other.store);
}

/* Where the root alone has expired, what it was may live. */
static void a_lost_root_is_no_lost_state(void **place) {
        struct memory_objects memory = MEMORY_OBJECTS_INIT;
        struct shared_log log = make_log(&memory);
        struct error err = { 0 };
        bool lies = false;

        (void)place;
        assert_int_equal(append(&log, "a", &err), SHARED_APPENDED);
        assert_int_equal(state_lies_at(&memory.store, LINEAGE, &lies, &err), 0);
        assert_true(lies);
        memory_remove(&memory, SHARED_ROOT);
        assert_int_equal(state_lies_at(&memory.store, LINEAGE, &lies, &err), -1);
        expect_text(err.message, "is gone, though");
        memory_close(&memory.store);
        assert_int_equal(state_lies_at(&memory.store, LINEAGE, &lies, &err), 0);
        assert_false(lies);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_is_written_is_read),
                cmocka_unit_test(two_writers_get_different_numbers),
                cmocka_unit_test(an_answer_that_is_lost_is_found_out),
                cmocka_unit_test(what_is_not_known_is_said),
                cmocka_unit_test(refused_is_an_error),
                cmocka_unit_test(second_root_is_refused),
                cmocka_unit_test(a_list_that_lags_loses_nothing),
                cmocka_unit_test(damage_is_noticed),
                cmocka_unit_test(a_lineage_that_is_a_path_is_refused),
                cmocka_unit_test(an_entry_of_elsewhere_is_refused),
                cmocka_unit_test(a_lost_root_is_no_lost_state),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
