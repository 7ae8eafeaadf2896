/* SPDX-License-Identifier: Apache-2.0 */
/* The lease of a shared state: one holder by the store's clock, whatever the machines' clocks say and whatever gets lost. */
#include "support.h"

#include "memory_objects.h"
#include "state/shared_lease.h"

/* A machine: its wall clock may be anything, its monotonic one counts as the store's does. */
struct machine {
        struct clock clock;
        struct memory_objects *memory;
        int64_t wall_off_ms;
};

static int64_t wall_of(const struct clock *clock) {
        const struct machine *machine = (const struct machine *)(const void *)clock;

        return machine->memory->now_ms + machine->wall_off_ms;
}

static int64_t monotonic_of(const struct clock *clock) {
        return ((const struct machine *)(const void *)clock)->memory->now_ms - 1600000000000;
}

static struct machine machine_of(struct memory_objects *memory, int64_t wall_off_ms) {
        return (struct machine){ { wall_of, monotonic_of, NULL, NULL }, memory, wall_off_ms };
}

static int take(struct machine *machine, bool force, struct shared_lease *ret, struct error *err) {
        return shared_lease_take(&machine->memory->store, &machine->clock, "anna", "apply", force, ret, err);
}

/* This process is the holder, and lives. */
static void one_holder_by_the_stores_clock(void **place) {
        struct memory_objects memory = MEMORY_OBJECTS_INIT;
        struct machine early = machine_of(&memory, -600000), late = machine_of(&memory, 600000);
        struct shared_lease first, second;
        struct error err = { 0 };

        (void)place;
        assert_int_equal(take(&early, false, &first, &err), 0);
        assert_true(shared_lease_left_ms(&first) > 0);
        assert_int_equal(take(&late, false, &second, &err), -1);
        assert_int_equal(err.kind, ERROR_LOCKED);
        expect_text(err.message, "anna: apply, since ");
        memory.now_ms += SHARED_LEASE_MS;
        assert_int_equal(take(&late, false, &second, &err), -1);
        /* The first has stopped by its own clock before the second may begin. */
        assert_int_equal(shared_lease_left_ms(&first), 0);
        memory.now_ms += 2 * SHARED_LEASE_SECOND_MS;
        assert_int_equal(take(&late, false, &second, &err), 0);
        assert_int_equal(shared_lease_renew(&first, &err), -1);
        assert_int_equal(err.kind, ERROR_LOCKED);
        assert_false(first.held);
        shared_lease_release(&first);
        assert_int_equal(shared_lease_renew(&second, &err), 0);
        memory_close(&memory.store);
}

static void renewed_it_stays(void **place) {
        struct memory_objects memory = MEMORY_OBJECTS_INIT;
        struct machine here = machine_of(&memory, 0), there = machine_of(&memory, 0);
        struct shared_lease first, second;
        struct error err = { 0 };

        (void)place;
        assert_int_equal(take(&here, false, &first, &err), 0);
        for (int i = 0; i < 10; i++) {
                memory.now_ms += SHARED_LEASE_RENEW_MS;
                assert_int_equal(shared_lease_renew(&first, &err), 0);
                assert_int_equal(shared_lease_left_ms(&first), SHARED_LEASE_MS - SHARED_LEASE_MARGIN_MS);
                assert_int_equal(take(&there, false, &second, &err), -1);
        }
        shared_lease_release(&first);
        assert_int_equal(take(&there, false, &second, &err), 0);
        memory_close(&memory.store);
}

static void without_dates_it_is_held_until_by_hand(void **place) {
        struct memory_objects memory = MEMORY_OBJECTS_INIT;
        struct machine here = machine_of(&memory, 0), there = machine_of(&memory, 0);
        struct shared_lease first, second;
        struct error err = { 0 };

        (void)place;
        memory.no_dates = true;
        assert_int_equal(take(&here, false, &first, &err), 0);
        memory.now_ms += 10 * SHARED_LEASE_MS;
        assert_int_equal(take(&there, false, &second, &err), -1);
        assert_int_equal(take(&there, true, &second, &err), 0);
        assert_int_equal(shared_lease_renew(&first, &err), -1);
        expect_text(err.message, "is held by process");
        shared_lease_release(&second);
        memory_close(&memory.store);
}

static enum memory_fault one_fault(void *context, const char *operation, const char *key) {
        enum memory_fault *fault = context, now = *fault;

        (void)key;
        if (strcmp(operation, "put") != 0)
                return FAULT_NONE;
        *fault = FAULT_NONE;
        return now;
}

static void lost_answers_are_found_out(void **place) {
        static const enum memory_fault faults[] = { FAULT_LOST_ANSWER, FAULT_LOST_REQUEST, FAULT_CONFLICT,
                                                    FAULT_AGAIN };

        (void)place;
        for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
                struct memory_objects memory = MEMORY_OBJECTS_INIT;
                struct machine here = machine_of(&memory, 0);
                struct shared_lease lease;
                struct error err = { 0 };
                enum memory_fault fault = faults[i];
                int result;

                memory.fault = one_fault;
                memory.context = &fault;
                assert_int_equal(take(&here, false, &lease, &err), 0);
                memory.now_ms += SHARED_LEASE_RENEW_MS;
                fault = faults[i];
                result = shared_lease_renew(&lease, &err);
                if (faults[i] == FAULT_LOST_ANSWER || faults[i] == FAULT_AGAIN)
                        assert_int_equal(result, 0);
                else
                        assert_int_equal(shared_lease_renew(&lease, &err), 0);
                assert_int_equal(shared_lease_left_ms(&lease), SHARED_LEASE_MS - SHARED_LEASE_MARGIN_MS);
                memory_close(&memory.store);
        }
}

/* A renewal that arrives late counts from when it arrived, not from when it was found. */
static void a_late_renewal_is_not_counted_from_now(void **place) {
        struct memory_objects memory = MEMORY_OBJECTS_INIT;
        struct machine here = machine_of(&memory, 0);
        enum memory_fault fault = FAULT_NONE;
        struct shared_lease lease;
        struct error err = { 0 };

        (void)place;
        memory.fault = one_fault;
        memory.context = &fault;
        assert_int_equal(take(&here, false, &lease, &err), 0);
        memory.now_ms += SHARED_LEASE_RENEW_MS;
        fault = FAULT_LATE;
        assert_int_equal(shared_lease_renew(&lease, &err), -1);
        assert_true(lease.held);
        memory_deliver(&memory);
        memory.now_ms += SHARED_LEASE_RENEW_MS;
        /* This one finds the late one's ETag, and says that it is not renewed; the next one is. */
        assert_int_equal(shared_lease_renew(&lease, &err), -1);
        assert_true(lease.held);
        assert_int_equal(shared_lease_left_ms(&lease),
                         SHARED_LEASE_MS - SHARED_LEASE_MARGIN_MS - 2 * SHARED_LEASE_RENEW_MS);
        assert_int_equal(shared_lease_renew(&lease, &err), 0);
        memory_close(&memory.store);
}

static void who_is_dead_here_loses_it_at_once(void **place) {
        struct memory_objects memory = MEMORY_OBJECTS_INIT;
        struct machine here = machine_of(&memory, 0);
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct shared_lease_seen seen;
        struct shared_lease lease;
        struct error err = { 0 };
        char *at;

        (void)place;
        assert_int_equal(take(&here, false, &lease, &err), 0);
        assert_int_equal(shared_lease_look(&memory.store, arena, &seen, &err), 1);
        assert_true(seen.alive);
        assert_int_equal(seen.pid, getpid());
        /* The same process with another start: it has gone. */
        at = strstr(memory_at(&memory, SHARED_LEASE_KEY)->bytes, "\"process\":\"");
        assert_non_null(at);
        at = strchr(at + 11, '-') + 1;
        *at = *at == '1' ? '2' : '1';
        assert_int_equal(shared_lease_look(&memory.store, arena, &seen, &err), 1);
        assert_false(seen.alive);
        memory_close(&memory.store);
}

/* By force it is written over, but for a newer Berth's, which may hold by what this one cannot read. */
static void what_is_no_lease_is_an_error(void **place) {
        static const char *const texts[] = {
                "", "{}", "{\"formatVersion\":\"2\"}",
                "{\"formatVersion\":\"1\",\"id\":\"x\",\"process\":\"\",\"renewals\":0}"
        };

        (void)place;
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                struct memory_objects memory = MEMORY_OBJECTS_INIT;
                struct machine here = machine_of(&memory, 0);
                struct shared_lease lease;
                struct error err = { 0 };
                bool newer = strstr(texts[i], "\"2\"");

                assert_int_equal(
                        memory_write(&memory, SHARED_LEASE_KEY, "", texts[i], strlen(texts[i]), NULL),
                        OBJECT_DONE);
                assert_int_equal(take(&here, false, &lease, &err), -1);
                expect_text(err.message, "memory:test/lease");
                expect_text(err.message, newer ? "newer Berth" : "berth lock release --force");
                assert_int_equal(take(&here, true, &lease, &err), newer ? -1 : 0);
                assert_int_equal(take(&here, false, &lease, &err), -1);
                memory_close(&memory.store);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(one_holder_by_the_stores_clock),
                cmocka_unit_test(renewed_it_stays),
                cmocka_unit_test(without_dates_it_is_held_until_by_hand),
                cmocka_unit_test(lost_answers_are_found_out),
                cmocka_unit_test(a_late_renewal_is_not_counted_from_now),
                cmocka_unit_test(who_is_dead_here_loses_it_at_once),
                cmocka_unit_test(what_is_no_lease_is_an_error),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
