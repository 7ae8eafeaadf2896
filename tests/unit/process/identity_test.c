/* SPDX-License-Identifier: Apache-2.0 */
#include "process/identity.h"

#include <pthread.h>
#include <sched.h>
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

static void test_there_and_back(void **state) {
        struct process_identity own = identity_of_self(), read;
        char text[IDENTITY_TEXT_SIZE], again[IDENTITY_TEXT_SIZE], longer[IDENTITY_TEXT_SIZE + 8];
        const char *end;

        (void)state;
        assert_int_equal(own.pid, getpid());
        assert_true(own.start > 0 && own.boot > 0 && own.namespace > 0);
        identity_write(&own, text);
        assert_true(identity_read(text, &read, &end));
        identity_write(&read, again);
        assert_string_equal(text, again);
        assert_string_equal(end, "");
        snprintf(longer, sizeof(longer), "%s-17", text);
        assert_true(identity_read(longer, &read, &end));
        assert_string_equal(end, "-17");
        assert_int_equal(identity_life(&own), IDENTITY_ALIVE);
}

static void test_what_is_none(void **state) {
        static const char *const texts[] = { "",         "1",       "1-2",
                                             "1-2-3",    "1-2-3-",  "x-2-3-4",
                                             "-1-2-3-4", "0-2-3-4", "99999999999-2-3-4" };
        struct process_identity read;
        const char *end;

        (void)state;
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                if (identity_read(texts[i], &read, &end))
                        fail_msg("%s", texts[i]);
        }
}

static void test_the_dead_and_the_unseen(void **state) {
        struct process_identity other = identity_of_self();
        pid_t pid = fork();

        (void)state;
        if (pid == 0)
                _exit(0);
        assert_int_equal(waitid(P_PID, (id_t)pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT), 0);
        assert_int_equal(identity_process_life(pid, other.start),
                         IDENTITY_DEAD); /* a zombie, not yet reaped */
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        other.start++; /* the same number given again */
        assert_int_equal(identity_life(&other), IDENTITY_DEAD);
        other = identity_of_self();
        other.pid = pid;
        assert_int_equal(identity_life(&other), IDENTITY_DEAD);
        other = identity_of_self();
        other.boot++;
        assert_int_equal(identity_life(&other), IDENTITY_UNKNOWN);
        other = identity_of_self();
        other.namespace ++;
        assert_int_equal(identity_life(&other), IDENTITY_UNKNOWN);
}

static void *look_at_it(void *start) {
        char process_state;

        return identity_look(getpid(), &process_state, start) ? start : NULL;
}

/*
 * All callers are told the same of a living process: it itself, another one, another of its
 * threads.
 */
static void test_all_see_the_same(void **state) {
        const struct process_identity own = identity_of_self();
        uint64_t seen = 0;
        pthread_t thread;
        void *result;
        int status;
        pid_t pid;

        (void)state;
        assert_int_equal(pthread_create(&thread, NULL, look_at_it, &seen), 0);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_non_null(result);
        assert_true(seen == own.start);
        pid = fork();
        if (pid == 0)
                _exit((int)identity_life(&own));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), IDENTITY_ALIVE);
}

/* Seen from another PID namespace, where our number is unused or another's: nothing can be said. */
static void test_from_another_namespace(void **state) {
        struct process_identity own = identity_of_self();
        int status;
        pid_t pid;

        (void)state;
        pid = fork();
        if (pid == 0) {
                if (unshare(CLONE_NEWPID) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) < 0)
                        _exit(77);
                pid = fork();
                if (pid == 0)
                        _exit((int)identity_life(&own));
                _exit(waitpid(pid, &status, 0) == pid ? WEXITSTATUS(status) : 99);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (WEXITSTATUS(status) == 77)
                skip();
        assert_int_equal(WEXITSTATUS(status), IDENTITY_UNKNOWN);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_there_and_back),          cmocka_unit_test(test_what_is_none),
                cmocka_unit_test(test_the_dead_and_the_unseen), cmocka_unit_test(test_all_see_the_same),
                cmocka_unit_test(test_from_another_namespace),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
