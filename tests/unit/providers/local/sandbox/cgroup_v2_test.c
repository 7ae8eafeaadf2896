/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol of cgroup v2's files, on a tree of plain ones: which are written, with what, and where nothing may be. What
 * the kernel would make in a new folder is put there before: a run's folder has a name that is known.
 */
#include "providers/local/sandbox/cgroup_v2.h"

#include "providers/local/sandbox/cgroup_family.h"
#include "providers/local/sandbox/cgroup_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "providers/local/support.h"
#include <cmocka.h>

#define ALL "cpuset cpu io memory pids"
#define SWITCHED "+memory +cpu +pids"

static struct cgroup_limits limits = { .memory_bytes = 1855979520, .cpu_millis = 1158, .processes = 512 };

static void put(struct place *place, const char *name, const char *text) {
        FILE *file = fopen(place_path(place, name), "w");

        assert_non_null(file);
        fputs(text, file);
        assert_int_equal(fclose(file), 0);
}

static const char *get(struct place *place, const char *name) {
        static char text[4096];

        return cgroup_file_read(place->folder, name, text, sizeof(text)) ? text : NULL;
}

/* A group with its files, as the kernel makes them; `top`: the true root has fewer. */
static void group_at(struct place *place, const char *name, const char *controllers, const char *procs,
                     bool top) {
        put(place, arena_printf(place->arena, "%s/cgroup.controllers", name), controllers);
        put(place, arena_printf(place->arena, "%s/cgroup.subtree_control", name), "");
        put(place, arena_printf(place->arena, "%s/cgroup.procs", name), procs);
        if (!top)
                put(place, arena_printf(place->arena, "%s/cgroup.type", name), "domain\n");
}

/* The folder that a run of ours will have below `base`, with the files of its controllers. */
static const char *run_at(struct place *place, const char *base) {
        static const char *const files[] = { "memory.max", "memory.swap.max", "memory.oom.group", "pids.max",
                                             "cpu.max" };
        char own[CGROUP_NAME_SIZE];
        const char *name;

        cgroup_folder_name(0, own, sizeof(own));
        name = arena_printf(place->arena, "%s/%s", base, own);
        group_at(place, name, ALL, "", false);
        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
                put(place, arena_printf(place->arena, "%s/%s", name, files[i]), "");
        return name;
}

static const char *make_for(struct place *place, const char *own, bool root, bool service) {
        char name[CGROUP_NAME_SIZE];
        struct cgroup_v2_place at = {
                .name = name, .mount = place->folder, .own = own, .root = root, .service = service
        };
        const char *base = NULL, *folder;

        cgroup_folder_name(0, name, sizeof(name));
        folder = cgroup_v2_make(&at, &limits, place->arena, &base);
        assert_true((folder == NULL) == (base == NULL));
        if (!folder || !base)
                return NULL;
        assert_int_equal(strncmp(folder, base, strlen(base)), 0);
        return folder + strlen(place->folder) + 1;
}

static const char *make(struct place *place, const char *own, bool root) {
        return make_for(place, own, root, false);
}

static void assert_limits(struct place *place, const char *run) {
        static const char *const files[][2] = { { "memory.max", "1855979520" },
                                                { "memory.swap.max", "0" },
                                                { "memory.oom.group", "1" },
                                                { "pids.max", "512" },
                                                { "cpu.max", "115800 100000" } };

        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
                assert_string_equal(get(place, arena_printf(place->arena, "%s/%s", run, files[i][0])),
                                    files[i][1]);
}

static const char *own_pid(struct place *place) {
        return arena_printf(place->arena, "%ld", (long)getpid());
}

/* --- root --- */

static void test_root_of_a_machine(void **state) {
        struct place *place = *state;
        const char *run = run_at(place, "berth");

        group_at(place, ".", ALL, "1\n2\n77\n", true);
        group_at(place, "berth", ALL, "", false);
        assert_string_equal(make(place, "/user.slice/user-0.slice/session-3.scope", true), run);
        assert_limits(place, run);
        assert_string_equal(get(place, "cgroup.subtree_control"), SWITCHED);
        assert_string_equal(get(place, "berth/cgroup.subtree_control"), SWITCHED);
}

/*
 * A controller that is switched on already is not written again: in a container the file may be
 * read-only.
 */
static void test_switched_on_already(void **state) {
        struct place *place = *state;
        const char *run = run_at(place, "berth");

        group_at(place, ".", ALL, "1\n", true);
        group_at(place, "berth", ALL, "", false);
        put(place, "cgroup.subtree_control", "cpu io memory pids\n");
        put(place, "berth/cgroup.subtree_control", "memory pids cpu");
        assert_string_equal(make(place, "", true), run);
        assert_string_equal(get(place, "cgroup.subtree_control"), "cpu io memory pids");
        assert_string_equal(get(place, "berth/cgroup.subtree_control"), "memory pids cpu");
}

/* Controllers whose names only begin or end as those that are needed are not those. */
static void test_controllers_that_lack(void **state) {
        static const char *const lists[] = {
                "", "memory pids", "cpu memory", "cpuset memory pids", "memory_x cpu pids", "xmemory cpu pids"
        };

        for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
                struct place *place = *state;

                group_at(place, ".", lists[i], "1\n", true);
                run_at(place, "berth");
                assert_null(make(place, "", true));
                assert_string_equal(get(place, "cgroup.subtree_control"), "");
        }
}

/*
 * In a container the top has processes, and is not the true root: they are moved aside before controllers are switched on.
 * The files are plain ones here: that a process moved is taken out of the first list is done by this test's own hand.
 */
static void test_top_of_a_container(void **state) {
        struct place *place = *state;
        const char *run = run_at(place, "berth");

        group_at(place, ".", ALL, "", false);
        group_at(place, "berth", ALL, "", false);
        group_at(place, "rest", ALL, "", false);
        assert_string_equal(make(place, "", true), run);

        /* A process that we cannot see, and so cannot move: nothing is switched on. */
        put(place, "cgroup.subtree_control", "");
        put(place, "cgroup.procs", "0\n1\n");
        chmod(place_path(place, "cgroup.subtree_control"), 0444);
        if (geteuid() == 0)
                return; /* root may write what is read-only: the rest is for others */
        assert_null(make(place, "", true));
        assert_string_equal(get(place, "rest/cgroup.procs"), "");
}

/* A service's runs have a folder that is held to what the service may use, whatever that is when the run begins. */
static void test_root_s_service(void **state) {
        struct place *place = *state;
        const char *own = "/system.slice/some.service", *of = "berth/of-some.service",
                   *run = run_at(place, of);
        const char *memory = arena_printf(place->arena, "%s/memory.max", of),
                   *pids = arena_printf(place->arena, "%s/pids.max", of),
                   *cpu = arena_printf(place->arena, "%s/cpu.max", of);

        group_at(place, ".", ALL, "1\n", true);
        group_at(place, "berth", ALL, "", false);
        group_at(place, of, ALL, "", false);
        group_at(place, own + 1, ALL, own_pid(place), false);
        put(place, "system.slice/some.service/memory.max", "314572800\n");
        put(place, "system.slice/some.service/pids.max", "40\n"); /* and no CPUQuota=: no such file */
        put(place, memory, "1\n"); /* plain files keep what is longer than the new text */
        put(place, arena_printf(place->arena, "%s/memory.high", of), "max\n");
        put(place, pids, "1\n");
        put(place, cpu, "max 100000\n");
        assert_string_equal(make_for(place, own, true, true), run);
        assert_limits(place, run);
        assert_string_equal(get(place, memory), "314572800");
        assert_string_equal(get(place, pids), "40");
        assert_string_equal(get(place, cpu), "max 100000");
        assert_string_equal(get(place, "berth/cgroup.subtree_control"), SWITCHED);

        put(place, memory, "1\n");
        put(place, "system.slice/some.service/memory.max", "max\n");
        put(place, "system.slice/some.service/cpu.max", "50000 100000\n");
        assert_string_equal(make_for(place, own, true, true), run);
        assert_string_equal(get(place, memory), "max");
        assert_string_equal(get(place, cpu), "50000 100000");

        /* A limit that cannot be held makes no group. */
        assert_int_equal(unlink(place_path(place, pids)), 0);
        assert_null(make_for(place, own, true, true));
}

/* --- a family --- */

/*
 * Its groups are in a folder of its own, which has the quota; a family without limits is left as it
 * is.
 */
static void test_a_family_s_quota(void **state) {
        static const struct {
                unsigned cpu_millis;
                const char *before, *after;
        } cases[] = {
                { 2000, "max 100000\n", "200000 100000" },
                { 250, "200000 100000\n", "25000 100000" },
                { CGROUP_CPU_AS_IT_IS, "25000 100000\n", "25000 100000" },
                { CGROUP_CPU_UNBOUND, "25000 100000\n", "max 100000" },
        };
        struct place *place = *state;
        const char *of = "berth/all-0-ab", *run = run_at(place, of),
                   *quota = arena_printf(place->arena, "%s/cpu.max", of);

        group_at(place, ".", ALL, "1\n", true);
        group_at(place, "berth", ALL, "", false);
        group_at(place, of, ALL, "", false);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                put(place, quota, cases[i].before);
                limits.family = (struct cgroup_family){ "0-ab", cases[i].cpu_millis };
                assert_string_equal(make(place, "", true), run);
                /* Plain files keep what is longer than the new text. */
                assert_int_equal(strncmp(get(place, quota), cases[i].after, strlen(cases[i].after)), 0);
                assert_limits(place, run);
                assert_string_equal(get(place, arena_printf(place->arena, "%s/cgroup.subtree_control", of)),
                                    SWITCHED);
        }
        /* A limit that cannot be held makes no group. */
        assert_int_equal(unlink(place_path(place, quota)), 0);
        limits.family.cpu_millis = 2000;
        assert_null(make(place, "", true));
        limits.family = (struct cgroup_family){ NULL, 0 };
}

/* On version 1 the kernel lets no group inside have more: a group with more is lowered first. */
static void test_a_family_on_version_1(void **state) {
        struct place *place = *state;
        const char *folder = place_path(place, "all-1-cd");

        put(place, "all-1-cd/cpu.cfs_quota_us", "-1\n");
        put(place, "all-1-cd/cpu.cfs_period_us", "100000\n");
        assert_int_equal(cgroup_family_hold_v1(folder, &(struct cgroup_family){ "1-cd", 1500 }), 0);
        assert_string_equal(get(place, "all-1-cd/cpu.cfs_quota_us"), "150000");
        assert_int_equal(
                cgroup_family_hold_v1(folder, &(struct cgroup_family){ "1-cd", CGROUP_CPU_AS_IT_IS }), 0);
        assert_string_equal(get(place, "all-1-cd/cpu.cfs_quota_us"), "150000");
        assert_int_equal(cgroup_family_hold_v1(place_path(place, "none"), &(struct cgroup_family){ "x", 1 }),
                         -1);
}

/* --- an ordinary user --- */

/* `systemd-run --user --scope -p Delegate=yes berth ...`: alone in a scope below a slice that is systemd's. */
static void test_alone_in_a_delegated_scope(void **state) {
        struct place *place = *state;
        const char *own = "user.slice/user-1.slice/user@1.service/app.slice/run-r1.scope",
                   *run = run_at(place, own);

        group_at(place, "user.slice/user-1.slice/user@1.service/app.slice", ALL, "", false);
        group_at(place, own, ALL, own_pid(place), false);
        group_at(place, arena_printf(place->arena, "%s/berth", own), ALL, "", false);
        assert_string_equal(make(place, arena_printf(place->arena, "/%s", own), false), run);
        assert_limits(place, run);
        assert_string_equal(get(place, arena_printf(place->arena, "%s/berth/cgroup.procs", own)),
                            own_pid(place));
        assert_string_equal(get(place, arena_printf(place->arena, "%s/cgroup.subtree_control", own)),
                            SWITCHED);
        /* Nothing of systemd's own was touched. */
        assert_string_equal(
                get(place, "user.slice/user-1.slice/user@1.service/app.slice/cgroup.subtree_control"), "");

        /* The next run of this process begins in the leaf, and goes beside it. */
        assert_string_equal(make(place, arena_printf(place->arena, "/%s/berth", own), false), run);
}

/* A shell in such a scope, with berth below it: the group has others in it. */
static void test_not_alone(void **state) {
        struct place *place = *state;

        group_at(place, "app.slice", ALL, "", false);
        group_at(place, "app.slice/run-r1.scope", ALL, arena_printf(place->arena, "7\n%s\n", own_pid(place)),
                 false);
        run_at(place, "app.slice");
        run_at(place, "app.slice/run-r1.scope");
        assert_null(make(place, "/app.slice/run-r1.scope", false));
        assert_string_equal(get(place, "app.slice/cgroup.subtree_control"), "");
        assert_string_equal(get(place, "app.slice/run-r1.scope/cgroup.subtree_control"), "");
}

/*
 * systemd takes controllers away from its slices, and limits with them: we never go below one, even
 * with the right to write there.
 */
static void test_systemds_own(void **state) {
        static const struct {
                const char *above;
                bool ours;
        } cases[] = {
                { "app.slice", false },        { "a/b-c.slice", false }, { "user@1000.service", false },
                { "berth.service", true },     { "run-1.scope", true },  { "by-hand", true },
                { "user-tool.service", true },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct place *place = *state;
                const char *above = cases[i].above, *run = run_at(place, above);
                const char *own = arena_printf(place->arena, "%s/main", above);

                group_at(place, above, ALL, "", false);
                group_at(place, own, ALL, "7\n", false);
                if (cases[i].ours)
                        assert_string_equal(make(place, arena_printf(place->arena, "/%s", own), false), run);
                else
                        assert_null(make(place, arena_printf(place->arena, "/%s", own), false));
        }
}

/* The kernel refuses one of the limits: there is no group then, and nothing of it is left. */
static void test_a_limit_that_is_refused(void **state) {
        struct place *place = *state;
        const char *run;
        char own[CGROUP_NAME_SIZE];

        cgroup_folder_name(0, own, sizeof(own));
        run = arena_printf(place->arena, "by-hand/%s", own);
        group_at(place, "by-hand", ALL, "", false);
        group_at(place, "by-hand/main", ALL, "7\n", false);
        assert_null(make(place, "/by-hand/main", false)); /* made without any file */
        assert_int_not_equal(access(place_path(place, run), F_OK), 0);
}

static void test_no_swap_to_limit(void **state) {
        struct place *place = *state;
        const char *run = run_at(place, "by-hand");

        group_at(place, "by-hand", ALL, "", false);
        group_at(place, "by-hand/main", ALL, "7\n", false);
        assert_int_equal(unlink(place_path(place, arena_printf(place->arena, "%s/memory.swap.max", run))), 0);
        assert_string_equal(make(place, "/by-hand/main", false), run);
}

/* --- scopes --- */

static void test_scope_words(void **state) {
        struct place *place = *state;
        const char *const *words = cgroup_scope_words(NULL, place->arena);
        size_t count = 0;
        bool delegated = false;

        assert_string_equal(words[0], "/usr/bin/systemd-run");
        for (; words[count]; count++)
                delegated = delegated || strcmp(words[count], "--property=Delegate=yes") == 0;
        assert_true(delegated);
        assert_string_equal(words[count - 1], "--");
        assert_string_equal(words[5], "--slice=berth.slice");
        words = cgroup_scope_words(&(struct cgroup_family){ "1000-ab", 2000 }, place->arena);
        /* A dash would put it into yet another slice. */
        assert_string_equal(words[5], "--slice=berth-1000_ab.slice");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_root_of_a_machine),
                TEST(test_switched_on_already),
                TEST(test_controllers_that_lack),
                TEST(test_top_of_a_container),
                TEST(test_root_s_service),
                TEST(test_a_family_s_quota),
                TEST(test_a_family_on_version_1),
                TEST(test_alone_in_a_delegated_scope),
                TEST(test_not_alone),
                TEST(test_systemds_own),
                TEST(test_a_limit_that_is_refused),
                TEST(test_no_swap_to_limit),
                TEST(test_scope_words),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
