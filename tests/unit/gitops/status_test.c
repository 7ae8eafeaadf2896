/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "gitops/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMIT "3f2a3f2a3f2a3f2a3f2a3f2a3f2a3f2a3f2a3f2a"

static const struct source_config config = { .name = "lab", .branch = "main", .mode = SOURCE_APPROVE };

static struct verdict verdict_of(bool ready, bool stalled, const char *reason) {
        struct verdict verdict = { .ready = ready, .stalled = stalled, .message = "words", .commit = COMMIT };

        snprintf(verdict.reason, sizeof(verdict.reason), "%s", reason);
        return verdict;
}

/* `since` moves when the status or the reason does, not with each new wording. */
static void since(void **state) {
        static const struct {
                bool value;
                const char *reason, *message;
                bool changes;
        } steps[] = {
                { false, "A", "one", true }, { false, "A", "two", false }, { false, "B", "two", true },
                { true, "B", "two", true },  { true, "B", "", false },
        };
        struct source_status status;
        int64_t last = 0;

        (void)state;
        status_init(&status);
        for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
                int64_t now = 1000 * (int64_t)(i + 1);

                assert_int_equal(status_set(&status, CONDITION_READY, steps[i].value, steps[i].reason,
                                            steps[i].message, NULL, now),
                                 steps[i].changes);
                if (steps[i].changes)
                        last = now;
                assert_int_equal(status.conditions[CONDITION_READY].since_ms, last);
                assert_string_equal(status.conditions[CONDITION_READY].message, steps[i].message);
        }
        status_release(&status);
}

static void long_messages_are_cut_at_whole_characters(void **state) {
        struct source_status status;
        char text[1400];
        size_t length;

        (void)state;
        for (size_t i = 0; i < 1398; i += 2)
                memcpy(text + i, "\xC3\xA4", 3);
        status_init(&status);
        status_set(&status, CONDITION_READY, false, "X", text, NULL, 1);
        length = strlen(status.conditions[CONDITION_READY].message);
        assert_int_equal(length, 1022);
        status_release(&status);
}

static void what_is_wrong_with_the_repository_goes_first(void **state) {
        static const struct {
                bool has_problem, lasting;
                bool verdict_ready;
                const char *reason;
                bool ready, stalled;
        } cases[] = {
                { false, false, true, "Applied", true, false },
                { false, false, false, "ApplyFailed", false, false },
                { true, false, true, "Unreachable", false, false },
                { true, true, true, "HistoryRewritten", false, true },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct source_status status;

                status_init(&status);
                assert_false(status_conclude(&status, 1));
                assert_int_equal(status.conditions[CONDITION_READY].since_ms, 0);
                status.verdict = verdict_of(cases[i].verdict_ready, false,
                                            cases[i].verdict_ready ? "Applied" : "ApplyFailed");
                if (cases[i].has_problem)
                        status.problem = verdict_of(false, cases[i].lasting, cases[i].reason);
                assert_true(status_conclude(&status, 5));
                assert_string_equal(status.conditions[CONDITION_READY].reason, cases[i].reason);
                assert_int_equal(status.conditions[CONDITION_READY].status, cases[i].ready);
                assert_int_equal(status.conditions[CONDITION_STALLED].status, cases[i].stalled);
                assert_string_equal(status.conditions[CONDITION_READY].commit, COMMIT);
                status_release(&status);
        }
}

static json_t *commit(const char *id) {
        return json_pack("{s:s, s:s, s:s, s:s, s:n}", "id", id, "ref", "refs/heads/main", "subject", "s",
                         "author", "a", "signer");
}

static void kept_and_restored(void **state) {
        struct source_status before, after;
        json_t *stored, *again;

        (void)state;
        status_init(&before);
        before.verdict = verdict_of(false, true, "InvalidManifests");
        before.seen = commit(COMMIT);
        before.good = commit("77ab77ab77ab77ab77ab77ab77ab77ab77ab77ab");
        before.bad = true;
        before.result = RECONCILE_FAILED;
        before.suspended = 1;
        before.success_ms = 1769860800000;
        before.refusals = json_pack("[{s:s}]", "id", "protected");
        before.plan = json_pack("{s:s}", "id", "0123456789ab");
        before.allowed = json_pack("[s]", "protected:Agent/x");
        strcpy(before.approved, "0123456789ab");
        strcpy(before.accepted_rewrite, COMMIT);
        status_conclude(&before, 1769860800000);
        stored = status_store(&before, &config, "host/x");
        assert_string_equal(json_text(stored, "mode"), "approve");
        assert_string_equal(json_text(stored, "ref"), "refs/heads/main");
        assert_string_equal(json_text(stored, "lastSuccess"), "2026-01-31T12:00:00Z");

        status_init(&after);
        status_restore(&after, stored);
        assert_true(after.bad);
        assert_int_equal(after.suspended, 1);
        assert_true(status_suspended(&after, &config));
        assert_string_equal(after.approved, "0123456789ab");
        assert_string_equal(after.accepted_rewrite, COMMIT);
        assert_int_equal(after.conditions[CONDITION_READY].since_ms, 1769860800000);
        again = status_store(&after, &config, "host/x");
        assert_true(json_equal(stored, again));
        json_decref(stored);
        json_decref(again);
        status_release(&before);
        status_release(&after);
}

/* A state's meta may hold anything: what means nothing is as if it had never been. */
static void nonsense(void **state) {
        static const char *const texts[] = {
                "{}",
                "[]",
                "{\"internal\": 3}",
                "{\"internal\": {}}",
                ("{\"internal\": {\"since\": 1, \"verdict\": [], \"approved\": 7, \"allowed\": \"x\", \"suspended\": \"y\"}, "
                 "\"commit\": \"x\", \"appliedCommit\": {\"id\": \"short\"}, \"plan\": [], \"refusals\": {}, \"result\": "
                 "\"none\"}"),
                "{\"internal\": {\"approved\": \"much longer than any id that a plan can have\"}}",
                "{\"internal\": {\"acceptedRewrite\": \"main\"}}",
        };

        (void)state;
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                json_t *stored = json_loads(texts[i], 0, NULL), *shown;
                struct source_status status;

                assert_non_null(stored);
                status_init(&status);
                status_restore(&status, stored);
                assert_null(status.seen);
                assert_null(status.good);
                assert_null(status.plan);
                assert_string_equal(status.accepted_rewrite, "");
                assert_int_equal(status.result, -1);
                assert_false(status_suspended(&status, &config));
                shown = status_json(&status, &config, "u");
                assert_non_null(shown);
                json_decref(shown);
                json_decref(stored);
                status_release(&status);
        }
}

/* Cut in the middle of a character: names are as long as a directory service lets them be. */
static void an_approver_of_any_name(void **state) {
        struct source_status status;
        json_t *stored;

        (void)state;
        status_init(&status);
        strcpy(status.approver, "Zo\xC3");
        stored = status_store(&status, &config, "u");
        assert_string_equal(json_text(json_object_get(stored, "internal"), "approver"), "Zo\\xC3");
        json_decref(stored);
        status_release(&status);
}

static void suspension(void **state) {
        static const struct {
                bool configured;
                int by_hand;
                bool suspended;
        } cases[] = { { false, -1, false }, { true, -1, true },  { true, 0, false },
                      { false, 1, true },   { false, 0, false }, { true, 1, true } };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct source_config one = config;
                struct source_status status;

                status_init(&status);
                one.suspended = cases[i].configured;
                status.suspended = cases[i].by_hand;
                assert_int_equal(status_suspended(&status, &one), cases[i].suspended);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(since),
                cmocka_unit_test(long_messages_are_cut_at_whole_characters),
                cmocka_unit_test(what_is_wrong_with_the_repository_goes_first),
                cmocka_unit_test(kept_and_restored),
                cmocka_unit_test(nonsense),
                cmocka_unit_test(an_approver_of_any_name),
                cmocka_unit_test(suspension),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
