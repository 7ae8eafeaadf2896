/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/binding/binding_record.h"

#include "providers/aws/shared/support.h"

static const struct binding_place agent = { KIND_AGENT, "team", "lab", "ann" };
static const struct binding_place swarm = { KIND_SWARM, "team", "lab", "bees" };

static void keys_are_by_stack_and_kind(void **state) {
        const struct binding_place folder = { KIND_AGENT, "team", "lab", NULL };

        (void)state;
        assert_string_equal(binding_key(&agent, arena), "registry/team/agents/ann.json");
        assert_string_equal(binding_key(&swarm, arena), "registry/team/swarms/bees.json");
        assert_string_equal(binding_key(&folder, arena), "registry/team/agents/");
}

/* Manifests, their labels, and the bytes of the record. */
static const struct {
        const struct binding_place *place;
        const char *spec, *labels, *text;
} cases[] = {
        { &agent,
          "{\"type\":\"specialist\",\"environment\":\"py\",\"active\":true,\"limits\":{\"onLimit\":\"queue\",\"cpus\":2}}",
          "{\"team\":\"research\"}",
          "{\"active\":true,\"environment\":\"py\",\"formatVersion\":\"1\",\"functionName\":\"lab-env-py\","
          "\"kind\":\"Agent\",\"labels\":{\"team\":\"research\"},\"limits\":{\"cpus\":2,\"onLimit\":\"queue\"},"
          "\"name\":\"ann\",\"type\":\"specialist\"}" },
        { &agent, "{\"type\":\"general\",\"active\":false}", NULL,
          "{\"active\":false,\"formatVersion\":\"1\",\"kind\":\"Agent\",\"name\":\"ann\",\"type\":\"general\"}" },
        { &agent, "{\"type\":\"general\",\"active\":true,\"environment\":null,\"limits\":{}}", "{}",
          "{\"active\":true,\"formatVersion\":\"1\",\"kind\":\"Agent\",\"name\":\"ann\",\"type\":\"general\"}" },
        { &swarm, "{\"agents\":[\"zoe\",\"ann\"],\"environment\":\"py\"}", NULL,
          "{\"agents\":[\"ann\",\"zoe\"],\"environment\":\"py\",\"formatVersion\":\"1\",\"functionName\":\"lab-env-py\","
          "\"kind\":\"Swarm\",\"name\":\"bees\"}" },
};

static void manifests_become_records_and_back(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                const struct resource resource = { .spec = value_of(cases[i].spec),
                                                   .labels = value_of(cases[i].labels) };
                const struct value *spec = binding_spec(&resource, NULL, arena);
                const char *text = binding_text(cases[i].place, spec, arena);
                const struct value *again = binding_parse(cases[i].place, text, strlen(text), arena);

                assert_string_equal(text, cases[i].text);
                assert_true(value_equal(spec, again, NULL));
        }
}

static void the_manifest_stays_as_it_was(void **state) {
        const struct value *spec = value_of("{\"agents\":[\"zoe\",\"ann\"]}");
        const struct resource resource = { .spec = spec };

        (void)state;
        binding_spec(&resource, NULL, arena);
        assert_string_equal(value_text_of(&value_get(spec, "agents")->items[0]), "zoe");
}

static void what_is_no_record_of_ours_reads_as_nothing(void **state) {
        static const char *const texts[] = {
                "",
                "{",
                "[]",
                "null",
                "{\"active\":true,\"kind\":\"Agent\",\"name\":\"ann\",\"type\":\"general\"}",
                "{\"active\":true,\"formatVersion\":\"2\",\"kind\":\"Agent\",\"name\":\"ann\",\"type\":\"general\"}",
                "{\"active\":true,\"formatVersion\":1,\"kind\":\"Agent\",\"name\":\"ann\",\"type\":\"general\"}",
                "{\"active\":true,\"formatVersion\":\"1\",\"kind\":\"Swarm\",\"name\":\"ann\",\"type\":\"general\"}",
                "{\"active\":true,\"formatVersion\":\"1\",\"kind\":\"Agent\",\"name\":\"bob\",\"type\":\"general\"}",
                "{\"formatVersion\":\"1\",\"kind\":\"Agent\",\"kind\":\"Agent\",\"name\":\"ann\",\"type\":\"general\"}",
        };

        (void)state;
        for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
                const struct value *spec = binding_parse(&agent, texts[i], strlen(texts[i]), arena);

                if (spec->count != 0)
                        fail_msg("%s", texts[i]);
        }
}

/*
 * A reader of records calls the function named there: a function that does not follow from the
 * environment is no binding.
 */
static void a_wrong_function_is_no_environment(void **state) {
        static const char *const texts[] = {
                "{\"environment\":\"py\",\"formatVersion\":\"1\",\"functionName\":\"lab-env-other\",\"kind\":\"Agent\","
                "\"name\":\"ann\",\"type\":\"general\"}",
                "{\"environment\":\"py\",\"formatVersion\":\"1\",\"kind\":\"Agent\",\"name\":\"ann\",\"type\":\"general\"}",
        };

        (void)state;
        for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
                const struct value *spec = binding_parse(&agent, texts[i], strlen(texts[i]), arena);

                assert_null(value_get(spec, "environment"));
                assert_string_equal(value_get_text(spec, "type"), "general");
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(keys_are_by_stack_and_kind),
                cmocka_unit_test(manifests_become_records_and_back),
                cmocka_unit_test(the_manifest_stays_as_it_was),
                cmocka_unit_test(what_is_no_record_of_ours_reads_as_nothing),
                cmocka_unit_test(a_wrong_function_is_no_environment),
        };

        return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
