/* SPDX-License-Identifier: Apache-2.0 */
/* A file's ctime cannot be set: the tests move the clock instead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "providers/local/sweep.h"

#include "base/clock.h"
#include "providers/local/local_layout.h"
#include "providers/local/support.h"

#include <fcntl.h>

#define DAY_MS (INT64_C(24) * 60 * 60 * 1000)
#define SESSIONS "local/lab/workspaces/sessions/"

static bool exists(struct place *place, const char *name) {
        struct stat status;

        return lstat(place_path(place, name), &status) == 0;
}

static void begin(struct place *place, const char *id, const char *stack, const char *environment) {
        place_write(place, arena_printf(place->arena, SESSIONS "%s/session.json", id),
                    arena_printf(place->arena,
                                 "{\"formatVersion\": \"1\", \"stack\": \"%s\", \"environment\": \"%s\"}",
                                 stack, environment));
        place_path(place, arena_printf(place->arena, SESSIONS "%s/workspace/x", id));
}

static void policy(struct place *place, const char *name, const char *spec) {
        place_write(
                place, arena_printf(place->arena, "local/lab/policies/%s.json", name),
                arena_printf(place->arena,
                             "{\"formatVersion\": \"1\", \"stack\": \"lab\", \"kind\": \"WorkspacePolicy\", "
                             "\"name\": \"%s\", \"spec\": {%s}}",
                             name, spec));
}

static struct sweep_report sweep_after(struct place *place, int64_t days, bool remove) {
        const char *root = local_root(place->folder, "lab", place->arena);
        struct sweep_report report;
        struct error err;

        if (sweep_run(root, clock_system.wall_ms(&clock_system) + days * DAY_MS + 1000, remove, place->arena,
                      &report, &err) < 0)
                fail_msg("%s", err.message);
        return report;
}

static void test_which_policy(void **state) {
        struct place *place = *state;
        const struct sweep_policy policies[] = {
                { "all", place_json(place, "{'selector': {'all': true}, 'expireAfterDays': 90}") },
                { "one",
                  place_json(place, "{'selector': {'environments': ['a', 'b']}, 'environments': ['a', 'b'], "
                                    "'expireAfterDays': 7}") },
                { "two", place_json(place, "{'selector': {'matchLabels': {'x': 'y'}}, 'environments': ['b'], "
                                           "'expireAfterDays': 3}") },
                { "moves", place_json(place, "{'selector': {'all': true}, 'transitions': []}") },
                { "wrong", place_json(place, "{'environments': 'a', 'expireAfterDays': 1}") },
                { "zero", place_json(place, "{'selector': {'all': true}, 'expireAfterDays': 0}") },
        };
        static const struct {
                const char *environment, *policy;
        } rows[] = { { "a", "one" }, { "b", "two" }, { "c", "all" }, { NULL, "all" } };

        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
                assert_string_equal(sweep_policy_for(policies, 6, rows[i].environment)->name, rows[i].policy);
        assert_null(sweep_policy_for(policies + 3, 3, "a"));
        assert_null(sweep_policy_for(NULL, 0, "a"));
}

static void test_ages(void **state) {
        struct place *place = *state;
        struct sweep_report report;

        policy(place, "week", "\"selector\": {\"all\": true}, \"expireAfterDays\": 7");
        begin(place, "s1", "lab", "a");
        place_write(place, SESSIONS "s1/workspace/old", "12345");
        place_write(place, SESSIONS "s1/workspace/deep/er/file", "123");
        report = sweep_after(place, 6, true);
        assert_int_equal(report.total.files, 0);
        assert_int_equal(report.sessions, 1);
        assert_int_equal(report.policies, 1);
        report = sweep_after(place, 7, false);
        assert_int_equal(report.total.files, 2);
        assert_int_equal(report.total.bytes, 8);
        assert_true(exists(place, SESSIONS "s1/workspace/old"));
        report = sweep_after(place, 7, true);
        assert_int_equal(report.total.files, 2);
        assert_int_equal(report.count, 1);
        assert_string_equal(report.rows[0].policy->name, "week");
        assert_false(exists(place, SESSIONS "s1/workspace/old"));
        assert_false(exists(place, SESSIONS "s1/workspace/deep"));
        assert_true(exists(place, SESSIONS "s1/workspace"));
        assert_true(exists(place, SESSIONS "s1/session.json"));
        assert_int_equal(sweep_after(place, 100, true).total.files, 0);
}

/* A date that a program set, as unpacking an old archive does, is not when the file was written. */
static void test_forged_dates(void **state) {
        struct place *place = *state;
        const struct timespec long_ago[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
        const struct timespec far_away[2] = { { .tv_sec = 4000000000 }, { .tv_sec = 4000000000 } };

        policy(place, "week", "\"selector\": {\"all\": true}, \"expireAfterDays\": 7");
        begin(place, "s1", "lab", "a");
        utimensat(AT_FDCWD, place_write(place, SESSIONS "s1/workspace/unpacked", "x"), long_ago, 0);
        utimensat(AT_FDCWD, place_write(place, SESSIONS "s1/workspace/for-ever", "x"), far_away, 0);
        assert_int_equal(sweep_after(place, 1, true).total.files, 0);
        assert_int_equal(sweep_after(place, 8, true).total.files, 2);
}

/* Only what lies in the workspace itself goes: links go as links, and what they lead to stays. */
static void test_links(void **state) {
        struct place *place = *state;
        const char *outside = place_write(place, "outside/file", "precious");
        struct sweep_report report;

        policy(place, "day", "\"selector\": {\"all\": true}, \"expireAfterDays\": 1");
        begin(place, "s1", "lab", "a");
        assert_int_equal(symlink(outside, place_path(place, SESSIONS "s1/workspace/to-file")), 0);
        assert_int_equal(
                symlink("../../../../../../outside", place_path(place, SESSIONS "s1/workspace/to-folder")),
                0);
        assert_int_equal(symlink("/", place_path(place, SESSIONS "s1/workspace/to-root")), 0);
        assert_int_equal(link(outside, place_path(place, SESSIONS "s1/workspace/hard")), 0);
        assert_int_equal(mkfifo(place_path(place, SESSIONS "s1/workspace/pipe"), 0600), 0);
        report = sweep_after(place, 2, true);
        assert_int_equal(report.total.files, 5);
        assert_int_equal(report.total.problems, 0);
        assert_true(exists(place, "outside/file"));
        assert_false(exists(place, SESSIONS "s1/workspace/to-folder"));
}

/* A workspace or a session that is itself a link is no session's, and is told of. */
static void test_swapped(void **state) {
        struct place *place = *state;
        struct sweep_report report;

        policy(place, "day", "\"selector\": {\"all\": true}, \"expireAfterDays\": 1");
        place_write(place, "outside/file", "precious");
        place_write(place, SESSIONS "s1/session.json",
                    "{\"formatVersion\": \"1\", \"stack\": \"lab\", \"environment\": \"a\"}");
        assert_int_equal(symlink("../../../../../outside", place_path(place, SESSIONS "s1/workspace")), 0);
        assert_int_equal(symlink("s1", place_path(place, SESSIONS "s2")), 0);
        place_write(place, SESSIONS "s3/workspace/file", "x");
        assert_int_equal(symlink("../s1/session.json", place_path(place, SESSIONS "s3/session.json")), 0);
        report = sweep_after(place, 2, true);
        assert_int_equal(report.total.files, 0);
        assert_int_equal(report.count, 2);
        assert_non_null(strstr(report.rows[0].session.problem, "cannot open the workspace"));
        assert_non_null(report.rows[1].session.problem);
        assert_true(exists(place, "outside/file"));
        assert_true(exists(place, SESSIONS "s3/workspace/file"));
}

static void test_whose(void **state) {
        struct place *place = *state;
        static const struct {
                const char *id, *text;
        } broken[] = { { "b1", "{" },
                       { "b2", "{}" },
                       { "b3", "{\"stack\": \"lab\", \"environment\": \"a\"}" },
                       { "b4", "{\"formatVersion\": \"1\", \"stack\": \"lab\"}" } };
        struct sweep_report report;

        policy(place, "day",
               "\"selector\": {\"environments\": [\"a\"]}, \"environments\": [\"a\"], \"expireAfterDays\": 1");
        begin(place, "ours", "lab", "a");
        begin(place, "not-selected", "lab", "b");
        begin(place, "theirs", "other", "a");
        place_write(place, SESSIONS "ours/workspace/f", "x");
        place_write(place, SESSIONS "not-selected/workspace/f", "x");
        place_write(place, SESSIONS "theirs/workspace/f", "x");
        for (size_t i = 0; i < sizeof(broken) / sizeof(*broken); i++) {
                place_write(place, arena_printf(place->arena, SESSIONS "%s/session.json", broken[i].id),
                            broken[i].text);
                place_write(place, arena_printf(place->arena, SESSIONS "%s/workspace/f", broken[i].id), "x");
        }
        place_write(place, SESSIONS "none/workspace/f", "x");
        place_write(place, SESSIONS ".hidden/workspace/f", "x");
        report = sweep_after(place, 2, true);
        assert_int_equal(report.total.files, 1);
        assert_int_equal(report.sessions, 7);
        assert_int_equal(report.count, 6);
        assert_false(exists(place, SESSIONS "ours/workspace/f"));
        assert_true(exists(place, SESSIONS "not-selected/workspace/f"));
        assert_true(exists(place, SESSIONS "theirs/workspace/f"));
        assert_true(exists(place, SESSIONS "b1/workspace/f"));
        assert_true(exists(place, SESSIONS "none/workspace/f"));
}

/* Folders that their owner closed hide nothing. */
static void test_closed_folders(void **state) {
        struct place *place = *state;
        struct sweep_report report;

        policy(place, "day", "\"selector\": {\"all\": true}, \"expireAfterDays\": 1");
        begin(place, "s1", "lab", "a");
        place_write(place, SESSIONS "s1/workspace/closed/file", "x");
        place_write(place, SESSIONS "s1/workspace/fixed/file", "x");
        assert_int_equal(chmod(place_path(place, SESSIONS "s1/workspace/closed"), 0), 0);
        assert_int_equal(chmod(place_path(place, SESSIONS "s1/workspace/fixed"), 0500), 0);
        report = sweep_after(place, 2, true);
        assert_int_equal(report.total.files, 2);
        assert_int_equal(report.total.problems, 0);
        assert_false(exists(place, SESSIONS "s1/workspace/closed"));
        assert_false(exists(place, SESSIONS "s1/workspace/fixed"));
}

static void test_many(void **state) {
        struct place *place = *state;
        struct sweep_report report;
        char name[128];

        policy(place, "day", "\"selector\": {\"all\": true}, \"expireAfterDays\": 1");
        begin(place, "s1", "lab", "a");
        for (int i = 0; i < 3000; i++) {
                snprintf(name, sizeof(name), SESSIONS "s1/workspace/%d/%d", i % 50, i);
                place_write(place, name, "xy");
        }
        report = sweep_after(place, 2, true);
        assert_int_equal(report.total.files, 3000);
        assert_int_equal(report.total.bytes, 6000);
        assert_false(exists(place, SESSIONS "s1/workspace/7"));
}

static void test_remove_session(void **state) {
        struct place *place = *state;
        const char *workspaces = arena_printf(place->arena, "%s/local/lab/workspaces", place->folder);
        struct error err;

        place_write(place, "outside/file", "precious");
        begin(place, "s1", "lab", "a");
        place_write(place, SESSIONS "s1/workspace/a/b", "x");
        assert_int_equal(symlink("../../../../../../outside", place_path(place, SESSIONS "s1/workspace/out")),
                         0);
        assert_int_equal(local_session_remove(workspaces, "s1", &err), 0);
        assert_false(exists(place, SESSIONS "s1"));
        assert_true(exists(place, "outside/file"));
        assert_int_equal(local_session_remove(workspaces, "..", &err), -1);
        assert_int_equal(local_session_remove(workspaces, "a/b", &err), -1);
        assert_int_equal(local_session_remove(workspaces, "none", &err), -1);
}

static void test_nothing(void **state) {
        struct place *place = *state;
        struct sweep_report report = sweep_after(place, 2, true);

        assert_int_equal(report.sessions, 0);
        assert_int_equal(report.count, 0);
        place_write(place, "local/lab/policies/torn.json", "{");
        struct error err;
        assert_int_equal(sweep_run(local_root(place->folder, "lab", place->arena), 0, true, place->arena,
                                   &report, &err),
                         -1);
        assert_non_null(strstr(err.message, "torn.json is damaged"));
}

/* Whatever a policy says, the files of a session that lives are not taken from under it; afterwards they are. */
static void test_living(void **state) {
        struct place *place = *state;
        const int64_t now_ms = clock_system.wall_ms(&clock_system);

        policy(place, "week", "\"selector\": {\"all\": true}, \"expireAfterDays\": 7");
        begin(place, "s1", "lab", "a");
        place_write(place, SESSIONS "s1/session.json",
                    arena_printf(place->arena,
                                 "{\"formatVersion\": \"1\", \"stack\": \"lab\", \"environment\": \"a\", "
                                 "\"livesUntilMs\": %lld}",
                                 (long long)(now_ms + 10 * DAY_MS)));
        place_write(place, SESSIONS "s1/workspace/file", "x");
        place_write(place, SESSIONS "s1/usage", "what was counted before");
        assert_int_equal(sweep_after(place, 9, true).total.files, 0);
        assert_true(exists(place, SESSIONS "s1/workspace/file"));
        assert_true(exists(place, SESSIONS "s1/usage"));
        assert_int_equal(sweep_after(place, 11, true).total.files, 1);
        assert_false(exists(place, SESSIONS "s1/workspace/file"));
        assert_false(exists(place, SESSIONS "s1/usage"));
}

/* A record is a file: any number may stand there, and none may let go of what is new. */
static void days_without_end(void **state) {
        const int64_t now_ms = INT64_C(1769860800000);

        (void)state;
        assert_int_equal(sweep_cutoff_ms(now_ms, 1), now_ms - DAY_MS);
        assert_int_equal(sweep_cutoff_ms(now_ms, INT64_MAX), INT64_MIN);
        assert_int_equal(sweep_cutoff_ms(now_ms, INT64_MAX / DAY_MS + 1), INT64_MIN);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, place_setup, place_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_which_policy),   TEST(test_ages),    TEST(test_forged_dates),
                TEST(test_links),          TEST(test_swapped), TEST(test_whose),
                TEST(test_closed_folders), TEST(test_many),    TEST(test_remove_session),
                TEST(test_nothing),        TEST(test_living),  cmocka_unit_test(days_without_end),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
