/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/filter/seccomp_build.h"

#include "base/files.h"
#include "providers/local/sandbox/filter/seccomp_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static bool in(const char *const *list, const char *name) {
        for (; *list; list++) {
                if (strcmp(*list, name) == 0)
                        return true;
        }
        return false;
}

static void test_is_a_program(void **state) {
        int file DESCRIPTOR_CLEANUP = -1;
        struct stat status;
        struct error err;

        (void)state;
        assert_int_equal(seccomp_build(&file, &err), 0);
        assert_int_equal(fstat(file, &status), 0);
        /* Instructions of 8 bytes, at most what the kernel takes. */
        assert_int_equal(status.st_size % 8, 0);
        assert_in_range(status.st_size / 8, 100, 4096);
}

/* A call in two tables would be decided by their order. */
static void test_tables_are_disjoint(void **state) {
        (void)state;
        for (const char *const *name = seccomp_allowed; *name; name++) {
                assert_false(in(seccomp_denied, *name));
                assert_false(in(name + 1, *name));
                for (const struct seccomp_condition *row = seccomp_conditions; row->name; row++)
                        assert_string_not_equal(row->name, *name);
        }
        for (const char *const *name = seccomp_denied; *name; name++)
                assert_false(in(name + 1, *name));
}

static void test_never_allowed(void **state) {
        static const char *const names[] = { "mount",      "umount2",        "unshare",     "setns",
                                             "clone",      "clone3",         "ptrace",      "bpf",
                                             "keyctl",     "add_key",        "ioctl",       "prctl",
                                             "socket",     "chroot",         "reboot",      "open_tree",
                                             "fsopen",     "io_uring_setup", "userfaultfd", "perf_event_open",
                                             "kexec_load", "init_module",    "pivot_root",  "seccomp",
                                             "syncfs",     "fcntl",          "setsockopt",  "mmap",
                                             "sendto" };

        (void)state;
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                assert_false(in(seccomp_allowed, names[i]));
        for (const struct seccomp_condition *row = seccomp_conditions; row->name; row++) {
                if (strcmp(row->name, "ioctl") == 0) {
                        assert_int_not_equal(row->tests[0].value, 0x5412);
                        assert_int_not_equal(row->tests[0].value, 0x541c);
                }
        }
}

static bool excludes(const struct seccomp_test *a, const struct seccomp_test *b) {
        uint64_t both = a->mask & b->mask;

        return a->argument == b->argument && (a->value & both) != (b->value & both);
}

/* Two rows that hold for the same arguments would be decided by their order; a value outside of its mask holds for none. */
static void test_rows_exclude_each_other(void **state) {
        (void)state;
        for (const struct seccomp_condition *row = seccomp_conditions; row->name; row++) {
                assert_true(row->tests[0].mask != 0);
                for (size_t i = 0; i < SECCOMP_TESTS_MAX; i++)
                        assert_int_equal(row->tests[i].value & ~row->tests[i].mask, 0);
                for (const struct seccomp_condition *other = row + 1; other->name; other++) {
                        bool apart = strcmp(row->name, other->name) != 0;

                        for (size_t i = 0; i < SECCOMP_TESTS_MAX; i++) {
                                for (size_t j = 0; j < SECCOMP_TESTS_MAX; j++)
                                        apart = apart || excludes(&row->tests[i], &other->tests[j]);
                        }
                        if (!apart)
                                fail_msg("two rows of %s hold for the same arguments", row->name);
                }
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_is_a_program),
                cmocka_unit_test(test_tables_are_disjoint),
                cmocka_unit_test(test_rows_exclude_each_other),
                cmocka_unit_test(test_never_allowed),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
