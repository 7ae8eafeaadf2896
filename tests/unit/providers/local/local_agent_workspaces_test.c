/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/files.h"
#include "providers/local/local_agent_workspaces.h"

#include "providers/local/support.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define MB ((uint64_t)1 << 20)

static const struct local_agent_workspace alice = { .agent = "analyst",
                                                    .owner = "company/alice",
                                                    .environment = "data",
                                                    .created_ms = 5,
                                                    .bytes = 512 * MB };
static const struct local_agent_workspace bob = { .agent = "analyst",
                                                  .owner = "company/bob \xc3\xa9\n",
                                                  .environment = "web" };

/* It is another file system. */
static const char *odd;

int __real_beneath_open(int folder, const char *path, int flags);
int __wrap_beneath_open(int folder, const char *path, int flags);

int __wrap_beneath_open(int folder, const char *path, int flags) {
        if (odd && strcmp(path, odd) == 0) {
                errno = EXDEV;
                return -1;
        }
        return __real_beneath_open(folder, path, flags);
}

static void write_row(const struct place *place, const struct local_agent_workspace *row) {
        struct error err;

        assert_int_equal(local_agent_write(place->folder, "lab", row, &err), 0);
}

static size_t list(struct place *place, const char *stack, struct local_agent_workspace **ret) {
        struct error err;
        size_t count;

        assert_int_equal(local_agents_list(place->folder, stack, place->arena, ret, &count, &err), 0);
        return count;
}

static char *index_of(struct place *place, const struct local_agent_workspace *row) {
        return path_join(local_agent_folder(place->folder, "lab", row->agent,
                                            local_hash(&row->owner, 1, place->arena), place->arena),
                         "session.json");
}

static void put(const char *path, const char *text) {
        struct error err;

        assert_int_equal(file_write_atomic(path, text, strlen(text), 0600, &err), 0);
}

static void test_what_was_written_is_listed(void **state) {
        struct place *place = *state;
        struct local_agent_workspace *rows;

        assert_int_equal(list(place, "lab", &rows), 0);
        write_row(place, &alice);
        write_row(place, &bob);
        write_row(place, &alice);
        assert_int_equal(list(place, "lab", &rows), 2);
        for (size_t i = 0; i < 2; i++) {
                const struct local_agent_workspace *wanted =
                        strcmp(rows[i].owner, alice.owner) == 0 ? &alice : &bob;

                assert_string_equal(rows[i].agent, wanted->agent);
                assert_string_equal(rows[i].owner, wanted->owner);
                assert_string_equal(rows[i].environment, wanted->environment);
                assert_string_equal(rows[i].hash, local_hash(&wanted->owner, 1, place->arena));
                assert_true(rows[i].created_ms == wanted->created_ms && rows[i].bytes == wanted->bytes);
        }
        assert_true(strcmp(rows[0].hash, rows[1].hash) < 0);
        assert_int_equal(list(place, "other", &rows), 0);
}

/* Whatever else is there: a workspace may be, but the index does not say whose. */
static void test_what_is_not_true_is_not_believed(void **state) {
        struct place *place = *state;
        static const char *const texts[] = {
                "",
                "{",
                "[]",
                "{\"formatVersion\":\"1\",\"stack\":\"lab\",\"environment\":\"data\",\"owner\":\"company/eve\",\"agent\":\"analyst\"}",
                "{\"formatVersion\":\"1\",\"stack\":\"lab\",\"environment\":\"data\",\"owner\":\"company/alice\",\"agent\":\"other\"}",
                "{\"formatVersion\":\"1\",\"stack\":\"else\",\"environment\":\"data\",\"owner\":\"company/alice\",\"agent\":\"analyst\"}",
                "{\"formatVersion\":\"2\",\"stack\":\"lab\",\"environment\":\"data\",\"owner\":\"company/alice\",\"agent\":\"analyst\"}",
                "{\"formatVersion\":\"1\",\"stack\":\"lab\",\"owner\":\"company/alice\",\"agent\":\"analyst\"}",
        };
        struct local_agent_workspace *rows, row;
        struct error err = { 0 };
        char *path TEXT_CLEANUP = index_of(place, &alice);

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                write_row(place, &alice);
                put(path, texts[i]);
                assert_int_equal(list(place, "lab", &rows), 1);
                assert_null(rows[0].owner);
                assert_int_equal(local_agent_read(place->folder, "lab", "analyst", alice.owner, place->arena,
                                                  &row, &err),
                                 -1);
                assert_int_equal(err.kind, ERROR_NOT_FOUND);
        }
        /* What leads elsewhere is not read either. */
        write_row(place, &bob);
        assert_int_equal(unlink(path), 0);
        {
                char *of_bob TEXT_CLEANUP = index_of(place, &bob);

                assert_int_equal(symlink(of_bob, path), 0);
        }
        assert_int_equal(list(place, "lab", &rows), 2);
        assert_true((rows[0].owner == NULL) != (rows[1].owner == NULL));
        write_row(place, &alice);
        assert_int_equal(list(place, "lab", &rows), 2);
        assert_true(rows[0].owner && rows[1].owner);
}

static void test_one_that_is_gone_is_forgotten(void **state) {
        struct place *place = *state;
        const char *hash = local_hash(&alice.owner, 1, place->arena);
        const char *folder = local_agent_folder(place->folder, "lab", "analyst",
                                                local_hash(&alice.owner, 1, place->arena), place->arena);
        char *image TEXT_CLEANUP = path_join(folder, "disk");
        struct local_agent_workspace *rows;
        struct error err;

        write_row(place, &alice);
        put(image, "an image");
        assert_int_equal(local_agent_forget(place->folder, "lab", "analyst", hash, &err), 0);
        assert_int_equal(list(place, "lab", &rows),
                         1); /* what it does not know stays, and the folder with it */
        assert_null(rows[0].owner);
        assert_int_equal(unlink(image), 0);
        for (int i = 0; i < 2; i++)
                assert_int_equal(local_agent_forget(place->folder, "lab", "analyst", hash, &err), 0);
        assert_int_equal(list(place, "lab", &rows), 0);
}

static void test_an_odd_folder_hides_no_other(void **state) {
        static const struct local_agent_workspace other = { .agent = "other",
                                                            .owner = "company/alice",
                                                            .environment = "web" };
        struct place *place = *state;
        struct local_agent_workspace *rows;

        write_row(place, &alice);
        write_row(place, &other);
        odd = "analyst";
        assert_int_equal(list(place, "lab", &rows), 1);
        odd = NULL;
        assert_string_equal(rows[0].agent, "other");
        assert_int_equal(list(place, "lab", &rows), 2);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, place_setup, place_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_what_was_written_is_listed),
                TEST(test_what_is_not_true_is_not_believed),
                TEST(test_one_that_is_gone_is_forgotten),
                TEST(test_an_odd_folder_hides_no_other),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
