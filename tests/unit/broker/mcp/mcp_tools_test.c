/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What models are told of the tools, held against what programs are told of the operations: an argument that both have is the same in
 * both. Only the words may differ, where an argument means another thing to a tool; which those are stands here.
 */
#include "broker/mcp/mcp_tools.h"

#include "base/files.h"
#include "base/json.h"
#include "broker/api/openapi.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* The schemas of OpenAPI by which each tool's arguments and answer are told there. */
static const struct {
        const char *tool, *argument, *component;
        bool own_words;
} same[] = {
        { "run_code", "code", "ExecutionWish", false },
        { "run_code", "language", "ExecutionWish", false },
        { "run_code", "timeoutSeconds", "ExecutionWish", false },
        { "run_code", "environment", "SessionWish", true },
        { "run_code", "agent", "SessionWish", true },
        { "read_file", "path", "InputFile", true },
        { "write_file", "path", "InputFile", true },
        { "write_file", "content", "InputFile", false },
        { "write_file", "contentBase64", "InputFile", false },
        { "copy_files", "to", "Copy", false },
        { "copy_files", "replace", "Copy", false },
        { "run_service", "agent", "ContainerWish", false },
        { "run_service", "name", "ContainerWish", false },
        { "run_service", "command", "ContainerWish", false },
        { "run_service", "restart", "ContainerWish", false },
        { "run_service", "code", "ContainerWish", false },
        { "run_service", "language", "ContainerWish", false },
        { "run_service", "variables", "ContainerWish", false },
        { "run_shell", "agent", "ShellWish", false },
        { "run_shell", "command", "ShellWish", false },
        { "run_shell", "cwd", "ShellWish", false },
        { "run_shell", "reason", "ShellWish", false },
        { "run_shell", "timeoutSeconds", "ShellWish", false },
};
static const struct {
        const char *tool, *component;
        bool list;
} answers[] = {
        { "run_code", "Execution", false },       { "list_sessions", "Session", true },
        { "list_files", "File", true },           { "read_file", "File", false },
        { "write_file", "FilePut", false },       { "copy_files", "Copied", false },
        { "run_service", "Container", false },    { "list_containers", "Container", true },
        { "stop_container", "Container", false }, { "run_shell", "Approval", false },
};
/* The parameters of queries that are the same. */
static const struct {
        const char *tool, *path, *argument;
} queries[] = {
        { "list_sessions", "/v1/sessions", "limit" },
        { "list_sessions", "/v1/sessions", "cursor" },
        { "list_containers", "/v1/containers", "limit" },
        { "list_containers", "/v1/containers", "cursor" },
        { "container_logs", "/v1/containers/{container}/logs", "since" },
        { "list_files", "/v1/workspaces/{id}/files", "prefix" },
        { "list_files", "/v1/workspaces/{id}/files", "limit" },
        { "list_files", "/v1/workspaces/{id}/files", "cursor" },
};
#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

struct documents {
        struct arena *arena;
        json_t *tools, *openapi;
};

static int read_documents(void **state) {
        struct documents *documents;
        struct arena *arena = arena_new();

        documents = arena_alloc(arena, sizeof(*documents));
        *documents = (struct documents){
                arena, mcp_tools_json("data, web", BROKER_EXECUTE | BROKER_CONTAINERS | BROKER_SHELL, arena),
                openapi_document(true)
        };
        *state = documents;
        return 0;
}

static int free_documents(void **state) {
        struct documents *documents = *state;

        json_decref(documents->tools);
        json_decref(documents->openapi);
        arena_free(documents->arena);
        return 0;
}

static json_t *tool_of(const struct documents *documents, const char *name) {
        json_t *tool;
        size_t index;

        json_array_foreach (documents->tools, index, tool) {
                if (strcmp(json_text(tool, "name"), name) == 0)
                        return tool;
        }
        fail_msg("there is no tool %s", name);
        return NULL;
}

static json_t *member(json_t *object, const char *const *path) {
        for (; object && *path; path++)
                object = json_object_get(object, *path);
        return object;
}

static json_t *argument_of(const struct documents *documents, const char *tool, const char *argument) {
        const char *path[] = { "inputSchema", "properties", argument, NULL };
        json_t *found = member(tool_of(documents, tool), path);

        if (!found)
                fail_msg("%s has no argument %s", tool, argument);
        return found;
}

static json_t *component_of(const struct documents *documents, const char *name) {
        const char *path[] = { "components", "schemas", name, NULL };
        json_t *found = member(documents->openapi, path);

        if (!found)
                fail_msg("there is no component %s", name);
        return found;
}

static bool is_in(const json_t *list, const char *text) {
        json_t *item;
        size_t index;

        json_array_foreach ((json_t *)(uintptr_t)list, index, item) {
                if (json_is_string(item) && strcmp(json_string_value(item), text) == 0)
                        return true;
        }
        return false;
}

static void assert_same_member(const char *where, const char *name, const json_t *told, const json_t *there) {
        json_t *one = json_object_get(told, name), *other = json_object_get(there, name);

        if (one != other && !(one && other && json_equal(one, other)))
                fail_msg("%s: %s is not that of HTTP", where, name);
}

/* The words of HTTP, and behind them the default. */
static void assert_same_words(const char *where, const json_t *told, const json_t *there,
                              const json_t *fallback) {
        const char *words = json_text(told, "description"), *of_http = json_text(there, "description");
        char *value TEXT_CLEANUP = fallback ? json_dumps(fallback, JSON_ENCODE_ANY) : NULL;
        char expected[64];

        if (strncmp(words, of_http, strlen(of_http)) != 0)
                fail_msg("%s: description is not that of HTTP", where);
        snprintf(expected, sizeof(expected), " Default: %s.",
                 json_is_string(fallback) ? json_string_value(fallback)
                 : value                  ? value
                                          : "");
        assert_string_equal(words + strlen(of_http), fallback ? expected : "");
}

/* The type without null, which may stand for what is left out. */
static const char *type_of(const json_t *schema) {
        const json_t *type = json_object_get(schema, "type");

        return json_string_value(json_is_array(type) ? json_array_get(type, 0) : type);
}

static void assert_same_values(const char *where, const json_t *told, const json_t *there) {
        static const char *const facts[] = { "minimum", "maximum" };
        const json_t *choices = json_object_get(told, "enum"), *of_http = json_object_get(there, "enum");
        json_t *choice;
        size_t index;

        for (size_t i = 0; i < COUNT(facts); i++)
                assert_same_member(where, facts[i], told, there);
        assert_int_equal(choices != NULL, of_http != NULL);
        json_array_foreach (choices, index, choice)
                assert_true(is_in(of_http, json_string_value(choice)));
        /* A map is asked for as a list. */
        if (strcmp(type_of(there), "object") == 0 && !json_object_get(there, "properties"))
                assert_string_equal(type_of(told), "array");
        else
                assert_string_equal(type_of(told), type_of(there));
}

/* What may be null, without that: HTTP says it of an `enum` by a choice of two. */
static json_t *without_null(json_t *schema) {
        json_t *choices = json_object_get(schema, "anyOf"), *first = json_array_get(choices, 0);
        const char *second = json_text(json_array_get(choices, 1), "type");

        return second && strcmp(second, "null") == 0 && json_object_get(first, "enum") ? first : schema;
}

static void arguments_are_those_of_http(void **state) {
        const struct documents *documents = *state;

        for (size_t i = 0; i < COUNT(same); i++) {
                json_t *component = component_of(documents, same[i].component);
                const char *path[] = { "properties", same[i].argument, NULL };
                json_t *there = without_null(member(component, path)),
                       *told = argument_of(documents, same[i].tool, same[i].argument);
                json_t *schema = json_object_get(tool_of(documents, same[i].tool), "inputSchema");

                assert_non_null(there);
                assert_same_values(same[i].argument, told, there);
                if (!same[i].own_words)
                        assert_same_words(same[i].argument, told, there, json_object_get(there, "default"));
                /* run_shell asks for a command, or what became of one: then it takes an id alone. */
                if (strcmp(same[i].tool, "run_shell") != 0 &&
                    is_in(json_object_get(component, "required"), same[i].argument))
                        assert_true(is_in(json_object_get(schema, "required"), same[i].argument));
        }
}

static void queries_are_those_of_http(void **state) {
        const struct documents *documents = *state;

        for (size_t i = 0; i < COUNT(queries); i++) {
                const char *path[] = { "paths", queries[i].path, "get", "parameters", NULL };
                json_t *parameter, *told = argument_of(documents, queries[i].tool, queries[i].argument);
                bool found = false;
                size_t index;

                json_array_foreach (member(documents->openapi, path), index, parameter) {
                        if (strcmp(json_text(parameter, "name"), queries[i].argument) != 0)
                                continue;
                        found = true;
                        assert_same_values(queries[i].argument, told, json_object_get(parameter, "schema"));
                        assert_same_words(queries[i].argument, told, parameter,
                                          json_object_get(json_object_get(parameter, "schema"), "default"));
                }
                assert_true(found);
        }
}

/* Each member that HTTP answers has its type, and is as sure to be there. */
static void answers_are_those_of_http(void **state) {
        const struct documents *documents = *state;

        for (size_t i = 0; i < COUNT(answers); i++) {
                json_t *schema = json_object_get(tool_of(documents, answers[i].tool), "outputSchema");
                json_t *component = component_of(documents, answers[i].component), *there, *name;
                const char *items[] = { "properties", "items", "items", NULL }, *key;
                size_t index;

                if (answers[i].list)
                        schema = member(schema, items);
                json_object_foreach (json_object_get(component, "properties"), key, there) {
                        json_t *told = json_object_get(json_object_get(schema, "properties"), key);

                        assert_non_null(told);
                        if (!json_object_get(there, "$ref") && !json_object_get(there, "anyOf"))
                                assert_same_member(key, "type", told, there);
                        assert_same_member(key, "enum", told, there);
                }
                json_array_foreach (json_object_get(component, "required"), index, name)
                        assert_true(is_in(json_object_get(schema, "required"), json_string_value(name)));
        }
}

/* No tool has an argument that none of these tables knows, but what HTTP says by paths and headers. */
static void no_argument_is_left_out(void **state) {
        static const char *const own[] = { "session_id", "conversation", "offset", "length",
                                           "from",       "container",    "tail",   "approval" };
        static const char *const of_lists[] = { "environment", "agent", "status" };
        const struct documents *documents = *state;
        json_t *tool, *schema;
        const char *name;
        size_t index;

        json_array_foreach (documents->tools, index, tool) {
                const char *path[] = { "inputSchema", "properties", NULL };

                json_object_foreach (member(tool, path), name, schema) {
                        const char *of = json_text(tool, "name");
                        bool known = false;

                        for (size_t i = 0; i < COUNT(same); i++)
                                known |= strcmp(same[i].tool, of) == 0 && strcmp(same[i].argument, name) == 0;
                        for (size_t i = 0; i < COUNT(queries); i++)
                                known |= strcmp(queries[i].tool, of) == 0 &&
                                         strcmp(queries[i].argument, name) == 0;
                        for (size_t i = 0; i < COUNT(own); i++)
                                known |= strcmp(own[i], name) == 0;
                        for (size_t i = 0; i < COUNT(of_lists) && strncmp(of, "list_", 5) == 0; i++)
                                known |= strcmp(of_lists[i], name) == 0;
                        if (!known)
                                fail_msg("%s: nothing is held against its argument %s", of, name);
                        assert_non_null(json_text(schema, "description"));
                }
        }
        assert_non_null(strstr(json_text(argument_of(documents, "run_code", "environment"), "description"),
                               "There are: data, web."));
}

static const struct {
        const char *tool, *arguments, *wrong; /* NULL: it is right */
} given[] = {
        { "run_code", "{\"code\": \"1\"}", NULL },
        { "run_code", "{\"code\": \"1\", \"session\": null, \"timeoutSeconds\": 5.0}", NULL },
        { "run_code", "{}", "code" },
        { "run_code", "{\"code\": null}", "code" },
        { "run_code", "{\"code\": \"1\", \"stdin\": \"\"}", "stdin is not known" },
        { "run_code", "{\"code\": \"1\", \"timeoutSeconds\": 901}", NULL },
        { "run_code", "{\"code\": \"1\", \"timeoutSeconds\": 0}", "1 to 900" },
        { "run_code", "{\"code\": \"1\", \"timeoutSeconds\": 1.5}", "whole number" },
        { "run_code", "{\"code\": \"1\", \"language\": \"perl\"}", "python" },
        { "run_code", "{\"code\": \"1\", \"session\": \"s-1\"}", "session_id" },
        { "run_code", "{\"code\": \"1\", \"session_id\": \"s-1\"}", "session_id" },
        { "write_file", "{\"session\": \"s-aaaaaaaaaaaaaaaaaaaaaaaaaa\", \"path\": \"a\", \"content\": \"\"}",
          NULL },
        { "write_file", "{\"session\": \"s-aaaaaaaaaaaaaaaaaaaaaaaaaa\", \"path\": \"a\"}", "one of" },
        { "write_file",
          "{\"session\": \"s-aaaaaaaaaaaaaaaaaaaaaaaaaa\", \"path\": \"../a\", \"content\": \"\"}", "path" },
        { "list_sessions", "{\"environment\": [\"data\"]}", "a text" },
        { "list_sessions", "{\"limit\": 0}", "1 to 1000" },
        { "copy_files",
          "{\"session\": \"s-aaaaaaaaaaaaaaaaaaaaaaaaaa\", \"from\": {\"workspace\": \"s-aaaaaaaaaaaaaaaaaaaaaaaaaa\", "
          "\"paths\": [\"a\"], \"more\": 1}}",
          "from.more is not known" },
};

static void arguments_are_checked_by_the_same_tables(void **state) {
        const struct documents *documents = *state;

        for (size_t i = 0; i < COUNT(given); i++) {
                json_t *arguments JSON_CLEANUP = json_loads(given[i].arguments, 0, NULL);
                struct problem problem = { 0 };
                const char *note;
                int result = mcp_tool_check(mcp_tool_find(given[i].tool, BROKER_EXECUTE),
                                            json_checked(arguments), documents->arena, &note, &problem);

                if ((result == 0) != !given[i].wrong ||
                    (result < 0 && !strstr(problem.detail, given[i].wrong)))
                        fail_msg("%s %s: %s", given[i].tool, given[i].arguments, problem.detail);
        }
        assert_null(mcp_tool_find("never", BROKER_EXECUTE | BROKER_CONTAINERS));
        assert_null(mcp_tool_find("run_service", BROKER_EXECUTE | BROKER_OBSERVE));
        assert_null(mcp_tool_find("run_code", BROKER_CONTAINERS));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(arguments_are_those_of_http),
                cmocka_unit_test(queries_are_those_of_http),
                cmocka_unit_test(answers_are_those_of_http),
                cmocka_unit_test(no_argument_is_left_out),
                cmocka_unit_test(arguments_are_checked_by_the_same_tables),
        };

        return cmocka_run_group_tests(tests, read_documents, free_documents);
}
