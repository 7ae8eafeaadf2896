/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/shared/lock_holder.h"

#include "providers/aws/client/support.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a child says of itself. It lives on until it is killed. */
static pid_t start_holder(char text[LOCK_HOLDER_SIZE]) {
        int ends[2];
        pid_t child;

        assert_int_equal(pipe(ends), 0);
        child = fork();
        if (child == 0) {
                lock_holder_self(text);
                _exit(write(ends[1], text, LOCK_HOLDER_SIZE) == LOCK_HOLDER_SIZE ? pause() : 1);
        }
        assert_true(child > 0);
        assert_int_equal(read(ends[0], text, LOCK_HOLDER_SIZE), LOCK_HOLDER_SIZE);
        close(ends[0]);
        close(ends[1]);
        return child;
}

static void only_the_dead_of_this_place_are_gone(void **state) {
        char text[LOCK_HOLDER_SIZE], other[LOCK_HOLDER_SIZE + 8];
        pid_t child = start_holder(text);
        unsigned long long start, boot, namespace;
        long pid;

        (void)state;
        assert_false(lock_holder_is_gone(text));
        assert_int_equal(sscanf(text, "%ld-%llu-%llx-%llx", &pid, &start, &boot, &namespace), 4);
        assert_int_equal(pid, child);
        /* Its id was given again: who has it now started at another time. */
        snprintf(other, sizeof(other), "%ld-%llu-%llx-%llx", pid, start + 1, boot, namespace);
        assert_true(lock_holder_is_gone(other));
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        assert_true(lock_holder_is_gone(text));
        snprintf(other, sizeof(other), "%ld-%llu-%llx-%llx", pid, start, boot + 1, namespace);
        assert_false(lock_holder_is_gone(other));
        snprintf(other, sizeof(other), "%ld-%llu-%llx-%llx", pid, start, boot, namespace + 1);
        assert_false(lock_holder_is_gone(other));
        snprintf(other, sizeof(other), "%sx", text);
        assert_false(lock_holder_is_gone(other));
}

static void who_cannot_be_known_is_not_gone(void **state) {
        static const char *const texts[] = {
                "",         "-",       "1",           "7-0-0-0",
                "7-1-0-1",  "7-1-1-0", "elsewhere/1", "a boot/pid:[4026531836]/7",
                "-7-1-1-1", "0-1-1-1"
        };

        (void)state;
        for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
                assert_false(lock_holder_is_gone(texts[i]));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(only_the_dead_of_this_place_are_gone),
                cmocka_unit_test(who_cannot_be_known_is_not_gone),
        };

        return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
