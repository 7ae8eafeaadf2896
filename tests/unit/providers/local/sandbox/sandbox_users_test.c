/* SPDX-License-Identifier: Apache-2.0 */
/* Host users from a folder of the test's own. As who is not root, or in a container that has no such users, there is little. */
#include "providers/local/sandbox/sandbox_users.h"

#include "base/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include "providers/local/support.h"
#include <cmocka.h>

#define FIRST 1900080000U

static struct sandbox_users users_or_skip(struct place *place, unsigned count) {
        struct sandbox_users users = { arena_printf(place->arena, "%s/users", place->folder), FIRST, count };
        struct sandbox_user user = SANDBOX_USER_NONE;
        struct error err = { 0 };

        assert_int_equal(sandbox_user_take(&users, &user, &err), 0);
        if (user.lock < 0) {
                assert_true(geteuid() == 0 ? user.uid == 65534 : user.uid == geteuid());
                skip();
        }
        close(user.lock);
        return users;
}

static struct sandbox_user take(const struct sandbox_users *users) {
        struct sandbox_user user = SANDBOX_USER_NONE;
        struct error err = { 0 };

        if (sandbox_user_take(users, &user, &err) < 0)
                fail_msg("%s", err.message);
        assert_int_equal(user.uid, user.gid);
        return user;
}

static void test_each_has_one_of_his_own(void **state) {
        struct sandbox_users users = users_or_skip(*state, 3);
        struct sandbox_user taken[3], none = SANDBOX_USER_NONE;
        struct error err = { 0 };

        for (unsigned i = 0; i < 3; i++) {
                taken[i] = take(&users);
                assert_int_equal(taken[i].uid, FIRST + i);
        }
        assert_int_equal(sandbox_user_take(&users, &none, &err), -1);
        assert_non_null(strstr(err.message, "all 3 users"));
        assert_int_equal(none.lock, -1);
        close_descriptor(&taken[1].lock);
        taken[1] = take(&users);
        assert_int_equal(taken[1].uid, FIRST + 1);
        for (unsigned i = 0; i < 3; i++)
                close_descriptor(&taken[i].lock);
}

/* Not by who holds the lock, but by who has it: the run's process 1 keeps it after us. */
static void test_free_when_the_last_has_closed_it(void **state) {
        struct sandbox_users users = users_or_skip(*state, 2);
        struct sandbox_user first = take(&users), second;
        int passed = dup(first.lock);

        close_descriptor(&first.lock);
        second = take(&users);
        assert_int_equal(second.uid, FIRST + 1);
        close(passed);
        close_descriptor(&second.lock);
        second = take(&users);
        assert_int_equal(second.uid, FIRST);
        close_descriptor(&second.lock);
}

static void test_one_that_is_kept_is_not_given(void **state) {
        struct sandbox_users users = users_or_skip(*state, 2);
        char path[256];
        FILE *file;
        struct sandbox_user user;

        snprintf(path, sizeof(path), "%s/%u", users.folder, FIRST);
        file = fopen(path, "w");
        assert_non_null(file);
        fputs("agent:x\n", file);
        assert_int_equal(fclose(file), 0);
        user = take(&users);
        assert_int_equal(user.uid, FIRST + 1);
        close_descriptor(&user.lock);
}

static void test_a_folder_that_others_may_enter(void **state) {
        struct sandbox_users users = users_or_skip(*state, 2);
        struct sandbox_user user = SANDBOX_USER_NONE;
        struct error err = { 0 };

        assert_int_equal(chmod(users.folder, 0711), 0);
        assert_int_equal(sandbox_user_take(&users, &user, &err), -1);
        assert_non_null(strstr(err.message, "mode 0700"));
}

/* The error names the missing thing: descriptors, and no users. */
static void test_without_a_descriptor(void **state) {
        struct sandbox_users users = users_or_skip(*state, 2);
        struct sandbox_user user = SANDBOX_USER_NONE;
        struct rlimit before, none;
        struct error err = { 0 };
        int result;

        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        none = (struct rlimit){ 0, before.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        result = sandbox_user_take(&users, &user, &err);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_int_equal(result, -1);
        assert_string_equal(err.message, "cannot read /proc/self/uid_map: Too many open files");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_each_has_one_of_his_own),       TEST(test_free_when_the_last_has_closed_it),
                TEST(test_one_that_is_kept_is_not_given), TEST(test_a_folder_that_others_may_enter),
                TEST(test_without_a_descriptor),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
