/* SPDX-License-Identifier: Apache-2.0 */
/* All work is done, once; no owner and no pool has more threads than it may; threads end, cannot be had, or start slowly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "jobs/jobs.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE_MS 60000
#define OWNERS 4

/* Work that waits at a gate, and the most of it that stood there at once. */
struct place {
        struct jobs *jobs;
        pthread_mutex_t lock;
        pthread_cond_t changed;
        bool shut;
        size_t inside, of_owner[OWNERS], most, most_of_owner, done;
        char order[64]; /* the owners, as their work began */
};

struct piece {
        struct place *place;
        size_t owner;
        struct piece *then; /* added by this one's work; NULL: none */
};

static const char *const names[OWNERS] = { "alice", "bob", "carol", "dave" };

static void add(struct piece *piece);

static void work(void *context) {
        struct piece *piece = context;
        struct piece *then = piece->then;
        struct place *place = piece->place;

        pthread_mutex_lock(&place->lock);
        place->inside++;
        place->of_owner[piece->owner]++;
        if (strlen(place->order) < sizeof(place->order) - 1)
                place->order[strlen(place->order)] = names[piece->owner][0];
        if (place->inside > place->most)
                place->most = place->inside;
        if (place->of_owner[piece->owner] > place->most_of_owner)
                place->most_of_owner = place->of_owner[piece->owner];
        pthread_cond_broadcast(&place->changed);
        while (place->shut)
                pthread_cond_wait(&place->changed, &place->lock);
        place->inside--;
        place->of_owner[piece->owner]--;
        place->done++;
        pthread_cond_broadcast(&place->changed);
        pthread_mutex_unlock(&place->lock);
        if (then)
                add(then);
}

static void add(struct piece *piece) {
        jobs_add(piece->place->jobs, names[piece->owner], work, piece);
}

static void begin(struct place *place, const struct jobs_config *config, bool shut) {
        struct error err;

        *place = (struct place){ .lock = PTHREAD_MUTEX_INITIALIZER,
                                 .changed = PTHREAD_COND_INITIALIZER,
                                 .shut = shut };
        assert_int_equal(jobs_open(config, &place->jobs, &err), 0);
}

static void await_inside(struct place *place, size_t count) {
        pthread_mutex_lock(&place->lock);
        while (place->inside != count)
                pthread_cond_wait(&place->changed, &place->lock);
        pthread_mutex_unlock(&place->lock);
}

static void open_gate(struct place *place) {
        pthread_mutex_lock(&place->lock);
        place->shut = false;
        pthread_cond_broadcast(&place->changed);
        pthread_mutex_unlock(&place->lock);
}

static void one_thread_keeps_the_order(void **state) {
        struct place place;
        struct piece pieces[3] = { { &place, 2, NULL }, { &place, 0, NULL }, { &place, 1, NULL } };

        (void)state;
        begin(&place, &(const struct jobs_config){ .threads = 1 }, false);
        for (size_t i = 0; i < 3; i++)
                add(&pieces[i]);
        jobs_close(place.jobs);
        assert_string_equal(place.order, "cab");
}

/* As many as may be work, and no more; what waits is done at the end, also what that adds. */
static void limits_hold(void **state) {
        static const struct {
                struct jobs_config config;
                size_t owners, pieces, inside, of_owner;
        } cases[] = {
                { { .threads = 3 }, 1, 9, 3, 3 },
                { { .threads = 3 }, 4, 9, 3, 3 },
                { { .threads = 8, .per_owner = 2 }, 1, 9, 2, 2 },
                { { .threads = 8, .per_owner = 2 }, 3, 9, 6, 2 },
                { { .threads = 3, .per_owner = 2 }, 4, 12, 3, 2 },
                { { .threads = 1, .per_owner = 4 }, 2, 4, 1, 1 },
        };

        (void)state;
        for (size_t at = 0; at < sizeof(cases) / sizeof(*cases); at++) {
                struct piece pieces[12], more[12];
                struct place place;

                begin(&place, &cases[at].config, true);
                for (size_t i = 0; i < cases[at].pieces; i++) {
                        more[i] = (struct piece){ &place, i % cases[at].owners, NULL };
                        pieces[i] = (struct piece){ &place, i % cases[at].owners, &more[i] };
                        add(&pieces[i]);
                }
                await_inside(&place, cases[at].inside);
                assert_in_range(place.most_of_owner, 1, cases[at].of_owner);
                open_gate(&place);
                jobs_close(place.jobs);
                assert_int_equal(place.done, 2 * cases[at].pieces);
                assert_in_range(place.most, cases[at].inside, cases[at].config.threads);
        }
}

/* The work of an owner with all its threads busy delays no other owner's. */
static void others_pass(void **state) {
        struct place slow, fast;
        struct piece hers[4], his = { &fast, 1, NULL };

        (void)state;
        begin(&slow, &(const struct jobs_config){ .threads = 3, .per_owner = 2 }, true);
        fast = (struct place){ .jobs = slow.jobs,
                               .lock = PTHREAD_MUTEX_INITIALIZER,
                               .changed = PTHREAD_COND_INITIALIZER };
        for (size_t i = 0; i < 4; i++) {
                hers[i] = (struct piece){ &slow, 0, NULL };
                add(&hers[i]);
        }
        add(&his);
        pthread_mutex_lock(&fast.lock);
        while (fast.done == 0)
                pthread_cond_wait(&fast.changed, &fast.lock);
        pthread_mutex_unlock(&fast.lock);
        await_inside(&slow, 2);
        /* Now: while the pool closes, owners have no limit. */
        assert_int_equal(slow.most_of_owner, 2);
        open_gate(&slow);
        jobs_close(slow.jobs);
        assert_int_equal(slow.done, 4);
}

/* --- threads --- */

static size_t count_threads(void) {
        DIR *tasks = opendir("/proc/self/task");
        size_t count = 0;

        assert_non_null(tasks);
        for (const struct dirent *entry; (entry = readdir(tasks));)
                count += entry->d_name[0] != '.';
        closedir(tasks);
        return count;
}

static void wait_for_threads(size_t wanted) {
        for (int i = 0; i < PATIENCE_MS && count_threads() != wanted; i++)
                usleep(1000);
        assert_int_equal(count_threads(), wanted);
}

/* The starter and one worker stay; each crowd finds threads again. */
static void idle_threads_end(void **state) {
        const size_t others = count_threads();
        struct piece pieces[5];
        struct place place;

        (void)state;
        begin(&place, &(const struct jobs_config){ .threads = 8, .idle_ms = 1 }, true);
        for (int round = 0; round < 3; round++) {
                wait_for_threads(others + 2);
                for (size_t i = 0; i < 5; i++) {
                        pieces[i] = (struct piece){ &place, 0, NULL };
                        add(&pieces[i]);
                }
                await_inside(&place, 5);
                /* One more is idle, for the next job. */
                wait_for_threads(others + 7);
                open_gate(&place);
                await_inside(&place, 0);
                pthread_mutex_lock(&place.lock);
                place.shut = true;
                pthread_mutex_unlock(&place.lock);
        }
        wait_for_threads(others + 2);
        jobs_close(place.jobs);
        wait_for_threads(others);
}

static atomic_int threads_left; /* that can be had; below 0: no limit */
static pthread_mutex_t slow_start = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool starts_slowly;
static atomic_int slow_starts;

int __real_pthread_create(pthread_t *ret, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *context);
int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *context);

int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *context) {
        if (atomic_load(&threads_left) == 0)
                return EAGAIN;
        if (atomic_load(&threads_left) > 0)
                atomic_fetch_sub(&threads_left, 1);
        if (atomic_load(&starts_slowly)) {
                atomic_fetch_add(&slow_starts, 1);
                pthread_mutex_lock(&slow_start);
                pthread_mutex_unlock(&slow_start);
        }
        return __real_pthread_create(ret, attributes, run, context);
}

static void threads_that_cannot_be_had(void **state) {
        struct piece pieces[9];
        struct place place;

        (void)state;
        for (int had = 0; had < 4; had++) {
                struct jobs *jobs = NULL;
                struct error err = { 0 };
                int result;

                atomic_store(&threads_left, had);
                result = jobs_open(&(const struct jobs_config){ .threads = 4 }, &jobs, &err);
                assert_int_equal(result, had < 2 ? -1 : 0);
                if (result < 0) {
                        assert_null(jobs);
                        assert_non_null(strstr(err.message, "cannot start a thread: "));
                        continue;
                }
                place = (struct place){ .jobs = jobs,
                                        .lock = PTHREAD_MUTEX_INITIALIZER,
                                        .changed = PTHREAD_COND_INITIALIZER };
                for (size_t i = 0; i < 9; i++) {
                        pieces[i] = (struct piece){ &place, i % OWNERS, NULL };
                        add(&pieces[i]);
                }
                jobs_close(jobs);
                assert_int_equal(place.done, 9);
        }
        atomic_store(&threads_left, -1);
}

/* jobs_add() returns, and the workers that live go on, while the system takes its time for one more. */
static void threads_that_start_slowly(void **state) {
        struct piece first, pieces[5];
        struct place held, place;

        (void)state;
        begin(&held, &(const struct jobs_config){ .threads = 8 }, true);
        place = (struct place){ .jobs = held.jobs,
                                .lock = PTHREAD_MUTEX_INITIALIZER,
                                .changed = PTHREAD_COND_INITIALIZER };
        pthread_mutex_lock(&slow_start);
        atomic_store(&starts_slowly, true);
        first = (struct piece){ &held, 0, NULL };
        add(&first);
        await_inside(&held, 1);
        while (atomic_load(&slow_starts) == 0)
                usleep(1000);
        for (size_t i = 0; i < 5; i++) {
                pieces[i] = (struct piece){ &place, 1, NULL };
                add(&pieces[i]);
        }
        open_gate(&held);
        pthread_mutex_lock(&place.lock);
        while (place.done < 5)
                pthread_cond_wait(&place.changed, &place.lock);
        pthread_mutex_unlock(&place.lock);
        atomic_store(&starts_slowly, false);
        pthread_mutex_unlock(&slow_start);
        jobs_close(held.jobs);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(one_thread_keeps_the_order),
                cmocka_unit_test(limits_hold),
                cmocka_unit_test(others_pass),
                cmocka_unit_test(idle_threads_end),
                cmocka_unit_test(threads_that_cannot_be_had),
                cmocka_unit_test(threads_that_start_slowly),
        };

        atomic_store(&threads_left, -1);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
