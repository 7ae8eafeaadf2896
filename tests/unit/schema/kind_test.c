/* SPDX-License-Identifier: Apache-2.0 */
/* The field tables against themselves: whatever is wrong in them would show only when a user gets there. */
#include "schema/kind.h"

#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool matches(const char *pattern, const char *text) {
        char whole[600];
        regex_t regex;
        bool match;

        snprintf(whole, sizeof(whole), "^(%s)$", pattern);
        assert_int_equal(regcomp(&regex, whole, REG_EXTENDED | REG_NOSUB), 0);
        match = regexec(&regex, text, 0, NULL, 0) == 0;
        regfree(&regex);
        return match;
}

static void check_default(const struct field *field) {
        const char *text = field->default_text;
        char *end;
        bool found = false;

        switch (field->type) {
        case FIELD_BOOLEAN:
                assert_true(strcmp(text, "true") == 0 || strcmp(text, "false") == 0);
                break;
        case FIELD_INTEGER:
                assert_in_range(strtoll(text, &end, 10), field->minimum, field->maximum);
                assert_int_equal(*end, '\0');
                break;
        case FIELD_TEXT:
                for (size_t i = 0; field->choices_text && field->choices_text[i]; i++)
                        found = found || strcmp(field->choices_text[i], text) == 0;
                assert_true(found ||
                            (!field->choices_text && field->pattern && matches(field->pattern, text)));
                break;
        default:
                fail_msg("%s: only texts, integers and booleans have defaults", field->name);
        }
}

/* POSIX asks for repetitions of up to 255, and musl takes no more. */
static void check_bounds(const char *pattern) {
        while ((pattern = strchr(pattern, '{'))) {
                char *end;

                assert_in_range(strtol(++pattern, &end, 10), 0, 255);
                if (*end == ',' && end[1] != '}')
                        assert_in_range(strtol(end + 1, NULL, 10), 1, 255);
        }
}

static void check_fields(const struct field *fields, const struct field_group *groups);

static void check_field(const struct field *field, const struct field *siblings) {
        assert_non_null(field->name); /* of an item too: hints compare it */
        assert_non_null(field->doc);
        assert_true(strlen(field->doc) > 5 && field->doc[strlen(field->doc) - 1] == '.');
        assert_true(field->minimum <= field->maximum);
        assert_false(field->required && field->default_text);
        if (field->default_text)
                check_default(field);
        if (field->pattern) {
                assert_non_null(field->pattern_message);
                matches(field->pattern, "");
                check_bounds(field->pattern);
        }
        if (field->reference)
                assert_non_null(kind_find(field->reference));
        if (field->needs)
                assert_non_null(field_find(siblings, field->needs));
        /* An integer without limits would take what no API does. */
        if (field->type == FIELD_INTEGER)
                assert_true(field->maximum > 0 || field->choices_integer);
        assert_int_equal(field->type == FIELD_LIST || field->type == FIELD_MAP || field->type == FIELD_ONE_OF,
                         field->item != NULL);
        assert_int_equal(field->type == FIELD_OBJECT || field->type == FIELD_ONE_OF, field->fields != NULL);
        assert_int_equal(field->type == FIELD_MAP, field->keys != NULL);
        if (field->item)
                check_field(field->item, NULL);
        if (field->keys)
                check_field(field->keys, NULL);
        if (field->fields)
                check_fields(field->fields, field->groups);
}

static void check_fields(const struct field *fields, const struct field_group *groups) {
        size_t count = 0;

        for (const struct field *field = fields; field->name; field++) {
                check_field(field, fields);
                assert_ptr_equal(field_find(fields, field->name), field);
                count++;
        }
        assert_in_range(count, 1, 32);
        for (const struct field_group *group = groups; group && group->names; group++) {
                for (size_t i = 0; group->names[i]; i++)
                        assert_non_null(field_find(fields, group->names[i]));
        }
}

static void tables(void **state) {
        (void)state;
        check_fields(metadata_fields, NULL);
        for (size_t i = 0; i < kind_count; i++) {
                assert_int_equal(kinds[i]->id, i);
                assert_non_null(kinds[i]->doc);
                check_fields(kinds[i]->fields, kinds[i]->groups);
        }
}

/* How many of the fields name a resource of that kind. */
static size_t count_names(const struct field *fields, const char *kind) {
        size_t count = 0;

        for (const struct field *field = fields; field && field->name; field++) {
                count += field->reference && strcmp(field->reference, kind) == 0;
                count += field->item && field->item->reference && strcmp(field->item->reference, kind) == 0;
                count += count_names(field->fields, kind);
        }
        return count;
}

/* A row says of each field that names a resource what that means; the field says it for the documentation. */
static void references(void **state) {
        (void)state;
        for (size_t i = 0; i < kind_count; i++) {
                const struct kind_reference *reference = kinds[i]->references;

                for (size_t k = 0; k < kind_count; k++) {
                        size_t count = 0;

                        for (reference = kinds[i]->references; reference && reference->path; reference++)
                                count += reference->kind == kinds[k]->id;
                        assert_int_equal(count, count_names(kinds[i]->fields, kinds[k]->name));
                }
                for (reference = kinds[i]->references; reference && reference->path; reference++) {
                        const struct field *field = kind_field(kinds[i], reference->path);

                        assert_non_null(field);
                        if (!field->reference)
                                field = field->item;
                        assert_string_equal(field->reference, kinds[reference->kind]->name);
                        /* The state keeps bindings to environments alone. */
                        assert_true(!reference->binds || reference->kind == KIND_ENVIRONMENT);
                        assert_true(reference->kind < kinds[i]->id);
                }
        }
}

static void finding_kinds(void **state) {
        static const struct {
                const char *text;
                int exact, loose; /* -1 for none */
        } cases[] = {
                { "Environment", KIND_ENVIRONMENT, KIND_ENVIRONMENT },
                { "environment", -1, KIND_ENVIRONMENT },
                { "ENVIRONMENTS", -1, KIND_ENVIRONMENT },
                { "env", -1, KIND_ENVIRONMENT },
                { "envs", -1, KIND_ENVIRONMENT },
                { "policies", -1, KIND_WORKSPACE_POLICY },
                { "workspacepolicies", -1, KIND_WORKSPACE_POLICY },
                { "ranges", -1, KIND_RESOURCE_RANGE },
                { "agents", -1, KIND_AGENT },
                { "environ", -1, -1 },
                { "Environmentss", -1, -1 },
                { "", -1, -1 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const struct kind *exact = kind_find(cases[i].text),
                                  *loose = kind_find_loosely(cases[i].text);

                assert_int_equal(exact ? (int)exact->id : -1, cases[i].exact);
                assert_int_equal(loose ? (int)loose->id : -1, cases[i].loose);
        }
}

static void finding_fields(void **state) {
        static const struct {
                enum kind_id kind;
                const char *path, *name; /* NULL for none */
        } cases[] = {
                { KIND_ENVIRONMENT, "memoryMB", "memoryMB" },
                { KIND_ENVIRONMENT, "image", "image" },
                { KIND_ENVIRONMENT, "image.tag", "tag" },
                { KIND_ENVIRONMENT, "image.absent", NULL },
                { KIND_ENVIRONMENT, "variables.ANY", "text or object" },
                { KIND_ENVIRONMENT, "variables.ANY.value", "value" },
                { KIND_ENVIRONMENT, "memoryMB.x", NULL },
                { KIND_ENVIRONMENT, "memory", NULL },
                { KIND_ENVIRONMENT, "", NULL },
                { KIND_STACK, "aws.namePrefix", "namePrefix" },
                { KIND_STACK, "tags.any key", "text" },
                { KIND_WORKSPACE_POLICY, "transitions.afterDays", "afterDays" },
                { KIND_WORKSPACE_POLICY, "transitions[0].afterDays", "afterDays" },
                { KIND_RESOURCE_RANGE, "selector.matchLabels.team", "text" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const struct field *field = kind_field(kinds[cases[i].kind], cases[i].path);

                if (!cases[i].name)
                        assert_null(field);
                else
                        assert_string_equal(field ? field->name : "none", cases[i].name);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(tables),
                cmocka_unit_test(references),
                cmocka_unit_test(finding_kinds),
                cmocka_unit_test(finding_fields),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
