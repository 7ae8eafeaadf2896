/* SPDX-License-Identifier: Apache-2.0 */
/* What a manifest says of a variable that is kept elsewhere; the text out of what AWS gave; what Lambda must not quote. */
#include "providers/aws/environment/variable_source.h"

#include "providers/aws/environment/environment.h"
#include "providers/aws/shared/support.h"

#include <string.h>

#define SECRET "arn:aws-cn:secretsmanager:cn-north-1:123456789012:secret:team/db-AbCdEf"
#define ID "12345678-1234-1234-1234-123456789012"

static void parsed(void **state) {
        static const struct {
                const char *variable;
                const char *arn, *name, *key, *stage, *id;
        } cases[] = {
                { "{\"secret\": \"" SECRET "\"}", SECRET, NULL, NULL, NULL, NULL },
                { "{\"secret\": \"" SECRET ":k::\"}", SECRET, NULL, "k", NULL, NULL },
                { "{\"secret\": \"" SECRET "::AWSPREVIOUS:\"}", SECRET, NULL, NULL, "AWSPREVIOUS", NULL },
                { "{\"secret\": \"" SECRET ":a b::" ID "\"}", SECRET, NULL, "a b", NULL, ID },
                { "{\"parameter\": \"arn:aws-cn:ssm:cn-north-1:123456789012:parameter/a/b\"}",
                  "arn:aws-cn:ssm:cn-north-1:123456789012:parameter/a/b", "a/b", NULL, NULL, NULL },
        };
        struct variable_source source;

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                assert_true(variable_source_parse(value_of(cases[i].variable), arena, &source));
                assert_string_equal(source.arn, cases[i].arn);
                assert_string_equal(source.partition, "aws-cn");
                assert_string_equal(source.region, "cn-north-1");
                assert_string_equal(source.account, "123456789012");
                assert_text(source.name, cases[i].name);
                assert_text(source.key, cases[i].key);
                assert_text(source.stage, cases[i].stage);
                assert_text(source.id, cases[i].id);
        }
        assert_false(variable_source_parse(value_of("\"" SECRET "\""), arena, &source));
        assert_false(variable_source_parse(NULL, arena, &source));
}

/* No message has a word of what was given. */
static void texts(void **state) {
        static const struct {
                const char *key, *given; /* as JSON; NULL: binary */
                const char *text, *fails;
        } cases[] = {
                { NULL, "\"hunter2\"", "hunter2", NULL },
                { NULL, "\"\"", "", NULL },
                { NULL, NULL, NULL, "binary" },
                { NULL, "\"hunter2\\u0000more\"", NULL, "NUL" },
                { "k", "\"{\\\"k\\\": \\\"hunter2\\\"}\"", "hunter2", NULL },
                { "k", "\"{\\\"k\\\": 5432}\"", "5432", NULL },
                { "k", "\"{\\\"k\\\": false}\"", "false", NULL },
                { "k", "\"{\\\"k\\\": null, \\\"l\\\": \\\"hunter2\\\"}\"", NULL, "no text" },
                { "k", "\"{\\\"k\\\": {\\\"hunter2\\\": 1}}\"", NULL, "no text" },
                { "k", "\"{\\\"k\\\": \\\"hunter2\\\\u0000\\\"}\"", NULL, "NUL" },
                { "k", "\"{\\\"hunter2\\\": \\\"k\\\"}\"", NULL, "no key \"k\"" },
                { "k", "\"hunter2\"", NULL, "no JSON object" },
                { "k", "\"[\\\"hunter2\\\"]\"", NULL, "no JSON object" },
                { "k", "\"{\\\"k\\\": \\\"hunter2\"", NULL, "no JSON object" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct variable_source source = { .is_secret = true, .key = cases[i].key };
                json_t *given JSON_CLEANUP =
                        cases[i].given ? json_loads(cases[i].given, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL)
                                       : NULL;
                const char *text = NULL;
                struct error err;
                int result = variable_source_text(&source, given, arena, &text, &err);

                assert_int_equal(result, cases[i].fails ? -1 : 0);
                assert_text(text, cases[i].text);
                if (cases[i].fails &&
                    (!strstr(err.message, cases[i].fails) || strstr(err.message, "hunter2")))
                        fail_msg("%s: %s", cases[i].given ? cases[i].given : "binary", err.message);
        }
}

static void desired(void **state) {
        static const char manifest[] = "{\"DB\": {\"secret\": \"" SECRET "\"}, \"ID\": {\"secret\": \"" SECRET
                                       ":::" ID "\"}, \"MODE\": \"m\"}";
        static const char recorded[] = "{\"DB\": {\"secret\": \"" SECRET
                                       "\", \"version\": \"v1\", \"value\": \"old\"}, \"MODE\": \"m\"}";
        static const struct {
                const char *resolved, *recorded, *version, *value;
        } cases[] = {
                { "{\"DB\": {\"version\": \"v2\"}}", NULL, "v2", NULL },
                { "{\"DB\": {\"version\": \"v2\"}}", recorded, "v2", "old" },
                { "{\"DB\": {\"problem\": \"p\"}}", recorded, "v1", "old" },
                { NULL, recorded, "v1", "old" },
                { NULL, NULL, NULL, NULL },
                /* Another secret's version says nothing of this one's. */
                { NULL, "{\"DB\": {\"secret\": \"another\", \"version\": \"v1\", \"value\": \"old\"}}", NULL,
                  "old" },
                { NULL, "{\"DB\": \"a text\"}", NULL, NULL },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const struct value *found = variable_source_desired(
                        value_of(manifest), cases[i].resolved ? value_of(cases[i].resolved) : NULL,
                        cases[i].recorded ? value_of(cases[i].recorded) : NULL, arena);

                assert_text(value_get_text(value_get(found, "DB"), "version"), cases[i].version);
                assert_text(value_get_text(value_get(found, "DB"), "value"), cases[i].value);
                assert_string_equal(value_get_text(value_get(found, "ID"), "version"), ID);
                assert_string_equal(value_get_text(found, "MODE"), "m");
        }
}

/* Lambda quotes variables that are too long, or of a wrong form, as they were sent. */
static void lambda_quotes_no_secret(void **state) {
        static const struct {
                const char *message, *left;
        } cases[] = {
                { "the limit. String measured: {\"DB\":\"hunter2\",\"OTHER\":\"foreign\"}",
                  "the limit. String measured: (what it quotes of the variables is left out)" },
                { "Value '{DB=hunter2, OTHER=fore", "Value '(what it quotes of the variables is left out)" },
                { "the text hunter2 or foreign, hunter2", "the text *** or ***, ***" },
                { "of abc nothing is hidden: it is too short", "of abc nothing is hidden: it is too short" },
                { "The role cannot be assumed", "The role cannot be assumed" },
        };
        struct value *ours = value_new_map(arena), *foreign = value_new_map(arena);
        struct value text = value_text(arena, "hunter2"), other = value_text(arena, "foreign"),
                     brief = value_text(arena, "abc");
        struct error err;

        (void)state;
        text.sensitive = other.sensitive = brief.sensitive = true;
        value_set(arena, ours, "DB", text);
        value_set(arena, ours, "BRIEF", brief);
        value_set(arena, foreign, "OTHER", other);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                error_set(&err, "%s", cases[i].message);
                environment_withhold(ours, foreign, &err);
                assert_string_equal(err.message, cases[i].left);
        }
        /* What may be shown is. */
        value_unset(ours, "DB");
        value_unset(ours, "BRIEF");
        error_set(&err, "String measured: {}");
        environment_withhold(ours, NULL, &err);
        assert_string_equal(err.message, "String measured: {}");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(parsed),
                cmocka_unit_test(texts),
                cmocka_unit_test(desired),
                cmocka_unit_test(lambda_quotes_no_secret),
        };

        return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
