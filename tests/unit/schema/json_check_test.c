/* SPDX-License-Identifier: Apache-2.0 */
/* JSON against field tables: each way in which it can be wrong. */
#include "schema/json_check.h"

#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const words[] = { "one", "two", NULL };
static const char *const pair[] = { "text", "number", NULL };
static const struct field_group groups[] = { { pair, true }, { 0 } };
static const struct field name_field = { .name = "NAME",
                                         .type = FIELD_TEXT,
                                         .maximum = 4,
                                         .pattern = "[^=\x01-\x1f\x7f]*",
                                         .pattern_message = "without =" };
static const struct field item_fields[] = {
        { .name = "path", .type = FIELD_TEXT, .required = true, .minimum = 1, .maximum = 9 },
        { .name = "bytes", .type = FIELD_TEXT, .base64 = true },
        { 0 },
};
static const struct field item_field = { .name = "item", .type = FIELD_OBJECT, .fields = item_fields };
static const struct field either_field = { .name = "either", .type = FIELD_TEXT, .choices_text = words };
static const struct field name_of_many = {
        .name = "NAME", .type = FIELD_TEXT, .pattern = "[a-z0-9]*", .pattern_message = "letters and digits"
};
static const struct field fields[] = {
        { .name = "text", .type = FIELD_TEXT, .minimum = 1, .maximum = 4 },
        { .name = "number", .type = FIELD_INTEGER, .minimum = 1, .maximum = 900 },
        { .name = "flag", .type = FIELD_BOOLEAN },
        { .name = "word", .type = FIELD_TEXT, .choices_text = words },
        { .name = "list", .type = FIELD_LIST, .maximum = 2, .item = &item_field },
        { .name = "map", .type = FIELD_MAP, .maximum = 2, .keys = &name_field, .item = &name_field },
        { .name = "either", .type = FIELD_ONE_OF, .item = &either_field, .fields = item_fields },
        { .name = "many", .type = FIELD_MAP, .keys = &name_of_many, .item = &name_of_many },
        { 0 },
};

static void each_way(void **state) {
        static const struct {
                const char *json, *wrong; /* NULL: nothing is */
        } cases[] = {
                { "{\"text\": \"\xc3\xa4\xc3\xb6\xc3\xbc!\"}", NULL },
                { "{\"text\": \"a\", \"number\": null}", NULL },
                { "{\"number\": 900, \"flag\": false, \"word\": \"two\"}", NULL },
                { "{\"number\": 1, \"list\": [{\"path\": \"p\", \"bytes\": \"eA==\"}, {\"path\": \"q\", \"bytes\": \"\"}]}",
                  NULL },
                { "{\"number\": 1, \"map\": {\"k\": \"\xc3\xa4\"}, \"either\": \"one\"}", NULL },
                { "{\"number\": 1, \"either\": {\"path\": \"p\"}}", NULL },
                { "{}", "text or number must be given, one of them" },
                { "{\"text\": null}", "text or number must be given, one of them" },
                { "{\"text\": \"a\", \"number\": 1}", "text or number must be given, one of them" },
                { "{\"text\": 1}", "text must be a text" },
                { "{\"text\": \"\"}", "text must have 1 to 4 characters, found 0" },
                { "{\"text\": \"12345\"}", "text must have 1 to 4 characters, found 5" },
                { "{\"text\": \"a\\u0000b\"}", "text must be a text without NUL" },
                { "{\"number\": 0}", "number must be 1 to 900, found 0" },
                { "{\"number\": 901}", "number must be 1 to 900, found 901" },
                { "{\"number\": 5.0}", NULL },
                { "{\"number\": 9e2}", NULL },
                { "{\"number\": 901.0}", "number must be 1 to 900, found 901" },
                { "{\"number\": 1e300}", "number must be a whole number" },
                { "{\"number\": 1.5}", "number must be a whole number" },
                { "{\"number\": \"1\"}", "number must be a whole number" },
                { "{\"number\": 1, \"flag\": 1}", "flag must be true or false" },
                { "{\"number\": 1, \"word\": \"three\"}", "word must be one or two" },
                { "{\"number\": 1, \"what\": 1}", "the member what is not known" },
                { "{\"number\": 1, \"list\": {}}", "list must be a list" },
                { "{\"number\": 1, \"list\": [null]}", "list[0] must be an object" },
                { "{\"number\": 1, \"list\": [{\"path\": \"p\"}, {}]}", "list[1].path is required" },
                { "{\"number\": 1, \"list\": [{\"path\": \"p\", \"mode\": 1}]}",
                  "the member list[0].mode is not known" },
                { "{\"number\": 1, \"list\": [{\"path\": \"p\", \"bytes\": \"eA=\"}]}",
                  "list[0].bytes must be base64 with padding" },
                { "{\"number\": 1, \"list\": [{\"path\": \"p\", \"bytes\": \"e=A=\"}]}",
                  "list[0].bytes must be base64 with padding" },
                { "{\"number\": 1, \"list\": [{\"path\": \"p\"}, {\"path\": \"p\"}, {\"path\": \"p\"}]}",
                  "list must have at most 2 items, found 3" },
                { "{\"number\": 1, \"map\": {\"a=b\": \"x\"}}", "a name in map must be without =" },
                { "{\"number\": 1, \"map\": {\"a\": \"x\\n\"}}", "map.a must be without =" },
                { "{\"number\": 1, \"map\": {\"a\": 1}}", "map.a must be a text" },
                { "{\"number\": 1, \"either\": 1}", "either must be a text or an object" },
                { "{\"number\": 1, \"either\": \"none\"}", "either must be one or two" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct arena *arena = arena_new();
                json_t *json JSON_CLEANUP = json_checked(json_loads(cases[i].json, JSON_ALLOW_NUL, NULL));
                const char *wrong = json_check(json, fields, groups, arena);

                if (!wrong != !cases[i].wrong || (wrong && strcmp(wrong, cases[i].wrong) != 0))
                        fail_msg("%s: %s", cases[i].json, wrong ? wrong : "is taken");
                arena_free(arena);
        }
}

static void whole_numbers(void **state) {
        struct arena *arena = arena_new();
        json_t *json JSON_CLEANUP = json_checked(json_pack("{s:f}", "number", 5.0));

        (void)state;
        assert_null(json_check(json, fields, NULL, arena));
        assert_int_equal(json_integer_or(json, "number", 0), 5);
        arena_free(arena);
}

/* What messages repeat of a name is bounded. */
static void long_names(void **state) {
        char name[5001] = "";
        struct arena *arena = arena_new();
        json_t *json JSON_CLEANUP = json_checked(json_object());

        (void)state;
        memset(name, 'x', sizeof(name) - 1);
        json_put(json, name, json_true());
        assert_true(strlen(json_check(json, fields, NULL, arena)) < 200);
        arena_free(arena);
}

/* However many names fitted before it: what is remembered of them is theirs. */
static void one_of_many_names(void **state) {
        struct arena *arena = arena_new();
        json_t *json JSON_CLEANUP = json_checked(json_object()), *many = json_checked(json_object());
        const char *wrong;
        char name[16];

        (void)state;
        json_put(json, "many", many);
        for (int i = 0; i < 5000; i++) {
                snprintf(name, sizeof(name), "n%d", 10000 + i);
                json_put(many, name, json_string("x"));
        }
        json_put(many, "a=b;\n", json_string("x"));
        wrong = json_check(json, fields, NULL, arena);
        assert_non_null(wrong);
        assert_string_equal(wrong, "a name in many must be letters and digits");
        arena_free(arena);
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(each_way), cmocka_unit_test(whole_numbers),
                                            cmocka_unit_test(long_names),
                                            cmocka_unit_test(one_of_many_names) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
