/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words are for models, which pay for each of them: short, exact, with limits. The schemas of answers say what may be relied on,
 * and let members be added.
 */
#include "broker/mcp_tools.h"

#include "base/files.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "broker/mcp_files.h"
#include "broker/mcp_sessions.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TEXT "\"string\""
#define MAYBE_TEXT "[\"string\", \"null\"]"
#define TYPE(type) "{\"type\": " type "}"
#define OBJECT(properties, required) \
        "{\"type\": \"object\", \"properties\": {" properties "}, \"required\": [" required "]}"
#define LIST(items) "{\"type\": \"array\", \"items\": " items "}"

#define STREAM                                                                                               \
        OBJECT("\"content\": " TYPE(TEXT) ", \"bytesTotal\": " TYPE("\"integer\"") ", \"truncated\": " TYPE( \
                       "\"boolean\""),                                                                       \
               "\"content\", \"truncated\"")
#define CHANGED                                                                                              \
        LIST(OBJECT("\"path\": " TYPE(TEXT) ", \"bytes\": " TYPE("\"integer\"") ", \"sha256\": " TYPE(TEXT), \
                    "\"path\""))
#define SKIPPED LIST(OBJECT("\"path\": " TYPE(TEXT) ", \"reason\": " TYPE(TEXT), "\"path\""))

#define RESULT                                                                                                                                                                                                                            \
        OBJECT("\"session\": " TYPE(TEXT) ", \"n\": " TYPE(                                                                                                                                                                               \
                       "\"integer\"") ", \"status\": {\"type\": \"string\", "                                                                                                                                                             \
                                      "\"enum\": [\"ok\", \"error\", \"timeout\", \"memory\", \"interrupted\", \"killed\", \"failed\"]}, "                                                                                                \
                                      "\"exitCode\": " TYPE(                                                                                                                                                                              \
                                              "[\"integer\", \"null\"]") ", \"stdout\": " STREAM                                                                                                                                          \
                                                                         ", \"stderr\": " STREAM                                                                                                                                          \
                                                                         ", \"value\": " TYPE("[\"object\", \"null\"]") ", \"displays\": " LIST(TYPE("\"object\"")) ", \"error\": " TYPE("[\"object\", \"null\"]") ", \"detail\": " TYPE( \
                                                                                 MAYBE_TEXT) ", \"files\": " OBJECT("\"changed\": " CHANGED                                                                                               \
                                                                                                                    ", \"deleted\": " LIST(                                                                                               \
                                                                                                                            TYPE(TEXT)),                                                                                                  \
                                                                                                                    "\"changed\"") ", \"usage\": " TYPE("\"object\"") ", \"state\": " TYPE("[\"object\", \"null\"]"),                     \
               "\"session\", \"n\", \"status\", \"stdout\", \"stderr\", \"value\", \"error\", \"files\", \"state\"")

#define SESSION                                                                                                               \
        OBJECT("\"id\": " TYPE(TEXT) ", \"environment\": " TYPE(TEXT) ", \"agent\": " TYPE(MAYBE_TEXT) ", \"status\": " TYPE( \
                       TEXT) ", \"createdAt\": " TYPE(TEXT) ", \"expiresAt\": " TYPE(MAYBE_TEXT),                             \
               "\"id\", \"environment\", \"status\"")
#define LISTED "\"cursor\": " TYPE(MAYBE_TEXT)
#define FILE_MEMBERS                                                                     \
        "\"path\": " TYPE(TEXT) ", \"bytes\": " TYPE("\"integer\"") ", \"etag\": " TYPE( \
                TEXT) ", \"writtenAt\": " TYPE(TEXT)

#define NUMBER(name, least, most, doc) \
        { (name), JSON_INTEGER, false, (doc), NULL, (least), (most), NULL }
#define WORDS(name, required, doc) \
        { (name), JSON_STRING, (required), (doc), NULL, 0, 0, NULL }
#define END \
        { NULL, JSON_NULL, false, NULL, NULL, 0, 0, NULL }

#define SESSION_OF_FILES "Id of a session, also one that has ended: its files stay."
#define PATH_DOC "Relative to the workspace, /workspace in the sandbox: \"out/plot.png\"."

static const char *const languages[] = { "python", "sh", NULL };

static const struct mcp_tool tools[] = {
        { .name = "run_code",
          .title = "Run code",
          .doc = "Runs Python or shell code in a sandbox and returns its output. Variables, imports and files are kept "
                 "from call to call: pass the `session` of the first answer with each later call. The value of the last "
                 "expression is returned as `value`; figures and images come as images. The working directory is "
                 "/workspace, and files written there stay. Exceptions are in `error`, with status \"error\": mend the code and call again. "
                 "`state.was` is \"lost\" where variables are gone, with the reason: make them again. "
                 "Standard output and error are cut after 64 KiB each: write more to a file. No input(), no network.",
          .arguments =
                  (const struct mcp_argument[]){
                          WORDS("code", true, "The code."),
                          { "language", JSON_STRING, false,
                            "Default python. sh shares the files, not the variables.", languages, 0, 0,
                            NULL },
                          WORDS("session", false,
                                "Id from an earlier answer. Left out: a new session, whose id is in the answer."),
                          WORDS("environment", false, "For a new session: what it runs in."),
                          WORDS("agent", false,
                                "For a new session, in place of environment: the agent it runs for."),
                          NUMBER("timeoutSeconds", 1, ENGINE_TIMEOUT_MAX, "Default 300."),
                          END },
          .output = RESULT,
          .destroys = true },
        { .name = "list_sessions",
          .title = "List sessions",
          .doc = "Lists your living sessions, the oldest first. Status idle, parked (variables are kept on disk), running, "
                 "starting or queued.",
          .arguments =
                  (const struct mcp_argument[]){ WORDS("environment", false, "Only those in it."),
                                                 WORDS("agent", false, "Only those of it."),
                                                 NUMBER("limit", 1, ENGINE_LIST_MAX, "Default 100."),
                                                 WORDS("cursor", false, "From the answer before."), END },
          .output = OBJECT("\"items\": " LIST(SESSION) ", " LISTED, "\"items\""),
          .only_reads = true,
          .answer = mcp_sessions_list },
        { .name = "end_session",
          .title = "End a session",
          .doc = "Ends a session: what runs in it is killed and its variables are gone. Its files stay, and are read by the same id.",
          .arguments = (const struct mcp_argument[]){ WORDS("session", true, "Its id."), END },
          .output = OBJECT("\"session\": " TYPE(TEXT) ", \"ended\": " TYPE("\"boolean\""),
                           "\"session\", \"ended\""),
          .destroys = true,
          .repeats = true,
          .answer = mcp_sessions_end },
        { .name = "list_files",
          .title = "List files",
          .doc = "Lists the files of a session's workspace, sorted by path, folders left out.",
          .arguments =
                  (const struct mcp_argument[]){
                          WORDS("session", true, SESSION_OF_FILES),
                          WORDS("prefix", false, "Only paths that begin with it: \"out/\"."),
                          NUMBER("limit", 1, ENGINE_LIST_MAX, "Default 100."),
                          WORDS("cursor", false, "From the answer before."), END },
          .output = OBJECT("\"items\": " LIST(OBJECT(FILE_MEMBERS, "\"path\", \"bytes\"")) ", " LISTED,
                           "\"items\""),
          .only_reads = true,
          .answer = mcp_files_list },
        { .name = "read_file",
          .title = "Read a file",
          .doc = "Reads a file of a session's workspace: text as `content`, other bytes as `contentBase64`, "
                 "PNG, JPEG, GIF and WebP up to 4 MiB as an image. At most 1 MiB of others: go on from `offset` + `length` while "
                 "that is less than `bytes`.",
          .arguments =
                  (const struct mcp_argument[]){
                          WORDS("session", true, SESSION_OF_FILES), WORDS("path", true, PATH_DOC),
                          NUMBER("offset", 0, INT64_MAX, "The byte to begin at. Default 0."),
                          NUMBER("length", 1, MCP_FILES_READ_MAX, "Bytes at most. Default 65536."), END },
          .output = OBJECT(
                  FILE_MEMBERS ", \"offset\": " TYPE("\"integer\"") ", \"length\": " TYPE(
                          "\"integer\"") ", \"content\": " TYPE(TEXT) ", \"contentBase64\": " TYPE(TEXT),
                  "\"path\", \"bytes\", \"offset\", \"length\""),
          .only_reads = true,
          .answer = mcp_files_read },
        { .name = "write_file",
          .title = "Write a file",
          .doc = "Writes a whole file into a session's workspace, in place of what is there, with the folders on its way. The next run_code "
                 "finds it. Takes either content or contentBase64, up to 16 MiB.",
          .arguments =
                  (const struct mcp_argument[]){
                          WORDS("session", true, SESSION_OF_FILES), WORDS("path", true, PATH_DOC),
                          WORDS("content", false, "Text."),
                          WORDS("contentBase64", false, "Any bytes, in base64 with padding."), END },
          .output = OBJECT(FILE_MEMBERS ", \"sha256\": " TYPE(TEXT), "\"path\", \"bytes\", \"sha256\""),
          .destroys = true,
          .repeats = true,
          .answer = mcp_files_write },
        { .name = "copy_files",
          .title = "Copy files",
          .doc = "Copies files and folders from the workspace of one of your sessions into that of another. What is there already stays and "
                 "is listed as `conflict`, unless `replace` is true.",
          .arguments =
                  (const struct mcp_argument[]){
                          WORDS("session", true, "Id of the session that gets them."),
                          { "from", JSON_OBJECT, true, "Where they are.", NULL, 0, 0,
                            "{\"type\": \"object\", \"properties\": {\"workspace\": {\"type\": \"string\", \"description\": \"Id of the session that has them.\"}, "
                            "\"paths\": {\"type\": \"array\", \"items\": {\"type\": \"string\"}, \"minItems\": 1, \"maxItems\": 1000}}, "
                            "\"required\": [\"workspace\", \"paths\"], \"additionalProperties\": false}" },
                          WORDS("to", false, "Folder that gets them. Default: the workspace itself."),
                          { "replace", JSON_TRUE, false, "Default false.", NULL, 0, 0, NULL },
                          END },
          .output = OBJECT("\"changed\": " CHANGED
                           ", \"conflict\": " LIST(TYPE(TEXT)) ", \"skipped\": " SKIPPED,
                           "\"changed\", \"conflict\", \"skipped\""),
          .destroys = true,
          .answer = mcp_files_copy },
};
#define TOOL_COUNT (sizeof(tools) / sizeof(tools[0]))

const struct mcp_tool *mcp_tool_find(const char *name) {
        for (size_t i = 0; i < TOOL_COUNT; i++) {
                if (strcmp(tools[i].name, name) == 0)
                        return &tools[i];
        }
        return NULL;
}

/* --- what it takes --- */

static bool has_type(const json_t *value, json_type type) {
        return type == JSON_TRUE ? json_is_boolean(value) : json_typeof(value) == type;
}

static const char *type_name(json_type type) {
        switch (type) {
        case JSON_INTEGER:
                return "integer";
        case JSON_TRUE:
                return "boolean";
        case JSON_OBJECT:
                return "object";
        case JSON_STRING:
        case JSON_ARRAY:
        case JSON_REAL:
        case JSON_FALSE:
        case JSON_NULL:
        default:
                return "string";
        }
}

static int check_argument(const struct mcp_argument *argument, const json_t *value, struct problem *problem) {
        json_int_t number = json_integer_value(value);
        const char *text = json_string_value(value);

        if (!has_type(value, argument->type))
                return problem_set(problem, PROBLEM_INVALID, "%s must be of type %s", argument->name,
                                   type_name(argument->type));
        if (json_is_integer(value) && (argument->least || argument->most) &&
            (number < argument->least || number > argument->most))
                return problem_set(problem, PROBLEM_INVALID,
                                   "%s must be from %" JSON_INTEGER_FORMAT " to %" JSON_INTEGER_FORMAT,
                                   argument->name, argument->least, argument->most);
        if (!text)
                return 0;
        /* Code and contents may hold it; a name that is cut there would be another's. */
        if (strlen(text) != json_string_length(value) && strcmp(argument->name, "code") != 0 &&
            strcmp(argument->name, "content") != 0)
                return problem_set(problem, PROBLEM_INVALID, "%s must have no NUL", argument->name);
        for (const char *const *known = argument->values; known && strcmp(*known, text) != 0; known++) {
                if (!known[1])
                        return problem_set(problem, PROBLEM_INVALID, "%s must be one that its schema lists",
                                           argument->name);
        }
        return 0;
}

int mcp_tool_check(const struct mcp_tool *tool, const json_t *arguments, struct problem *problem) {
        const struct mcp_argument *argument;
        const char *name;
        json_t *value;

        json_object_foreach ((json_t *)(uintptr_t)arguments, name, value) {
                for (argument = tool->arguments; argument->name; argument++) {
                        if (strcmp(argument->name, name) == 0)
                                break;
                }
                if (!argument->name)
                        return problem_set(problem, PROBLEM_INVALID, "%s has no argument %.100s", tool->name,
                                           name);
                if (json_is_null(value) && !argument->required)
                        continue; /* models write null for what they leave out */
                if (check_argument(argument, value, problem) < 0)
                        return -1;
        }
        for (argument = tool->arguments; argument->name; argument++) {
                if (argument->required && !json_object_get(arguments, argument->name))
                        return problem_set(problem, PROBLEM_INVALID, "%s needs %s", tool->name,
                                           argument->name);
        }
        return 0;
}

/* --- what is listed --- */

static json_t *argument_json(const struct mcp_argument *argument, const char *environments) {
        struct strbuf doc STRBUF_CLEANUP = STRBUF_INIT;
        json_t *json = argument->schema ? json_loads(argument->schema, 0, NULL)
                                        : json_pack("{s:s}", "type", type_name(argument->type));

        strbuf_append(&doc, argument->doc);
        if (environments && strcmp(argument->name, "environment") == 0)
                strbuf_printf(&doc, " There are: %s.", environments);
        json_put(json_checked(json), "description", json_from_text(strbuf_text(&doc)));
        if (argument->values) {
                size_t count = 0;

                while (argument->values[count])
                        count++;
                json_put(json, "enum", json_from_texts(argument->values, count));
        }
        if (argument->least || argument->most)
                json_put(json, "minimum", json_integer(argument->least));
        if (argument->most && argument->most < INT64_MAX)
                json_put(json, "maximum", json_integer(argument->most));
        return json;
}

static json_t *tool_json(const struct mcp_tool *tool, const char *environments) {
        json_t *properties = json_checked(json_object()), *required = json_checked(json_array());
        json_t *json = json_checked(json_pack("{s:s, s:s, s:s}", "name", tool->name, "title", tool->title,
                                              "description", tool->doc));

        for (const struct mcp_argument *argument = tool->arguments; argument->name; argument++) {
                json_put(properties, argument->name, argument_json(argument, environments));
                if (argument->required)
                        json_add(required, json_string(argument->name));
        }
        json_put(json, "inputSchema",
                 json_pack("{s:s, s:o, s:o, s:b}", "type", "object", "properties", properties, "required",
                           required, "additionalProperties", 0));
        json_put(json, "outputSchema", json_loads(tool->output, 0, NULL));
        json_put(json, "annotations",
                 json_pack("{s:b, s:b, s:b, s:b}", "readOnlyHint", tool->only_reads, "destructiveHint",
                           tool->destroys, "idempotentHint", tool->repeats || tool->only_reads,
                           "openWorldHint", 0));
        return json;
}

json_t *mcp_tools_json(const char *environments) {
        json_t *list = json_checked(json_array());

        for (size_t i = 0; i < TOOL_COUNT; i++)
                json_add(list, tool_json(&tools[i], environments));
        return list;
}

/* --- what is answered --- */

static json_t *text_content(const char *text) {
        return json_checked(json_pack("{s:s, s:o}", "type", "text", "text", json_from_text(text)));
}

json_t *mcp_tool_result(struct mcp_answer *answer) {
        json_t *content = json_checked(json_array());
        char *text TEXT_CLEANUP = json_compact(json_checked(answer->data));
        json_t *result;

        json_add(content, text_content(text));
        if (answer->content)
                json_array_extend(content, answer->content);
        json_decref(answer->content);
        result = json_checked(json_pack("{s:o, s:o, s:b}", "content", content, "structuredContent",
                                        answer->data, "isError", answer->failed));
        *answer = (struct mcp_answer){ 0 };
        return result;
}

/* Remedies speak of HTTP's routes: what a model can do stands in the detail, where there is anything. */
json_t *mcp_tool_problem(const struct problem *problem) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        strbuf_printf(&text, "%s: %s", problem_name(problem->code), problem->detail);
        return json_checked(
                json_pack("{s:[o], s:b}", "content", text_content(strbuf_text(&text)), "isError", 1));
}
