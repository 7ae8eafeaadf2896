/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of MCP: what is one, of which era it is, what its headers must repeat, and how it is answered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "broker/mcp/mcp.h"
#include "broker/mcp/mcp_message.h"

#include <string.h>

#define META(version)                                              \
        "{\"io.modelcontextprotocol/protocolVersion\": \"" version \
        "\", \"io.modelcontextprotocol/clientCapabilities\": {}}"

static const struct mcp_headers none = { 0 };

static void what_is_a_message(void **state) {
        static const struct {
                const char *text;
                int code; /* 0: it is one */
                enum mcp_kind kind;
        } cases[] = {
                { "{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"ping\"}", 0, MCP_REQUEST },
                { "{\"jsonrpc\": \"2.0\", \"id\": \"\", \"method\": \"ping\"}", 0, MCP_REQUEST },
                { "{\"jsonrpc\": \"2.0\", \"id\": -7, \"method\": \"ping\", \"params\": {}}", 0,
                  MCP_REQUEST },
                { "{\"jsonrpc\": \"2.0\", \"method\": \"ping\"}", 0, MCP_NOTIFICATION },
                { "{\"jsonrpc\": \"2.0\", \"id\": 1, \"result\": {}}", 0, MCP_RESPONSE },
                { "{\"jsonrpc\": \"2.0\", \"id\": 1, \"error\": {}}", 0, MCP_RESPONSE },
                { "[]", MCP_INVALID_REQUEST, 0 },
                { "{}", MCP_INVALID_REQUEST, 0 },
                { "{\"jsonrpc\": 2.0, \"id\": 1, \"method\": \"ping\"}", MCP_INVALID_REQUEST, 0 },
                { "{\"jsonrpc\": \"2.0\", \"id\": null, \"method\": \"ping\"}", MCP_INVALID_REQUEST, 0 },
                { "{\"jsonrpc\": \"2.0\", \"id\": true, \"method\": \"ping\"}", MCP_INVALID_REQUEST, 0 },
                { "{\"jsonrpc\": \"2.0\", \"id\": 1.0, \"method\": \"ping\"}", MCP_INVALID_REQUEST, 0 },
                { "{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": null}", MCP_INVALID_REQUEST, 0 },
                { "{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"a\\u0000\"}", MCP_INVALID_REQUEST, 0 },
                { "{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"ping\", \"params\": 5}",
                  MCP_INVALID_REQUEST, 0 },
                { "{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"ping\", \"params\": {\"_meta\": 5}}",
                  MCP_INVALID_PARAMS, 0 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                json_t *json JSON_CLEANUP = json_loads(cases[i].text, JSON_ALLOW_NUL, NULL);
                struct mcp_message message;
                struct mcp_fault fault = { 0 };

                assert_non_null(json);
                if (mcp_message_read(json, &none, &message, &fault) == 0) {
                        assert_int_equal(cases[i].code, 0);
                        assert_int_equal(message.kind, cases[i].kind);
                } else {
                        assert_int_equal(fault.code, cases[i].code);
                        assert_int_equal(fault.status, 400);
                        assert_true(fault.text[0]);
                }
        }
}

static void eras_and_headers(void **state) {
        static const struct {
                const char *body;
                struct mcp_headers headers;
                bool newest;
                int code; /* 0: it is served */
        } cases[] = {
                { "\"tools/list\"", { 0 }, false, 0 },
                { "\"tools/list\"", { .version = "2025-06-18" }, false, 0 },
                { "\"initialize\"", { .version = MCP_VERSION }, false, 0 },
                { "\"tools/list\", \"params\": {\"_meta\": " META("2026-07-28") "}",
                  { MCP_VERSION, "tools/list", NULL },
                  true,
                  0 },
                { "\"initialize\", \"params\": {\"_meta\": " META("2026-07-28") "}",
                  { MCP_VERSION, "initialize", NULL },
                  true,
                  0 },
                { "\"tools/list\"", { MCP_VERSION, "tools/list", NULL }, true, MCP_INVALID_PARAMS },
                { "\"tools/list\", \"params\": {\"_meta\": " META("2026-07-28") "}",
                  { NULL, "tools/list", NULL },
                  true,
                  MCP_HEADER_MISMATCH },
                { "\"tools/list\", \"params\": {\"_meta\": " META("2026-07-28") "}",
                  { "2025-11-25", "tools/list", NULL },
                  true,
                  MCP_HEADER_MISMATCH },
                { "\"tools/list\", \"params\": {\"_meta\": " META("2031-01-01") "}",
                  { "2031-01-01", "tools/list", NULL },
                  true,
                  MCP_UNSUPPORTED_VERSION },
                { "\"tools/list\", \"params\": {\"_meta\": " META("2025-11-25") "}",
                  { "2025-11-25", "tools/list", NULL },
                  true,
                  MCP_UNSUPPORTED_VERSION },
                { "\"tools/list\", \"params\": {\"_meta\": " META("2026-07-28") "}",
                  { MCP_VERSION, "Tools/list", NULL },
                  true,
                  MCP_HEADER_MISMATCH },
                { "\"tools/call\", \"params\": {\"name\": \"n\", \"_meta\": " META("2026-07-28") "}",
                  { MCP_VERSION, "tools/call", NULL },
                  true,
                  MCP_HEADER_MISMATCH },
                { "\"tools/call\", \"params\": {\"name\": \"n\", \"_meta\": " META("2026-07-28") "}",
                  { MCP_VERSION, "tools/call", "n" },
                  true,
                  0 },
                { "\"tools/call\", \"params\": {\"name\": \"n\", \"_meta\": " META("2026-07-28") "}",
                  { MCP_VERSION, "tools/call", "=?base64?bg==?=" },
                  true,
                  0 },
                { "\"tools/call\", \"params\": {\"name\": \"n\", \"_meta\": " META("2026-07-28") "}",
                  { MCP_VERSION, "tools/call", "=?base64?bg=?=" },
                  true,
                  MCP_HEADER_MISMATCH },
                { "\"tools/call\", \"params\": {\"name\": \"=?=\", \"_meta\": " META("2026-07-28") "}",
                  { MCP_VERSION, "tools/call", "=?=" },
                  true,
                  0 },
                { "\"resources/read\", \"params\": {\"uri\": \"u\", \"_meta\": " META("2026-07-28") "}",
                  { MCP_VERSION, "resources/read", "n" },
                  true,
                  MCP_HEADER_MISMATCH },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                json_t *json JSON_CLEANUP = NULL;
                struct mcp_fault fault = { 0 };
                struct mcp_message message;
                char text[1024];

                snprintf(text, sizeof(text), "{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": %s}",
                         cases[i].body);
                json = json_loads(text, 0, NULL);
                assert_non_null(json);
                assert_int_equal(mcp_message_read(json, &cases[i].headers, &message, &fault), 0);
                assert_int_equal(message.newest, cases[i].newest);
                if (mcp_message_check(&message, &cases[i].headers, &fault) == 0) {
                        assert_int_equal(cases[i].code, 0);
                } else {
                        assert_int_equal(fault.code, cases[i].code);
                        assert_int_equal(fault.status, 400);
                }
        }
}

static void answers(void **state) {
        static const char text[] =
                "{\"jsonrpc\": \"2.0\", \"id\": \"x\", \"method\": \"ping\", \"params\": {\"_meta\": " META(
                        "1") "}}";
        json_t *json JSON_CLEANUP = json_loads(text, 0, NULL), *result JSON_CLEANUP = NULL,
                     *failed JSON_CLEANUP = NULL;
        const struct mcp_headers headers = { "1", "ping", NULL };
        struct mcp_message message;
        struct mcp_fault fault;

        (void)state;
        assert_int_equal(mcp_message_read(json, &headers, &message, &fault), 0);
        assert_int_equal(mcp_message_check(&message, &headers, &fault), -1);
        failed = mcp_message_fault(message.id, &fault);
        assert_string_equal(json_text(failed, "id"), "x");
        assert_string_equal(json_text(json_object_get(json_object_get(failed, "error"), "data"), "requested"),
                            "1");
        result = mcp_message_result(&message, json_object());
        assert_string_equal(json_text(json_object_get(result, "result"), "resultType"), "complete");
        json_decref(failed);
        failed = mcp_message_fault(NULL, &fault);
        assert_true(json_is_null(json_object_get(failed, "id"))); /* there, and null */
}

static void sessions_of_mcp(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *id = mcp_session_make("users", "company/alice", arena);
        char *other = arena_strdup(arena, id);

        (void)state;
        assert_true(mcp_session_is_of(id, "users", "company/alice", arena));
        assert_false(mcp_session_is_of(id, "users", "company/bob", arena));
        assert_false(mcp_session_is_of(id, "other", "company/alice", arena));
        assert_string_not_equal(id, mcp_session_make("users", "company/alice", arena));
        other[10] = other[10] == 'a' ? 'b' : 'a';
        assert_false(mcp_session_is_of(other, "users", "company/alice", arena));
        assert_false(mcp_session_is_of("", "users", "company/alice", arena));
        assert_false(mcp_session_is_of("m-", "users", "company/alice", arena));
}

/* `input_required` is for clients of the newest revision that said that they can show a form. */
static void whose_user_may_be_asked(void **state) {
        static const struct {
                const char *version, *capabilities;
                bool may;
        } cases[] = {
                { MCP_VERSION, "{}", false },
                { MCP_VERSION, "{\"elicitation\": {}}", true },
                { MCP_VERSION, "{\"elicitation\": {\"form\": {}}}", true },
                { MCP_VERSION, "{\"elicitation\": {\"form\": {}, \"url\": {}}}", true },
                { MCP_VERSION, "{\"elicitation\": {\"url\": {}}}", false },
                { MCP_VERSION, "{\"elicitation\": {\"form\": true}}", false },
                { MCP_VERSION, "{\"elicitation\": true}", false },
                { MCP_VERSION, "{\"elicitation\": []}", false },
                { MCP_VERSION, "{\"sampling\": {}}", false },
                { NULL, "{\"elicitation\": {}}", false },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                json_t *meta = json_loads(cases[i].capabilities, 0, NULL);
                json_t *json JSON_CLEANUP =
                        json_pack("{s:s, s:i, s:s, s:{s:{s:s*, s:o}}}", "jsonrpc", "2.0", "id", 1, "method",
                                  "tools/call", "params", "_meta", "io.modelcontextprotocol/protocolVersion",
                                  cases[i].version, "io.modelcontextprotocol/clientCapabilities", meta);
                struct mcp_message message;
                struct mcp_fault fault;

                assert_non_null(json);
                assert_int_equal(mcp_message_read(json, &none, &message, &fault), 0);
                assert_int_equal(mcp_message_may_ask(&message), cases[i].may);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_is_a_message), cmocka_unit_test(eras_and_headers),
                cmocka_unit_test(answers),           cmocka_unit_test(whose_user_may_be_asked),
                cmocka_unit_test(sessions_of_mcp),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
