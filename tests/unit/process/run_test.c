/* SPDX-License-Identifier: Apache-2.0 */
/* Programs run to their end: what they get, what is taken of what they say, and how they are ended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "process/run.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define LONG_MS 60000

static const char *const environment[] = { "PATH=/usr/bin:/bin", "ONLY=this", NULL };

static int64_t now_ms(void) {
        return clock_system.monotonic_ms(&clock_system);
}

static struct run_args in_group(const char *const *arguments, int64_t ms) {
        return (struct run_args){
                .process = { .arguments = arguments, .environment = environment, .group = PROCESS_OWN_GROUP },
                .output_max = 100000,
                .deadline_ms = now_ms() + ms,
        };
}

static void assert_run(const struct run_args *args, enum run_end end, int code, const char *output,
                       const char *said) {
        struct run_result result RUN_RESULT_CLEANUP = RUN_RESULT_INIT;
        struct error err = { 0 };

        if (run_to_end(args, &result, &err) < 0)
                fail_msg("%s", err.message);
        assert_int_equal(result.end, end);
        assert_int_equal(result.code, code);
        if (output)
                assert_string_equal(strbuf_text(&result.output), output);
        if (said)
                assert_string_equal(strbuf_text(&result.said), said);
}

static void ends(void **state) {
        static const struct {
                const char *script;
                enum run_end end;
                int code;
                const char *output, *said;
        } cases[] = {
                { "exit 0", RUN_EXITED, 0, "", "" },
                { "echo yes; exit 7", RUN_EXITED, 7, "yes\n", "" },
                { "kill -9 $$", RUN_SIGNALLED, 9, "", "" },
                { "kill -15 $$", RUN_SIGNALLED, 15, "", "" },
                { "cat; echo $ONLY $HOME", RUN_EXITED, 0, "this\n", "" },
                { "exec 1>&- 2>&-; sleep 0.2; exit 3", RUN_EXITED, 3, "", "" },
                { "echo out; echo err >&2", RUN_EXITED, 0, "out\n", "err" },
                { "trap '' PIPE; yes | head -c 90000 | tail -c 1 | tr -d y", RUN_EXITED, 0, "\n", NULL },
                { "printf 'a\\000b\\033[31m\\n\\n c\\302\\233 \\342\\200\\256d\\377\\n\\n' >&2", RUN_EXITED,
                  0, "", "a b [31m   c\\x9B \\u202Ed\\xFF" },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(cases); i++) {
                const char *const arguments[] = { "sh", "-c", cases[i].script, NULL };
                struct run_args args = in_group(arguments, LONG_MS);

                assert_run(&args, cases[i].end, cases[i].code, cases[i].output, cases[i].said);
        }
}

static void input(void **state) {
        static const char *const counting[] = { "wc", "-c", NULL }, *const deaf[] = { "true", NULL };
        size_t size = 1000000;
        char *data = calloc(1, size);
        struct run_args args = in_group(counting, LONG_MS);

        (void)state;
        signal(SIGPIPE, SIG_DFL); /* it is not this program's end */
        args.input = data;
        args.input_length = size;
        assert_run(&args, RUN_EXITED, 0, "1000000\n", "");
        args.process.arguments = deaf;
        assert_run(&args, RUN_EXITED, 0, "", "");
        free(data);
}

static void count_bytes(void *opaque, const char *bytes, size_t length) {
        (void)bytes;
        *(size_t *)opaque += length;
}

static void output_is_bounded(void **state) {
        static const char *const much[] = { "sh", "-c", "yes | head -c 3000000; echo THE END", NULL };
        static const char *const exact[] = { "sh", "-c", "yes | head -c 100000", NULL };
        static const char *const endless[] = { "yes", NULL };
        static const char *const complaints[] = { "sh", "-c", "yes >&2", NULL };
        struct run_result result RUN_RESULT_CLEANUP = RUN_RESULT_INIT;
        struct run_args args = in_group(endless, LONG_MS);
        struct error err = { 0 };
        size_t taken = 0;

        (void)state;
        assert_run(&args, RUN_TALKATIVE, 0, NULL, "");
        args.process.arguments = exact;
        assert_run(&args, RUN_EXITED, 0, NULL, "");
        args.process.arguments = much;
        assert_run(&args, RUN_TALKATIVE, 0, NULL, "");
        args.keep_end = true;
        args.output_max = 12;
        assert_run(&args, RUN_EXITED, 0, "y\ny\nTHE END\n", "");
        args.take = count_bytes;
        args.opaque = &taken;
        assert_run(&args, RUN_EXITED, 0, "", "");
        assert_int_equal(taken, 3000008);
        args = in_group(complaints, 300);
        assert_int_equal(run_to_end(&args, &result, &err), 0);
        assert_int_equal(result.end, RUN_LATE);
        assert_true(result.said.length > 300 && result.said.length <= 400);
}

static void where_errors_go(void **state) {
        static const char *const both[] = { "sh", "-c", "echo a; echo b >&2; echo c", NULL };
        struct run_args args = in_group(both, LONG_MS);

        (void)state;
        args.errors = RUN_ERRORS_AS_OUTPUT;
        assert_run(&args, RUN_EXITED, 0, "a\nb\nc\n", "");
        args.errors = RUN_ERRORS_DROPPED;
        assert_run(&args, RUN_EXITED, 0, "a\nc\n", "");
}

/* Whatever it does, and whatever it has started, which would be there for ten minutes. */
static void the_deadline_holds(void **state) {
        static const char *const scripts[] = {
                "sleep 600 & sleep 600",
                "exec 1>&- 2>&-; sleep 600",
                "trap '' TERM INT HUP; while :; do sleep 1; done",
                "kill -STOP $$",
                "while :; do echo x >&2; done",
        };
        int64_t began = now_ms();

        (void)state;
        for (size_t i = 0; i < COUNT(scripts); i++) {
                const char *const arguments[] = { "sh", "-c", scripts[i], NULL };
                struct run_args args = in_group(arguments, 1000);

                assert_run(&args, RUN_LATE, 0, NULL, NULL);
        }
        assert_true(now_ms() - began < LONG_MS);
}

/*
 * Its own end is the end: in its group it is killed, in ours it lives on with our pipe, and run()
 * does not wait for it.
 */
static void what_it_leaves_behind_is_not_waited_for(void **state) {
        static const char *const leaves[] = { "sh", "-c", "(sleep 20 & sleep 20 &); echo left; exit 4",
                                              NULL };
        static const char *const chatters[] = { "sh", "-c", "(timeout 5 yes >&2 &); echo left", NULL };
        struct run_args args = in_group(leaves, LONG_MS);
        int64_t began = now_ms();

        (void)state;
        assert_run(&args, RUN_EXITED, 4, "left\n", "");
        args.process.group = PROCESS_OUR_GROUP;
        assert_run(&args, RUN_EXITED, 4, "left\n", "");
        args.process.arguments = chatters;
        assert_run(&args, RUN_EXITED, 0, "left\n", NULL);
        assert_true(now_ms() - began < 15000);
}

static void all_are_waited_for_where_that_is_asked(void **state) {
        static const char *const leaves[] = { "sh", "-c", "(sleep 0.5; echo late) & echo early", NULL };
        static const char *const stays[] = { "sh", "-c", "sleep 600 & echo early", NULL };
        struct run_args args = in_group(leaves, LONG_MS);

        (void)state;
        args.wait_for_all = true;
        assert_run(&args, RUN_EXITED, 0, "early\nlate\n", "");
        args = in_group(stays, 500);
        args.wait_for_all = true;
        assert_run(&args, RUN_LATE, 0, "early\n", "");
}

/* --- interrupts --- */

struct raising {
        struct interrupt *interrupt;
        int level;
};

static void *raise_later(void *opaque) {
        const struct raising *raising = opaque;

        usleep(200000);
        interrupt_raise_to(raising->interrupt, raising->level);
        return NULL;
}

static void assert_interrupted(const struct run_args *model, int before, int during, enum run_end end,
                               int code, const char *output) {
        struct interrupt interrupt;
        struct raising raising = { &interrupt, during };
        struct run_args args = *model;
        struct error err = { 0 };
        pthread_t thread;

        assert_int_equal(interrupt_init(&interrupt, &err), 0);
        interrupt_raise_to(&interrupt, before);
        args.interrupt = &interrupt;
        assert_int_equal(pthread_create(&thread, NULL, raise_later, &raising), 0);
        assert_run(&args, end, code, output, NULL);
        pthread_join(thread, NULL);
        interrupt_dispose(&interrupt);
}

static void interrupts(void **state) {
        static const char *const sleeps[] = { "sleep", "600", NULL }, *const quick[] = { "echo", "done",
                                                                                         NULL };
        static const char *const tidies[] = { "sh", "-c", "trap 'echo tidy; exit 5' TERM; sleep 600 & wait",
                                              NULL };
        struct run_args args = in_group(sleeps, LONG_MS);
        int64_t began = now_ms();

        (void)state;
        /* At the first level some grace, in which it may end by itself; at the second none. */
        args.grace_ms = 500;
        assert_interrupted(&args, 0, INTERRUPT_FINISH, RUN_INTERRUPTED, 0, "");
        assert_interrupted(&args, INTERRUPT_FINISH, 0, RUN_INTERRUPTED, 0, "");
        args.grace_ms = LONG_MS;
        assert_interrupted(&args, 0, INTERRUPT_NOW, RUN_INTERRUPTED, 0, "");
        assert_interrupted(&args, INTERRUPT_FINISH, INTERRUPT_NOW, RUN_INTERRUPTED, 0, "");
        args.process.arguments = quick;
        assert_interrupted(&args, INTERRUPT_FINISH, 0, RUN_EXITED, 0, "done\n");
        /* It is told, where it would understand. */
        args.process.arguments = tidies;
        args.ask = SIGTERM;
        assert_interrupted(&args, 0, INTERRUPT_FINISH, RUN_EXITED, 5, "tidy\n");
        assert_true(now_ms() - began < 30000);
        /* A command that ignores the first level is not stopped by it. */
        args = in_group(sleeps, 800);
        args.grace_ms = -1;
        assert_interrupted(&args, 0, INTERRUPT_FINISH, RUN_LATE, 0, "");
        args.deadline_ms = now_ms() + LONG_MS;
        assert_interrupted(&args, 0, INTERRUPT_NOW, RUN_INTERRUPTED, 0, "");
        /* No grace is no grace. */
        args.grace_ms = 0;
        args.ask = SIGTERM;
        assert_interrupted(&args, 0, INTERRUPT_FINISH, RUN_INTERRUPTED, 0, "");
}

static void what_is_said_of_it(void **state) {
        static const struct {
                const char *script;
                const char *message;
                enum error_kind kind;
        } cases[] = {
                { "echo no way >&2; exit 3", "judge ended with 3: no way", ERROR_FAILED },
                { "exit 3", "judge ended with 3", ERROR_FAILED },
                { "echo why >&2; kill -9 $$", "judge was ended by signal 9: why", ERROR_FAILED },
                { "yes", "judge writes more than 1000 bytes", ERROR_FAILED },
                { "sleep 600", "judge does not end within 2 s", ERROR_FAILED },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(cases); i++) {
                const char *const arguments[] = { "sh", "-c", cases[i].script, NULL };
                struct run_args args = in_group(arguments, 2990);
                struct run_result result RUN_RESULT_CLEANUP = RUN_RESULT_INIT;
                struct error err = { 0 };

                args.output_max = 1000;
                assert_int_equal(run_to_end(&args, &result, &err), 0);
                assert_int_equal(run_check(&result, "judge", &err), -1);
                assert_string_equal(err.message, cases[i].message);
                assert_int_equal(err.kind, cases[i].kind);
        }
        {
                struct run_result result = { .end = RUN_INTERRUPTED };
                struct error err = { 0 };

                assert_int_equal(run_check(&result, "judge", &err), -1);
                assert_int_equal(err.kind, ERROR_INTERRUPTED);
                result.end = RUN_EXITED;
                assert_int_equal(run_check(&result, "judge", &err), 0);
        }
}

static void absent(void **state) {
        static const char *const arguments[] = { "no-such-program-here", NULL };
        struct run_result result RUN_RESULT_CLEANUP = RUN_RESULT_INIT;
        struct run_args args = in_group(arguments, LONG_MS);
        struct error err = { 0 };

        (void)state;
        args.input = "x";
        args.input_length = 1;
        assert_int_equal(run_to_end(&args, &result, &err), -1);
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(ends),
                cmocka_unit_test(input),
                cmocka_unit_test(output_is_bounded),
                cmocka_unit_test(where_errors_go),
                cmocka_unit_test(the_deadline_holds),
                cmocka_unit_test(what_it_leaves_behind_is_not_waited_for),
                cmocka_unit_test(all_are_waited_for_where_that_is_asked),
                cmocka_unit_test(interrupts),
                cmocka_unit_test(what_is_said_of_it),
                cmocka_unit_test(absent),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
