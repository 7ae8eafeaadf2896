/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/exec_slots.h"

#include "base/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const struct exec_use one = { 1, 1000, 500 };

static int make_folder(void **state) {
        char *folder = strdup("/tmp/berth-slots-XXXXXX");

        assert_non_null(mkdtemp(folder));
        *state = folder;
        return 0;
}

static int remove_folder(void **state) {
        char command[128];

        snprintf(command, sizeof(command), "rm -r %s", (char *)*state);
        free(*state);
        return system(command);
}

static void test_limits(void **state) {
        static const struct {
                struct exec_use limits;
                const char *what; /* of the second, NULL: it fits */
        } cases[] = {
                { { 1, -1, -1 }, "containers" }, { { 2, -1, -1 }, NULL },    { { -1, 1999, -1 }, "memory" },
                { { -1, 2000, -1 }, NULL },      { { -1, -1, 999 }, "CPU" }, { { -1, -1, 1000 }, NULL },
                { { -1, -1, -1 }, NULL },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct exec_slot first EXEC_SLOT_CLEANUP = EXEC_SLOT_NONE,
                                       second EXEC_SLOT_CLEANUP = EXEC_SLOT_NONE;
                struct error err = { 0 };
                int result;

                assert_int_equal(exec_slot_take(*state, "Agent/a", &one, &cases[i].limits, true,
                                                &clock_system, &first, &err),
                                 0);
                result = exec_slot_take(*state, "Agent/a", &one, &cases[i].limits, true, &clock_system,
                                        &second, &err);
                assert_int_equal(result, cases[i].what ? -1 : 0);
                if (cases[i].what) {
                        assert_int_equal(err.kind, ERROR_REFUSED);
                        assert_non_null(strstr(err.message, cases[i].what));
                }
        }
}

static void test_none_at_all(void **state) {
        struct exec_slot slot EXEC_SLOT_CLEANUP = EXEC_SLOT_NONE;
        struct exec_use limits = { 0, -1, -1 };
        struct error err = { 0 };

        assert_int_equal(
                exec_slot_take(*state, "Environment/e", &one, &limits, true, &clock_system, &slot, &err), -1);
        assert_int_equal(err.kind, ERROR_REFUSED);
}

/* A holder that dies, here without any word, frees its slot. */
static void test_dead_holder(void **state) {
        struct exec_use limits = { 1, -1, -1 };
        struct error err = { 0 };
        int ready[2], hold[2], status;
        char byte;
        pid_t pid;

        assert_int_equal(pipe(ready), 0);
        assert_int_equal(pipe(hold), 0);
        pid = fork();
        if (pid == 0) {
                struct exec_slot slot = EXEC_SLOT_NONE;

                close(hold[1]);
                if (exec_slot_take(*state, "Agent/a", &one, &limits, true, &clock_system, &slot, &err) < 0 ||
                    write(ready[1], "r", 1) != 1 || read(hold[0], &byte, 1) < 0)
                        _exit(1);
                _exit(0);
        }
        assert_int_equal(read(ready[0], &byte, 1), 1);
        {
                struct exec_slot slot EXEC_SLOT_CLEANUP = EXEC_SLOT_NONE;

                assert_int_equal(
                        exec_slot_take(*state, "Agent/a", &one, &limits, true, &clock_system, &slot, &err),
                        -1);
                close(hold[1]);
                assert_int_equal(waitpid(pid, &status, 0), pid);
                assert_int_equal(status, 0);
                assert_int_equal(
                        exec_slot_take(*state, "Agent/a", &one, &limits, true, &clock_system, &slot, &err),
                        0);
        }
        close(ready[0]);
        close(ready[1]);
        close(hold[0]);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_limits, make_folder, remove_folder),
                cmocka_unit_test_setup_teardown(test_none_at_all, make_folder, remove_folder),
                cmocka_unit_test_setup_teardown(test_dead_holder, make_folder, remove_folder),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
