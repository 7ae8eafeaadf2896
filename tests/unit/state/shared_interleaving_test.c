/* SPDX-License-Identifier: Apache-2.0 */
/*
 * protocol_test goes through a model of lease and log; this does the same to the code itself, over
 * a store in memory. Machines are threads of which one runs at a time: each stops before every
 * request, and the scheduler says who goes on and what becomes of the request. All schedules are
 * tried that depart from the plain one (one machine after the other, good weather) in a limited
 * number of places: another machine goes on, with or without the lease's time passing meanwhile; an
 * answer is lost, a write arrives late or is refused by 409, an answer is cut off; a machine dies.
 * A schedule is a list of choices, and each one begins from the start.
 *
 * A holder without its fence, and one that does not look at its clock, must be found.
 *
 * BERTH_MODEL=deep allows one departure more: minutes.
 */
#include "support.h"

#include "base/clock.h"
#include "memory_objects.h"
#include "state/shared_lease.h"
#include "state/shared_log.h"

#include <pthread.h>
#include <semaphore.h>

#define LINEAGE "11111111-2222-4333-8444-555555555555"
#define MACHINES 2
#define COMMITS 2
#define ATTEMPTS 2 /* of a machine that finds the lease taken */
#define CHOICES_MAX 400
#define OPTIONS_MAX 32
#define SKEW_MS (10 * 60 * 1000) /* between the machines' wall clocks */

enum mistake { MISTAKE_NONE, NO_FENCE, NO_CLOCK };

struct run;

struct machine {
        struct run *run;
        int number;
        struct clock clock;
        pthread_t thread;
        sem_t go;
        const char *request; /* that it is about to make: "get", "put", "list"; "" between two attempts */
        enum memory_fault fault;
        bool dead, done;
        unsigned order; /* of its taking the lease among all takings */
        char acknowledged[COMMITS + 1][SHARED_ID_SIZE];
        uint64_t numbers[COMMITS + 1];
        size_t acknowledged_count;
};

/* Choices of one schedule: which of how many, in order. */
struct schedule {
        unsigned chosen[CHOICES_MAX], options[CHOICES_MAX];
        size_t count, at;
        unsigned departures; /* that are left */
};

struct run {
        struct memory_objects memory;
        struct machine machines[MACHINES];
        sem_t back;
        int current;
        enum mistake mistake;
        struct schedule *schedule;
        unsigned takings, caller; /* the order of the youngest who has called the cloud */
        uint64_t caller_knew;     /* the number of the log's last entry as of its first call */
        const char *broken;
};

static _Thread_local struct machine *self;

static void broke(struct run *run, const char *what) {
        if (!run->broken)
                run->broken = what;
}

/* A machine */

/* Waits until the scheduler lets it go on; what becomes of the request. */
static enum memory_fault stop_before(struct machine *machine, const char *request) {
        machine->request = request;
        sem_post(&machine->run->back);
        while (sem_wait(&machine->go) < 0)
                continue;
        return machine->dead ? FAULT_REFUSED : machine->fault;
}

static enum memory_fault stop_here(void *context, const char *operation, const char *key) {
        (void)context;
        (void)key;
        return self ? stop_before(self, operation) : FAULT_NONE;
}

static struct machine *machine_of(const struct clock *clock) {
        return (struct machine *)(void *)((char *)(uintptr_t)clock - offsetof(struct machine, clock));
}

static int64_t wall_ms(const struct clock *clock) {
        const struct machine *machine = machine_of(clock);

        return machine->run->memory.now_ms + (machine->number ? SKEW_MS : -SKEW_MS);
}

static int64_t monotonic_ms(const struct clock *clock) {
        return machine_of(clock)->run->memory.now_ms;
}

static bool in_time(const struct machine *machine, const struct shared_lease *lease) {
        return machine->run->mistake == NO_CLOCK || shared_lease_left_ms(lease) > 0;
}

static int append(struct machine *machine, struct shared_log *log, uint64_t epoch) {
        struct shared_entry entry = { .epoch = epoch, .command = "apply", .who = "anna" };
        struct error ignored;
        int result;

        shared_new_id(entry.id);
        result = shared_log_append(log, &entry, &ignored);
        if (result != SHARED_APPENDED)
                return result;
        if (machine->order < machine->run->caller && log->number > machine->run->caller_knew)
                broke(machine->run, "an older holder writes after a younger one has begun");
        memcpy(machine->acknowledged[machine->acknowledged_count], entry.id, SHARED_ID_SIZE);
        machine->numbers[machine->acknowledged_count++] = log->number;
        return result;
}

static int read_on(struct shared_log *log) {
        int found;

        do {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct shared_entry entry;
                struct error ignored;

                found = shared_log_next(log, arena, &entry, &ignored);
        } while (found == 1);
        return found;
}

/*
 * As shared_state.c does: the holder of the lease reads on and writes its entry, until it is the
 * one at the end.
 */
static bool fence(struct machine *machine, const struct shared_lease *lease, struct shared_log *log) {
        int result = SHARED_TAKEN;

        while (result == SHARED_TAKEN) {
                if (read_on(log) < 0 || !in_time(machine, lease))
                        return false;
                if (machine->run->mistake == NO_FENCE) {
                        log->epoch++;
                        return true;
                }
                result = append(machine, log, log->epoch + 1);
        }
        return result == SHARED_APPENDED;
}

/* No machine calls after a younger one, nor without knowing what others were told is written. */
static void call_cloud(const struct machine *machine, const struct shared_log *log) {
        struct run *run = machine->run;

        if (machine->order < run->caller)
                broke(run, "an older holder calls the cloud after a younger one");
        for (size_t i = 0; i < MACHINES; i++) {
                for (size_t k = 0; k < run->machines[i].acknowledged_count; k++) {
                        if (run->machines[i].numbers[k] > log->number)
                                broke(run, "the cloud is called by who does not know what was acknowledged");
                }
        }
        if (machine->order > run->caller) {
                run->caller = machine->order;
                run->caller_knew = log->number;
        }
}

static void hold(struct machine *machine, struct shared_lease *lease, struct shared_log *log) {
        for (size_t i = 0; i < COMMITS; i++) {
                struct error ignored;

                if (!in_time(machine, lease))
                        return;
                call_cloud(machine, log);
                if (append(machine, log, log->epoch) != SHARED_APPENDED)
                        return;
                if (i == 0 && shared_lease_renew(lease, &ignored) < 0 && !lease->held)
                        return;
        }
}

/* 1 where the lease was another's. */
static int attempt(struct machine *machine) {
        struct object_store *store = &machine->run->memory.store;
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct shared_entry root;
        struct shared_lease lease;
        struct shared_log log;
        struct error err = { 0 };

        machine->acknowledged_count = 0;
        if (shared_lease_take(store, &machine->clock, "anna", "apply", false, &lease, &err) < 0)
                return err.kind == ERROR_LOCKED;
        machine->order = ++machine->run->takings;
        if (shared_log_begin(store, arena, &log, &root, &err) == 1 && fence(machine, &lease, &log))
                hold(machine, &lease, &log);
        if (shared_lease_left_ms(&lease) > 0)
                shared_lease_release(&lease);
        return 0;
}

static void *run_machine(void *context) {
        struct machine *machine = context;

        self = machine;
        for (int i = 0; i < ATTEMPTS; i++) {
                stop_before(machine, "");
                if (machine->dead || attempt(machine) == 0)
                        break;
        }
        machine->done = true;
        sem_post(&machine->run->back);
        return NULL;
}

/* The scheduler */

static unsigned choose(struct schedule *schedule, unsigned options) {
        assert_true(schedule->at < CHOICES_MAX);
        if (schedule->at == schedule->count) {
                schedule->chosen[schedule->count] = 0;
                schedule->options[schedule->count++] = options;
        }
        /* The same choices before must lead here again. */
        assert_int_equal(schedule->options[schedule->at], options);
        return schedule->chosen[schedule->at++];
}

/* The next one, of those that have not been tried; false after the last. */
static bool next_schedule(struct schedule *schedule) {
        while (schedule->count > 0) {
                size_t last = schedule->count - 1;

                if (++schedule->chosen[last] < schedule->options[last])
                        return true;
                schedule->count--;
        }
        return false;
}

enum departure_type { GO_ON, GO_ON_ANOTHER, ANOTHER_LATER, WITH_FAULT, DIES, LATE_ARRIVES };

struct departure {
        enum departure_type type;
        int machine;
        enum memory_fault fault;
};

static int first_alive(const struct run *run) {
        for (int i = 0; i < MACHINES; i++) {
                if (!run->machines[i].done)
                        return i;
        }
        return -1;
}

static size_t departures(const struct run *run, struct departure *ret) {
        static const enum memory_fault of_put[] = { FAULT_LOST_ANSWER, FAULT_LATE, FAULT_CONFLICT,
                                                    FAULT_AGAIN };
        const char *request = run->machines[run->current].request;
        size_t count = 0;

        ret[count++] = (struct departure){ .type = GO_ON, .machine = run->current };
        if (run->schedule->departures == 0)
                return count;
        for (int i = 0; i < MACHINES; i++) {
                if (i == run->current || run->machines[i].done)
                        continue;
                ret[count++] = (struct departure){ .type = GO_ON_ANOTHER, .machine = i };
                ret[count++] = (struct departure){ .type = ANOTHER_LATER, .machine = i };
        }
        ret[count++] = (struct departure){ .type = DIES, .machine = run->current };
        if (run->memory.late)
                ret[count++] = (struct departure){ .type = LATE_ARRIVES, .machine = run->current };
        if (strcmp(request, "get") == 0)
                ret[count++] = (struct departure){ WITH_FAULT, run->current, FAULT_CUT };
        for (size_t i = 0; strcmp(request, "put") == 0 && i < sizeof(of_put) / sizeof(of_put[0]); i++)
                ret[count++] = (struct departure){ WITH_FAULT, run->current, of_put[i] };
        return count;
}

static void go_on(struct run *run) {
        struct departure options[OPTIONS_MAX], chosen;
        size_t count = departures(run, options);
        struct machine *machine;
        unsigned choice = choose(run->schedule, (unsigned)count);

        chosen = options[choice];
        run->schedule->departures -= choice > 0;
        machine = &run->machines[chosen.machine];
        machine->fault = chosen.fault;
        if (chosen.type == ANOTHER_LATER)
                run->memory.now_ms += SHARED_LEASE_MS + 2 * SHARED_LEASE_SECOND_MS;
        if (chosen.type == DIES)
                machine->dead = true;
        if (chosen.type == LATE_ARRIVES)
                memory_deliver(&run->memory);
        run->current = chosen.machine;
        sem_post(&machine->go);
        while (sem_wait(&run->back) < 0)
                continue;
        machine->fault = FAULT_NONE;
        if (machine->done)
                run->current = first_alive(run);
}

/* Must hold at the end of every schedule */

static void judge_log(struct run *run) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        char ids[64][SHARED_ID_SIZE];
        struct shared_entry entry;
        struct shared_log log;
        struct error err = { 0 };
        size_t count = 0;
        uint64_t epoch = 0;

        assert_int_equal(shared_log_begin(&run->memory.store, arena, &log, &entry, &err), 1);
        while (count < 64 && shared_log_next(&log, arena, &entry, &err) == 1) {
                if (entry.epoch < epoch)
                        broke(run, "an older holder's entry follows a younger one's");
                epoch = entry.epoch;
                for (size_t i = 0; i < count; i++) {
                        if (strcmp(ids[i], entry.id) == 0)
                                broke(run, "one commit has two numbers");
                }
                memcpy(ids[count++], entry.id, SHARED_ID_SIZE);
        }
        for (size_t i = 0; i < MACHINES; i++) {
                const struct machine *machine = &run->machines[i];

                for (size_t k = 0; k < machine->acknowledged_count; k++) {
                        if (machine->numbers[k] > count ||
                            strcmp(ids[machine->numbers[k] - 1], machine->acknowledged[k]) != 0)
                                broke(run, "what was acknowledged is not in the log");
                }
        }
}

/* When the lease has passed, a machine that comes alone gets it and commits. */
static void judge_progress(struct run *run) {
        struct machine late = { .run = run, .clock = run->machines[0].clock };

        run->memory.now_ms += SHARED_LEASE_MS + 2 * SHARED_LEASE_SECOND_MS;
        if (attempt(&late) != 0 || late.acknowledged_count < COMMITS)
                broke(run, "nobody gets on any more");
}

static void begin_run(struct run *run, struct schedule *schedule, enum mistake mistake) {
        struct shared_entry root = { .lineage = LINEAGE };
        struct error err = { 0 };

        *run = (struct run){ .memory = MEMORY_OBJECTS_INIT, .schedule = schedule, .mistake = mistake };
        shared_new_id(root.id);
        assert_int_equal(shared_log_create(&run->memory.store, &root, &err), 0);
        run->memory.fault = stop_here;
        sem_init(&run->back, 0, 0);
        for (int i = 0; i < MACHINES; i++) {
                struct machine *machine = &run->machines[i];

                machine->run = run;
                machine->number = i;
                machine->clock = (struct clock){ .wall_ms = wall_ms, .monotonic_ms = monotonic_ms };
                sem_init(&machine->go, 0, 0);
                assert_int_equal(pthread_create(&machine->thread, NULL, run_machine, machine), 0);
                while (sem_wait(&run->back) < 0)
                        continue;
        }
}

static void end_run(struct run *run) {
        for (int i = 0; i < MACHINES; i++) {
                pthread_join(run->machines[i].thread, NULL);
                sem_destroy(&run->machines[i].go);
        }
        memory_deliver(&run->memory);
        judge_log(run);
        judge_progress(run);
        run->memory.store.ops->close(&run->memory.store);
        sem_destroy(&run->back);
}

/* Tries schedules until one breaks something; how many. */
static size_t try_all(unsigned departures_max, enum mistake mistake, const char **ret_broken) {
        struct schedule schedule = { .count = 0 };
        size_t count = 0;

        *ret_broken = NULL;
        do {
                struct run run;

                schedule.at = 0;
                schedule.departures = departures_max;
                begin_run(&run, &schedule, mistake);
                while (run.current >= 0)
                        go_on(&run);
                end_run(&run);
                *ret_broken = run.broken;
                count++;
        } while (!*ret_broken && next_schedule(&schedule));
        for (size_t i = 0; *ret_broken && i < schedule.at; i++)
                if (schedule.chosen[i])
                        print_message("departure at request %zu: %u of %u\n", i, schedule.chosen[i],
                                      schedule.options[i] - 1);
        return count;
}

static void every_schedule_holds(void **unused) {
        const char *wanted = getenv("BERTH_MODEL"), *broken;
        size_t count = try_all(wanted && strcmp(wanted, "deep") == 0 ? 3 : 2, MISTAKE_NONE, &broken);

        (void)unused;
        print_message("%zu schedules\n", count);
        if (broken)
                fail_msg("%s", broken);
        assert_true(count > 1000);
}

/* The tests of the test. */
static void every_mistake_is_found(void **unused) {
        const char *broken;

        (void)unused;
        try_all(2, NO_FENCE, &broken);
        assert_non_null(broken);
        try_all(2, NO_CLOCK, &broken);
        assert_non_null(broken);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_schedule_holds),
                cmocka_unit_test(every_mistake_is_found),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
