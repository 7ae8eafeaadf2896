/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/files.h"
#include "providers/local/launcher_works.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

/* A work that ends once its pipe is closed at the other end. */
struct slow {
        struct launcher_work work;
        int ends[2];
        bool began;
};

static void run_slow(struct launcher_work *work) {
        struct slow *slow = (struct slow *)work;
        char byte;

        __atomic_store_n(&slow->began, true, __ATOMIC_SEQ_CST);
        assert_int_equal(read(slow->ends[0], &byte, 1), 0);
}

static void give(struct launcher_works *works, struct slow *slow, uid_t client) {
        *slow = (struct slow){ .work = { .run = run_slow, .client = client } };
        assert_int_equal(pipe(slow->ends), 0);
        launcher_works_give(works, &slow->work);
}

static void let_end(struct slow *slow) {
        close_descriptor(&slow->ends[1]);
}

static struct slow *wait_for_one(struct launcher_works *works) {
        struct launcher_work *work;

        while (!(work = launcher_works_take(works))) {
                struct pollfd told = { .fd = works->told, .events = POLLIN };

                assert_int_equal(poll(&told, 1, -1), 1);
        }
        close_descriptor(&((struct slow *)work)->ends[0]);
        return (struct slow *)work;
}

static size_t count_running(const struct launcher_works *works) {
        size_t count = 0;

        for (size_t i = 0; i < LAUNCHER_WORKS_MAX; i++)
                count += works->running[i] != NULL;
        return count;
}

/* A client that has its share waits, in order, and holds up no other. */
static void test_each_client_has_a_share(void **state) {
        struct launcher_works works;
        struct slow first[LAUNCHER_WORKS_MAX / 2 + 2], other;
        const size_t share = LAUNCHER_WORKS_MAX / 2;
        struct error err;

        (void)state;
        assert_int_equal(launcher_works_open(&works, 2, &err), 0);
        for (size_t i = 0; i < share + 2; i++)
                give(&works, &first[i], 1);
        assert_int_equal(count_running(&works), share);
        give(&works, &other, 2);
        assert_int_equal(count_running(&works), share + 1);
        let_end(&other);
        assert_ptr_equal(wait_for_one(&works), &other);
        assert_ptr_equal(works.waiting, &first[share].work);
        let_end(&first[3]);
        assert_ptr_equal(wait_for_one(&works), &first[3]);
        assert_ptr_equal(works.waiting, &first[share + 1].work);
        for (size_t i = 0; i < share + 2; i++)
                let_end(&first[i]);
        for (size_t i = 0; i < share + 1; i++)
                (void)wait_for_one(&works);
        assert_int_equal(count_running(&works), 0);
        assert_null(launcher_works_take(&works));
        for (size_t i = 0; i < share + 2; i++)
                assert_true(first[i].began);
        assert_null(launcher_works_last(&works, INT64_MAX));
        assert_int_equal(launcher_works_close(&works), 0);
}

/* At the end those that run are waited for, and those that wait do not begin. */
static void test_the_end(void **state) {
        struct launcher_works works;
        struct slow given[2];
        struct error err;

        (void)state;
        assert_int_equal(launcher_works_open(&works, LAUNCHER_WORKS_MAX * 2, &err), 0);
        give(&works, &given[0], 1);
        give(&works, &given[1], 1);
        let_end(&given[0]);
        let_end(&given[1]);
        assert_ptr_equal(launcher_works_last(&works, INT64_MAX), &given[1]);
        assert_ptr_equal(launcher_works_last(&works, INT64_MAX), &given[0]);
        assert_null(launcher_works_last(&works, INT64_MAX));
        assert_true(given[0].began && !given[1].began);
        close_descriptor(&given[0].ends[0]);
        close_descriptor(&given[1].ends[0]);
        assert_int_equal(launcher_works_close(&works), 0);
}

/* A work that hangs is not waited for, and may end later. */
static void test_one_that_hangs(void **state) {
        static struct launcher_works works;
        static struct slow given;
        struct error err;

        (void)state;
        assert_int_equal(launcher_works_open(&works, 1, &err), 0);
        give(&works, &given, 1);
        assert_null(launcher_works_last(&works, 0));
        assert_int_equal(launcher_works_close(&works), 1);
        let_end(&given);
        /* Its last word, after which it touches nothing. */
        while (poll(&(struct pollfd){ .fd = works.told, .events = POLLIN }, 1, -1) < 1)
                ;
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_each_client_has_a_share),
                cmocka_unit_test(test_the_end),
                cmocka_unit_test(test_one_that_hangs),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
