/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments as models write them, through the table of the tool that takes them. */
#include "broker/mcp/mcp_arguments.h"

#include "base/json.h"
#include "broker/mcp/mcp_tools.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define ALL (BROKER_EXECUTE | BROKER_CONTAINERS | BROKER_SHELL)
#define S "\"s-aaaaaaaaaaaaaaaaaaaaaaaaaa\""
#define OTHER "\"s-bbbbbbbbbbbbbbbbbbbbbbbbbb\""

static const struct {
        const char *tool, *given, *meant; /* NULL: it is refused, and stays wrong */
        const char *note;
} rows[] = {
        /* "" for what is left out. */
        { "run_code", "{'code': '1', 'session_id': '', 'agent': '', 'conversation': '', 'language': ''}",
          "{'code': '1'}", "" },
        { "run_code", "{'code': '', 'timeoutSeconds': ''}", "{'code': ''}", "" },
        { "list_files", "{'session_id': " S ", 'prefix': '', 'cursor': '', 'limit': ''}",
          "{'session_id': " S "}", "" },
        { "list_sessions", "{'environment': '', 'agent': null}", "{'agent': null}", "" },
        /* Of two of which one is given, the one that has something; else the first. */
        { "write_file", "{'session_id': " S ", 'path': 'a', 'content': 'x', 'contentBase64': ''}",
          "{'session_id': " S ", 'path': 'a', 'content': 'x'}", "" },
        { "write_file", "{'session_id': " S ", 'path': 'a', 'content': '', 'contentBase64': 'YQ=='}",
          "{'session_id': " S ", 'path': 'a', 'contentBase64': 'YQ=='}", "" },
        { "write_file", "{'session_id': " S ", 'path': 'a', 'content': '', 'contentBase64': ''}",
          "{'session_id': " S ", 'path': 'a', 'content': ''}", "" },
        { "write_file", "{'session_id': " S ", 'path': 'a', 'content': ''}",
          "{'session_id': " S ", 'path': 'a', 'content': ''}", "" },
        { "write_file", "{'session_id': " S ", 'path': 'a', 'content': 'x', 'contentBase64': 'YQ=='}", NULL,
          "" },
        { "write_file", "{'session_id': " S ", 'path': '', 'content': 'x'}", NULL, "" },
        { "run_service", "{'agent': 'a', 'command': [], 'code': '1', 'name': '', 'variables': {}}",
          "{'agent': 'a', 'code': '1'}", "" },
        { "run_shell", "{'approval': 'a-aaaaaaaaaaaaaaaaaaaaaaaaaa', 'command': [], 'cwd': ''}",
          "{'approval': 'a-aaaaaaaaaaaaaaaaaaaaaaaaaa'}", "" },
        /* Numbers and flags as texts. */
        { "run_code", "{'code': '1', 'timeoutSeconds': '60'}", "{'code': '1', 'timeoutSeconds': 60}", "" },
        { "run_code", "{'code': '1', 'timeoutSeconds': '60.0'}", "{'code': '1', 'timeoutSeconds': 60}", "" },
        { "run_code", "{'code': '1', 'timeoutSeconds': 'long'}", NULL, "" },
        { "run_code", "{'code': '1', 'timeoutSeconds': '60.5'}", NULL, "" },
        { "run_code", "{'code': '1', 'timeoutSeconds': '1e999'}", NULL, "" },
        { "run_code", "{'code': '1', 'timeoutSeconds': '000000000000000000000000000000060'}", NULL, "" },
        { "run_code", "{'code': '1', 'timeoutSeconds': '-1'}", NULL, "" },
        { "run_code", "{'code': '1', 'timeoutSeconds': [60]}", NULL, "" },
        { "copy_files",
          "{'session_id': " S ", 'from': {'workspace': " S ", 'paths': ['a']}, 'replace': 'True'}",
          "{'session_id': " S ", 'from': {'workspace': " S ", 'paths': ['a']}, 'replace': true}", "" },
        { "copy_files",
          "{'session_id': " S ", 'from': {'workspace': " S ", 'paths': ['a']}, 'replace': 'yes'}", NULL, "" },
        /* More than there is. */
        { "run_code", "{'code': '1', 'timeoutSeconds': 3600}", "{'code': '1', 'timeoutSeconds': 900}",
          "timeoutSeconds is 900, the most there is, in place of 3600." },
        { "run_code", "{'code': '1', 'timeoutSeconds': '1e300'}", "{'code': '1', 'timeoutSeconds': 900}",
          "timeoutSeconds is 900, the most there is, in place of 1e+300." },
        { "list_sessions", "{'limit': 5000}", "{'limit': 1000}",
          "limit is 1000, the most there is, in place of 5000." },
        { "list_sessions", "{'limit': 0}", NULL, "" },
        /* Choices. */
        { "run_code", "{'code': '1', 'language': 'Python'}", "{'code': '1', 'language': 'python'}", "" },
        { "run_code", "{'code': '1', 'language': 'SH'}", "{'code': '1', 'language': 'sh'}", "" },
        { "run_code", "{'code': '1', 'language': 'perl'}", NULL, "" },
        { "list_containers", "{'status': 'Running'}", "{'status': 'running'}", "" },
        /* Maps. */
        { "run_service", "{'agent': 'a', 'code': '1', 'variables': ['A=1', 'B=', 'C=x=y']}",
          "{'agent': 'a', 'code': '1', 'variables': {'A': '1', 'B': '', 'C': 'x=y'}}", "" },
        { "run_service", "{'agent': 'a', 'code': '1', 'variables': {'A': '1'}}",
          "{'agent': 'a', 'code': '1', 'variables': {'A': '1'}}", "" },
        { "run_service", "{'agent': 'a', 'code': '1', 'variables': ['A']}", NULL, "" },
        { "run_service", "{'agent': 'a', 'code': '1', 'variables': ['=1']}", NULL, "" },
        { "run_service", "{'agent': 'a', 'code': '1', 'variables': ['A=1', 'A=2']}", NULL, "" },
        { "run_service", "{'agent': 'a', 'code': '1', 'variables': ['A=1', 2]}", NULL, "" },
        { "run_service", "{'agent': 'a', 'code': '1', 'variables': ['1A=1']}", NULL, "" },
        /* The older name of session_id. */
        { "end_session", "{'session': " S "}", "{'session_id': " S "}", "" },
        { "end_session", "{'session': " S ", 'session_id': ''}", "{'session_id': " S "}", "" },
        { "end_session", "{'session': " S ", 'session_id': " S "}", "{'session_id': " S "}", "" },
        { "end_session", "{'session': '', 'session_id': " S "}", "{'session_id': " S "}", "" },
        { "end_session", "{'session': " S ", 'session_id': " OTHER "}", NULL, "" },
        { "list_sessions", "{'session': " S "}", NULL, "" },
};

static json_t *read_row(const char *text, struct arena *arena) {
        char *json = arena_strdup(arena, text);

        for (char *at = json; *at; at++)
                *at = *at == '\'' ? '"' : *at;
        return json_checked(json_loads(json, 0, NULL));
}

static void what_is_meant(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                json_t *given JSON_CLEANUP = read_row(rows[i].given, arena);
                json_t *expected JSON_CLEANUP = rows[i].meant ? read_row(rows[i].meant, arena) : NULL;
                struct problem problem = { 0 };
                const char *note = "";
                int result = mcp_tool_check(mcp_tool_find(rows[i].tool, ALL), given, arena, &note, &problem);

                if (result < 0 && rows[i].meant)
                        fail_msg("%s %s: %s", rows[i].tool, rows[i].given, problem.detail);
                if (result == 0 && (!expected || !json_equal(given, expected)))
                        fail_msg("%s %s became %s", rows[i].tool, rows[i].given, json_dumps(given, 0));
                assert_string_equal(note, rows[i].note);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(what_is_meant) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
