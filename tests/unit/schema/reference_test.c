/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The documentation that the field tables write. docs/manifests.md must be what they write now:
 * BERTH_WRITE_DOCS=1 build/dev/tests/unit/schema_reference_test writes it again. (That the JSON
 * Schema is one, and what it accepts, a stock validator says: tests/e2e/test_schema.py.)
 */
#include "schema/reference.h"

#include "base/json.h"
#include "page.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void page_is_current(void **state) {
        (void)state;
        page_check(TEST_DATA, "manifests.md", reference_markdown);
}

/* The part of the schema under a path of member names. */
static const json_t *below(const json_t *json, const char *path) {
        char name[64];

        while (json && *path) {
                size_t length = strcspn(path, "/");

                snprintf(name, sizeof(name), "%.*s", (int)length, path);
                json = json_object_get(json, name);
                path += length + (path[length] == '/');
        }
        return json;
}

static void json_schema(void **state) {
        json_t *all JSON_CLEANUP = schema_json(NULL),
                    *one JSON_CLEANUP = schema_json(kinds[KIND_ENVIRONMENT]);
        const json_t *spec = below(one, "properties/spec"), *memory = below(spec, "properties/memoryMB");

        (void)state;
        assert_string_equal(json_text(all, "$schema"), "https://json-schema.org/draft/2020-12/schema");
        assert_string_equal(json_text(one, "$schema"), "https://json-schema.org/draft/2020-12/schema");
        assert_int_equal(json_object_size(below(all, "$defs")), KIND_COUNT);
        assert_int_equal(json_array_size(below(all, "allOf")), KIND_COUNT);
        assert_true(json_is_false(below(one, "additionalProperties")));
        assert_true(json_is_false(below(spec, "additionalProperties")));
        assert_int_equal(json_integer_or(memory, "minimum", 0), 1769);
        assert_int_equal(json_integer_or(memory, "maximum", 0), 10240);
        assert_int_equal(json_integer_or(memory, "default", 0), 2048);
        assert_string_equal(json_string_value(json_array_get(below(spec, "required"), 0)), "image");
}

static void explanations(void **state) {
        static const struct {
                const char *target, *holds[6]; /* of the text, or of the error where it begins with "!" */
        } cases[] = {
                { "Environment.memoryMB",
                  { "integer", "MB", "1769 to 10240", "2048", "vCPU = memoryMB / 1769" } },
                { "Environment.spec.memoryMB", { "Environment.memoryMB", "integer" } },
                { "env.image.follow", { "pin or tag", "default", "only with" } },
                { "Environment", { "memoryMB (integer)", "image (text or map, required)" } },
                { "Agent.environment", { "a resource of kind Environment" } },
                { "Stack.metadata.name", { "1 to 48 characters" } },
                { "WorkspacePolicy.transitions", { "list of maps", "afterDays (integer, required)" } },
                { "Enviroment", { "!did you mean Environment?" } },
                { "Environment.memoryMb", { "!did you mean memoryMB?" } },
                { "Environment.image.tagg", { "!did you mean tag?" } },
                { "Environment.metadata.nam", { "!did you mean name?" } },
                { "Environment.memoryMB.x", { "!has no field memoryMB.x" } },
                { "", { "!the kind is missing: the kinds are Stack, " } },
                { ".memoryMB", { "!the kind is missing" } },
                { "Zzz", { "!there is no kind Zzz: the kinds are Stack, " } },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                bool fails = cases[i].holds[0][0] == '!';
                struct error err = { 0 };
                json_t *json JSON_CLEANUP = NULL;
                char *text = NULL;
                size_t length;
                FILE *stream = open_memstream(&text, &length);
                int result = explain(cases[i].target, stream, &err);

                assert_int_equal(fclose(stream), 0);
                assert_int_equal(result, fails ? -1 : 0);
                for (size_t j = 0; j < 6 && cases[i].holds[j]; j++) {
                        if (!strstr(fails ? err.message : text, cases[i].holds[j] + fails))
                                fail_msg("%s: no \"%s\" in %s%s", cases[i].target, cases[i].holds[j], text,
                                         err.message);
                }
                assert_int_equal(explain_json(cases[i].target, &json, &err), fails ? -1 : 0);
                assert_int_equal(json != NULL, !fails);
                free(text);
        }
}

static void explanation_as_data(void **state) {
        struct error err = { 0 };
        json_t *json JSON_CLEANUP = NULL;

        (void)state;
        assert_int_equal(explain_json("Environment.memoryMB", &json, &err), 0);
        assert_string_equal(json_text(json, "kind"), "Environment");
        assert_string_equal(json_text(json, "path"), "memoryMB");
        assert_string_equal(json_text(json, "type"), "integer");
        assert_string_equal(json_text(json, "unit"), "MB");
        assert_int_equal(json_integer_or(json, "minimum", 0), 1769);
        assert_int_equal(json_integer_or(json, "maximum", 0), 10240);
        assert_int_equal(json_integer_or(json, "default", 0), 2048);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(page_is_current),
                cmocka_unit_test(json_schema),
                cmocka_unit_test(explanations),
                cmocka_unit_test(explanation_as_data),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
