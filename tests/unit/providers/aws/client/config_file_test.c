/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "providers/aws/client/config_file.h"

#include <stdlib.h>
#include <string.h>

struct reading {
        const char *name;
        const char *text;
        const char *section;
        const char *key;
        const char *value; /* NULL: not there */
};

/* Each as Python's RawConfigParser reads it. */
static const struct reading readings[] = {
        { "plain", "[default]\nregion = eu-west-1\n", "default", "region", "eu-west-1" },
        { "no spaces", "[default]\nregion=eu-west-1", "default", "region", "eu-west-1" },
        { "colon", "[default]\nregion: eu-west-1\n", "default", "region", "eu-west-1" },
        { "the first of = and :", "[default]\na = b:c\n", "default", "a", "b:c" },
        { "a value with =", "[default]\nkey = ab+/==\n", "default", "key", "ab+/==" },
        { "keys in any case", "[default]\nRegion = x\n", "default", "region", "x" },
        { "sections as they are", "[Default]\nregion = x\n", "default", "region", NULL },
        { "spaces around", "[a]\n  k   =   v  \t\n", "a", "k", "v" },
        { "comments", "# c\n; c\n[a]\n# k = 1\nk = 2\n  ; k = 3\n", "a", "k", "2" },
        { "no inline comments", "[a]\nk = v # not a comment\n", "a", "k", "v # not a comment" },
        { "CRLF", "[a]\r\nk = v\r\n", "a", "k", "v" },
        { "a byte order mark", "\xEF\xBB\xBF[a]\nk = v\n", "a", "k", "v" },
        { "empty value", "[a]\nk =\nl = 1\n", "a", "k", "" },
        { "going on", "[a]\nk = 1\n  2\n\t3\n", "a", "k", "1\n2\n3" },
        { "going on over an empty line", "[a]\nk = 1\n\n  2\nl = 3\n", "a", "k", "1\n\n2" },
        { "empty lines at the end", "[a]\nk = 1\n\n\n[b]\nl = 2\n", "a", "k", "1" },
        { "a nested block", "[a]\ns3 =\n  addressing_style = path\nk = 1\n", "a", "s3",
          "\naddressing_style = path" },
        { "after a nested block", "[a]\ns3 =\n  addressing_style = path\nk = 1\n", "a", "k", "1" },
        { "the second section", "[a]\nk = 1\n[profile b]\nk = 2\n", "profile b", "k", "2" },
        { "text behind the bracket", "[a] # yes\nk = 1\n", "a", "k", "1" },
        { "a bracket in the name", "[a]b]\nk = 1\n", "a]b", "k", "1" },
        { "indented section", "  [a]\n  k = 1\n", "a", "k", "1" },
        { "defaults", "[DEFAULT]\nk = 0\n[a]\nl = 1\n", "a", "k", "0" },
        { "over the defaults", "[DEFAULT]\nk = 0\n[a]\nk = 1\n", "a", "k", "1" },
        { "absent", "[a]\nk = 1\n", "a", "l", NULL },
        { "empty file", "", "a", "k", NULL },
};

static void read_as_python_does(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(readings) / sizeof(readings[0]); i++) {
                const struct reading *reading = &readings[i];
                struct config_file *file = NULL;
                struct error err = { 0 };
                const char *value;

                print_message("  %s\n", reading->name);
                assert_int_equal(config_file_parse(reading->text, strlen(reading->text), "f", &file, &err),
                                 0);
                value = config_file_get(file, config_file_section(file, reading->section), reading->key);
                if (reading->value)
                        assert_string_equal(value, reading->value);
                else
                        assert_null(value);
                config_file_free(file);
        }
}

static const struct {
        const char *text;
        size_t length; /* 0: strlen */
        const char *message;
} refusals[] = {
        { "k = 1\n", 0, "f:1: a [section] must come first" },
        { "[a]\nsecret\n", 0, "f:2: not a line of the form" },
        { "[a]\n= 1\n", 0, "f:2: not a line of the form" },
        { "[]\n", 0, "f:1: a [section] must come first" },
        { "[a]\nk = 1\nK = 2\n", 0, "f:3: this key stands twice" },
        { "[a]\n[b]\n[a]\n", 0, "f:3: this section stands twice" },
        { "[a]\nk = 1\0\n", 11, "f:2: a NUL byte" },
};

static void refuse_the_rest(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
                size_t length = refusals[i].length ? refusals[i].length : strlen(refusals[i].text);
                struct config_file *file = NULL;
                struct error err = { 0 };

                assert_int_equal(config_file_parse(refusals[i].text, length, "f", &file, &err), -1);
                assert_null(file);
                assert_non_null(strstr(err.message, refusals[i].message));
                assert_null(strstr(err.message, "secret")); /* lines are not shown */
        }
}

static void nested_blocks(void **state) {
        static const char block[] =
                "\naddressing_style = path\nEndpoint_URL = http://[::1]:9000/a=b\n\nempty =";
        const char *value;
        size_t length;

        (void)state;
        assert_true(config_file_nested(block, "addressing_style", &value, &length));
        assert_int_equal(length, 4);
        assert_memory_equal(value, "path", 4);
        assert_true(config_file_nested(block, "endpoint_url", &value, &length));
        assert_memory_equal(value, "http://[::1]:9000/a=b", length);
        assert_true(config_file_nested(block, "empty", &value, &length));
        assert_int_equal(length, 0);
        assert_false(config_file_nested(block, "addressing", &value, &length));
        assert_false(config_file_nested("addressing_style = path", "addressing_style", &value, &length));
        assert_false(config_file_nested(NULL, "addressing_style", &value, &length));
}

static void missing_files_are_told_apart(void **state) {
        struct config_file *file = NULL;
        struct error err = { 0 };

        (void)state;
        assert_int_equal(config_file_read("/nonexistent/config", &file, &err), -1);
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
        assert_int_equal(config_file_read("/", &file, &err), -1);
        assert_int_equal(err.kind, ERROR_FAILED);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(read_as_python_does),
                cmocka_unit_test(refuse_the_rest),
                cmocka_unit_test(nested_blocks),
                cmocka_unit_test(missing_files_are_told_apart),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
