/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/seccomp_filter.h"

#include "base/files.h"
#include "providers/local/sandbox/filter/seccomp_build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define PROGRAM_MAX (4096 * 8)

static size_t read_all(int file, unsigned char *bytes) {
        size_t length = 0;
        ssize_t count;

        while ((count = read(file, bytes + length, PROGRAM_MAX - length)) > 0)
                length += (size_t)count;
        assert_int_equal(count, 0);
        return length;
}

/* What sandboxes get is byte for byte what libseccomp makes of the table, which the build worked out beforehand. */
static void test_is_the_tables_filter(void **state) {
        static unsigned char shipped[PROGRAM_MAX], made[PROGRAM_MAX];
        int shipped_file DESCRIPTOR_CLEANUP = -1, made_file DESCRIPTOR_CLEANUP = -1;
        struct error err;
        size_t length;

        (void)state;
        assert_int_equal(seccomp_filter_open(&shipped_file, &err), 0);
        assert_int_equal(seccomp_build(&made_file, &err), 0);
        length = read_all(made_file, made);
        assert_in_range(length, 100 * 8, PROGRAM_MAX - 1);
        assert_int_equal(read_all(shipped_file, shipped), length);
        assert_memory_equal(shipped, made, length);
        assert_int_equal(seccomp_program_size, length);
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_is_the_tables_filter) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
