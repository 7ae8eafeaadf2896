/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Death and disk errors at every write. This program stands in for the C library's write, sync and rename calls, which
 * LMDB and Berth call, and makes the n-th of them fail, tear, or be the last thing the process does. Whatever happens,
 * the state that is opened afterwards is sound and holds the last acknowledged commit, or the one under way.
 */
#include "support.h"

#include "state/state_parts.h"

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum mishap {
        NO_MISHAP,
        DIE_BEFORE,  /* the process is killed before the call */
        DIE_AFTER,   /* after it */
        DIE_AMID,    /* when half of it is written */
        FAIL_ONCE,   /* the call fails, with `code`; what follows works */
        FAIL_ALWAYS, /* it and all that follow fail */
        FAIL_DONE,   /* it does its work and then says that it failed */
        FAIL_SHORT   /* it writes half and says so */
};

static struct {
        enum mishap mishap;
        int code, countdown;
        bool struck;
} plan;

static long real(long number, long a, long b, long c, long d) {
        return syscall(number, a, b, c, d);
}

/* Half of a write, so that a page is torn. */
static long half(long number, long a, long b, long c, long d) {
        if (number == SYS_write || number == SYS_pwrite64)
                return real(number, a, b, c / 2, d);
        if (number == SYS_writev)
                return real(number, a, b, (c + 1) / 2, d);
        return real(number, a, b, c, d);
}

static bool strikes(void) {
        if (plan.mishap == NO_MISHAP)
                return false;
        if (plan.struck)
                return plan.mishap == FAIL_ALWAYS;
        plan.struck = --plan.countdown == 0;
        return plan.struck;
}

static long call(long number, long a, long b, long c, long d) {
        long result;

        if (!strikes())
                return real(number, a, b, c, d);
        switch (plan.mishap) {
        case DIE_AMID:
                half(number, a, b, c, d);
                kill(getpid(), SIGKILL);
                break;
        case DIE_AFTER:
                real(number, a, b, c, d);
                kill(getpid(), SIGKILL);
                break;
        case DIE_BEFORE:
                kill(getpid(), SIGKILL);
                break;
        case FAIL_SHORT:
                result = half(number, a, b, c, d);
                return result;
        case FAIL_DONE:
                real(number, a, b, c, d);
                break;
        default:
                break;
        }
        errno = plan.code;
        return -1;
}

/* The parameters bear other names than in the C library's headers, where those are reserved. */
/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */
ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset) {
        return call(SYS_pwrite64, fd, (long)bytes, (long)size, offset);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
        return call(SYS_writev, fd, (long)parts, count, 0);
}

ssize_t write(int fd, const void *bytes, size_t size) {
        /* Standard output and pipes are no disk. */
        struct stat status;

        if (plan.mishap == NO_MISHAP || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) || fd <= 2)
                return real(SYS_write, fd, (long)bytes, (long)size, 0);
        return call(SYS_write, fd, (long)bytes, (long)size, 0);
}

int fdatasync(int fd) {
        return (int)call(SYS_fdatasync, fd, 0, 0, 0);
}

int fsync(int fd) {
        return (int)call(SYS_fsync, fd, 0, 0, 0);
}

int rename(const char *from, const char *to) {
        return (int)call(SYS_renameat, AT_FDCWD, (long)from, AT_FDCWD, (long)to);
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */

/* What one process does to the state: two commits, each all or nothing. */

struct run {
        const char *folder;
        enum mishap mishap;
        int code, at;
        int acknowledged; /* pipe: a byte for each commit that returned */
};

static int commit_round(struct state *state, int round, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        char *text = arena_alloc(arena, 20001);
        struct state_op ops[30];

        memset(text, 'a' + round % 26, 20000);
        for (int i = 0; i < 30; i++) {
                struct record *record = arena_alloc(arena, sizeof(*record));

                /* One large value each, and many small ones. */
                *record = make_record(state, arena, arena_printf(arena, "Agent/%02d", i),
                                      i == 0 ? text : arena_printf(arena, "%d", round));
                record->applied_ms = round;
                ops[i] = (struct state_op){ .type = STATE_PUT_RECORD, .record = record };
        }
        return state_commit(state, ops, 30, err);
}

enum ended { ENDED_DONE = 0, ENDED_FAILED = 70, ENDED_UNSTRUCK = 71, ENDED_SPEECHLESS = 72 };

static int commit_twice(const void *context) {
        const struct run *run = context;
        struct error err = { 0 };
        struct state *state;
        int failed = 0;

        plan.code = run->code;
        plan.countdown = run->at;
        plan.mishap = run->mishap;
        if (state_open(run->folder, STATE_CREATE, &state, &err) < 0)
                return strstr(err.message, run->folder) ? ENDED_FAILED : ENDED_SPEECHLESS;
        for (int i = 0; i < 2; i++) {
                uint64_t round = 0;

                if (state_serial(state, &round, &err) < 0 || commit_round(state, (int)round + 1, &err) < 0) {
                        if (!strstr(err.message, run->folder))
                                return ENDED_SPEECHLESS;
                        failed++;
                } else if (real(SYS_write, run->acknowledged, (long)"c", 1, 0) != 1) {
                        return ENDED_SPEECHLESS;
                }
        }
        state_close(state);
        if (!plan.struck)
                return ENDED_UNSTRUCK;
        return failed ? ENDED_FAILED : ENDED_DONE;
}

/* The round that the state holds: all records are of the same. */
static uint64_t held_round(const char *folder) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct state *state = open_state(folder, STATE_CREATE);
        struct error err = { 0 };
        struct record *records;
        uint64_t round = serial_of(state);
        size_t count;

        assert_int_equal(state_load_records(state, arena, &records, &count, &err), 0);
        assert_int_equal(count, round ? 30 : 0);
        for (size_t i = 0; i < count; i++)
                assert_int_equal(records[i].applied_ms, round);
        expect_sound(state);
        state_close(state);
        return round;
}

/* Runs once with the mishap at call `at`; false when there were fewer calls. */
static bool survive(const char *folder, enum mishap mishap, int code, int at, uint64_t *round) {
        int ends[2], status, acknowledged = 0;
        struct run run = { .folder = folder, .mishap = mishap, .code = code, .at = at };
        uint64_t now;
        pid_t pid;
        char byte;

        REQUIRE(pipe(ends) == 0);
        run.acknowledged = ends[1];
        pid = fork();
        if (pid == 0)
                _exit(commit_twice(&run));
        REQUIRE(waitpid(pid, &status, 0) == pid);
        close(ends[1]);
        while (read(ends[0], &byte, 1) == 1)
                acknowledged++;
        close(ends[0]);
        if (WIFSIGNALED(status) && (WTERMSIG(status) != SIGKILL || mishap > DIE_AMID))
                fail_msg("mishap %d (%s) at call %d: signal %d", (int)mishap, strerror(code), at,
                         WTERMSIG(status));
        if (WIFEXITED(status) && WEXITSTATUS(status) != ENDED_DONE && WEXITSTATUS(status) != ENDED_FAILED &&
            WEXITSTATUS(status) != ENDED_UNSTRUCK)
                fail_msg("mishap %d (%s) at call %d: exit %d", (int)mishap, strerror(code), at,
                         WEXITSTATUS(status));
        now = held_round(folder);
        /* Nothing acknowledged is lost; at most the commit under way came through besides. */
        if (now < *round + (uint64_t)acknowledged || now > *round + 2)
                fail_msg("mishap %d at call %d: round %d after %d and %d acknowledged", (int)mishap, at,
                         (int)now, (int)*round, acknowledged);
        *round = now;
        return !(WIFEXITED(status) && WEXITSTATUS(status) == ENDED_UNSTRUCK);
}

static void every_write(const char *place, enum mishap mishap, int code) {
        for (int existing = 0; existing < 2; existing++) {
                int at = 1;

                for (bool more = true; more; at++) {
                        struct arena *arena ARENA_CLEANUP = arena_new();
                        const char *folder = below(place, existing ? "kept" : "fresh", arena);
                        uint64_t round = 0;

                        /* A state is made under the same mishaps, too; or lives through all of them. */
                        if (!existing)
                                folder_remove(folder);
                        else
                                round = held_round(folder);
                        more = survive(folder, mishap, code, at, &round);
                }
                print_message("%s state, mishap %d: %d calls\n", existing ? "existing" : "new", (int)mishap,
                              at - 2);
                assert_true(at > 5);
        }
}

static void killed_at_every_write(void **place) {
        for (enum mishap mishap = DIE_BEFORE; mishap <= DIE_AMID; mishap++)
                every_write(*place, mishap, 0);
}

static void input_output_error_at_every_write(void **place) {
        every_write(*place, FAIL_ONCE, EIO);
        every_write(*place, FAIL_ALWAYS, EIO);
        every_write(*place, FAIL_DONE, EIO);
}

static void disk_full_at_every_write(void **place) {
        every_write(*place, FAIL_ONCE, ENOSPC);
        every_write(*place, FAIL_ALWAYS, ENOSPC);
        every_write(*place, FAIL_SHORT, ENOSPC);
}

/* A run is killed at a moment of no choosing, many times over. */
static int commit_for_ever(const void *context) {
        const struct run *run = context;
        struct error err = { 0 };
        struct state *state;
        uint64_t round;

        if (state_open(run->folder, STATE_CREATE, &state, &err) < 0 ||
            state_lease_acquire(state, "apply", &err) < 0)
                return 1;
        for (;;) {
                if (state_serial(state, &round, &err) < 0 || commit_round(state, (int)round + 1, &err) < 0 ||
                    real(SYS_write, run->acknowledged, (long)"c", 1, 0) != 1)
                        return 2;
        }
}

static void killed_at_any_moment(void **place) {
        uint64_t round = 0;

        for (int i = 0; i < 15; i++) {
                struct run run = { .folder = *place };
                int ends[2], status, acknowledged = 0;
                uint64_t now;
                pid_t pid;
                char byte;

                REQUIRE(pipe(ends) == 0);
                run.acknowledged = ends[1];
                pid = fork();
                if (pid == 0)
                        _exit(commit_for_ever(&run));
                close(ends[1]);
                usleep(20000 + (useconds_t)i * 3331);
                REQUIRE(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
                while (read(ends[0], &byte, 1) == 1)
                        acknowledged++;
                close(ends[0]);
                now = held_round(*place);
                assert_true(now >= round + (uint64_t)acknowledged &&
                            now <= round + (uint64_t)acknowledged + 1);
                round = now;
        }
}

/* A real full disk: a small tmpfs of this test's own. */

enum { CANNOT_MOUNT = 77 };

static int fill_disk(const void *place) {
        struct arena *arena = arena_new();
        const char *folder = below(place, "state", arena), *ballast = below(place, "ballast", arena);
        struct error err = { 0 };
        struct state *state;
        char block[4096] = { 0 };
        uint64_t round = 0, held;
        int descriptor, result;

        if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("none", place, "tmpfs", 0, "size=1m") < 0)
                return CANNOT_MOUNT;
        descriptor = open(ballast, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        while (write(descriptor, block, sizeof(block)) == (ssize_t)sizeof(block))
                ;
        /* No room to make one. */
        if (state_open(folder, STATE_CREATE, &state, &err) == 0 || !strstr(err.message, "No space left"))
                if (!strstr(err.message, "no space left"))
                        return 2;
        if (ftruncate(descriptor, 300 * 1024) < 0)
                return 3;
        if (state_open(folder, STATE_CREATE, &state, &err) < 0)
                return 4;
        /* Rounds take over each other's pages; other names take new ones, until the disk is full. */
        do {
                struct record record = make_record(state, arena, arena_printf(arena, "Swarm/%d", (int)round),
                                                   arena_alloc(arena, 1));
                struct state_op op = { .type = STATE_PUT_RECORD, .record = &record };
                char *text = arena_alloc(arena, 20001);
                struct value *spec = value_new_map(arena);

                memset(text, 'x', 20000);
                value_set_text(arena, spec, "text", text);
                value_fingerprint(spec, state_secret_key(state), record.fingerprint);
                record.spec = spec;
                result = state_commit(state, &op, 1, &err);
                round += result == 0;
        } while (result == 0 && round < 1000);
        if (result == 0 || !strstr(err.message, "no space left") || !strstr(err.message, folder))
                return 5;
        if (state_serial(state, &held, &err) < 0 || held != round)
                return 6;
        state_close(state);
        /* Reading goes on, also when the disk has no byte left. */
        while (write(descriptor, block, 512) == 512)
                ;
        if (state_open(folder, STATE_READ, &state, &err) < 0) {
                fprintf(stderr, "%s\n", err.message);
                return 7;
        }
        if (state_serial(state, &held, &err) < 0 || held != round)
                return 8;
        state_close(state);
        if (ftruncate(descriptor, 0) < 0 || state_open(folder, STATE_CREATE, &state, &err) < 0)
                return 9;
        put_record(state, "Agent/after", "there is room again");
        expect_sound(state);
        state_close(state);
        arena_free(arena);
        return 0;
}

static void disk_really_full(void **place) {
        int result = in_child(fill_disk, *place);

        if (result == CANNOT_MOUNT) {
                print_message("no permission to mount a tmpfs here\n");
                skip();
        }
        assert_int_equal(result, 0);
}

/* The disk quota of the poor: no file may grow beyond a limit. */
static int grow_into_limit(const void *folder) {
        struct rlimit limit = { .rlim_cur = 128 * 1024, .rlim_max = 128 * 1024 };
        struct error err = { 0 };
        struct state *state;
        int round = 1;

        signal(SIGXFSZ, SIG_IGN);
        if (state_open(folder, STATE_CREATE, &state, &err) < 0 || setrlimit(RLIMIT_FSIZE, &limit) < 0)
                return 1;
        for (; round < 100; round++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                char *text = arena_alloc(arena, 30001);
                struct record record;
                struct state_op op = { .type = STATE_PUT_RECORD, .record = &record };

                memset(text, 'x', 30000);
                record = make_record(state, arena, arena_printf(arena, "Agent/%d", round), text);
                if (state_commit(state, &op, 1, &err) < 0)
                        break;
        }
        if (round == 100 || round < 2 || !strstr(err.message, "data.mdb"))
                return 2;
        if (serial_of(state) != (uint64_t)round - 1)
                return 3;
        state_close(state);
        return 0;
}

static void file_size_limit(void **place) {
        struct state *state;

        assert_int_equal(in_child(grow_into_limit, *place), 0);
        state = open_state(*place, STATE_CREATE);
        expect_sound(state);
        state_close(state);
}

#define STATE_TEST(test) cmocka_unit_test_setup_teardown(test, make_place, remove_place)

int main(void) {
        const struct CMUnitTest tests[] = {
                STATE_TEST(killed_at_every_write),    STATE_TEST(input_output_error_at_every_write),
                STATE_TEST(disk_full_at_every_write), STATE_TEST(killed_at_any_moment),
                STATE_TEST(disk_really_full),         STATE_TEST(file_size_limit),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
