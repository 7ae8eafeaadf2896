/* SPDX-License-Identifier: Apache-2.0 */
/* One pace for several processes. Each case is a process of its own, as what is shared is found once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "providers/aws/client/quota_set.h"
#include "providers/aws/client/quota_shared.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ACCOUNT "111111111111"
#define REGION "eu-central-1"

static int status_of(int (*run)(void)) {
        pid_t child;
        int status = 0;

        fflush(NULL);
        child = fork();
        if (child == 0)
                _exit(run());
        assert_true(child > 0 && waitpid(child, &status, 0) == child);
        return status;
}

static void share(int descriptor) {
        char number[16];

        snprintf(number, sizeof(number), "%d", descriptor);
        setenv(QUOTA_SHARED_VARIABLE, number, 1);
}

#define INTERVAL_MS 69 /* at 14.5 calls a second */

/* A turn, as a process that was just started takes it: how many intervals after the first of all. */
static int take_turn(void) {
        struct quota_set *set = quota_set_share(ACCOUNT, REGION, &clock_system, 1.0);
        int64_t turn = quota_reserve(&set->buckets[QUOTA_LAMBDA_CONTROL], 1000000, false) - 1000000;

        quota_set_release(set);
        return (int)((turn + INTERVAL_MS / 2) / INTERVAL_MS);
}

static int take_elsewhere(void) {
        struct quota_set *set = quota_set_share(ACCOUNT, "us-east-1", &clock_system, 1.0);

        return (int)(quota_reserve(&set->buckets[QUOTA_LAMBDA_CONTROL], 1000000, false) - 1000000);
}

static int die_with_the_lock(void) {
        struct quota_bucket *buckets = quota_shared_find(ACCOUNT, REGION);

        quota_lock(&buckets[QUOTA_LAMBDA_CONTROL].lock);
        abort();
}

/* More accounts and regions than fit: the rest keep to themselves, and nothing is overwritten. */
static int fill(void) {
        char region[64];

        for (int i = 0; i < 200; i++) {
                snprintf(region, sizeof(region), "region-%d", i);
                if ((quota_shared_find(ACCOUNT, region) != NULL) != (i < 62))
                        return 1;
        }
        return quota_shared_find("a-very-long-name-of-an-account", "r") != NULL;
}

static int find_nothing(void) {
        return quota_shared_find(ACCOUNT, REGION) != NULL;
}

static void processes_wait_for_one_another(void **state) {
        struct error err;
        int descriptor;

        (void)state;
        assert_int_equal(quota_shared_new(&descriptor, &err), 0);
        share(descriptor);
        for (int i = 0; i < 3; i++)
                assert_int_equal(WEXITSTATUS(status_of(take_turn)), i);
        /* A process that is killed while it holds the lock holds up no other. */
        assert_true(WIFSIGNALED(status_of(die_with_the_lock)));
        assert_int_equal(WEXITSTATUS(status_of(take_turn)), 3);
        assert_int_equal(WEXITSTATUS(status_of(take_elsewhere)), 0);
        assert_int_equal(WEXITSTATUS(status_of(fill)), 0);
        assert_int_equal(WEXITSTATUS(status_of(take_turn)), 4);
        close(descriptor);
}

/* The variable may come from anywhere: what is not ours is not mapped. */
static void what_is_not_ours(void **state) {
        static const char *const numbers[] = { "", "x", "-1", "0", "3x", "99999999999999999999", "1000" };
        FILE *file = tmpfile();

        (void)state;
        assert_non_null(file);
        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
                setenv(QUOTA_SHARED_VARIABLE, numbers[i], 1);
                assert_int_equal(status_of(find_nothing), 0);
        }
        share(fileno(file));
        assert_int_equal(status_of(find_nothing), 0);
        unsetenv(QUOTA_SHARED_VARIABLE);
        assert_int_equal(status_of(find_nothing), 0);
        fclose(file);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(processes_wait_for_one_another),
                cmocka_unit_test(what_is_not_ours),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
