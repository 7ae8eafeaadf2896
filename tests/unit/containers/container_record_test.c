/* SPDX-License-Identifier: Apache-2.0 */
#include "containers/container_record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct container_record make(const char *detail) {
        struct container_record record = { .owner = strdup("company/alice"),
                                           .agent = strdup("analyst"),
                                           .environment = strdup("data"),
                                           .arguments = json_pack("[s]", "true"),
                                           .ports = json_pack("[{s:s, s:i, s:i}]", "name", "db", "port", 5432,
                                                              "hostPort", 40000),
                                           .status = CONTAINER_EXITED,
                                           .reason = CONTAINER_KILLED,
                                           .detail = detail ? strdup(detail) : NULL };

        container_new_id(record.id);
        return record;
}

/* A record that was written is read again; `found` is the detail then. */
static void check_detail(const char *detail, const char *found) {
        struct container_record record = make(detail), again;
        char *text = container_record_to_text(&record);
        const struct session_item item = { .key = "key", .value = text, .version = 1 };
        struct error err;

        assert_int_equal(container_record_from_text(&item, &again, &err), 0);
        assert_string_equal(again.id, record.id);
        assert_string_equal(again.owner, record.owner);
        assert_int_equal(again.status, CONTAINER_EXITED);
        assert_int_equal(again.reason, CONTAINER_KILLED);
        assert_true(json_equal(again.ports, record.ports));
        if (found)
                assert_string_equal(again.detail, found);
        else
                assert_null(again.detail);
        container_record_dispose(&again);
        container_record_dispose(&record);
        free(text);
}

static void test_a_detail_of_any_bytes(void **state) {
        (void)state;
        check_detail(NULL, NULL);
        check_detail("it was ended by signal 9", "it was ended by signal 9");
        check_detail("\xc3\xa9\n", "\xc3\xa9\n");
        /* A message of 2047 bytes is cut wherever it is too long. */
        check_detail("caf\xc3", "caf\\xC3");
        check_detail("\xff\x80", "\\xFF\\x80");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_detail_of_any_bytes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
