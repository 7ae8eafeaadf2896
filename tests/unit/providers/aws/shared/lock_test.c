/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/shared/lock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOW 1000000000000

static bool nobody_is_gone(const char *process) {
        (void)process;
        return false;
}

static bool he_is_gone(const char *process) {
        return strcmp(process, "boot/pid/2") == 0;
}

static void locks_are_stale_or_held(void **state) {
        static const struct {
                const char *stack, *process;
                int64_t taken_ms;
                bool (*is_gone)(const char *process);
                bool stale;
        } cases[] = {
                { "other", "boot/pid/2", NOW, nobody_is_gone, false },
                { "other", "boot/pid/2", NOW - LOCK_LEASE_MS, nobody_is_gone, false },
                { "other", "boot/pid/2", NOW - LOCK_LEASE_MS - 1, nobody_is_gone, true },
                { "other", "boot/pid/2", NOW, he_is_gone, true },
                { "other", "boot/pid/3", NOW, he_is_gone, false },
                /* Our own, whose taking was never answered. */
                { "mine", "boot/pid/1", NOW, nobody_is_gone, true },
                /* This process at work for another stack. */
                { "other", "boot/pid/1", NOW, nobody_is_gone, false },
                { "mine", "boot/pid/2", NOW, nobody_is_gone, false },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                const struct lock_viewer viewer = { "mine", "boot/pid/1", NOW, cases[i].is_gone };
                char *body = lock_body(cases[i].stack, cases[i].process, "somebody", cases[i].taken_ms);

                if (lock_body_is_stale(body, strlen(body), &viewer) != cases[i].stale)
                        fail_msg("case %zu: %s", i, body);
                free(body);
        }
}

static void holders_are_called_anything(void **state) {
        char *body = lock_body("mine", "boot/pid/1", "process 1 on caf\xe9", NOW);

        (void)state;
        assert_non_null(strstr(body, "\"holder\":\"process 1 on caf\\\\xE9\""));
        free(body);
}

/* What does not say until when it holds is held until it has been seen for long enough. */
static void unreadable_locks_are_held(void **state) {
        static const char *const bodies[] = { "",
                                              "x",
                                              "{}",
                                              "[]",
                                              "{\"expiresAtMs\":\"1\"}",
                                              "{\"stack\":\"mine\",\"process\":\"boot/pid/1\"}" };
        const struct lock_viewer viewer = { "mine", "boot/pid/1", NOW, he_is_gone };

        (void)state;
        for (size_t i = 0; i < sizeof(bodies) / sizeof(*bodies); i++)
                assert_false(lock_body_is_stale(bodies[i], strlen(bodies[i]), &viewer));
}

static void only_processes_of_this_place_can_be_gone(void **state) {
        char own[256], dead[300];
        pid_t child = fork();

        (void)state;
        if (child == 0)
                _exit(0);
        assert_true(child > 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        lock_process(own, sizeof(own));
        assert_false(lock_process_is_gone(own));
        snprintf(dead, sizeof(dead), "%.*s/%ld", (int)(strrchr(own, '/') - own), own, (long)child);
        assert_true(lock_process_is_gone(dead));
        dead[0] = dead[0] == '0' ? '1' : '0';
        assert_false(lock_process_is_gone(dead));
        assert_false(lock_process_is_gone(""));
        assert_false(lock_process_is_gone("///"));
        snprintf(dead, sizeof(dead), "%sx", own);
        assert_false(lock_process_is_gone(dead));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(locks_are_stale_or_held),
                cmocka_unit_test(holders_are_called_anything),
                cmocka_unit_test(unreadable_locks_are_held),
                cmocka_unit_test(only_processes_of_this_place_can_be_gone),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
