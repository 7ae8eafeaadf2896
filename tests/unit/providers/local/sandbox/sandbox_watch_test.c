/* SPDX-License-Identifier: Apache-2.0 */
/* The loop around a running program, with a child of the test's own in bubblewrap's place: it tells its status as that does. */
#include "base/clock.h"
#include "providers/local/sandbox/sandbox_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "providers/local/support.h"
#include <cmocka.h>

#define LONG_MS 60000

struct run {
        struct output output, errors;
        struct sandbox_ending ending;
};

static void end_run(struct run *run) {
        output_release(&run->output);
        output_release(&run->errors);
}
#define RUN struct run run __attribute__((cleanup(end_run))) = { 0 }

/* The child has the program's three descriptors, and `status` to tell of itself; what it returns is its wait status. */
static int watch(struct place *place, struct run *run, int (*child)(int status), int input, int sink,
                 int64_t deadline_ms, struct error *err) {
        struct cgroup_limits limits = { UINT64_C(256) << 20, 1000, 64 };
        struct sandbox_spec spec = { .limits = { .deadline_ms = deadline_ms }, .input = input };
        struct sandbox_sinks sinks = { { sink, &run->output }, { -1, &run->errors } };
        int in[2], out[2], errors[2], status[2];
        struct sandbox_watch watch = { .spec = &spec, .sinks = &sinks };
        sigset_t mask;
        int result;

        assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC) | pipe2(errors, O_CLOEXEC) |
                                 pipe2(status, O_CLOEXEC),
                         0);
        assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
        fcntl(in[1], F_SETFL, O_NONBLOCK);
        output_init(&run->output, true);
        output_init(&run->errors, true);
        sigprocmask(SIG_BLOCK, NULL, &mask);
        watch.pid = fork();
        if (watch.pid == 0) {
                signal(SIGPIPE, SIG_IGN);
                dup2(in[0], STDIN_FILENO);
                dup2(out[1], STDOUT_FILENO);
                dup2(errors[1], STDERR_FILENO);
                close(in[1]);
                close(in[0]);
                close(out[0]);
                close(out[1]);
                close(errors[0]);
                close(errors[1]);
                close(status[0]);
                _exit(child(status[1]));
        }
        assert_true(watch.pid > 0);
        close(in[0]);
        close(out[1]);
        close(errors[1]);
        close(status[1]);
        watch.group = cgroup_make(&limits, place->arena);
        watch.process = pidfd_open(watch.pid, 0);
        watch.input = in[1];
        watch.output = out[0];
        watch.errors = errors[0];
        watch.status = status[0];
        watch.unmasked = &mask;
        result = sandbox_watch_run(&watch, &run->ending, err);
        cgroup_close(watch.group);
        /* Whatever happened: the child was waited for, and nothing of the watch is open. */
        assert_int_equal(waitpid(watch.pid, NULL, 0), -1);
        assert_int_equal(errno, ECHILD);
        assert_int_equal(fcntl(out[0], F_GETFD), -1);
        assert_int_equal(fcntl(in[1], F_GETFD), -1);
        assert_int_equal(fcntl(status[0], F_GETFD), -1);
        return result;
}

static void say(int descriptor, const char *text) {
        if (write(descriptor, text, strlen(text)) < 0)
                _exit(99);
}

/* --- the usual end --- */

static int prints(int status) {
        dprintf(status, "{ \"child-pid\": %d }\n", (int)getpid());
        say(STDOUT_FILENO, "to the one");
        say(STDERR_FILENO, "to the other");
        say(status, "{ \"exit-code\": 7 }\n");
        return 0;
}

static void test_output_and_end(void **state) {
        struct error err = { 0 };
        RUN;

        assert_int_equal(watch(*state, &run, prints, -1, -1, LONG_MS, &err), 0);
        assert_true(run.ending.started);
        assert_int_equal(run.ending.exit_code, 7);
        assert_false(run.ending.deadline || run.ending.interrupted);
        assert_string_equal(strbuf_text(&run.output.kept), "to the one");
        assert_string_equal(strbuf_text(&run.errors.kept), "to the other");
        assert_true(run.ending.peak_memory_bytes > 0);
}

static int does_not_start(int status) {
        (void)status;
        say(STDERR_FILENO, "bwrap: no permission\n");
        return 1;
}

static void test_never_started(void **state) {
        struct error err = { 0 };
        RUN;

        assert_int_equal(watch(*state, &run, does_not_start, -1, -1, LONG_MS, &err), 0);
        assert_false(run.ending.started);
        assert_string_equal(strbuf_text(&run.errors.kept), "bwrap: no permission\n");
}

/* Status in pieces, with other keys, and more than anybody would read. */
static int tells_much(int status) {
        say(status, "{ \"child-pid\": 0, \"cgroup-namespace\": 4026531835 }\n{ \"exi");
        usleep(20000);
        say(status, "t-code\": 3 }\n");
        for (int i = 0; i < 2000; i++) {
                if (write(status, "{ \"noise\": 1 }\n", 15) < 0)
                        return 0;
        }
        return 0;
}

static void test_status_in_pieces(void **state) {
        struct error err = { 0 };
        RUN;

        assert_int_equal(watch(*state, &run, tells_much, -1, -1, LONG_MS, &err), 0);
        assert_true(run.ending.started);
        assert_int_equal(run.ending.exit_code, 3);
}

/* --- much output --- */

#define MUCH (INT64_C(20) << 20)

static int prints_much(int status) {
        char piece[65536];

        memset(piece, 'x', sizeof(piece));
        for (int64_t left = MUCH; left > 0; left -= (int64_t)sizeof(piece)) {
                if (write(STDOUT_FILENO, piece, sizeof(piece)) != (ssize_t)sizeof(piece))
                        return 1;
        }
        say(status, "{ \"exit-code\": 0 }\n");
        return 0;
}

static void test_much_output_is_counted(void **state) {
        struct stream_result result;
        struct place *place = *state;
        struct error err = { 0 };
        RUN;

        assert_int_equal(watch(place, &run, prints_much, -1, -1, LONG_MS, &err), 0);
        assert_true(run.ending.started);
        output_finish(&run.output, place->arena, &result);
        assert_int_equal(result.bytes_total, MUCH);
        assert_int_equal(result.bytes_returned, STREAM_RETURNED_MAX);
        assert_true(result.truncated);
}

static int prints_until_told(int status) {
        char piece[4096] = { 'x' };

        for (int64_t left = INT64_C(1) << 30; left > 0; left -= (int64_t)sizeof(piece)) {
                if (write(STDOUT_FILENO, piece, sizeof(piece)) < 0) {
                        say(status, errno == EPIPE ? "{ \"exit-code\": 32 }\n" : "{ \"exit-code\": 1 }\n");
                        return 0;
                }
        }
        return 0;
}

/* Where nobody reads any more the program is told, as in any pipeline. */
static void test_nobody_reads(void **state) {
        struct error err = { 0 };
        int sink[2];
        RUN;

        assert_int_equal(pipe2(sink, O_CLOEXEC), 0);
        close(sink[0]);
        assert_int_equal(watch(*state, &run, prints_until_told, -1, sink[1], LONG_MS, &err), 0);
        assert_int_equal(run.ending.exit_code, 32);
        close(sink[1]);
}

/* --- input --- */

static int echoes(int status) {
        char piece[4096];
        ssize_t count;

        while ((count = read(STDIN_FILENO, piece, sizeof(piece))) > 0) {
                if (write(STDOUT_FILENO, piece, (size_t)count) != count)
                        return 1;
        }
        say(status, "{ \"exit-code\": 0 }\n");
        return 0;
}

static int open_input(struct place *place, size_t size) {
        const char *path = place_path(place, "input");
        FILE *file = fopen(path, "w");

        assert_non_null(file);
        for (size_t i = 0; i < size; i++)
                fputc((int)('a' + i % 26), file);
        assert_int_equal(fclose(file), 0);
        return open(path, O_RDONLY | O_CLOEXEC);
}

static void test_input_goes_in(void **state) {
        int input = open_input(*state, 300000);
        struct error err = { 0 };
        RUN;

        assert_int_equal(watch(*state, &run, echoes, input, -1, LONG_MS, &err), 0);
        assert_int_equal(run.ending.exit_code, 0);
        assert_int_equal(run.output.total, 300000);
        assert_int_equal(strncmp(strbuf_text(&run.output.kept), "abcdefghijklmnopqrstuvwxyzabc", 29), 0);
}

static void test_no_input_is_its_end(void **state) {
        struct error err = { 0 };
        RUN;

        assert_int_equal(watch(*state, &run, echoes, -1, -1, LONG_MS, &err), 0);
        assert_true(run.ending.started);
        assert_int_equal(run.output.total, 0);
}

/* A program that does not read what it is given holds nobody up. */
static void test_input_that_nobody_reads(void **state) {
        int input = open_input(*state, 1000000);
        struct error err = { 0 };
        RUN;

        assert_int_equal(watch(*state, &run, prints, input, -1, LONG_MS, &err), 0);
        assert_int_equal(run.ending.exit_code, 7);
}

/* --- other ends --- */

static int sleeps(int status) {
        signal(SIGTERM, SIG_IGN);
        signal(SIGINT, SIG_IGN);
        dprintf(status, "{ \"child-pid\": %d }\n", (int)getpid());
        say(STDOUT_FILENO, "on");
        sleep(600);
        return 0;
}

static void test_deadline(void **state) {
        struct error err = { 0 };
        RUN;

        assert_int_equal(watch(*state, &run, sleeps, -1, -1, 200, &err), 0);
        assert_true(run.ending.deadline);
        assert_false(run.ending.interrupted || run.ending.started);
        assert_true(run.ending.wall_ms >= 200 && run.ending.wall_ms < 30000);
        assert_string_equal(strbuf_text(&run.output.kept), "on");
}

/* Process 1 of the sandbox lives on for a while when bubblewrap has ended: nothing is over before it is gone. */
static int leaves_first(int status) {
        pid_t first = fork();

        if (first == 0) {
                close(STDOUT_FILENO);
                close(STDERR_FILENO);
                close(status);
                usleep(400000);
                _exit(0);
        }
        dprintf(status, "{ \"child-pid\": %d }\n{ \"exit-code\": 0 }\n", (int)first);
        return 0;
}

static void test_the_last_one_is_waited_for(void **state) {
        int64_t before = clock_system.monotonic_ms(&clock_system);
        struct error err = { 0 };
        RUN;

        assert_int_equal(watch(*state, &run, leaves_first, -1, -1, LONG_MS, &err), 0);
        assert_true(clock_system.monotonic_ms(&clock_system) - before >= 350);
        /* It was reaped as well: nobody else may be there who would. */
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
        assert_int_equal(errno, ECHILD);
}

/* Last: an interrupt is for the whole process, and not taken back. */
static void test_interrupted(void **state) {
        struct error err = { 0 };
        RUN;

        interrupt_raise(interrupt_of_user());
        assert_int_equal(watch(*state, &run, sleeps, -1, -1, LONG_MS, &err), 0);
        assert_true(run.ending.interrupted);
        assert_false(run.ending.deadline);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_output_and_end),
                TEST(test_never_started),
                TEST(test_status_in_pieces),
                TEST(test_much_output_is_counted),
                TEST(test_nobody_reads),
                TEST(test_input_goes_in),
                TEST(test_no_input_is_its_end),
                TEST(test_input_that_nobody_reads),
                TEST(test_deadline),
                TEST(test_the_last_one_is_waited_for),
                TEST(test_interrupted),
        };

        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
