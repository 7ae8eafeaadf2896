/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole runs. The worker is this very program, started again: main() takes its verb. Skipped where
 * the machine cannot.
 */
#include "providers/local/sandbox/sandbox.h"

#include "base/files.h"
#include "providers/local/sandbox/sandbox_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include "providers/local/support.h"
#include <cmocka.h>

#define MB (UINT64_C(1024) * 1024)
#define LONG_MS 60000

static const char *const shell[] = { "sh", "/run/berth/main", NULL };

static struct sandbox_spec spec_of(const struct sandbox_file *code, int64_t deadline_ms) {
        return (struct sandbox_spec){
                .argv = shell,
                .files = code,
                .file_count = 1,
                .limits = { 256 * MB, 1000, 64, 16 * MB, 1000, deadline_ms },
                .accept_degraded = true,
                .input = -1,
        };
}

#define CODE(text) \
        { "main", (text), sizeof(text) - 1 }

static void need_sandboxes(struct place *place) {
        struct sandbox_file code = CODE(":");
        struct sandbox_spec spec = spec_of(&code, LONG_MS);
        struct sandbox_sinks sinks = { { -1, NULL }, { -1, NULL } };
        struct sandbox_result result;
        struct error err = { 0 };

        if (sandbox_run(&spec, &sinks, place->arena, &result, &err) == 0)
                return;
        print_message("no sandbox can be made here: %s\n", err.message);
        skip();
}

static enum sandbox_event wait_for_event(struct sandbox *sandbox) {
        enum sandbox_event event;
        struct error err = { 0 };

        do {
                struct pollfd polled = { .fd = sandbox_descriptor(sandbox), .events = POLLIN };

                assert_true(poll(&polled, 1, LONG_MS) >= 0);
                if (sandbox_next(sandbox, &event, &err) < 0)
                        fail_msg("%s", err.message);
        } while (event == SANDBOX_NOTHING);
        return event;
}

/* Many under one process, each with its own end. */
static void test_several_at_once(void **state) {
        struct place *place = *state;
        struct sandbox_file code = CODE("read line; echo $line; exit 7"),
                            endless = CODE("while :; do sleep 60; done");
        struct sandbox_spec specs[] = { spec_of(&code, LONG_MS), spec_of(&endless, LONG_MS),
                                        spec_of(&endless, 300) };
        struct output nothing OUTPUT_CLEANUP = { 0 };
        struct sandbox *sandboxes[3];
        struct sandbox_result result;
        struct error err = { 0 };
        char text[16] = "";

        need_sandboxes(place);
        for (size_t i = 0; i < 3; i++)
                if (sandbox_start(&specs[i], place->arena, &sandboxes[i], &err) < 0)
                        fail_msg("%s", err.message);
        for (size_t i = 0; i < 3; i++)
                assert_int_equal(wait_for_event(sandboxes[i]), SANDBOX_STARTED);
        sandbox_cancel(sandboxes[1]);
        assert_int_equal(write(sandbox_pipes(sandboxes[0])->input, "hello\n", 6), 6);
        for (size_t i = 0; i < 3; i++)
                assert_int_equal(wait_for_event(sandboxes[i]), SANDBOX_ENDED);
        assert_int_equal(read(sandbox_pipes(sandboxes[0])->output, text, sizeof(text)), 6);
        assert_string_equal(text, "hello\n");
        assert_int_equal(sandbox_judge(sandboxes[0], &nothing, SIGINT, &result, &err), 0);
        assert_int_equal(result.reason, EXEC_EXITED);
        assert_int_equal(result.exit_code, 7);
        assert_true(result.peak_memory_bytes > 0);
        assert_int_equal(sandbox_judge(sandboxes[1], &nothing, SIGTERM, &result, &err), 0);
        assert_int_equal(result.reason, EXEC_INTERRUPTED);
        assert_int_equal(result.exit_code, 128 + SIGTERM);
        assert_int_equal(sandbox_judge(sandboxes[2], &nothing, SIGINT, &result, &err), 0);
        assert_int_equal(result.reason, EXEC_DEADLINE);
        assert_int_equal(result.exit_code, 124);
        for (size_t i = 0; i < 3; i++)
                sandbox_end(sandboxes[i]);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
        assert_int_equal(errno, ECHILD);
}

/* The deadline is the worker's: it holds while no process here does anything. */
static void test_the_deadline_needs_nobody(void **state) {
        struct place *place = *state;
        struct sandbox_file code = CODE("while :; do echo and on; done");
        struct sandbox_spec spec = spec_of(&code, 200);
        struct sandbox *sandbox;
        struct error err = { 0 };
        char byte;

        need_sandboxes(place);
        assert_int_equal(sandbox_start(&spec, place->arena, &sandbox, &err), 0);
        assert_int_equal(wait_for_event(sandbox), SANDBOX_STARTED);
        {
                /* Its output is a full pipe from now on; the end of the errors' pipe is that of every process. */
                struct pollfd polled = { .fd = sandbox_pipes(sandbox)->errors, .events = POLLIN };

                assert_int_equal(poll(&polled, 1, LONG_MS), 1);
        }
        assert_int_equal(read(sandbox_pipes(sandbox)->errors, &byte, 1), 0);
        assert_int_equal(wait_for_event(sandbox), SANDBOX_ENDED);
        sandbox_end(sandbox);
}

/* A lock is free once the run is dead: here only its processes have it. */
static void test_what_is_held_is_held_by_the_run(void **state) {
        struct place *place = *state;
        struct sandbox_file code = CODE("read line");
        struct sandbox_spec spec = spec_of(&code, LONG_MS);
        struct sandbox *sandbox;
        struct error err = { 0 };
        int pipes[2], held;
        char byte;

        need_sandboxes(place);
        assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
        held = pipes[1];
        spec.held = &held;
        spec.held_count = 1;
        assert_int_equal(sandbox_start(&spec, place->arena, &sandbox, &err), 0);
        assert_int_equal(held, -1);
        assert_int_equal(wait_for_event(sandbox), SANDBOX_STARTED);
        assert_int_equal(fcntl(pipes[0], F_SETFL, O_NONBLOCK), 0);
        assert_int_equal(read(pipes[0], &byte, 1), -1);
        assert_int_equal(errno, EAGAIN);
        close_descriptor(&sandbox_pipes(sandbox)->input);
        assert_int_equal(wait_for_event(sandbox), SANDBOX_ENDED);
        assert_int_equal(read(pipes[0], &byte, 1), 0);
        close(pipes[0]);
        sandbox_end(sandbox);
}

static int cannot_fill(void *context, const struct sandbox_workspace *workspace, struct error *err) {
        (void)context;
        assert_true(workspace->folder >= 0);
        return error_set(err, "there is nothing to fill it with");
}

static int fill(void *context, const struct sandbox_workspace *workspace, struct error *err) {
        int file = openat(workspace->folder, context, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

        (void)err;
        assert_true(file >= 0);
        assert_int_equal(write(file, "filled\n", 7), 7);
        close(file);
        return 0;
}

static int collect(void *context, const struct sandbox_workspace *workspace, struct error *err) {
        int file = openat(workspace->folder, "made", O_RDONLY | O_CLOEXEC);
        char text[16] = "";

        (void)context;
        (void)err;
        assert_true(file >= 0);
        assert_int_equal(read(file, text, sizeof(text)), 7);
        assert_string_equal(text, "filled\n");
        close(file);
        return 0;
}

static void test_the_workspace(void **state) {
        struct place *place = *state;
        struct sandbox_file code = CODE("cat given > made");
        struct sandbox_spec spec = spec_of(&code, LONG_MS);
        struct sandbox_sinks sinks = { { -1, NULL }, { -1, NULL } };
        struct sandbox_result result;
        struct error err = { 0 };

        need_sandboxes(place);
        spec.context = (void *)"given";
        spec.fill = fill;
        spec.collect = collect;
        if (sandbox_run(&spec, &sinks, place->arena, &result, &err) < 0)
                fail_msg("%s", err.message);
        assert_int_equal(result.exit_code, 0);
        spec.fill = cannot_fill;
        assert_int_equal(sandbox_run(&spec, &sinks, place->arena, &result, &err), -1);
        assert_string_equal(err.message, "there is nothing to fill it with");
}

static void test_a_program_that_is_not_there(void **state) {
        static const char *const missing[] = { "no-such-program", NULL };
        struct place *place = *state;
        struct sandbox_file code = CODE("");
        struct sandbox_spec spec = spec_of(&code, LONG_MS);
        struct sandbox_sinks sinks = { { -1, NULL }, { -1, NULL } };
        struct sandbox_result result;
        struct error err = { 0 };

        need_sandboxes(place);
        spec.argv = missing;
        assert_int_equal(sandbox_run(&spec, &sinks, place->arena, &result, &err), -1);
        assert_non_null(strstr(err.message, "no-such-program"));
}

/* Arguments that cannot be given are refused, and never cut. */
static void test_more_arguments_than_can_be_given(void **state) {
        static const char *words[3003] = { "sh", "/run/berth/main" };
        struct place *place = *state;
        struct sandbox_file code = CODE("test $# -eq 3000");
        struct sandbox_spec spec = spec_of(&code, LONG_MS);
        struct sandbox_sinks sinks = { { -1, NULL }, { -1, NULL } };
        struct sandbox_result result;
        struct error err = { 0 };
        char *large = malloc(3 * MB);

        need_sandboxes(place);
        for (size_t i = 2; i < 3002; i++)
                words[i] = "x";
        spec.argv = words;
        assert_int_equal(sandbox_run(&spec, &sinks, place->arena, &result, &err), 0);
        assert_int_equal(result.exit_code, 0);
        memset(large, 'x', 3 * MB);
        large[3 * MB - 1] = '\0';
        words[2] = large;
        assert_int_equal(sandbox_run(&spec, &sinks, place->arena, &result, &err), -1);
        assert_non_null(strstr(err.message, "at most 2097152 can be given"));
        /* What a frame carries and the kernel does not take. */
        large[MB] = '\0';
        assert_int_equal(sandbox_run(&spec, &sinks, place->arena, &result, &err), -1);
        assert_non_null(strstr(err.message, "Argument list too long"));
        free(large);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)

/* By the interrupt that it was given, and by no other. */
static void test_ends_by_its_own_interrupt(void **state) {
        struct place *place = *state;
        struct sandbox_file code = CODE("sleep 600");
        struct sandbox_spec spec = spec_of(&code, LONG_MS);
        struct sandbox_sinks sinks = { { -1, NULL }, { -1, NULL } };
        struct sandbox_result result;
        struct interrupt interrupt;
        struct error err = { 0 };

        need_sandboxes(place);
        assert_int_equal(interrupt_init(&interrupt, &err), 0);
        interrupt_raise(&interrupt);
        spec.interrupt = &interrupt;
        if (sandbox_run(&spec, &sinks, place->arena, &result, &err) < 0)
                fail_msg("%s", err.message);
        assert_int_equal(result.reason, EXEC_INTERRUPTED);
        assert_int_equal(result.exit_code, 130);
        interrupt_dispose(&interrupt);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                TEST(test_several_at_once),
                TEST(test_the_deadline_needs_nobody),
                TEST(test_what_is_held_is_held_by_the_run),
                TEST(test_ends_by_its_own_interrupt),
                TEST(test_the_workspace),
                TEST(test_a_program_that_is_not_there),
                TEST(test_more_arguments_than_can_be_given),
        };

        if (argc == 2 && strcmp(argv[1], SANDBOX_WORKER_VERB) == 0)
                return sandbox_worker_main();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
