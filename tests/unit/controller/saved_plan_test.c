/* SPDX-License-Identifier: Apache-2.0 */
#include "base/files.h"
#include "controller/saved_plan.h"

#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "world.h"

#define STACK "apiVersion: berth/v1\nkind: Stack\nmetadata: {name: lab}\nspec: {}\n---\n"
#define SECRETIVE \
        ENVIRONMENT("s", ", variables: {OPEN: plain, TOKEN: {value: hunter2-hunter2, sensitive: true}}")

struct desk {
        struct bench bench;
        char path[96];
};

static int set_up(void **state) {
        struct desk *desk = calloc(1, sizeof(*desk));

        assert_non_null(desk);
        bench_open(&desk->bench);
        snprintf(desk->path, sizeof(desk->path), "%s/plan.json", desk->bench.folder);
        *state = desk;
        return 0;
}

static int tear_down(void **state) {
        struct desk *desk = *state;

        bench_close(&desk->bench);
        free(desk);
        return 0;
}

static void save(struct desk *desk, const char *yaml) {
        struct error err;

        bench_must_plan(&desk->bench, yaml);
        if (saved_plan_write(desk->path, &desk->bench.args, &desk->bench.plan, &err) < 0)
                fail_msg("%s", err.message);
}

/*
 * Plans again from the saved file, as `apply PLANFILE` does; the refusals are in desk->bench.plan.
 */
static void take_up(struct desk *desk) {
        struct bench *bench = &desk->bench;
        struct saved_plan saved;
        struct error err;

        if (saved_plan_read(desk->path, bench->state, bench->arena, &saved, &err) < 0)
                fail_msg("%s", err.message);
        if (saved.needs_secrets &&
            saved_plan_restore_secrets(&saved, &bench->manifests, bench->state, bench->arena, &err) < 0)
                fail_msg("%s", err.message);
        bench->manifests = saved.manifests;
        bench->args.manifests = &bench->manifests;
        if (plan_make(&bench->args, bench->arena, &bench->plan, &err) < 0 ||
            saved_plan_compare(&saved, &bench->plan, bench->arena, &err) < 0)
                fail_msg("%s", err.message);
        saved_plan_release(&saved);
}

static void expect_stale(struct desk *desk, const char *message) {
        take_up(desk);
        assert_int_equal(desk->bench.plan.refusal_count, 1);
        assert_string_equal(desk->bench.plan.refusals[0].id, "plan-stale");
        if (!strstr(desk->bench.plan.refusals[0].message, message))
                fail_msg("expected \"%s\" in \"%s\"", message, desk->bench.plan.refusals[0].message);
}

static void test_applied_as_saved(void **state) {
        struct desk *desk = *state;

        save(desk, STACK ENVIRONMENT("a", "") SECRETIVE);
        take_up(desk);
        assert_int_equal(desk->bench.plan.refusal_count, 0);
        assert_string_equal(bench_line(&desk->bench),
                            "create Stack/lab; create Environment/a; create Environment/s");
        assert_string_equal(value_text_of(value_path(plan_subject(&desk->bench.plan, "Environment/s")->wish,
                                                     "variables.TOKEN")),
                            "hunter2-hunter2");
}

static void test_no_secret_in_the_file(void **state) {
        struct desk *desk = *state;
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct error err;

        save(desk, STACK SECRETIVE);
        assert_int_equal(file_read(desk->path, 1U << 20, &text, &err), 0);
        assert_null(strstr(strbuf_text(&text), "hunter2"));
        assert_non_null(strstr(strbuf_text(&text), "plain"));
}

static void test_another_secret(void **state) {
        struct desk *desk = *state;
        struct saved_plan saved;
        struct error err;

        save(desk, STACK SECRETIVE);
        bench_must_plan(
                &desk->bench,
                STACK ENVIRONMENT("s", ", variables: {OPEN: plain, TOKEN: {value: other, sensitive: true}}"));
        assert_int_equal(saved_plan_read(desk->path, desk->bench.state, desk->bench.arena, &saved, &err), 0);
        assert_int_equal(saved_plan_restore_secrets(&saved, &desk->bench.manifests, desk->bench.state,
                                                    desk->bench.arena, &err),
                         -1);
        assert_null(strstr(err.message, "hunter2"));
        assert_non_null(strstr(err.message, "TOKEN"));
        saved_plan_release(&saved);
}

static void test_the_state_moved(void **state) {
        struct desk *desk = *state;

        save(desk, STACK ENVIRONMENT("a", "") ENVIRONMENT("b", ""));
        bench_apply(&desk->bench, STACK ENVIRONMENT("a", ""));
        expect_stale(desk, "serial");
}

static void test_the_world_moved(void **state) {
        struct desk *desk = *state;

        bench_apply(&desk->bench, STACK ENVIRONMENT("a", ""));
        save(desk, STACK ENVIRONMENT("a", ", memoryMB: 4096"));
        world_find("Environment/a")->revision++;
        expect_stale(desk, "Environment/a was changed outside of Berth");
}

static void test_something_else_drifted(void **state) {
        struct desk *desk = *state;
        json_t *spec;

        bench_apply(&desk->bench, STACK ENVIRONMENT("a", "") ENVIRONMENT("b", ""));
        save(desk, STACK ENVIRONMENT("a", ", memoryMB: 4096") ENVIRONMENT("b", ""));
        spec = json_deep_copy(world_find("Environment/b")->spec);
        json_object_set_new(spec, "memoryMB", json_integer(9000));
        world_put("Environment/b", spec);
        expect_stale(desk, "Environment/b was changed");
}

static void test_edited_by_hand(void **state) {
        struct desk *desk = *state;
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct saved_plan saved;
        struct error err;
        char *at;

        save(desk, STACK ENVIRONMENT("a", ", memoryMB: 4096"));
        assert_int_equal(file_read(desk->path, 1U << 20, &text, &err), 0);
        at = strstr(text.data, "4096");
        assert_non_null(at);
        at[0] = '9'; /* 9096 */
        assert_int_equal(file_write_atomic(desk->path, text.data, text.length, 0600, &err), 0);
        assert_int_equal(saved_plan_read(desk->path, desk->bench.state, desk->bench.arena, &saved, &err), -1);
        assert_int_equal(err.kind, ERROR_REFUSED);
        assert_non_null(strstr(err.message, "was changed since"));
}

static void test_no_plan_at_all(void **state) {
        static const char *const texts[] = { "",
                                             "{",
                                             "[]",
                                             "{}",
                                             "null",
                                             "{\"berthPlan\": 1}",
                                             "{\"berthPlan\": 99, \"mac\": \"\", \"lineage\": \"\"}",
                                             "{\"berthPlan\": 1, \"mac\": 3, \"lineage\": []}" };
        struct desk *desk = *state;

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                struct saved_plan saved;
                struct error err;

                assert_int_equal(file_write_atomic(desk->path, texts[i], strlen(texts[i]), 0600, &err), 0);
                assert_int_equal(
                        saved_plan_read(desk->path, desk->bench.state, desk->bench.arena, &saved, &err), -1);
        }
}

static void test_of_another_state(void **state) {
        struct desk *desk = *state;
        struct bench other;
        struct saved_plan saved;
        struct error err;

        save(desk, STACK ENVIRONMENT("a", ""));
        bench_open(&other);
        assert_int_equal(saved_plan_read(desk->path, other.state, other.arena, &saved, &err), -1);
        assert_non_null(strstr(err.message, "plan-stale"));
        bench_close(&other);
}

int main(void) {
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                TEST(test_applied_as_saved), TEST(test_no_secret_in_the_file),
                TEST(test_another_secret),   TEST(test_the_state_moved),
                TEST(test_the_world_moved),  TEST(test_something_else_drifted),
                TEST(test_edited_by_hand),   TEST(test_no_plan_at_all),
                TEST(test_of_another_state),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
