/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words are for models, which pay for each of them: short, exact, with limits. Arguments and answers are those of HTTP, by the same
 * tables: what is asked for there and here cannot part ways. The schemas of answers let members be added.
 */
#include "broker/mcp/mcp_tools.h"

#include "base/files.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/text_utf8.h"
#include "broker/api/shapes.h"
#include "broker/mcp/mcp_arguments.h"
#include "broker/mcp/mcp_containers.h"
#include "broker/mcp/mcp_files.h"
#include "broker/mcp/mcp_sessions.h"
#include "broker/mcp/mcp_shell.h"
#include "broker/mcp/mcp_text.h"
#include "schema/json_check.h"
#include "schema/reference.h"

#include <stdlib.h>
#include <string.h>

#define MEMBER_OF(shape_, field_) .shape = &(shape_), .field = (field_)
#define ONE_OF(fields_, field_) .fields = (fields_), .field = (field_)
#define END \
        { .field = NULL, }

/* --- what HTTP says by paths and headers --- */

static const struct field read_fields[] = {
        { .name = "offset",
          .type = FIELD_INTEGER,
          .maximum = (int64_t)1 << 53,
          .default_text = "0",
          .doc = "The first byte to read." },
        { .name = "length",
          .type = FIELD_INTEGER,
          .minimum = 1,
          .maximum = MCP_FILES_READ_MAX,
          .default_text = "65536",
          .doc = "The most bytes to read." },
        { 0 },
};
static const struct field read_more[] = {
        { .name = "offset",
          .type = FIELD_INTEGER,
          .required = true,
          .doc = "The first byte of the content." },
        { .name = "length", .type = FIELD_INTEGER, .required = true, .doc = "The number of bytes returned." },
        { .name = "content", .type = FIELD_TEXT, .doc = "Text." },
        { .name = "contentBase64", .type = FIELD_TEXT, .doc = "Other bytes." },
        { 0 },
};
static const struct field ended_fields[] = {
        { .name = "session", .type = FIELD_TEXT, .required = true, .doc = "Its id." },
        { .name = "ended", .type = FIELD_BOOLEAN, .required = true, .doc = "The session has ended." },
        { 0 },
};
static const struct field shape_ended = { .type = FIELD_OBJECT,
                                          .fields = ended_fields,
                                          .doc = "A session that has ended." };

static const struct field log_fields[] = {
        { .name = "tail",
          .type = FIELD_INTEGER,
          .maximum = SHAPES_TAIL_MAX,
          .default_text = "100",
          .doc = "The number of last lines." },
        { 0 },
};
static const struct field log_answered[] = {
        { .name = "container", .type = FIELD_TEXT, .required = true, .doc = "Its id." },
        { .name = "text", .type = FIELD_TEXT, .required = true, .doc = "The output." },
        { .name = "truncated",
          .type = FIELD_BOOLEAN,
          .required = true,
          .doc = "Whether there is more output." },
        { 0 },
};
static const struct field shape_log = { .type = FIELD_OBJECT,
                                        .fields = log_answered,
                                        .doc = "A container's output." };
#define CONTAINER(doc_) \
        { ONE_OF(&shape_container_path, "container"), .doc = (doc_), .required = true }

static const struct field shell_fields[] = {
        { .name = "approval",
          .type = FIELD_TEXT,
          .pattern = "a-[a-z2-7]{26}",
          .pattern_message = "an id",
          .doc = "Id from an earlier answer, to ask for its result." },
        { 0 },
};
static const struct field shell_answered[] = {
        { .name = "next", .type = FIELD_TEXT, .required = true, .nullable = true, .doc = "The next step." },
        { 0 },
};
static const char *const shell_ways[] = { "command", "approval", NULL };
static const struct field_group one_shell_way[] = { { shell_ways, true }, { 0 } };

/* Not `session`: there are frameworks that take an argument of that name out of each call. */
#define SESSION(doc_) \
        { ONE_OF(shape_path_fields, "id"), .name = "session_id", .doc = (doc_), .optional = true }
#define CONVERSATION(doc_) \
        { MEMBER_OF(shape_session_wish, "conversation"), .doc = (doc_) }
#define SESSION_OF_FILES                                                      \
        SESSION("Id of a session, also one that has ended: its files stay."), \
                CONVERSATION("Instead of session_id: the name that run_code was given.")
#define PATH_DOC "Relative to the workspace, /workspace in the sandbox: \"out/plot.png\"."
#define FILE_PATH \
        { MEMBER_OF(shape_input_file, "path"), .doc = PATH_DOC }

static const char *const contents[] = { "content", "contentBase64", NULL };
static const struct field_group one_content[] = { { contents, true }, { 0 } };

static const char *const programs[] = { "command", "code", NULL };
static const struct field_group one_program[] = { { programs, true }, { 0 } };

static const struct mcp_tool tools[] = {
        { .name = "run_code",
          .title = "Run code",
          .doc = "Runs Python or shell code in a sandbox and returns its output and the value of "
                 "the last expression; figures and images come as images. Variables, imports and "
                 "files are kept from call to call: give `conversation` the same name of your "
                 "choice each time, or pass the session_id of the first answer with each later "
                 "call. The working directory is /workspace, and files written there stay. If code "
                 "raises, the answer has the exception: fix the code and call again. If the answer "
                 "says that variables are lost, create them again. Standard output and error are "
                 "cut to their first and last 32 KiB: write more to a file. No input(), no network.",
          .arguments =
                  (const struct mcp_argument[]){
                          { MEMBER_OF(shape_execution_wish, "code") },
                          { MEMBER_OF(shape_execution_wish, "language") },
                          SESSION("Id from an earlier answer. Without it and conversation: a new session, whose id is in the answer."),
                          CONVERSATION(
                                  "A name, instead of session_id: the session of that name is used, or made."),
                          { MEMBER_OF(shape_session_wish, "environment"), .also = "For a new session." },
                          { MEMBER_OF(shape_session_wish, "agent"),
                            .also = "For a new session, in place of environment." },
                          { MEMBER_OF(shape_execution_wish, "timeoutSeconds") },
                          END },
          .answer_shape = &shape_execution,
          .destroys = true },
        { .name = "list_sessions",
          .title = "List sessions",
          .doc = "Lists your living sessions, the oldest first. Status idle, parked (variables are kept on disk), running, "
                 "starting or queued.",
          .arguments =
                  (const struct mcp_argument[]){
                          { ONE_OF(shape_sessions_query, "environment"),
                            .doc = "Only sessions in this environment.", .single = true },
                          { ONE_OF(shape_sessions_query, "agent"),
                            .doc = "Only those of this agent or conversation.", .single = true },
                          { ONE_OF(shape_sessions_query, "limit") },
                          { ONE_OF(shape_sessions_query, "cursor") },
                          END },
          .answer_shape = &shape_session,
          .answer_list = true,
          .only_reads = true,
          .text = mcp_text_sessions,
          .answer = mcp_sessions_list },
        { .name = "end_session",
          .title = "End a session",
          .doc = "Ends a session: its processes are killed and its variables are gone. Its files "
                 "stay, and are read by the same id.",
          .arguments =
                  (const struct mcp_argument[]){
                          SESSION("Its id."), CONVERSATION("Instead of session_id: its conversation."), END },
          .answer_shape = &shape_ended,
          .destroys = true,
          .repeats = true,
          .text = mcp_text_ended,
          .answer = mcp_sessions_end },
        { .name = "list_files",
          .title = "List files",
          .doc = "Lists the files of a session's workspace, sorted by path, folders left out.",
          .arguments = (const struct mcp_argument[]){ SESSION_OF_FILES,
                                                      { ONE_OF(shape_files_query, "prefix") },
                                                      { ONE_OF(shape_files_query, "limit") },
                                                      { ONE_OF(shape_files_query, "cursor") },
                                                      END },
          .answer_shape = &shape_file,
          .answer_list = true,
          .only_reads = true,
          .text = mcp_text_files,
          .answer = mcp_files_list },
        { .name = "read_file",
          .title = "Read a file",
          .doc = "Reads a file of a session's workspace: text as `content`, other bytes as `contentBase64`, "
                 "PNG, JPEG, GIF and WebP up to 4 MiB as an image. At most 1 MiB of others: go on from `offset` + `length` while "
                 "that is less than `bytes`.",
          .arguments = (const struct mcp_argument[]){ SESSION_OF_FILES,
                                                      FILE_PATH,
                                                      { ONE_OF(read_fields, "offset") },
                                                      { ONE_OF(read_fields, "length") },
                                                      END },
          .answer_shape = &shape_file,
          .answer_more = read_more,
          .only_reads = true,
          .text = mcp_text_read,
          .answer = mcp_files_read },
        { .name = "write_file",
          .title = "Write a file",
          .doc = "Writes a whole file into a session's workspace, replacing an existing file, and "
                 "creates missing folders. The next run_code finds it. Takes either content or "
                 "contentBase64, up to 16 MiB.",
          .arguments = (const struct mcp_argument[]){ SESSION_OF_FILES,
                                                      FILE_PATH,
                                                      { MEMBER_OF(shape_input_file, "content") },
                                                      { MEMBER_OF(shape_input_file, "contentBase64") },
                                                      END },
          .groups = one_content,
          .answer_shape = &shape_file_put,
          .destroys = true,
          .repeats = true,
          .text = mcp_text_written,
          .answer = mcp_files_write },
        { .name = "copy_files",
          .title = "Copy files",
          .doc = "Copies files and folders from the workspace of one of your sessions into that of "
                 "another. Existing files stay and are listed as `conflict`, unless `replace` is "
                 "true.",
          .arguments =
                  (const struct mcp_argument[]){
                          SESSION("Id of the session that gets them."),
                          CONVERSATION("Instead of session_id: the name that run_code was given."),
                          { MEMBER_OF(shape_copy, "from") },
                          { MEMBER_OF(shape_copy, "to") },
                          { MEMBER_OF(shape_copy, "replace") },
                          END },
          .answer_shape = &shape_copied,
          .destroys = true,
          .text = mcp_text_copied,
          .answer = mcp_files_copy },
        { .name = "run_service",
          .title = "Run a service",
          .doc = "Starts a program that stays until it is stopped, such as a database, in a sandbox"
                 " of its own for an agent, and returns at once. Takes either command or code. It "
                 "is started again when it ends, unless `restart` says otherwise; each start has a "
                 "new sandbox. list_containers shows its status, container_logs its output.",
          .arguments = (const struct mcp_argument[]){ { MEMBER_OF(shape_container_wish, "agent") },
                                                      { MEMBER_OF(shape_container_wish, "name") },
                                                      { MEMBER_OF(shape_container_wish, "command") },
                                                      { MEMBER_OF(shape_container_wish, "code") },
                                                      { MEMBER_OF(shape_container_wish, "language") },
                                                      { MEMBER_OF(shape_container_wish, "variables") },
                                                      { MEMBER_OF(shape_container_wish, "restart") },
                                                      END },
          .groups = one_program,
          .answer_shape = &shape_container,
          .rights = BROKER_CONTAINERS,
          .text = mcp_text_container,
          .answer = mcp_containers_run },
        { .name = "list_containers",
          .title = "List containers",
          .doc = "Lists your containers, the oldest first, with status, exit code, reason, CPU and "
                 "memory. Ended containers stay for an hour.",
          .arguments =
                  (const struct mcp_argument[]){
                          { ONE_OF(shape_containers_query, "status"), .doc = "Only those.", .single = true },
                          { ONE_OF(shape_containers_query, "agent"),
                            .doc = "Only those of this agent or conversation.", .single = true },
                          { ONE_OF(shape_containers_query, "limit") },
                          { ONE_OF(shape_containers_query, "cursor") },
                          END },
          .answer_shape = &shape_container,
          .answer_list = true,
          .rights = BROKER_CONTAINERS,
          .only_reads = true,
          .text = mcp_text_containers,
          .answer = mcp_containers_list },
        { .name = "container_logs",
          .title = "Read a container's log",
          .doc = "Returns the last lines that a container has printed, standard output and error as they came, 64 KiB at most.",
          .arguments = (const struct mcp_argument[]){ CONTAINER("Its id, `c-...`."),
                                                      { ONE_OF(log_fields, "tail") },
                                                      { ONE_OF(shape_logs_query, "since") },
                                                      END },
          .answer_shape = &shape_log,
          .rights = BROKER_CONTAINERS,
          .only_reads = true,
          .text = mcp_text_log,
          .answer = mcp_containers_logs },
        { .name = "stop_container",
          .title = "Stop a container",
          .doc = "Sends SIGTERM to a container's program, kills it ten seconds later, and returns the container as it is then. Its log stays.",
          .arguments = (const struct mcp_argument[]){ CONTAINER("Its id, `c-...`."), END },
          .answer_shape = &shape_container,
          .rights = BROKER_CONTAINERS,
          .destroys = true,
          .repeats = true,
          .text = mcp_text_container,
          .answer = mcp_containers_stop },
        { .name = "run_shell",
          .title = "Request a command on the host",
          .doc = "Requests one command on the server's own machine, outside of any sandbox. A "
                 "person sees exactly these words and approves or denies them; the answer says so, "
                 "with an `approval` id to ask again by. It runs once, without a shell and without "
                 "input, and `result` has its output. Takes agent, command and cwd; or approval "
                 "alone. Prefer run_code: ask here only for what a sandbox cannot do, and say why.",
          .arguments =
                  (const struct mcp_argument[]){ { MEMBER_OF(shape_shell_wish, "agent"), .optional = true },
                                                 { MEMBER_OF(shape_shell_wish, "command"), .optional = true },
                                                 { MEMBER_OF(shape_shell_wish, "cwd"), .optional = true },
                                                 { MEMBER_OF(shape_shell_wish, "reason") },
                                                 { MEMBER_OF(shape_shell_wish, "timeoutSeconds") },
                                                 { ONE_OF(shell_fields, "approval") },
                                                 END },
          .groups = one_shell_way,
          .answer_shape = &shape_approval,
          .answer_more = shell_answered,
          .rights = BROKER_SHELL,
          .destroys = true,
          .answer = mcp_shell_run },
};
#define TOOL_COUNT (sizeof(tools) / sizeof(tools[0]))

static bool has_right(const struct mcp_tool *tool, unsigned rights) {
        return rights & (tool->rights ? tool->rights : (unsigned)BROKER_EXECUTE);
}

const struct mcp_tool *mcp_tool_find(const char *name, unsigned rights) {
        for (size_t i = 0; i < TOOL_COUNT; i++) {
                if (strcmp(tools[i].name, name) == 0 && has_right(&tools[i], rights))
                        return &tools[i];
        }
        return NULL;
}

/* --- the tables put together --- */

static struct field field_of(const struct mcp_argument *argument, struct arena *arena) {
        const struct field *found =
                field_find(argument->shape ? argument->shape->fields : argument->fields, argument->field);
        struct field field;

        if (!found)
                abort(); /* the unit test goes through all rows */
        field = argument->single ? *found->item : *found;
        field.name = argument->name ? argument->name : found->name;
        field.required = !argument->optional && (argument->required || found->required);
        if (argument->doc)
                field.doc = argument->doc;
        if (argument->also)
                field.doc = arena_printf(arena, "%s %s", field.doc, argument->also);
        return field;
}

/* The arguments as one table, ended by a NULL name. */
static struct field *fields_of(const struct mcp_tool *tool, struct arena *arena) {
        struct field *fields;
        size_t count = 0;

        while (tool->arguments[count].field)
                count++;
        fields = arena_array(arena, count + 1, sizeof(*fields));
        for (size_t i = 0; i < count; i++)
                fields[i] = field_of(&tool->arguments[i], arena);
        fields[count] = (struct field){ 0 };
        return fields;
}

/* The members of what it answers, the same way. */
static struct field answered_of(const struct mcp_tool *tool, struct arena *arena) {
        struct field shape = *tool->answer_shape, *fields;
        size_t count = 0, more = 0;

        if (!tool->answer_more)
                return shape;
        while (shape.fields[count].name)
                count++;
        while (tool->answer_more[more].name)
                more++;
        fields = arena_array(arena, count + more + 1, sizeof(*fields));
        memcpy(fields, shape.fields, count * sizeof(*fields));
        memcpy(fields + count, tool->answer_more, (more + 1) * sizeof(*fields));
        shape.fields = fields;
        return shape;
}

int mcp_tool_check(const struct mcp_tool *tool, json_t *arguments, struct arena *arena, const char **ret_note,
                   struct problem *problem) {
        const struct field *fields = fields_of(tool, arena);
        const char *note = mcp_arguments_read(arguments, fields, tool->groups, arena);
        const char *wrong = json_check(arguments, fields, tool->groups, arena);

        if (!wrong) {
                *ret_note = note;
                return 0;
        }
        return problem_set(problem, PROBLEM_INVALID, "%s: %s", tool->name, wrong);
}

/* --- what is listed --- */

static json_t *input_json(const struct mcp_tool *tool, const char *environments, struct arena *arena) {
        struct field *fields = fields_of(tool, arena);
        const struct field whole = {
                .type = FIELD_OBJECT, .fields = fields, .groups = tool->groups, .doc = ""
        };
        json_t *json;

        for (struct field *field = fields; environments && field->name; field++) {
                if (strcmp(field->name, "environment") == 0)
                        field->doc = arena_printf(arena, "%s There are: %s.", field->doc, environments);
        }
        json = schema_json_field(&whole, SCHEMA_SHORT, NULL);
        json_object_del(json, "description");
        return json;
}

/* A client holds answers against it, and hardly a model reads it: members have their types, and no words. */
static json_t *without_words(json_t *schema) {
        json_t *member;
        const char *name;
        size_t index;

        if (json_is_string(json_object_get(schema, "description")))
                json_object_del(schema, "description");
        json_object_del(schema, "contentEncoding"); /* clients' readers of schemas seldom know it */
        json_object_foreach (json_object_get(schema, "properties"), name, member)
                (void)without_words(member);
        json_array_foreach (json_object_get(schema, "anyOf"), index, member)
                (void)without_words(member);
        if (json_object_get(schema, "items"))
                (void)without_words(json_object_get(schema, "items"));
        if (json_is_object(json_object_get(schema, "additionalProperties")))
                (void)without_words(json_object_get(schema, "additionalProperties"));
        return schema;
}

static json_t *output_json(const struct mcp_tool *tool, struct arena *arena) {
        const struct field shape = answered_of(tool, arena);
        json_t *schema = without_words(schema_json_field(&shape, SCHEMA_ANSWERED, NULL));

        if (!tool->answer_list)
                return schema;
        return json_checked(json_pack("{s:s, s:[s, s], s:{s:{s:s, s:o}, s:{s:[s, s]}}}", "type", "object",
                                      "required", "items", "cursor", "properties", "items", "type", "array",
                                      "items", schema, "cursor", "type", "string", "null"));
}

json_t *mcp_tools_json(const char *environments, unsigned rights, struct arena *arena) {
        json_t *list = json_checked(json_array());

        for (const struct mcp_tool *tool = tools; tool < tools + TOOL_COUNT; tool++) {
                if (!has_right(tool, rights))
                        continue;
                json_add(list,
                         json_pack("{s:s, s:s, s:s, s:o, s:o, s:{s:b, s:b, s:b, s:b}}", "name", tool->name,
                                   "title", tool->title, "description", tool->doc, "inputSchema",
                                   input_json(tool, environments, arena), "outputSchema",
                                   output_json(tool, arena), "annotations", "readOnlyHint", tool->only_reads,
                                   "destructiveHint", tool->destroys, "idempotentHint",
                                   tool->repeats || tool->only_reads, "openWorldHint", 0));
        }
        return list;
}

/* --- what is answered --- */

static json_t *text_content(const char *text) {
        return json_checked(json_pack("{s:s, s:o}", "type", "text", "text", json_from_text(text)));
}

static json_t *text_of(struct mcp_answer *answer) {
        char *text TEXT_CLEANUP = NULL;
        struct strbuf safe STRBUF_CLEANUP = STRBUF_INIT;

        if (answer->text)
                return json_checked(json_pack("{s:s, s:o}", "type", "text", "text", answer->text));
        text = json_compact(json_checked(answer->data));
        if (answer->for_eyes)
                text_append_json_safe(&safe, text);
        return text_content(answer->for_eyes ? strbuf_text(&safe) : text);
}

json_t *mcp_tool_result(struct mcp_answer *answer, const char *note) {
        json_t *content = json_checked(json_array());
        json_t *result;

        if (answer->asks) {
                result =
                        json_checked(json_pack("{s:s, s:o, s:s}", "resultType", "input_required",
                                               "inputRequests", answer->asks, "requestState", answer->state));
                json_decref(answer->data);
                *answer = (struct mcp_answer){ 0 };
                return result;
        }
        json_add(content, text_of(answer));
        if (*note)
                json_add(content, text_content(note));
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
