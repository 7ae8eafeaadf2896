/* SPDX-License-Identifier: Apache-2.0 */
/* Held against what the kernel says in other ways. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/self.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static double now(clockid_t id) {
        struct timespec time;

        clock_gettime(id, &time);
        return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void descriptors(void **state) {
        struct self_facts before, after;
        struct rlimit limit;
        int opened[10];

        (void)state;
        self_measure(&before);
        for (size_t i = 0; i < 10; i++)
                assert_true((opened[i] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0);
        self_measure(&after);
        assert_int_equal((int)after.open_fds, (int)before.open_fds + 10);
        for (size_t i = 0; i < 10; i++)
                close(opened[i]);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
        assert_int_equal((int)after.max_fds, (int)limit.rlim_cur);
        /* Where none is left to look with, the others are still found out, or said not to be. */
        limit.rlim_cur = 0;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        self_measure(&after);
        assert_true(after.open_fds < 0 && after.resident_bytes < 0 && after.cpu_seconds < 0);
        assert_int_equal((int)after.max_fds, 0);
        limit.rlim_cur = (rlim_t)before.max_fds;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void memory(void **state) {
        const size_t size = (size_t)64 << 20;
        struct self_facts before, after;
        char *touched;

        (void)state;
        self_measure(&before);
        assert_non_null(touched = malloc(size));
        memset(touched, 1, size);
        self_measure(&after);
        assert_true(touched[size / 2] == 1);
        free(touched);
        assert_true(before.resident_bytes > 0);
        assert_true(after.resident_bytes - before.resident_bytes > 0.9 * (double)size);
}

static void times(void **state) {
        struct self_facts facts;
        double busy_until;

        (void)state;
        busy_until = now(CLOCK_PROCESS_CPUTIME_ID) + 0.1;
        while (now(CLOCK_PROCESS_CPUTIME_ID) < busy_until)
                ;
        self_measure(&facts);
        /* Counted in ticks, of the user and of the system: each may lack one. */
        assert_true(facts.cpu_seconds > 0.05);
        assert_true(facts.cpu_seconds <= now(CLOCK_PROCESS_CPUTIME_ID) + 0.05);
        /* It started before now, and not before the machine. */
        assert_true(facts.start_seconds <= now(CLOCK_REALTIME));
        assert_true(facts.start_seconds >= now(CLOCK_REALTIME) - now(CLOCK_BOOTTIME) - 1);
}

/* The name stands in the midst of the line that is read, and is the user's to choose. */
static void names_that_look_like_fields(void **state) {
        static const char *const names[] = { "a b c d", "x) R 1 2 3 4", "))))((((", " ", "\n\n" };
        struct self_facts plain, facts;

        (void)state;
        self_measure(&plain);
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                assert_int_equal(prctl(PR_SET_NAME, names[i]), 0);
                self_measure(&facts);
                assert_true(facts.resident_bytes > 0);
                assert_true(facts.start_seconds - plain.start_seconds < 1 &&
                            plain.start_seconds - facts.start_seconds < 1);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(descriptors),
                cmocka_unit_test(memory),
                cmocka_unit_test(times),
                cmocka_unit_test(names_that_look_like_fields),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
