/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/exec_slots.h"

#include "base/files.h"

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
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

/* --- the line --- */

static int count_files(const char *folder, const char *beginning) {
        DIR *stream = opendir(folder);
        const struct dirent *entry;
        int count = 0;

        assert_non_null(stream);
        while ((entry = readdir(stream)))
                count += strncmp(entry->d_name, beginning, strlen(beginning)) == 0;
        closedir(stream);
        return count;
}

static void until_files(const char *folder, const char *beginning, int count) {
        for (int tries = 0; tries < 2000 && count_files(folder, beginning) != count; tries++)
                usleep(5000);
        assert_int_equal(count_files(folder, beginning), count);
}

/*
 * A process that waits for a slot, says its letter when it has one, and gives it up. Returns once
 * it waits.
 */
static pid_t wait_in_line(const char *folder, int waiting, const struct exec_use *use,
                          const struct exec_use *limits, char letter, int to) {
        pid_t pid = fork();

        if (pid == 0) {
                struct exec_slot slot = EXEC_SLOT_NONE;
                struct error err = { 0 };

                if (exec_slot_take(folder, "Agent/a", use, limits, false, &clock_system, &slot, &err) < 0 ||
                    write(to, &letter, 1) != 1)
                        _exit(1);
                exec_slot_release(&slot);
                _exit(0);
        }
        until_files(folder, "wait-", waiting);
        return pid;
}

static void test_first_come_first_served(void **state) {
        struct exec_use limits = { 1, -1, -1 };
        struct exec_slot slot EXEC_SLOT_CLEANUP = EXEC_SLOT_NONE;
        char said[9] = "";
        struct error err = { 0 };
        int channel[2], status;

        assert_int_equal(pipe(channel), 0);
        assert_int_equal(exec_slot_take(*state, "Agent/a", &one, &limits, false, &clock_system, &slot, &err),
                         0);
        for (int i = 0; i < 8; i++)
                wait_in_line(*state, i + 1, &one, &limits, (char)('a' + i), channel[1]);
        exec_slot_release(&slot);
        for (int i = 0; i < 8; i++) {
                assert_true(wait(&status) > 0);
                assert_int_equal(status, 0);
        }
        assert_int_equal(read(channel[0], said, 8), 8);
        assert_string_equal(said, "abcdefgh");
        assert_int_equal(count_files(*state, "wait-") + count_files(*state, "run-"), 0);
        close(channel[0]);
        close(channel[1]);
}

/* A process that dies or is interrupted in the line holds up no other. */
static void test_dead_in_line(void **state) {
        struct exec_use limits = { 1, -1, -1 };
        struct exec_slot slot EXEC_SLOT_CLEANUP = EXEC_SLOT_NONE;
        struct error err = { 0 };
        int channel[2], status;
        pid_t dead, next;
        char said;

        assert_int_equal(pipe(channel), 0);
        assert_int_equal(exec_slot_take(*state, "Agent/a", &one, &limits, false, &clock_system, &slot, &err),
                         0);
        dead = wait_in_line(*state, 1, &one, &limits, 'd', channel[1]);
        next = wait_in_line(*state, 2, &one, &limits, 'n', channel[1]);
        kill(dead, SIGKILL);
        assert_int_equal(waitpid(dead, &status, 0), dead);
        exec_slot_release(&slot);
        assert_int_equal(waitpid(next, &status, 0), next);
        assert_int_equal(status, 0);
        assert_int_equal(read(channel[0], &said, 1), 1);
        assert_int_equal(said, 'n');
        assert_int_equal(count_files(*state, "wait-"), 0);
        close(channel[0]);
        close(channel[1]);
}

/* A large one that waits is not overtaken by a small one that would fit; who does not wait is turned away. */
static void test_no_overtaking(void **state) {
        struct exec_use limits = { -1, 3000, -1 }, large = { 1, 3000, 1 };
        struct exec_slot slot EXEC_SLOT_CLEANUP = EXEC_SLOT_NONE, small EXEC_SLOT_CLEANUP = EXEC_SLOT_NONE;
        struct error err = { 0 };
        int channel[2], status;
        pid_t waiting;

        assert_int_equal(pipe(channel), 0);
        assert_int_equal(exec_slot_take(*state, "Agent/a", &one, &limits, false, &clock_system, &slot, &err),
                         0);
        waiting = wait_in_line(*state, 1, &large, &limits, 'l', channel[1]);
        assert_int_equal(exec_slot_take(*state, "Agent/a", &one, &limits, true, &clock_system, &small, &err),
                         -1);
        assert_int_equal(err.kind, ERROR_REFUSED);
        assert_string_equal(err.message, "others wait already for Agent/a's limits");
        exec_slot_release(&slot);
        assert_int_equal(waitpid(waiting, &status, 0), waiting);
        assert_int_equal(status, 0);
        assert_int_equal(exec_slot_take(*state, "Agent/a", &one, &limits, true, &clock_system, &small, &err),
                         0);
        close(channel[0]);
        close(channel[1]);
}

static int sleep_interrupted(const struct clock *clock, int64_t until_ms) {
        (void)clock;
        (void)until_ms;
        return -1;
}

static void test_interrupted_in_line(void **state) {
        struct exec_use limits = { 1, -1, -1 };
        struct clock clock = clock_system;
        struct exec_slot slot EXEC_SLOT_CLEANUP = EXEC_SLOT_NONE, more EXEC_SLOT_CLEANUP = EXEC_SLOT_NONE;
        struct error err = { 0 };

        clock.sleep_until = sleep_interrupted;
        assert_int_equal(exec_slot_take(*state, "Agent/a", &one, &limits, false, &clock, &slot, &err), 0);
        assert_int_equal(exec_slot_take(*state, "Agent/a", &one, &limits, false, &clock, &more, &err), -1);
        assert_int_equal(err.kind, ERROR_INTERRUPTED);
        assert_non_null(strstr(err.message, "limit of containers"));
        assert_int_equal(count_files(*state, "wait-"), 0);
        assert_int_equal(more.file, -1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_limits, make_folder, remove_folder),
                cmocka_unit_test_setup_teardown(test_none_at_all, make_folder, remove_folder),
                cmocka_unit_test_setup_teardown(test_dead_holder, make_folder, remove_folder),
                cmocka_unit_test_setup_teardown(test_first_come_first_served, make_folder, remove_folder),
                cmocka_unit_test_setup_teardown(test_dead_in_line, make_folder, remove_folder),
                cmocka_unit_test_setup_teardown(test_no_overtaking, make_folder, remove_folder),
                cmocka_unit_test_setup_teardown(test_interrupted_in_line, make_folder, remove_folder),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
