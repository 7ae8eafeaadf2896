/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "providers/local/desire.h"

#include "providers/local/support.h"

static void expect(struct place *place, const struct value *found, const char *json) {
        const struct value *expected = place_json(place, json);
        json_t *shown;

        if (value_equal(found, expected, NULL))
                return;
        shown = value_to_json(found, NULL);
        fail_msg("%s\nexpected %s", json_dumps(shown, JSON_INDENT(1)), json);
}

static struct value *spec_of(struct place *place, enum kind_id kind, const char *json, const char *labels) {
        struct resource resource = { .kind = kinds[kind],
                                     .name = "x",
                                     .labels = labels ? place_json(place, labels) : NULL,
                                     .spec = place_json(place, json) };

        return desire_spec(&resource, place->arena);
}

static void test_spec(void **state) {
        struct place *place = *state;
        static const struct {
                enum kind_id kind;
                const char *spec, *labels, *expected;
        } rows[] = {
                { KIND_AGENT, "{'type': 'general', 'active': true, 'limits': {}}", "{'team': 'data'}",
                  "{'type': 'general', 'active': true, 'labels': {'team': 'data'}}" },
                { KIND_SWARM, "{'agents': ['b', 'a'], 'environment': 'e'}", NULL,
                  "{'agents': ['a', 'b'], 'environment': 'e'}" },
                { KIND_WORKSPACE_POLICY,
                  "{'selector': {'matchLabels': {'a': 'b'}}, 'environments': ['e'], 'expireAfterDays': 3}",
                  NULL,
                  "{'selector': {'matchLabels': {'a': 'b'}}, 'environments': ['e'], 'expireAfterDays': 3}" },
                { KIND_STACK,
                  "{'provider': 'local', 'aws': {'region': 'r'}, 'local': {'images': '/i'}, 'tags': {'a': 'b'}, 'guards': {'maxDeletes': 1}}",
                  NULL, "{'images': '/i', 'tags': {'a': 'b'}}" },
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
                expect(place, spec_of(place, rows[i].kind, rows[i].spec, rows[i].labels), rows[i].expected);
}

/*
 * A field that the manifest leaves out is ours nevertheless; a variable that it leaves out is not.
 */
static void test_nulls(void **state) {
        struct place *place = *state;
        const struct value *spec = spec_of(place, KIND_ENVIRONMENT, "{'memoryMB': 2048}", NULL);

        assert_non_null(value_get(spec, "reservedConcurrency"));
        assert_int_equal(value_get(spec, "reservedConcurrency")->type, VALUE_NULL);
        assert_null(value_get(spec, "variables"));
}

static void test_merge(void **state) {
        struct place *place = *state;
        static const struct {
                const char *present, *desired, *recorded, *expected;
        } rows[] = {
                { "{}", "{'a': 1}", "{}", "{'a': 1}" },
                { "{'a': 1, 'theirs': 2}", "{'a': 3}", "{'a': 1}", "{'a': 3, 'theirs': 2}" },
                { "{'a': 1, 'b': 2}", "{'a': 1}", "{'a': 1, 'b': 2}", "{'a': 1}" },
                { "{'a': 1, 'b': 2}", "{'a': 1, 'b': null}", "{'a': 1}", "{'a': 1}" },
                { "{'variables': {'MINE': 'x', 'OLD': 'y', 'THEIRS': 'z'}}", "{'variables': {'MINE': 'n'}}",
                  "{'variables': {'MINE': 'x', 'OLD': 'y'}}", "{'variables': {'MINE': 'n', 'THEIRS': 'z'}}" },
                { "{'variables': {'OLD': 'y'}}", "{}", "{'variables': {'OLD': 'y'}}", "{}" },
                { "{'variables': {'THEIRS': 'z'}}", "{}", "{}", "{'variables': {'THEIRS': 'z'}}" },
                { "{'variables': 7}", "{'variables': {'A': 'b'}}", "{}", "{'variables': {'A': 'b'}}" },
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
                expect(place,
                       desire_merge(place_json(place, rows[i].present), place_json(place, rows[i].desired),
                                    place_json(place, rows[i].recorded), place->arena),
                       rows[i].expected);
        expect(place, desire_merge(NULL, place_json(place, "{'a': 1}"), NULL, place->arena), "{'a': 1}");
}

static bool is_marked(const struct value *spec, const char *name) {
        return value_get(value_get(spec, "variables"), name)->sensitive;
}

static void test_secrets(void **state) {
        struct place *place = *state;
        struct value *spec = place_json(place, "{'variables': {'PLAIN': 'a', 'WAS': 'b', 'THEIRS': 'c'}}");

        desire_mark_secrets(spec, place_json(place, "{'variables': {'PLAIN': 'a'}}"),
                            place_json(place, "{'variables': {'WAS': {'$secret': 'ab'}}}"), place->arena);
        assert_false(is_marked(spec, "PLAIN"));
        assert_true(is_marked(spec, "WAS"));
        assert_true(is_marked(spec, "THEIRS"));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, place_setup, place_teardown)

int main(void) {
        const struct CMUnitTest tests[] = { TEST(test_spec), TEST(test_nulls), TEST(test_merge),
                                            TEST(test_secrets) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
