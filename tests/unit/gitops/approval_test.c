/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/world.h"

#include "base/json.h"
#include "gitops/approval.h"

#define STACK "apiVersion: berth/v1\nkind: Stack\nmetadata: {name: lab}\n---\n"
#define LAB STACK ENVIRONMENT("a", "") ENVIRONMENT("b", "") AGENT("x", "a")

static const char *id_of(struct bench *bench, const char *yaml, const char *commit, char id[PLAN_ID_SIZE]) {
        bench_must_plan(bench, yaml);
        approval_plan_id(&bench->plan, commit, id);
        assert_int_equal(strlen(id), PLAN_ID_SIZE - 1);
        return id;
}

/* The same plan has the same id, whenever it is made; any other has another. */
static void ids(void **state) {
        struct bench *bench = *state;
        char id[PLAN_ID_SIZE], other[PLAN_ID_SIZE];

        id_of(bench, LAB, "c1", id);
        bench->plan.created_ms += 100000;
        approval_plan_id(&bench->plan, "c1", other);
        assert_string_equal(id, other);
        assert_string_equal(id, id_of(bench, LAB, "c1", other));
        assert_string_not_equal(id, id_of(bench, LAB, "c2", other));
        assert_string_not_equal(id, id_of(bench, LAB ENVIRONMENT("c", ""), "c1", other));
        assert_string_not_equal(id, id_of(bench,
                                          STACK ENVIRONMENT("a", ", memoryMB: 3000") ENVIRONMENT("b", "")
                                                  AGENT("x", "a"),
                                          "c1", other));
        bench_apply(bench, LAB);
        assert_string_not_equal(id, id_of(bench, LAB, "c1", other));
}

static void refusals(void **state) {
        struct bench *bench = *state;
        struct arena *arena = bench->arena;
        static const struct {
                const char *text;
                bool good, matches;
        } cases[] = {
                { "has-dependents", true, true },
                { "has-dependents:Environment/a", true, true },
                { "has-dependents:Environment/b", true, false },
                { "protected", true, false },
                { "has-dependants", false, false },
                { "plan-stale", false, false },
                { "has-dependents:a", false, false },
                { "has-dependents:", false, false },
                { "", false, false },
                { "history-rewritten", true, false },
                { "history-rewritten:0123456", true, false },
                { "history-rewritten:0123456789abcdef0123456789abcdef01234567", true, false },
                { "history-rewritten:0123456789abcdef0123456789abcdef012345678", false, false },
                { "history-rewritten:012345", false, false },
                { "history-rewritten:", false, false },
                { "history-rewritten:Agent/x", false, false },
        };
        json_t *list, *shown;

        bench_apply(bench, LAB);
        bench_must_plan(bench, STACK ENVIRONMENT("b", "") AGENT("x", "a"));
        assert_string_equal(bench_line(bench), "delete Environment/a !has-dependents");
        list = approval_refusals_json(&bench->plan);
        assert_int_equal(json_array_size(list), 1);
        assert_string_equal(json_text(json_array_get(list, 0), "address"), "Environment/a");
        assert_string_equal(approval_refusals_text(list, arena),
                            "Environment/a: has-dependents: 1 dependent still uses it (Agent/x)");
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct allowance allowance;
                struct error err;

                assert_int_equal(approval_parse(cases[i].text, arena, &allowance, &err),
                                 cases[i].good ? 0 : -1);
                if (cases[i].good)
                        assert_int_equal(approval_matches(&allowance, list), cases[i].matches);
        }
        shown = approval_plan_json(&bench->plan, "c1", "0123456789ab");
        assert_int_equal(json_integer_or(shown, "changeCount", 0), 1);
        assert_string_equal(json_text(shown, "commit"), "c1");
        json_decref(shown);
        json_decref(list);
}

static void joined(void **state) {
        struct bench *bench = *state;
        static const struct allowance first[] = { { "protected", NULL } };
        json_t *texts = json_pack("[s, s, i, s]", "mass-delete", "nonsense", 3, "not-owned:Agent/x");
        size_t count;
        struct allowance *all = approval_join(first, 1, texts, bench->arena, &count);

        assert_int_equal(count, 3);
        assert_string_equal(all[0].id, "protected");
        assert_string_equal(all[1].id, "mass-delete");
        assert_null(all[1].address);
        assert_string_equal(all[2].address, "Agent/x");
        json_decref(texts);
        approval_join(NULL, 0, NULL, bench->arena, &count);
        assert_int_equal(count, 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, bench_set_up, bench_tear_down)

int main(void) {
        const struct CMUnitTest tests[] = { TEST(ids), TEST(refusals), TEST(joined) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
