/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message of MCP with its headers, in parts: version, method, name ("-": none is sent), body. A
 * refusal has a code, a status and a sentence; whatever it is, it is answered with JSON that
 * carries the id that it had, or null; arguments that pass have a tool's types; and names of files
 * come back from the resources that they become.
 */
#include "base/json.h"
#include "broker/mcp/mcp_message.h"
#include "broker/mcp/mcp_tools.h"
#include "broker/mcp/mcp_uri.h"
#include "parts.h"

#include <stdlib.h>
#include <string.h>

static void require(bool condition) {
        if (!condition)
                abort();
}

static void check_answer(json_t *answer, const json_t *id) {
        char *text = json_compact(answer);
        json_t *again = json_loads(text, JSON_ALLOW_NUL, NULL);

        require(again && !strchr(text, '\n'));
        require(json_equal(json_object_get(again, "id"), id ? id : json_null()));
        require(!json_object_get(again, "result") != !json_object_get(again, "error"));
        json_decref(again);
        json_decref(answer);
        free(text);
}

static void check_fault(const struct mcp_fault *fault, const struct mcp_message *message) {
        require(fault->code < 0 && fault->status == 400 && fault->text[0]);
        check_answer(mcp_message_fault(message->id, fault), message->id);
}

static void check_call(const struct mcp_message *message) {
        const char *name = json_text(message->params, "name");
        json_t *arguments = json_object_get(message->params, "arguments");
        const struct mcp_tool *tool =
                name ? mcp_tool_find(name, BROKER_EXECUTE | BROKER_CONTAINERS | BROKER_SHELL) : NULL;
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct problem problem;
        const json_t *code;
        const char *note = NULL;

        if (!tool || !json_is_object(arguments))
                return;
        if (mcp_tool_check(tool, arguments, arena, &note, &problem) < 0) {
                require(problem.code == PROBLEM_INVALID && problem.detail[0]);
                json_decref(mcp_tool_problem(&problem));
        } else if (strcmp(name, "run_code") == 0) {
                code = json_object_get(arguments, "code");
                require(json_is_string(code) && note);
                require(json_integer_or(arguments, "timeoutSeconds", 1) >= 1);
                require(json_integer_or(arguments, "timeoutSeconds", 1) <= 900);
        }
}

static void check_uri(const char *text) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct strbuf uri STRBUF_CLEANUP = STRBUF_INIT;
        const char *id, *path;

        if (mcp_uri_read(text, arena, &id, &path))
                require(*id && *path && !strchr(id, '/'));
        if (!*text)
                return;
        mcp_uri_write("s-1", text, &uri);
        require(mcp_uri_read(strbuf_text(&uri), arena, &id, &path) && strcmp(path, text) == 0);
}

static char *header_of(struct parts *parts) {
        char *text = parts_next_text(parts);
        size_t length = strlen(text);

        if (length > 0 && text[length - 1] == '\n')
                text[length - 1] = '\0';
        return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct parts parts = parts_of(data, size);
        char *version = header_of(&parts), *method = header_of(&parts), *name = header_of(&parts);
        const struct mcp_headers headers = { strcmp(version, "-") ? version : NULL,
                                             strcmp(method, "-") ? method : NULL,
                                             strcmp(name, "-") ? name : NULL };
        size_t length;
        char *body = parts_next(&parts, &length);
        json_t *json = json_loadb(body, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
        struct mcp_message message;
        struct mcp_fault fault;

        check_uri(name);
        if (json && mcp_message_read(json, &headers, &message, &fault) < 0) {
                check_fault(&fault, &message);
        } else if (json && message.kind == MCP_REQUEST) {
                require(message.id && message.method);
                if (mcp_message_check(&message, &headers, &fault) < 0)
                        check_fault(&fault, &message);
                else
                        check_answer(mcp_message_result(&message, json_object()), message.id);
                check_call(&message);
        }
        json_decref(json);
        free(body);
        free(version);
        free(method);
        free(name);
        return 0;
}
