/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/sandbox_locks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* As Linux 6.18 shows them in a PID namespace of one program with a child, on a machine with virtual machines and NFS. */
static const char shown[] = "1: POSIX  ADVISORY  WRITE 2 00:5a:3 0 EOF\n"
                            "2: FLOCK  ADVISORY  READ  3 00:5a:4 0 EOF\n"
                            "2: -> FLOCK  ADVISORY  WRITE 2 00:5a:4 0 EOF\n"
                            "2:  -> FLOCK  ADVISORY  WRITE 3 00:5a:4 0 EOF\n"
                            "3: OFDLCK ADVISORY  READ  -1 fe:00:1183 100 101\n"
                            "3: -> OFDLCK ADVISORY  WRITE -1 fe:00:1183 100 101\n"
                            "4: POSIX  ADVISORY  WRITE -7 00:31:9 0 EOF\n"
                            "5: LEASE  ACTIVE    READ  2 00:5a:3 0 EOF\n"
                            "6: POSIX  ADVISORY  WRITE 2 <none>:0 0 EOF\n";

static unsigned count(const char *text, size_t length, unsigned most, long *ret_read) {
        FILE *file = fmemopen((void *)(uintptr_t)text, length, "r");
        unsigned result;

        assert_non_null(file);
        (void)fseek(file, 0, SEEK_END); /* where the last look ended */
        result = sandbox_locks_count(file, most);
        *ret_read = ftell(file);
        fclose(file);
        return result;
}

static void test_counts_what_has_an_owner_here(void **state) {
        long at;

        (void)state;
        assert_int_equal(count(shown, strlen(shown), 100, &at), 6);
        assert_int_equal(at, strlen(shown));
        assert_int_equal(count("\n", 1, 100, &at), 0);
        assert_int_equal(count("no line of it\n", 14, 100, &at), 0);
}

static void test_stops_at_the_limit(void **state) {
        long at;

        (void)state;
        assert_int_equal(count(shown, strlen(shown), 1, &at), 2);
        assert_true(at < 100);
}

/* Others' locks must not cost more than one's own may. */
static void test_stops_where_others_have_many(void **state) {
        static const char line[] = "3: OFDLCK ADVISORY  READ  -1 fe:00:1183 100 101\n";
        char text[16 * (sizeof(line) - 1)];
        long at;

        (void)state;
        for (size_t i = 0; i < 16; i++)
                memcpy(text + i * (sizeof(line) - 1), line, sizeof(line) - 1);
        assert_int_equal(count(text, sizeof(text), 2, &at), 0);
        assert_int_equal(at, 8 * (sizeof(line) - 1));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_counts_what_has_an_owner_here),
                cmocka_unit_test(test_stops_at_the_limit),
                cmocka_unit_test(test_stops_where_others_have_many),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
