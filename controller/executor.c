/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job's way: BLOCKED while jobs it waits for have not ended; NEW once they are all done; RUNNING during a turn;
 * PARKED until the time it named; READY when that has come; ENDED.
 *
 * One lock guards all of it and is let go while a turn runs. A worker that finds nothing to do waits for the
 * condition, at the most until the earliest parked job is due. Ready jobs come before new ones: what is begun is
 * brought to its end first, so that an interrupt finds little under way.
 *
 * Nothing is allocated once the threads run. Each job stands on one list at the most, linked through its slot, or on
 * the heap of parked jobs, which has room for all of them.
 */
#include "controller/executor.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/interrupt.h"

#include <pthread.h>
#include <stdlib.h>

/*
 * A signal may come to a thread that waits elsewhere: no thread waits longer than this without
 * looking.
 */
#define LONGEST_WAIT_MS 100

enum job_phase { PHASE_BLOCKED, PHASE_NEW, PHASE_READY, PHASE_PARKED, PHASE_RUNNING, PHASE_ENDED };

struct slot {
        enum job_phase phase;
        size_t blockers; /* jobs that must still end */
        bool doomed;     /* one of them did not end well */
        bool had_a_turn, begun, queued;
        enum job_outcome outcome; /* once it has ended */
        int64_t not_before_ms;
        size_t next; /* in the list it is on */
        size_t *dependents;
        size_t dependent_count;
};

#define NONE SIZE_MAX

struct list {
        size_t first, last;
};

struct executor {
        const struct executor_ops *ops;
        void *context;
        const struct job *jobs;
        struct slot *slots;
        size_t count;
        unsigned threads;
        const struct clock *clock;
        const struct interrupt *interrupt;
        struct arena *arena; /* until the threads begin */
        pthread_mutex_t lock;
        pthread_cond_t wake;
        unsigned lanes;
        struct list *fresh; /* by lane: never begun, nothing in their way */
        struct list ready;  /* begun, due */
        size_t *parked;     /* a heap by not_before_ms */
        size_t parked_count;
        size_t *queued; /* by lane: how many jobs stand in line for its quota */
        unsigned next_lane;
        struct executor_stats stats;
        /*
         * The jobs that have ended, in that order; the first `told` of them the caller knows of.
         * The receiver may write to a terminal that was stopped: the calling thread alone does
         * that, without the lock, and no worker waits.
         */
        size_t *ended_jobs;
        size_t ended, told;
};

static void list_push(struct executor *executor, struct list *list, size_t job) {
        executor->slots[job].next = NONE;
        if (list->last == NONE)
                list->first = job;
        else
                executor->slots[list->last].next = job;
        list->last = job;
}

/* NONE where the list is empty. */
static size_t list_pop(struct executor *executor, struct list *list) {
        size_t job = list->first;

        if (job == NONE)
                return NONE;
        list->first = executor->slots[job].next;
        if (list->first == NONE)
                list->last = NONE;
        return job;
}

static bool is_due_earlier(const struct executor *executor, size_t a, size_t b) {
        return executor->slots[a].not_before_ms < executor->slots[b].not_before_ms;
}

static void swap_parked(struct executor *executor, size_t a, size_t b) {
        size_t job = executor->parked[a];

        executor->parked[a] = executor->parked[b];
        executor->parked[b] = job;
}

/* Onto the heap: the new entry goes up while it is due before its parent. */
static void park_job(struct executor *executor, size_t job) {
        size_t at = executor->parked_count++;

        executor->slots[job].phase = PHASE_PARKED;
        executor->parked[at] = job;
        while (at > 0 && is_due_earlier(executor, executor->parked[at], executor->parked[(at - 1) / 2])) {
                swap_parked(executor, at, (at - 1) / 2);
                at = (at - 1) / 2;
        }
}

/* Takes the earliest off the heap: the last entry takes its place, and goes down while a child is due before it. */
static size_t unpark(struct executor *executor) {
        size_t job = executor->parked[0], at = 0;

        executor->parked[0] = executor->parked[--executor->parked_count];
        for (;;) {
                size_t least = at;

                for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < executor->parked_count;
                     child++) {
                        if (is_due_earlier(executor, executor->parked[child], executor->parked[least]))
                                least = child;
                }
                if (least == at)
                        return job;
                swap_parked(executor, at, least);
                at = least;
        }
}

static void make_fresh(struct executor *executor, size_t job) {
        executor->slots[job].phase = PHASE_NEW;
        list_push(executor, &executor->fresh[executor->jobs[job].lane], job);
}

static void mark_ended(struct executor *executor, size_t job, enum job_outcome outcome) {
        executor->slots[job].phase = PHASE_ENDED;
        executor->slots[job].outcome = outcome;
        executor->ended_jobs[executor->ended++] = job;
        executor->stats.done += outcome == JOB_DONE;
        executor->stats.failed += outcome == JOB_FAILED;
        executor->stats.skipped += outcome != JOB_DONE && outcome != JOB_FAILED;
}

/* Marks the job as ended and everything that waited only for it as free, or as skipped where it went wrong. */
static void end_job(struct executor *executor, size_t job, enum job_outcome outcome);

static void release_dependents(struct executor *executor, size_t job, bool well) {
        struct slot *slot = &executor->slots[job];

        for (size_t i = 0; i < slot->dependent_count; i++) {
                size_t dependent = slot->dependents[i];
                struct slot *other = &executor->slots[dependent];

                other->doomed |= !well;
                if (--other->blockers > 0 || other->phase != PHASE_BLOCKED)
                        continue;
                if (other->doomed)
                        end_job(executor, dependent, JOB_SKIPPED);
                else
                        make_fresh(executor, dependent);
        }
}

static void end_job(struct executor *executor, size_t job, enum job_outcome outcome) {
        mark_ended(executor, job, outcome);
        release_dependents(executor, job, outcome == JOB_DONE);
}

/*
 * At an interrupt: the first ends what was not begun, the second what waits as well. A job that only stood in line had
 * turns and is not begun: it is given up, since one that was begun may wait for what it holds.
 */
static void heed_interrupt(struct executor *executor) {
        int level = interrupt_level(executor->interrupt);

        if (level == INTERRUPT_NONE)
                return;
        for (size_t job = 0; job < executor->count; job++) {
                struct slot *slot = &executor->slots[job];
                bool waiting = slot->phase == PHASE_BLOCKED || slot->phase == PHASE_NEW ||
                               slot->phase == PHASE_PARKED || slot->phase == PHASE_READY;

                if (!waiting || (slot->begun && level == INTERRUPT_FINISH))
                        continue;
                slot->blockers = SIZE_MAX / 2; /* no other job frees it any more */
                mark_ended(executor, job, slot->begun ? JOB_LEFT : JOB_NOT_STARTED);
                if (!slot->begun && slot->had_a_turn && executor->ops->give_up)
                        executor->ops->give_up(executor->context, job);
        }
        for (unsigned lane = 0; lane < executor->lanes; lane++) {
                executor->fresh[lane] = (struct list){ NONE, NONE };
                executor->queued[lane] = 0;
        }
}

static void collect_due(struct executor *executor) {
        int64_t now = executor->clock->monotonic_ms(executor->clock);

        while (executor->parked_count > 0 && executor->slots[executor->parked[0]].not_before_ms <= now) {
                size_t job = unpark(executor);

                /* Those that an interrupt ended are still on the heap. */
                if (executor->slots[job].phase != PHASE_PARKED)
                        continue;
                executor->slots[job].phase = PHASE_READY;
                list_push(executor, &executor->ready, job);
        }
}

static size_t next_job(struct executor *executor) {
        size_t job;

        collect_due(executor);
        while ((job = list_pop(executor, &executor->ready)) != NONE) {
                if (executor->slots[job].phase == PHASE_READY)
                        return job;
        }
        /* Lanes take turns, so that none starves behind another's quota. */
        for (unsigned i = 0; i < executor->lanes; i++) {
                unsigned lane = executor->next_lane++ % executor->lanes;

                if (executor->queued[lane] >= executor->threads)
                        continue;
                job = list_pop(executor, &executor->fresh[lane]);
                if (job != NONE)
                        return job;
        }
        return NONE;
}

static void wait_for_work(struct executor *executor) {
        int64_t now = executor->clock->monotonic_ms(executor->clock), wait = LONGEST_WAIT_MS;
        struct timespec until;

        if (executor->parked_count > 0) {
                int64_t due = executor->slots[executor->parked[0]].not_before_ms - now;

                wait = due < 1 ? 1 : due < wait ? due : wait;
        }
        until = clock_after_ms(wait);
        pthread_cond_timedwait(&executor->wake, &executor->lock, &until);
}

/*
 * How many jobs of a lane wait for its quota. next_job() begins no further one of it while they are as many as the
 * threads.
 */
static void count_queued(struct executor *executor, size_t job, bool queued) {
        struct slot *slot = &executor->slots[job];
        size_t *count = &executor->queued[executor->jobs[job].lane];

        if (slot->queued && !queued && *count > 0)
                (*count)--;
        if (!slot->queued && queued)
                (*count)++;
        slot->queued = queued;
}

/*
 * One turn of a job, with the lock let go meanwhile. No other thread touches a job that is RUNNING,
 * not even an interrupt.
 */
static void run_turn(struct executor *executor, size_t job) {
        struct slot *slot = &executor->slots[job];
        struct turn turn = { .begun = slot->begun };
        int result;

        slot->phase = PHASE_RUNNING;
        slot->had_a_turn = true;
        executor->stats.running++;
        pthread_mutex_unlock(&executor->lock);
        result = executor->ops->run(executor->context, job, &turn);
        pthread_mutex_lock(&executor->lock);
        executor->stats.running--;
        slot->begun |= turn.begun;
        count_queued(executor, job, result == 0 && !turn.done && turn.queued);
        if (result < 0) {
                end_job(executor, job, JOB_FAILED);
        } else if (turn.done) {
                end_job(executor, job, JOB_DONE);
        } else {
                slot->not_before_ms = turn.not_before_ms;
                park_job(executor, job);
        }
        pthread_cond_broadcast(&executor->wake);
}

static void *worker_main(void *argument) {
        struct executor *executor = argument;

        pthread_mutex_lock(&executor->lock);
        while (executor->ended < executor->count) {
                size_t job;

                heed_interrupt(executor);
                job = next_job(executor);
                if (job != NONE)
                        run_turn(executor, job);
                else if (executor->ended < executor->count)
                        wait_for_work(executor);
        }
        pthread_cond_broadcast(&executor->wake);
        pthread_mutex_unlock(&executor->lock);
        return NULL;
}

/* Jobs that wait for one another can never begin; found before anything runs by taking away all that can. */
static void skip_cycles(struct executor *executor, const size_t *blockers) {
        size_t *left = arena_array(executor->arena, executor->count, sizeof(*left)),
               *queue = arena_array(executor->arena, executor->count, sizeof(*queue));
        size_t head = 0, tail = 0;

        for (size_t job = 0; job < executor->count; job++) {
                left[job] = blockers[job];
                if (left[job] == 0)
                        queue[tail++] = job;
        }
        while (head < tail) {
                struct slot *slot = &executor->slots[queue[head++]];

                for (size_t i = 0; i < slot->dependent_count; i++) {
                        if (--left[slot->dependents[i]] == 0)
                                queue[tail++] = slot->dependents[i];
                }
        }
        for (size_t job = 0; tail < executor->count && job < executor->count; job++) {
                if (left[job] > 0 && executor->slots[job].phase == PHASE_BLOCKED)
                        end_job(executor, job, JOB_SKIPPED);
        }
}

static void link_jobs(struct executor *executor) {
        size_t *blockers = arena_array(executor->arena, executor->count, sizeof(*blockers));

        for (size_t job = 0; job < executor->count; job++) {
                for (size_t i = 0; i < executor->jobs[job].after_count; i++) {
                        struct slot *needed = &executor->slots[executor->jobs[job].after[i]];

                        needed->dependents = array_grow(executor->arena, needed->dependents,
                                                        needed->dependent_count, sizeof(size_t));
                        needed->dependents[needed->dependent_count++] = job;
                }
                blockers[job] = executor->jobs[job].after_count;
                executor->slots[job].blockers = blockers[job];
        }
        skip_cycles(executor, blockers);
        for (size_t job = 0; job < executor->count; job++) {
                if (executor->slots[job].phase != PHASE_BLOCKED)
                        continue;
                if (executor->jobs[job].excluded)
                        end_job(executor, job, JOB_SKIPPED);
                else if (executor->slots[job].blockers == 0)
                        make_fresh(executor, job);
        }
}

/* With the lock, which is let go for each call. */
static void tell_ended(struct executor *executor) {
        while (executor->told < executor->ended) {
                size_t job = executor->ended_jobs[executor->told++];
                enum job_outcome outcome = executor->slots[job].outcome;

                pthread_mutex_unlock(&executor->lock);
                executor->ops->ended(executor->context, job, outcome);
                pthread_mutex_lock(&executor->lock);
        }
}

/* The calling thread's part, while the others work. */
static void watch_workers(struct executor *executor) {
        pthread_mutex_lock(&executor->lock);
        while (tell_ended(executor), executor->ended < executor->count) {
                struct executor_stats stats;

                wait_for_work(executor);
                stats = executor->stats;
                stats.waiting = executor->parked_count;
                for (unsigned lane = 0; lane < executor->lanes; lane++)
                        stats.queued += executor->queued[lane];
                pthread_mutex_unlock(&executor->lock);
                if (executor->ops->watch)
                        executor->ops->watch(executor->context, &stats);
                pthread_mutex_lock(&executor->lock);
        }
        pthread_mutex_unlock(&executor->lock);
}

static void init_executor(struct executor *executor) {
        pthread_condattr_t attributes;

        pthread_mutex_init(&executor->lock, NULL);
        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        pthread_cond_init(&executor->wake, &attributes);
        pthread_condattr_destroy(&attributes);
        executor->arena = arena_new();
        executor->slots = arena_array(executor->arena, executor->count, sizeof(*executor->slots));
        executor->parked = arena_array(executor->arena, executor->count, sizeof(*executor->parked));
        executor->ended_jobs = arena_array(executor->arena, executor->count, sizeof(*executor->ended_jobs));
        executor->ready = (struct list){ NONE, NONE };
        executor->lanes = 1;
        for (size_t job = 0; job < executor->count; job++) {
                if (executor->jobs[job].lane >= executor->lanes)
                        executor->lanes = executor->jobs[job].lane + 1;
        }
        executor->fresh = arena_array(executor->arena, executor->lanes, sizeof(*executor->fresh));
        executor->queued = arena_array(executor->arena, executor->lanes, sizeof(*executor->queued));
        for (unsigned lane = 0; lane < executor->lanes; lane++)
                executor->fresh[lane] = (struct list){ NONE, NONE };
}

static void release_executor(struct executor *executor) {
        arena_free(executor->arena);
        pthread_cond_destroy(&executor->wake);
        pthread_mutex_destroy(&executor->lock);
}

void executor_run(const struct executor_ops *ops, void *context, const struct job *jobs, size_t count,
                  unsigned threads, const struct clock *clock, const struct interrupt *interrupt) {
        struct executor executor = {
                .ops = ops,
                .context = context,
                .jobs = jobs,
                .count = count,
                .threads = threads,
                .clock = clock,
                .interrupt = interrupt,
                .stats = { .total = count },
        };
        pthread_t *pool = calloc(threads, sizeof(*pool));
        unsigned started = 0;

        if (!pool)
                abort();
        init_executor(&executor);
        link_jobs(&executor);
        while (started < threads && pthread_create(&pool[started], NULL, worker_main, &executor) == 0)
                started++;
        if (started == 0)
                abort(); /* not one thread to be had: dying is safe, and says more than hanging */
        watch_workers(&executor);
        /*
         * watch_workers() returns when all jobs have ended and the caller knows of them; the workers see the same and
         * end.
         */
        for (unsigned i = 0; i < started; i++)
                pthread_join(pool[i], NULL);
        release_executor(&executor);
        free(pool);
}
