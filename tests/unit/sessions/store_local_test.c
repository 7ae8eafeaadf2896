/* SPDX-License-Identifier: Apache-2.0 */
/* The records on this machine: what every store must do, one engine at a time, damage. */
#include "sessions/store_contract.h"

#include "folder.h"

static int setup(void **state) {
        struct fixture *fixture = calloc(1, sizeof(*fixture));
        struct error err;

        folder_make_temporary(fixture->folder);
        fixture->arena = arena_new();
        if (session_store_open(fixture->folder, &fixture->store, &err) < 0)
                return -1;
        *state = fixture;
        return 0;
}

static int teardown(void **state) {
        struct fixture *fixture = *state;

        session_store_close(fixture->store);
        folder_remove(fixture->folder);
        arena_free(fixture->arena);
        free(fixture);
        return 0;
}

static void stays_and_is_one_engines(void **state) {
        struct fixture *fixture = *state;
        struct session_store *second;
        struct error err = { 0 };

        assert_int_equal(put(fixture, "a", "stays", SESSION_EXPECT_ABSENT, 0), 1);
        assert_int_equal(session_store_open(fixture->folder, &second, &err), -1);
        assert_int_equal(err.kind, ERROR_LOCKED);
        session_store_close(fixture->store);
        assert_int_equal(session_store_open(fixture->folder, &fixture->store, &err), 0);
        assert_string_equal(value_of(fixture, "a", NULL), "stays");
}

/* A file that is not what was written is said to be damaged; nothing starts over. */
static void damage_is_said(void **state) {
        struct fixture *fixture = *state;
        char path[sizeof(fixture->folder) + 16];
        struct error err = { 0 };
        FILE *file;

        assert_int_equal(put(fixture, "a", "x", SESSION_EXPECT_ABSENT, 0), 1);
        session_store_close(fixture->store);
        fixture->store = NULL;
        snprintf(path, sizeof(path), "%s/data.mdb", fixture->folder);
        file = fopen(path, "r+");
        assert_non_null(file);
        for (int i = 0; i < 8192; i++)
                fputc(0x5a, file);
        fclose(file);
        assert_int_equal(session_store_open(fixture->folder, &fixture->store, &err), -1);
        assert_non_null(strstr(err.message, "sessions' records"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                STORE_CONTRACT(setup, teardown),
                cmocka_unit_test_setup_teardown(stays_and_is_one_engines, setup, teardown),
                cmocka_unit_test_setup_teardown(damage_is_said, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
