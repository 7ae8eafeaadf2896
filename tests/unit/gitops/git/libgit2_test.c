/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gitops/git/libgit2.h"

static int refused;

static int take_all_but_one(int option, ...) {
        return option == refused ? -1 : 0;
}

/* Debian's 1.5 before its security update has not the last of the options; all others are as old as 1.5. */
static void test_an_older_library_will_do(void **state) {
        enum git_failure failure;
        struct error err;

        (void)state;
        assert_int_equal(repository_begin(NULL, &failure, &err), 0);
        sym_git_libgit2_opts = take_all_but_one;
#ifdef GIT2_BOUNDS_OBJECTS
        refused = GIT_OPT_SET_PACK_MAX_OBJECT_SIZE;
        assert_int_equal(repository_begin(NULL, &failure, &err), 0);
#endif
        refused = GIT_OPT_SET_OWNER_VALIDATION;
        assert_int_equal(repository_begin(NULL, &failure, &err), -1);
        assert_int_equal(failure, GIT_LOCAL);
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_an_older_library_will_do) };

        return cmocka_run_group_tests_name("libgit2", tests, NULL, NULL);
}
