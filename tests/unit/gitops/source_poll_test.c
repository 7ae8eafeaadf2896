/* SPDX-License-Identifier: Apache-2.0 */
/* What each stack waits for at a repository that a tree of stacks shares. */
#include "gitops/source.h"

#include "base/clock.h"
#include "gitops/follow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

struct bench {
        struct follow_args args;
        struct source_config config;
        struct following following;
        struct source parent, child;
        int result;
};

static void *read_a_commit(void *argument) {
        struct bench *bench = argument;
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct git_answer answer;
        struct error err;

        bench->result = source_read_commit(&bench->child, "0123456789012345678901234567890123456789", arena,
                                           &answer, &err);
        return NULL;
}

static void set_slots(struct following *following, unsigned taken) {
        pthread_mutex_lock(&following->slot_lock);
        following->slots_taken = taken;
        pthread_mutex_unlock(&following->slot_lock);
}

static unsigned slots_of(struct following *following) {
        unsigned taken;

        pthread_mutex_lock(&following->slot_lock);
        taken = following->slots_taken;
        pthread_mutex_unlock(&following->slot_lock);
        return taken;
}

static bool is_to_be_had(pthread_mutex_t *repository) {
        struct timespec until;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 10;
        if (pthread_mutex_timedlock(repository, &until) != 0)
                return false;
        pthread_mutex_unlock(repository);
        return true;
}

/* Four long applies have all slots: a fifth stack, which waits for one of them, must not keep their parent from polling. */
static void a_slot_is_not_waited_for_with_the_repository(void **state) {
        static struct bench bench;
        const struct timespec moment = { .tv_nsec = 10 * 1000 * 1000 };
        pthread_condattr_t attributes;
        pthread_t thread;
        bool had = true;

        (void)state;
        bench.args.folder = "/nonexistent";
        bench.config = (struct source_config){ .name = "all", .url = "/nonexistent", .branch = "main" };
        bench.following.args = &bench.args;
        bench.following.clock = &clock_system;
        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        pthread_mutex_init(&bench.following.slot_lock, NULL);
        pthread_cond_init(&bench.following.slot_free, &attributes);
        pthread_condattr_destroy(&attributes);
        source_init(&bench.parent, &bench.following, &bench.config);
        source_init_child(&bench.child, &bench.parent, "stacks/a");
        set_slots(&bench.following, SLOT_COUNT - 1);
        assert_true(source_take_slot(&bench.child));

        pthread_mutex_lock(&bench.parent.repository);
        assert_int_equal(pthread_create(&thread, NULL, read_a_commit, &bench), 0);
        while (slots_of(&bench.following) == SLOT_COUNT)
                nanosleep(&moment, NULL);
        /* It has let go of its slot, which another stack takes. */
        set_slots(&bench.following, SLOT_COUNT);
        pthread_mutex_unlock(&bench.parent.repository);
        for (unsigned i = 0; i < 20 && had; i++) {
                nanosleep(&moment, NULL);
                had = is_to_be_had(&bench.parent.repository);
        }
        atomic_store(&bench.following.stopping, true);
        pthread_cond_broadcast(&bench.following.slot_free);
        pthread_join(thread, NULL);
        assert_true(had);
        assert_int_equal(bench.result, -1);
        assert_true(is_to_be_had(&bench.parent.repository));
        source_dispose(&bench.child);
        source_dispose(&bench.parent);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_slot_is_not_waited_for_with_the_repository),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
