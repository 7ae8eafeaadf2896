/* SPDX-License-Identifier: Apache-2.0 */
/* Programs run to their end: what they get, what is taken of what they say, and how they are ended. */
#include "support.h"

#include "base/clock.h"
#include "gitops/git/child.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

static const char *const environment[] = { "PATH=/usr/bin:/bin", "ONLY=this", NULL };

static struct child_args shell(const char *const *arguments, int64_t ms) {
        return (struct child_args){
                .arguments = arguments,
                .environment = environment,
                .output_max = 100000,
                .quiet = true,
                .own_group = true,
                .deadline_ms = clock_system.monotonic_ms(&clock_system) + ms,
        };
}

static void run(const struct child_args *args, enum child_end end, int code, const char *output) {
        struct child_result result;
        struct error err = { 0 };

        assert_int_equal(child_run(args, &result, &err), 0);
        assert_int_equal(result.end, end);
        assert_int_equal(result.code, code);
        if (output)
                assert_string_equal(strbuf_text(&result.output), output);
        strbuf_release(&result.output);
}

static void ends(void **state) {
        static const struct {
                const char *script;
                enum child_end end;
                int code;
                const char *output;
        } cases[] = {
                { "exit 0", CHILD_EXITED, 0, "" },
                { "echo yes; exit 7", CHILD_EXITED, 7, "yes\n" },
                { "kill -9 $$", CHILD_KILLED, 9, "" },
                { "cat", CHILD_EXITED, 0, "" },
                { "echo $ONLY $HOME; echo hidden >&2", CHILD_EXITED, 0, "this\n" },
                { "exec 1>&-; sleep 0.2; exit 3", CHILD_EXITED, 3, "" },
                { "kill -15 $$", CHILD_KILLED, 15, "" },
                { "trap '' PIPE; yes | head -c 90000 | tail -c 1 | tr -d y", CHILD_EXITED, 0, "\n" },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(cases); i++) {
                const char *const arguments[] = { "sh", "-c", cases[i].script, NULL };
                struct child_args args = shell(arguments, 20000);

                run(&args, cases[i].end, cases[i].code, cases[i].output);
        }
}

static void input(void **state) {
        static const char *const counting[] = { "wc", "-c", NULL }, *const deaf[] = { "true", NULL };
        size_t size = 1000000;
        char *data = calloc(1, size);
        struct child_args args = shell(counting, 20000);

        (void)state;
        args.input = data;
        args.input_length = size;
        run(&args, CHILD_EXITED, 0, "1000000\n");
        args.arguments = deaf;
        run(&args, CHILD_EXITED, 0, "");
        free(data);
}

/* The shell's own child would hold the pipe, and be there for ten minutes. */
static void deadline(void **state) {
        static const char *const arguments[] = { "sh", "-c", "echo begun; sleep 600 & sleep 600", NULL };
        static const char *const silent[] = { "sh", "-c", "exec 1>&-; sleep 600", NULL };
        struct child_args args = shell(arguments, 300);
        int64_t began = clock_system.monotonic_ms(&clock_system);

        (void)state;
        run(&args, CHILD_LATE, 0, "begun\n");
        args = shell(silent, 300);
        run(&args, CHILD_LATE, 0, "");
        assert_true(clock_system.monotonic_ms(&clock_system) - began < 10000);
}

static void too_much(void **state) {
        static const char *const arguments[] = { "yes", NULL };
        struct child_args args = shell(arguments, 20000);

        (void)state;
        run(&args, CHILD_TALKATIVE, 0, NULL);
}

static void absent(void **state) {
        static const char *const arguments[] = { "no-such-program-here", NULL };
        struct child_args args = shell(arguments, 20000);

        (void)state;
        run(&args, CHILD_ABSENT, 0, "");
}

/* Also those that somebody forgot to close at exec. */
static void descriptors(void **state) {
        static const char *const arguments[] = { "sh", "-c", "ls /proc/self/fd | wc -l", NULL };
        struct child_args args = shell(arguments, 20000);
        int leaked = open("/dev/null", O_RDONLY); /* NOLINT(android-cloexec-open): that is the point */

        (void)state;
        assert_true(leaked >= 0);
        run(&args, CHILD_EXITED, 0, "4\n"); /* 0, 1, 2, and the folder that ls reads */
        close(leaked);
}

/* The last: interrupts are counted for good. */
static void interrupts(void **state) {
        static const char *const arguments[] = { "sleep", "600", NULL }, *const quick[] = { "echo", "done",
                                                                                            NULL };
        struct child_args args = shell(arguments, 60000);
        int64_t began = clock_system.monotonic_ms(&clock_system);

        (void)state;
        args.interruptible = true;
        args.grace_ms = 500;
        interrupt_raise();
        run(&args, CHILD_INTERRUPTED, 0, "");
        assert_true(clock_system.monotonic_ms(&clock_system) - began >= 450);
        args.arguments = quick;
        run(&args, CHILD_EXITED, 0, "done\n");
        interrupt_raise();
        args.arguments = arguments;
        args.grace_ms = 60000;
        run(&args, CHILD_INTERRUPTED, 0, "");
        assert_true(clock_system.monotonic_ms(&clock_system) - began < 10000);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(ends),       cmocka_unit_test(input),  cmocka_unit_test(deadline),
                cmocka_unit_test(too_much),   cmocka_unit_test(absent), cmocka_unit_test(descriptors),
                cmocka_unit_test(interrupts),
        };

        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
