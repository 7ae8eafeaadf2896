/* SPDX-License-Identifier: Apache-2.0 */
/* The lease: conflict, take-over from the dead, fencing of who lost it. */
#include "support.h"

#include "base/clock.h"
#include "state/codec.h"
#include "state/state_parts.h"

#include <signal.h>

static struct lease_holder *holder_of(struct state *state, struct arena *arena) {
        struct lease_holder *holder = NULL;
        struct error err = { 0 };

        if (state_lease_show(state, arena, &holder, &err) < 0)
                fail_msg("%s", err.message);
        return holder;
}

static void taken_and_given_back(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct state *state = open_state(*place, STATE_CREATE);
        struct lease_holder *holder;
        struct error err = { 0 };

        assert_null(holder_of(state, arena));
        assert_int_equal(state_lease_acquire(state, "apply", &err), 0);
        holder = holder_of(state, arena);
        assert_non_null(holder);
        assert_int_equal(holder->pid, getpid());
        assert_string_equal(holder->command, "apply");
        assert_true(holder->alive);
        assert_true(holder->since_ms > 1700000000000);
        assert_true(holder->heartbeat_ms >= holder->since_ms);
        assert_true(strlen(holder->boot_id) > 0);
        assert_int_equal(state_lease_acquire(state, "apply", &err), -1);
        put_record(state, "Agent/a", "a");
        state_lease_release(state);
        state_lease_release(state);
        assert_null(holder_of(state, arena));
        assert_int_equal(state_lease_acquire(state, "destroy", &err), 0);
        state_close(state); /* gives it back */
        state = open_state(*place, STATE_READ);
        assert_null(holder_of(state, arena));
        state_close(state);
}

/* A child that takes the lease, says so, and lives until it is told or killed. */
struct child {
        pid_t pid;
        int says, hears;
};

enum after { AFTER_NOTHING, AFTER_COMMIT };

static int hold(const char *folder, enum after after, int says, int hears) {
        struct state_op op = { .type = STATE_PUT_META, .meta = { "late", "write" } };
        struct error err = { 0 };
        struct state *state;
        char byte = 'h';

        if (state_open(folder, STATE_CREATE, &state, &err) < 0 ||
            state_lease_acquire(state, "apply", &err) < 0)
                return 1;
        if (write(says, &byte, 1) != 1 || read(hears, &byte, 1) != 1)
                return 2;
        if (after == AFTER_COMMIT) {
                if (state_commit(state, &op, 1, &err) == 0)
                        return 3;
                if (err.kind != ERROR_LOCKED || !strstr(err.message, "was taken from this run"))
                        return 4;
                if (state_new_run(state, &(uint64_t){ 0 }, &err) == 0)
                        return 5;
        }
        state_close(state);
        return 0;
}

static struct child start_holder(const char *folder, enum after after) {
        struct child child;
        int says[2] = { -1, -1 }, hears[2] = { -1, -1 };
        char byte;

        REQUIRE(pipe(says) == 0 && pipe(hears) == 0);
        child.pid = fork();
        if (child.pid == 0) {
                close(says[0]);
                close(hears[1]);
                _exit(hold(folder, after, says[1], hears[0]));
        }
        close(says[1]);
        close(hears[0]);
        child.says = says[0];
        child.hears = hears[1];
        REQUIRE(read(child.says, &byte, 1) == 1);
        return child;
}

static int end_holder(struct child child) {
        int status;

        REQUIRE(write(child.hears, "x", 1) == 1);
        REQUIRE(waitpid(child.pid, &status, 0) == child.pid);
        close(child.says);
        close(child.hears);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void second_run_is_told_of_the_first(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct child child = start_holder(*place, AFTER_NOTHING);
        struct state *state = open_state(*place, STATE_CREATE);
        struct error err = { 0 };
        struct lease_holder *holder = holder_of(state, arena);

        assert_int_equal(state_lease_acquire(state, "apply", &err), -1);
        assert_int_equal(err.kind, ERROR_LOCKED);
        expect_text(err.message,
                    arena_printf(arena, "process %ld on %s (apply, since 20", (long)child.pid, holder->host));
        expect_text(err.message, "berth lock release");
        assert_int_equal(holder->pid, child.pid);
        assert_true(holder->alive);
        /* Reading, and storing what was seen, go on beside an apply. */
        put_record(state, "Agent/a", "a");
        assert_int_equal(state_lease_break(state, false, &err), -1);
        assert_int_equal(err.kind, ERROR_LOCKED);
        assert_int_equal(end_holder(child), 0);
        assert_int_equal(state_lease_acquire(state, "apply", &err), 0);
        state_close(state);
}

static void killed_holder_loses_it(void **place) {
        for (int reaped = 0; reaped < 2; reaped++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct child child = start_holder(*place, AFTER_NOTHING);
                struct state *state;
                struct error err = { 0 };
                siginfo_t info;

                REQUIRE(kill(child.pid, SIGKILL) == 0);
                /* Dead is dead, also before its parent has asked for its status. */
                REQUIRE(waitid(P_PID, (id_t)child.pid, &info, WEXITED | WNOWAIT) == 0);
                if (reaped)
                        REQUIRE(waitpid(child.pid, NULL, 0) == child.pid);
                state = open_state(*place, STATE_CREATE);
                assert_non_null(holder_of(state, arena));
                assert_false(holder_of(state, arena)->alive);
                assert_int_equal(state_lease_acquire(state, "apply", &err), 0);
                assert_int_equal(holder_of(state, arena)->pid, getpid());
                state_close(state);
                if (!reaped)
                        REQUIRE(waitpid(child.pid, NULL, 0) == child.pid);
                close(child.says);
                close(child.hears);
        }
}

static void robbed_holder_writes_nothing_more(void **place) {
        for (int taken = 0; taken < 2; taken++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct child child = start_holder(*place, AFTER_COMMIT);
                struct state *state = open_state(*place, STATE_CREATE);
                struct error err = { 0 };
                const char *text;

                assert_int_equal(state_lease_break(state, true, &err), 0);
                if (taken)
                        assert_int_equal(state_lease_acquire(state, "apply", &err), 0);
                assert_int_equal(end_holder(child), 0);
                assert_int_equal(state_load_meta(state, "late", arena, &text, &err), 0);
                assert_null(text);
                /* The robbed one's release does not drop what is ours now. */
                if (taken)
                        put_record(state, "Agent/a", "still ours");
                state_close(state);
        }
}

static void nothing_to_break(void **place) {
        struct state *state = open_state(*place, STATE_CREATE);
        struct error err = { 0 };

        assert_int_equal(state_lease_break(state, false, &err), 0);
        assert_int_equal(state_lease_break(state, true, &err), 0);
        state_close(state);
}

/* Leases as others may have left them. */
static int write_lease(struct store_txn *txn, void *lease, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        uint8_t *bytes;
        size_t length;

        if (codec_encode_lease(lease, arena, &bytes, &length, err) < 0)
                return -1;
        return state_put_sealed(txn, STORE_META, META_LEASE, bytes, length, err);
}

static void who_counts_as_alive(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct state *state = open_state(*place, STATE_CREATE);
        uint64_t now = (uint64_t)clock_system.wall_ms(&clock_system);
        struct lease_holder *self;
        struct error err = { 0 };
        struct lease base = { .token = 1, .since_ms = now, .heartbeat_ms = now, .command = "apply" };
        char namespace[64] = { 0 };

        assert_int_equal(state_lease_acquire(state, "apply", &err), 0);
        self = holder_of(state, arena);
        state_lease_release(state);
        REQUIRE(readlink("/proc/self/ns/pid", namespace, sizeof(namespace) - 1) > 0);
        base.host = self->host;
        base.boot_id = self->boot_id;
        base.pid_namespace = namespace;
        const struct {
                const char *what, *host, *boot_id, *pid_namespace;
                uint64_t pid, age_ms;
                bool alive;
        } cases[] = {
                { "here, gone", NULL, NULL, NULL, 4194303, 0, false },
                { "here, its pid is another's now", NULL, NULL, NULL, 1, 0, false },
                { "elsewhere, beating", "elsewhere", NULL, NULL, 1, 59000, true },
                { "elsewhere, silent", "elsewhere", NULL, NULL, 1, 61000, false },
                { "before the reboot, silent", NULL, "other", NULL, 1, 61000, false },
                { "before the reboot, just now", NULL, "other", NULL, 1, 1000, true },
                { "in another container, beating", NULL, NULL, "pid:[1]", 4194303, 1000, true },
                { "in another container, silent", NULL, NULL, "pid:[1]", 1, 61000, false },
        };
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct lease lease = base;

                lease.pid = cases[i].pid;
                lease.started = 1;
                lease.heartbeat_ms = now - cases[i].age_ms;
                lease.host = cases[i].host ? cases[i].host : base.host;
                lease.boot_id = cases[i].boot_id ? cases[i].boot_id : base.boot_id;
                lease.pid_namespace = cases[i].pid_namespace ? cases[i].pid_namespace : base.pid_namespace;
                REQUIRE(store_write(state->store, write_lease, &lease, &err) == 0);
                if (holder_of(state, arena)->alive != cases[i].alive)
                        fail_msg("%s", cases[i].what);
                if ((state_lease_acquire(state, "apply", &err) < 0) != cases[i].alive)
                        fail_msg("%s: acquire", cases[i].what);
                state_lease_release(state);
        }
        state_close(state);
}

static void heartbeat_is_renewed(void **place) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct state *state = open_state(*place, STATE_CREATE);
        struct error err = { 0 };
        int64_t first;

        assert_int_equal(state_lease_acquire(state, "apply", &err), 0);
        first = holder_of(state, arena)->heartbeat_ms;
        for (int i = 0; i < 100 && holder_of(state, arena)->heartbeat_ms == first; i++)
                usleep(100 * 1000);
        assert_true(holder_of(state, arena)->heartbeat_ms > first);
        state_close(state);
}

#define STATE_TEST(test) cmocka_unit_test_setup_teardown(test, make_place, remove_place)

int main(void) {
        const struct CMUnitTest tests[] = {
                STATE_TEST(taken_and_given_back),   STATE_TEST(second_run_is_told_of_the_first),
                STATE_TEST(killed_holder_loses_it), STATE_TEST(robbed_holder_writes_nothing_more),
                STATE_TEST(nothing_to_break),       STATE_TEST(who_counts_as_alive),
                STATE_TEST(heartbeat_is_renewed),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
