/* SPDX-License-Identifier: Apache-2.0 */
/* What a child gets, and that it is ended whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/files.h"
#include "base/strbuf.h"
#include "process/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LONG_MS 60000

static const char *const environment[] = { "PATH=/usr/bin:/bin", "ONLY=this", NULL };

/* What the script writes to its descriptor 1, which is a pipe of ours; it ended well. */
static void assert_says(const char *script, struct process_args args, const char *said) {
        const char *const arguments[] = { "sh", "-c", script, NULL };
        struct process process PROCESS_CLEANUP = PROCESS_NONE;
        struct strbuf read STRBUF_CLEANUP = STRBUF_INIT;
        struct process_status status;
        struct error err = { 0 };
        int ends[2];

        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        args.arguments = arguments;
        if (!args.environment)
                args.environment = environment;
        args.descriptors[args.descriptor_count++] = (struct process_descriptor){ ends[1], 1 };
        if (process_start(&args, &process, &err) < 0)
                fail_msg("%s", err.message);
        close(ends[1]);
        assert_int_equal(descriptor_read(ends[0], 4096, &read), 0);
        close(ends[0]);
        status = process_reap(&process);
        assert_string_equal(strbuf_text(&read), said);
        assert_false(status.signalled);
        assert_int_equal(status.code, 0);
}

static void a_child_has_what_it_is_given(void **state) {
        static const char *const other[] = { "PATH=/usr/bin:/bin", "A=b", NULL };
        int leaked = open("/dev/null", O_RDONLY); /* NOLINT(android-cloexec-open): that is the point */

        (void)state;
        assert_true(leaked >= 0);
        assert_int_equal(setenv("SECRET", "ambient", 1), 0);
        assert_says("echo $ONLY $SECRET $HOME", (struct process_args){ 0 }, "this\n");
        assert_says("echo $A", (struct process_args){ .environment = other }, "b\n");
        assert_says("pwd", (struct process_args){ .folder = "/usr" }, "/usr\n");
        /* 3 is the folder that ls reads. */
        assert_says("echo $(ls /proc/self/fd)", (struct process_args){ 0 }, "0 1 2 3\n");
        assert_says("cat; readlink /proc/self/fd/0 /proc/self/fd/2", (struct process_args){ 0 },
                    "/dev/null\n/dev/null\n");
        close(leaked);
}

static void *open_and_close(void *given) {
        const atomic_bool *ending = given;

        while (!*ending) {
                int many[8];

                for (size_t i = 0; i < 8; i++)
                        many[i] = open("/dev/null",
                                       O_RDONLY); /* NOLINT(android-cloexec-open): as libraries may */
                for (size_t i = 0; i < 8; i++)
                        close(many[i]);
        }
        return NULL;
}

/* Whatever is opened at whatever moment. */
static void a_child_has_nothing_that_threads_open(void **state) {
        atomic_bool ending = false;
        pthread_t threads[2];

        (void)state;
        for (size_t i = 0; i < 2; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, open_and_close, &ending), 0);
        for (int i = 0; i < 100; i++)
                assert_says("echo $(ls /proc/self/fd)", (struct process_args){ 0 }, "0 1 2 3\n");
        ending = true;
        for (size_t i = 0; i < 2; i++)
                pthread_join(threads[i], NULL);
}

/* Numbers that are each other's, and gaps between them. */
static void descriptors_come_at_their_numbers(void **state) {
        int a = memfd_create("a", MFD_CLOEXEC), b = memfd_create("b", MFD_CLOEXEC);
        struct process_args args = { .descriptors = { { 0, 0 }, { 0, 7 } }, .descriptor_count = 2 };

        (void)state;
        assert_true(a >= 3 && a < PROCESS_NUMBER_MAX && b >= 3 && b < PROCESS_NUMBER_MAX);
        args.descriptors[0] = (struct process_descriptor){ a, b };
        args.descriptors[1] = (struct process_descriptor){ b, a };
        {
                char script[200], said[100];

                snprintf(script, sizeof(script), "readlink /proc/self/fd/%d /proc/self/fd/%d", a, b);
                snprintf(said, sizeof(said), "/memfd:b (deleted)\n/memfd:a (deleted)\n");
                assert_says(script, args, said);
        }
        args.descriptors[0] = (struct process_descriptor){ a, PROCESS_NUMBER_MAX };
        args.descriptors[1] = (struct process_descriptor){ a, 3 };
        assert_says("echo $(ls /proc/self/fd)", args, "0 1 15 2 3 4\n");
        close(a);
        close(b);
}

/* Blocked, ignored and handled here: as they were at the beginning there. */
static void signals_are_as_new(void **state) {
        sigset_t all, before;

        (void)state;
        sigfillset(&all);
        assert_int_equal(sigprocmask(SIG_SETMASK, &all, &before), 0);
        signal(SIGPIPE, SIG_IGN);
        signal(SIGHUP, SIG_IGN);
        /* Seven digits are 28 signals; what comes behind are two of glibc's own, which it has ignored in all that it starts. */
        assert_says("sed -nE 's/^Sig(Blk|Ign).*(.{7})$/\\2/p' /proc/self/status", (struct process_args){ 0 },
                    "0000000\n0000000\n");
        signal(SIGPIPE, SIG_DFL);
        signal(SIGHUP, SIG_DFL);
        assert_int_equal(sigprocmask(SIG_SETMASK, &before, NULL), 0);
}

static void groups_and_sessions(void **state) {
        /* Fields 1, 5 and 6: the process, its group, its session. */
        static const char same[] = "set -- $(cat /proc/$$/stat); [ $5 != $1 ] && echo same";
        static const char group[] = "set -- $(cat /proc/$$/stat); [ $5 = $1 ] && [ $6 != $1 ] && echo group";
        static const char session[] =
                "set -- $(cat /proc/$$/stat); [ $5 = $1 ] && [ $6 = $1 ] && echo session";

        (void)state;
        assert_says(same, (struct process_args){ .group = PROCESS_OUR_GROUP }, "same\n");
        assert_says(group, (struct process_args){ .group = PROCESS_OWN_GROUP }, "group\n");
        assert_says(session, (struct process_args){ .group = PROCESS_OWN_SESSION }, "session\n");
}

static void what_cannot_be_started(void **state) {
        static const struct {
                const char *program;
                enum error_kind kind;
        } cases[] = {
                { "no-such-program-here", ERROR_NOT_FOUND },
                { "/nonexistent/program", ERROR_NOT_FOUND },
                { "", ERROR_NOT_FOUND },
                { "/etc/passwd", ERROR_FAILED }, /* not executable, for root either */
                { "/etc", ERROR_FAILED },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const char *const arguments[] = { cases[i].program, NULL };
                struct process process = PROCESS_NONE;
                struct error err = { 0 };

                assert_int_equal(
                        process_start(&(struct process_args){ .arguments = arguments }, &process, &err), -1);
                assert_int_equal(err.kind, cases[i].kind);
                assert_non_null(strstr(err.message, cases[i].program));
                assert_int_equal(process.pid, 0);
                process_end(&process);
        }
}

/* The end of a pipe that the child and all its descendants hold: at its end none of them lives. */
static void assert_nobody_holds(int end) {
        struct pollfd polled = { .fd = end, .events = POLLIN };
        char byte;

        assert_int_equal(poll(&polled, 1, LONG_MS), 1);
        assert_int_equal(read(end, &byte, 1), 0);
}

static void a_group_is_killed_whole(void **state) {
        /* Children, grandchildren whose parent has gone, one that is stopped; then the leader is stopped too, or ends. */
        static const char *const scripts[] = {
                "sleep 600 & (sleep 600 & sleep 600 &) & echo >&3; sleep 600",
                "sh -c 'kill -STOP $$; sleep 600' & trap '' TERM INT HUP; echo >&3; kill -STOP $$; sleep 600",
                "(sleep 600 &); echo >&3; exit 0",
        };

        (void)state;
        for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
                const char *const arguments[] = { "sh", "-c", scripts[i], NULL };
                struct process_args args = { .arguments = arguments,
                                             .environment = environment,
                                             .group = PROCESS_OWN_GROUP,
                                             .descriptor_count = 1 };
                struct process process PROCESS_CLEANUP = PROCESS_NONE;
                struct process_status status;
                struct error err = { 0 };
                int ends[2];
                char byte;

                assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
                args.descriptors[0] = (struct process_descriptor){ ends[1], 3 };
                assert_int_equal(process_start(&args, &process, &err), 0);
                close(ends[1]);
                assert_int_equal(read(ends[0], &byte, 1), 1);
                if (i < 2)
                        process_kill(&process);
                status = process_reap(&process);
                assert_int_equal(status.signalled, i < 2);
                assert_int_equal(status.code, i < 2 ? SIGKILL : 0);
                assert_nobody_holds(ends[0]);
                close(ends[0]);
        }
}

/* SIGCHLD ignored, as inherited from a parent: nothing would be left to wait for. */
static void ignored_children_are_reaped_all_the_same(void **state) {
        static const char *const arguments[] = { "sh", "-c", "exit 7", NULL };

        (void)state;
        signal(SIGCHLD, SIG_IGN);
        for (int i = 0; i < 20; i++) {
                struct process process PROCESS_CLEANUP = PROCESS_NONE;
                struct process_status status;
                struct error err = { 0 };

                assert_int_equal(
                        process_start(&(struct process_args){ .arguments = arguments }, &process, &err), 0);
                status = process_reap(&process);
                assert_false(status.signalled);
                assert_int_equal(status.code, 7);
        }
}

static void nothing_is_left_open(void **state) {
        static const char *const arguments[] = { "true", NULL }, *const absent[] = { "/nonexistent", NULL };
        struct process process = PROCESS_NONE;
        struct error err = { 0 };
        int before = dup(0);

        (void)state;
        close(before);
        for (int i = 0; i < 3; i++) {
                assert_int_equal(process_start(&(struct process_args){ .arguments = arguments,
                                                                       .descriptors = { { 2, 2 } },
                                                                       .descriptor_count = 1 },
                                               &process, &err),
                                 0);
                process_end(&process);
                assert_int_equal(process_start(&(struct process_args){ .arguments = absent }, &process, &err),
                                 -1);
        }
        assert_int_equal(dup(0), before);
        close(before);
}

static void programs_are_found_in_order(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();

        (void)state;
        assert_string_equal(process_find_program("sh", "/nonexistent:/usr/bin:/bin", arena), "/usr/bin/sh");
        assert_string_equal(process_find_program("sh", "/bin:/usr/bin", arena), "/bin/sh");
        assert_null(process_find_program("sh", "/nonexistent", arena));
        assert_null(process_find_program("sh", "", arena));
        assert_null(process_find_program("no-such-program", PROCESS_SYSTEM_FOLDERS, arena));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_child_has_what_it_is_given),
                cmocka_unit_test(a_child_has_nothing_that_threads_open),
                cmocka_unit_test(descriptors_come_at_their_numbers),
                cmocka_unit_test(signals_are_as_new),
                cmocka_unit_test(groups_and_sessions),
                cmocka_unit_test(what_cannot_be_started),
                cmocka_unit_test(a_group_is_killed_whole),
                cmocka_unit_test(ignored_children_are_reaped_all_the_same),
                cmocka_unit_test(nothing_is_left_open),
                cmocka_unit_test(programs_are_found_in_order),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
