/* SPDX-License-Identifier: Apache-2.0 */
/* Backups, carrying formats forward, and what verify finds. */
#include "support.h"

#include "state/migrate.h"
#include "state/state_parts.h"

static void backup_is_a_state(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *folder = below(*place, "state", arena), *backup = below(*place, "deep/backup", arena);
        const char *empty = below(*place, "empty", arena);
        struct state *state = open_state(folder, STATE_CREATE), *copy;
        struct record *records;
        struct error err = { 0 };
        struct stat status;
        size_t count;

        for (int i = 0; i < 50; i++)
                put_record(state, arena_printf(arena, "Agent/%d", i), "text");
        assert_int_equal(state_backup(state, backup, &err), 0);
        put_record(state, "Agent/later", "not in the backup");
        REQUIRE(mkdir(empty, 0755) == 0);
        assert_int_equal(state_backup(state, empty, &err), 0);
        for (int i = 0; i < 2; i++) {
                copy = open_state(i ? empty : backup, STATE_CREATE);
                assert_string_equal(state_lineage(copy), state_lineage(state));
                assert_memory_equal(state_secret_key(copy), state_secret_key(state), SHA256_SIZE);
                assert_int_equal(serial_of(copy), 50 + i);
                assert_int_equal(state_load_records(copy, arena, &records, &count, &err), 0);
                assert_int_equal(count, 50 + i);
                assert_int_equal(record_decode(&records[0], arena, &err), 0);
                assert_string_equal(value_get_text(records[0].spec, "text"), "text");
                expect_sound(copy);
                put_record(copy, "Agent/own", "the copy has a life of its own");
                state_close(copy);
        }
        REQUIRE(stat(below(backup, "data.mdb", arena), &status) == 0);
        assert_int_equal(status.st_mode & 0777, 0600);
        REQUIRE(stat(backup, &status) == 0);
        assert_int_equal(status.st_mode & 0777, 0700);
        assert_int_equal(stat(below(backup, "new", arena), &status), -1);
        state_close(state);
}

/* The remedy that every message about damage names. */
static void restored_by_putting_files_in_place(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *folder = below(*place, "state", arena), *backup = below(*place, "backup", arena);
        struct state *state = open_state(folder, STATE_CREATE);
        struct error err = { 0 };

        put_record(state, "Agent/a", "a");
        assert_int_equal(state_backup(state, backup, &err), 0);
        state_close(state);
        REQUIRE(truncate(below(folder, "data.mdb", arena), 5000) == 0);
        assert_int_equal(state_open(folder, STATE_CREATE, &state, &err), -1);
        REQUIRE(rename(below(backup, "data.mdb", arena), below(folder, "data.mdb", arena)) == 0);
        REQUIRE(rename(below(backup, "lineage", arena), below(folder, "lineage", arena)) == 0);
        state = open_state(folder, STATE_CREATE);
        assert_int_equal(serial_of(state), 1);
        put_record(state, "Agent/b", "b");
        expect_sound(state);
        state_close(state);
}

static void backup_overwrites_nothing(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *folder = below(*place, "state", arena), *taken = below(*place, "taken", arena);
        const char *file = below(taken, "file", arena);
        struct state *state = open_state(folder, STATE_CREATE);
        const char *const paths[] = { taken, file, folder, "/proc/berth-backup" };
        struct error err = { 0 };
        struct stat status;

        REQUIRE(mkdir(taken, 0700) == 0 && file_write_atomic(file, "x", 1, 0600, &err) == 0);
        for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
                assert_int_equal(state_backup(state, paths[i], &err), -1);
                expect_text(err.message, paths[i]);
        }
        REQUIRE(stat(file, &status) == 0 && status.st_size == 1);
        put_record(state, "Agent/a", "a");
        expect_sound(state);
        state_close(state);
}

/* Formats */

static int set_format(struct store_txn *txn, void *format, struct error *err) {
        return meta_put_numbers(txn, META_FORMAT, format, 1, err);
}

static void set_format_of(const char *folder, uint64_t format) {
        struct error err = { 0 };
        struct store *store;

        REQUIRE(store_open(folder, STORE_MODE_WRITE, &store, &err) == 0);
        REQUIRE(store_write(store, set_format, &format, &err) == 0);
        store_close(store);
}

static void newer_format_is_refused(void **place) {
        struct error err = { 0 };
        struct state *state;

        state_close(open_state(*place, STATE_CREATE));
        set_format_of(*place, STATE_FORMAT + 1);
        for (int mode = STATE_READ; mode <= STATE_CREATE; mode++) {
                assert_int_equal(state_open(*place, (enum state_mode)mode, &state, &err), -1);
                expect_text(err.message, "has format 2");
                expect_text(err.message, "newer Berth");
        }
        set_format_of(*place, STATE_FORMAT);
        state_close(open_state(*place, STATE_CREATE));
}

static void forgotten_format_is_refused(void **place) {
        struct error err = { 0 };
        struct state *state;

        state_close(open_state(*place, STATE_CREATE));
        set_format_of(*place, 0);
        assert_int_equal(state_open(*place, STATE_CREATE, &state, &err), -1);
        expect_text(err.message, "no longer reads");
}

static int step_one(struct store_txn *txn, struct error *err) {
        return meta_put_text(txn, META_TEXT "one", "done", err);
}

static int step_two(struct store_txn *txn, struct error *err) {
        return meta_put_text(txn, META_TEXT "two", "done", err);
}

static int step_fails(struct store_txn *txn, struct error *err) {
        return meta_put_text(txn, META_TEXT "two", "done", err) < 0 ? -1 : error_set(err, "no way forward");
}

static const char *text_of(const char *folder, const char *name, struct arena *arena) {
        struct state *state = open_state(folder, STATE_READ);
        struct error err = { 0 };
        const char *text = NULL;

        REQUIRE(state_load_meta(state, name, arena, &text, &err) == 0);
        state_close(state);
        return text;
}

static void older_formats_are_carried_forward(void **place) {
        static const struct migration good[] = { { 1, step_one }, { 2, step_two }, { 0, NULL } };
        static const struct migration bad[] = { { 1, step_one }, { 2, step_fails }, { 0, NULL } };
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *folder = below(*place, "state", arena), *backup = below(folder, "before-format-3", arena);
        struct state *state = open_state(folder, STATE_CREATE);
        struct error err = { 0 };
        struct store *store;

        put_record(state, "Agent/a", "a");
        state_close(state);
        REQUIRE(store_open(folder, STORE_MODE_WRITE, &store, &err) == 0);
        assert_int_equal(migrate(store, folder, good, 3, false, &err), -1);
        expect_text(err.message, "older format 1");
        assert_int_equal(access(backup, F_OK), -1);
        assert_int_equal(migrate(store, folder, bad, 3, true, &err), -1);
        expect_text(err.message, "no way forward");
        expect_text(err.message, "is unchanged");
        assert_int_equal(access(backup, F_OK), 0);
        store_close(store);
        /* All steps or none. */
        assert_null(text_of(folder, "one", arena));

        REQUIRE(store_open(folder, STORE_MODE_WRITE, &store, &err) == 0);
        assert_int_equal(migrate(store, folder, good, 3, true, &err), 0);
        assert_int_equal(migrate(store, folder, good, 3, true, &err), 0);
        store_close(store);
        assert_int_equal(state_open(folder, STATE_READ, &state, &err), -1);
        expect_text(err.message, "has format 3");
        set_format_of(folder, STATE_FORMAT);
        assert_string_equal(text_of(folder, "one", arena), "done");
        assert_string_equal(text_of(folder, "two", arena), "done");
        assert_null(text_of(backup, "one", arena));
        assert_null(text_of(below(folder, "before-format-3.2", arena), "one", arena));
        assert_int_equal(access(below(folder, "before-format-3.3", arena), F_OK), -1);
}

static void no_migration_under_a_running_apply(void **place) {
        static const struct migration steps[] = { { 1, step_one }, { 0, NULL } };
        struct state *state = open_state(*place, STATE_CREATE);
        struct error err = { 0 };

        assert_int_equal(state_lease_acquire(state, "apply", &err), 0);
        assert_int_equal(migrate(state->store, *place, steps, 2, true, &err), -1);
        assert_int_equal(err.kind, ERROR_LOCKED);
        state_close(state);
        state_close(open_state(*place, STATE_CREATE));
}

/* Verify */

static void verify_lists_every_problem(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct state *state = open_state(*place, STATE_CREATE);
        struct record forged = make_record(state, arena, "Agent/forged", "x");
        struct record nameless = make_record(state, arena, "nonsense", "x");
        struct binding lost = { "gone", "Agent/forged", true }, orphan = { "gone", "Agent/none", true };
        struct journal_entry future = { .run = 7, .address = "Agent/forged", .action = "create" };
        struct history_entry entry = { .run = 9, .who = "me", .command = "apply", .outcome = "done" };
        struct state_op ops[] = {
                { .type = STATE_PUT_RECORD, .record = &forged },
                { .type = STATE_PUT_RECORD, .record = &nameless },
                { .type = STATE_PUT_BINDING, .binding = &lost },
                { .type = STATE_PUT_BINDING, .binding = &orphan },
                { .type = STATE_JOURNAL_BEGIN, .journal = &future },
                { .type = STATE_PUT_HISTORY, .history = &entry },
        };
        static const char *const expected[] = {
                "recorded \"Agent/forged\": its fingerprint",  "recorded \"nonsense\": not an address",
                "bindings \"Agent/none\": there is no record", "journal \"Agent/forged\": run 7",
                "history \"00000000000000000009\": run 9",
        };
        const char **problems = NULL;
        size_t count;

        forged.fingerprint[3] ^= 1;
        expect_sound(state);
        commit_ops(state, ops, sizeof(ops) / sizeof(ops[0]));
        count = verify_state(state, arena, &problems);
        assert_int_equal(count, sizeof(expected) / sizeof(expected[0]));
        for (size_t i = 0; i < count; i++)
                expect_text(problems[i], expected[i]);
        state_close(state);
}

#define STATE_TEST(test) cmocka_unit_test_setup_teardown(test, make_place, remove_place)

int main(void) {
        const struct CMUnitTest tests[] = {
                STATE_TEST(backup_is_a_state),
                STATE_TEST(restored_by_putting_files_in_place),
                STATE_TEST(backup_overwrites_nothing),
                STATE_TEST(newer_format_is_refused),
                STATE_TEST(forgotten_format_is_refused),
                STATE_TEST(older_formats_are_carried_forward),
                STATE_TEST(no_migration_under_a_running_apply),
                STATE_TEST(verify_lists_every_problem),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
