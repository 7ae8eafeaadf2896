/* SPDX-License-Identifier: Apache-2.0 */
/* Groups on the machine that the test runs on, as far as it has any; and their files. */
#include "providers/local/sandbox/cgroup.h"

#include "process/identity.h"
#include "providers/local/sandbox/cgroup_files.h"

#include <glob.h>
#include <inttypes.h>
#include <mntent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include "providers/local/support.h"
#include <cmocka.h>

#define MB (UINT64_C(1024) * 1024)

static void put(struct place *place, const char *name, const char *text) {
        FILE *file = fopen(place_path(place, name), "w");

        assert_non_null(file);
        fputs(text, file);
        assert_int_equal(fclose(file), 0);
}

/* --- files --- */

static void test_numbers(void **state) {
        static const struct {
                const char *text, *key;
                uint64_t number;
        } cases[] = {
                { "123\n", NULL, 123 },
                { "max\n", NULL, 0 },
                { "", NULL, 0 },
                { "18446744073709551615\n", NULL, UINT64_MAX },
                { "low 0\nhigh 1\nmax 7\noom 3\noom_kill 2\noom_group_kill 1\n", "oom_kill", 2 },
                { "oom 3\noom_kill 2\n", "oom", 3 },
                { "oom_kill 2", "oom_kill", 2 },
                { "xoom_kill 2\n", "oom_kill", 0 },
                { "usage_usec 5\nuser_usec 3\n", "system_usec", 0 },
        };
        struct place *place = *state;

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                put(place, "file", cases[i].text);
                assert_int_equal(cgroup_file_number(place->folder, "file", cases[i].key), cases[i].number);
        }
        assert_int_equal(cgroup_file_number(place->folder, "none", NULL), 0);
        assert_int_equal(cgroup_file_number(place->folder, "none", "key"), 0);
}

static void test_reading_and_writing(void **state) {
        struct place *place = *state;
        char text[16], small[4];

        put(place, "file", "two\nlines\n\n");
        assert_true(cgroup_file_read(place->folder, "file", text, sizeof(text)));
        assert_string_equal(text, "two\nlines");
        assert_true(cgroup_file_read(place->folder, "file", small, sizeof(small)));
        assert_string_equal(small, "two");
        assert_false(cgroup_file_read(place->folder, "none", text, sizeof(text)));
        assert_int_equal(cgroup_file_write_number(place->folder, "file", UINT64_MAX), 0);
        assert_int_equal(cgroup_file_number(place->folder, "file", NULL), UINT64_MAX);
        /* The kernel's files are there or are not: none is ever made. */
        assert_int_equal(cgroup_file_write(place->folder, "none", "1"), -1);
        assert_int_not_equal(access(place_path(place, "none"), F_OK), 0);
}

/* A folder's name as if `identity` had made it. */
static const char *name_of(struct place *place, const struct process_identity *identity) {
        char text[IDENTITY_TEXT_SIZE];

        identity_write(identity, text);
        return arena_printf(place->arena, "run-%s-0", text);
}

/* Those of the dead go; those of the living stay, and those of whom nothing can be known: of another PID namespace, say. */
static void test_the_dead_are_swept(void **state) {
        struct place *place = *state;
        struct process_identity own = identity_of_self(), dead = own, another = own, unseen = own;
        const char *kept[] = { "other", "run-x", "run-1-1", name_of(place, &own), NULL }, *gone[2];
        const char *service = arena_printf(place->arena, "%s/0/of-some.service", place->folder);
        char *bases[2];
        pid_t pid = fork();

        if (pid == 0)
                _exit(0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        dead.pid = unseen.pid = pid;
        another.start--; /* our number, but another process: it began at another time */
        unseen.namespace ++;
        kept[4] = name_of(place, &unseen);
        gone[0] = name_of(place, &dead);
        gone[1] = name_of(place, &another);
        for (size_t i = 0; i < 2; i++) {
                bases[i] = arena_printf(place->arena, "%s/%zu", place->folder, i);
                assert_int_equal(mkdir(bases[i], 0700), 0);
                for (size_t k = 0; k < 5; k++)
                        assert_int_equal(mkdir(arena_printf(place->arena, "%s/%s", bases[i], kept[k]), 0700),
                                         0);
                for (size_t k = 0; k < 2; k++)
                        assert_int_equal(mkdir(arena_printf(place->arena, "%s/%s", bases[i], gone[k]), 0700),
                                         0);
        }
        assert_int_equal(mkdir(service, 0700), 0);
        assert_int_equal(mkdir(arena_printf(place->arena, "%s/%s", service, gone[0]), 0700), 0);
        assert_int_equal(mkdir(arena_printf(place->arena, "%s/%s", service, kept[3]), 0700), 0);
        cgroup_folder_sweep(bases, 2);
        assert_int_not_equal(access(arena_printf(place->arena, "%s/%s", service, gone[0]), F_OK), 0);
        assert_int_equal(access(arena_printf(place->arena, "%s/%s", service, kept[3]), F_OK), 0);
        for (size_t i = 0; i < 2; i++) {
                for (size_t k = 0; k < 5; k++)
                        assert_int_equal(access(arena_printf(place->arena, "%s/%s", bases[i], kept[k]), F_OK),
                                         0);
                for (size_t k = 0; k < 2; k++)
                        assert_int_not_equal(
                                access(arena_printf(place->arena, "%s/%s", bases[i], gone[k]), F_OK), 0);
        }
        cgroup_folder_sweep(bases, 0);
        bases[0] = arena_printf(place->arena, "%s/nowhere", place->folder);
        cgroup_folder_sweep(bases, 1);
}

/* --- groups of this machine --- */

static struct cgroup *make_or_skip(struct place *place) {
        struct cgroup_limits limits = {
                .memory_bytes = 64 * MB, .cpu_millis = 500, .processes = 16, .family = { "0-7e57", 700 }
        };
        struct cgroup *group = cgroup_make(&limits, place->arena);

        if (cgroup_missing(group) == 0 && cgroup_launcher(group)[0] == NULL)
                return group;
        print_message("no group of processes can be made here: %s\n", cgroup_problem(group));
        cgroup_close(group);
        skip();
        return NULL;
}

/* A child in the group; it ends with 2 where it cannot enter. */
static pid_t fork_in(const struct cgroup *group) {
        struct cgroup_doors doors = CGROUP_DOORS_NONE;
        bool born;
        pid_t pid;

        assert_int_equal(cgroup_doors_open(group, &doors), 0);
        pid = cgroup_fork(&doors, &born);
        assert_true(pid >= 0);
        if (pid == 0 && !born && cgroup_enter(&doors) < 0)
                _exit(2);
        cgroup_doors_close(&doors);
        return pid;
}

static void test_a_child_is_born_in_it(void **state) {
        struct place *place = *state;
        struct cgroup *group = make_or_skip(place);
        struct cgroup_usage usage;
        struct process_identity self = identity_of_self();
        char own[IDENTITY_TEXT_SIZE], text[8192];
        int status;
        pid_t pid;

        identity_write(&self, own);
        assert_string_equal(cgroup_problem(group), "");
        pid = fork_in(group);
        if (pid == 0) {
                volatile unsigned long sum = 0;

                for (unsigned long i = 0; i < 20000000; i++)
                        sum += i;
                if (sum != 0)
                        pause();
                _exit(3);
        }
        assert_true(pid > 0);
        /* On v1 it moves itself, a moment after its birth: a busy machine may take long to give it that. */
        for (int tries = 0; tries < 600; tries++) {
                assert_true(cgroup_file_read(arena_printf(place->arena, "/proc/%d", (int)pid), "cgroup", text,
                                             sizeof(text)));
                cgroup_measure(group, &usage);
                if (strstr(text, own) && usage.cpu_us > 0)
                        break;
                usleep(100000);
        }
        assert_non_null(strstr(text, own));
        assert_true(usage.known);
        assert_true(usage.cpu_us > 0);
        assert_int_equal(usage.memory_kills, 0);
        /* What still has a process stays as it is. */
        cgroup_vacate(group);
        assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
        cgroup_measure(group, &usage);
        assert_true(usage.cpu_us > 0);
        cgroup_kill(group);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        cgroup_vacate(group);
        cgroup_measure(group, &usage);
        assert_int_equal(usage.cpu_us, 0);
        cgroup_close(group);
}

/* A process that uses more memory than the group may is killed, and that is told. */
static void test_memory_is_held(void **state) {
        struct place *place = *state;
        struct cgroup *group = make_or_skip(place);
        struct cgroup_usage usage;
        int status;
        pid_t pid = fork_in(group);

        if (pid == 0) {
                for (int i = 0; i < 256; i++) {
                        char *piece = malloc(MB);

                        if (!piece)
                                _exit(3);
                        memset(piece, i + 1, MB);
                }
                _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        cgroup_measure(group, &usage);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        assert_true(usage.memory_kills > 0);
        assert_true(usage.peak_memory_bytes > 32 * MB && usage.peak_memory_bytes <= 64 * MB);
        cgroup_close(group);
}

static void test_processes_are_counted(void **state) {
        struct place *place = *state;
        struct cgroup *group = make_or_skip(place);
        int status;
        pid_t pid = fork_in(group);

        if (pid == 0) {
                int count = 1;

                for (; count < 64; count++) {
                        pid_t child = fork();

                        if (child < 0)
                                break;
                        if (child == 0)
                                pause();
                }
                _exit(count);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 16);
        /* Its children live on, as whose parent has ended do: with the group they go. */
        cgroup_close(group);
        cgroup_vacate(NULL);
        cgroup_close(NULL);
}

/* Where version 2 is mounted, with controllers or without; NULL where it is not, or is not ours to write. */
static const char *unified(struct place *place) {
        FILE *mounts = setmntent("/proc/self/mounts", "re");
        const struct mntent *entry;
        const char *found = NULL;

        while (mounts && !found && (entry = getmntent(mounts))) {
                if (strcmp(entry->mnt_type, "cgroup2") == 0 && access(entry->mnt_dir, W_OK) == 0)
                        found = arena_strdup(place->arena, entry->mnt_dir);
        }
        if (mounts)
                endmntent(mounts);
        return found;
}

/* On the kernel's own files, which need no controllers for it: a whole family is killed, and the folder goes. */
static void test_a_family_is_killed(void **state) {
        struct place *place = *state;
        const char *mount = unified(place), *folder;
        char said[8];
        int channel[2];
        pid_t pid;

        folder = mount ? arena_printf(place->arena, "%s/berth-test-%d", mount, (int)getpid()) : NULL;
        if (!folder || mkdir(folder, 0755) < 0) {
                print_message("no group of version 2 can be made here\n");
                skip();
        }
        assert_int_equal(pipe(channel), 0);
        pid = fork();
        if (pid == 0) {
                if (cgroup_file_write(folder, "cgroup.procs", "0") < 0)
                        _exit(1);
                for (int i = 0; i < 3; i++)
                        fork();
                if (write(channel[1], "x", 1) != 1)
                        _exit(1);
                for (;;)
                        pause();
        }
        for (size_t got = 0; got < 8;) {
                ssize_t count = read(channel[0], said, sizeof(said));

                assert_true(count > 0);
                got += (size_t)count;
        }
        assert_int_equal(cgroup_file_number(folder, "cgroup.events", "populated"), 1);
        cgroup_folder_kill(folder);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        assert_int_equal(cgroup_file_number(folder, "cgroup.events", "populated"), 0);
        cgroup_folder_remove(folder);
        assert_true(folder && access(folder, F_OK) != 0);
        close(channel[0]);
        close(channel[1]);
}

/* The one quota, in microseconds of a period of 100 ms, that the pattern's file has; -2: no one file. On version 2 "max" is -1. */
static long long quota_at(const char *pattern) {
        long long quota = -2;
        glob_t found = { 0 };
        char text[64];

        if (glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc == 1) {
                char *slash = strrchr(found.gl_pathv[0], '/');

                *slash = '\0';
                if (cgroup_file_read(found.gl_pathv[0], slash + 1, text, sizeof(text)))
                        quota = strncmp(text, "max", 3) == 0 ? -1 : strtoll(text, NULL, 10);
        }
        globfree(&found);
        return quota;
}

/*
 * What a family may use goes down and up again: its runs have their own again then, and never more than both. A name that says nothing of
 * what a run may use, as older ones do not, is lowered and stays so.
 */
static void test_a_family_is_raised_again(void **state) {
        static const struct {
                unsigned family;
                long long wanted, of_family; /* 100 a thousandth */
        } steps[] = {
                { 1000, 100000, 100000 },
                { 3000, 300000, 300000 },
                { 20, 2000, 2000 },
                { CGROUP_CPU_AS_IT_IS, 2000, 2000 },
                { 9000, 400000, 900000 },
                { 500, 50000, 50000 },
                { CGROUP_CPU_UNBOUND, 400000, -1 },
                { 4000, 400000, 400000 },
        };
        struct place *place = *state;
        struct cgroup_limits limits = {
                .memory_bytes = 64 * MB, .cpu_millis = 4000, .processes = 16, .family = { "0-7e58", 2000 }
        };
        struct cgroup *group = cgroup_make(&limits, place->arena), *other;
        bool first = strcmp(cgroup_method(group), "cgroup v1") == 0;
        const char *of_family = first ? "/sys/fs/cgroup/cpu/berth/all-0-7e58/cpu.cfs_quota_us"
                                      : "/sys/fs/cgroup/berth/all-0-7e58/cpu.max",
                   *of_run = first ? "/sys/fs/cgroup/cpu/berth/all-0-7e58/run-*-q400000/cpu.cfs_quota_us"
                                   : "/sys/fs/cgroup/berth/all-0-7e58/run-*/cpu.max",
                   *of_other = "/sys/fs/cgroup/cpu/berth/all-0-7e58/run-*-q10000/cpu.cfs_quota_us",
                   *old = "/sys/fs/cgroup/cpu/berth/all-0-7e58/run-old";

        if (quota_at(of_family) != 200000) {
                print_message("no family of groups is looked for here: %s\n", cgroup_method(group));
                cgroup_close(group);
                skip();
        }
        assert_int_equal(quota_at(of_run), first ? 200000 : 400000);
        limits.cpu_millis = 100;
        if (first)
                assert_int_equal(mkdir(old, 0755), 0);
        for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
                const struct cgroup_family family = { "0-7e58", steps[i].family };

                assert_true(cgroup_family_set(&family, true, place->arena));
                assert_int_equal(quota_at(of_family), steps[i].of_family);
                assert_int_equal(quota_at(of_run), first ? steps[i].wanted : 400000);
        }
        /* A run that is begun meanwhile says what its agent may use, and one that asks for less keeps that. */
        limits.family.cpu_millis = 3000;
        other = cgroup_make(&limits, place->arena);
        assert_int_equal(quota_at(of_family), 300000);
        assert_int_equal(quota_at(of_run), first ? 300000 : -2);
        if (first) {
                assert_int_equal(quota_at(of_other), 10000);
                assert_int_equal(quota_at(arena_printf(place->arena, "%s/cpu.cfs_quota_us", old)), -1);
                assert_int_equal(cgroup_file_write_number(old, "cpu.cfs_quota_us", 250000), 0);
                assert_true(cgroup_family_set(&(struct cgroup_family){ "0-7e58", 1000 }, true, place->arena));
                assert_true(cgroup_family_set(&(struct cgroup_family){ "0-7e58", 5000 }, true, place->arena));
                assert_int_equal(quota_at(arena_printf(place->arena, "%s/cpu.cfs_quota_us", old)), 100000);
                assert_int_equal(rmdir(old), 0);
        }
        cgroup_close(other);
        cgroup_close(group);
        assert_int_equal(quota_at(of_family), -2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_numbers),
                TEST(test_reading_and_writing),
                TEST(test_the_dead_are_swept),
                TEST(test_a_child_is_born_in_it),
                TEST(test_memory_is_held),
                TEST(test_processes_are_counted),
                TEST(test_a_family_is_killed),
                TEST(test_a_family_is_raised_again),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
