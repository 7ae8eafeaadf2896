/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caller is known before a byte of the body is read, as on all routes; its rights are those
 * that it has there, except that here it sees only its own owner's things, even if its client may
 * see or end others'.
 *
 * Before 2026-07-28 a refused message has HTTP's status 200 nevertheless, since clients of that
 * time take another one for a broken connection; from then on the status is the revision's.
 */
#include "broker/mcp/mcp.h"

#include "base/digest.h"
#include "base/json.h"
#include "broker/mcp/mcp_files.h"
#include "broker/mcp/mcp_flight.h"
#include "broker/mcp/mcp_run.h"
#include "broker/mcp/mcp_sessions.h"
#include "broker/mcp/mcp_tools.h"
#include "broker/request/answers.h"
#include "broker/request/call.h"

#include <string.h>

#define LISTS_TTL_MS 60000 /* an apply may change the environments that they name */

static const char instructions[] =
        "Berth runs Python and shell code in sandboxes that keep their variables and files. Call run_code; give it a `conversation`, a "
        "name of your choice, each time, or pass on the session_id of its first answer. list_sessions finds ids again. Files are in the "
        "session's workspace, and stay when it ends.";

/* --- sessions of MCP, which are no sessions of ours --- */

#define RANDOM_BYTES 16
#define RANDOM_DIGITS (2 * (size_t)RANDOM_BYTES)
#define ID_BEGINNING "m-"

static const char *session_id(const char *random, const char *client, const char *owner,
                              struct arena *arena) {
        const char *bound = arena_printf(arena, "%s\n%s\n%s", random, client, owner);
        char hex[SHA256_HEX_SIZE];

        digest_sha256_hex(bound, strlen(bound), hex);
        return arena_printf(arena, ID_BEGINNING "%s%.32s", random, hex);
}

const char *mcp_session_make(const char *client, const char *owner, struct arena *arena) {
        uint8_t bytes[RANDOM_BYTES];
        char random[RANDOM_DIGITS + 1];

        random_bytes(bytes, sizeof(bytes));
        digest_hex(bytes, sizeof(bytes), random);
        return session_id(random, client, owner, arena);
}

bool mcp_session_is_of(const char *id, const char *client, const char *owner, struct arena *arena) {
        if (strncmp(id, ID_BEGINNING, strlen(ID_BEGINNING)) != 0 ||
            strlen(id) != strlen(ID_BEGINNING) + 2 * RANDOM_DIGITS)
                return false;
        return strcmp(id, session_id(arena_strndup(arena, id + strlen(ID_BEGINNING), RANDOM_DIGITS), client,
                                     owner, arena)) == 0;
}

/* --- answers --- */

void mcp_answer_result(struct server_request *request, const struct mcp_message *message, json_t *result) {
        answers_json(request, 200, mcp_message_result(message, result));
}

void mcp_answer_fault(struct server_request *request, const struct mcp_message *message,
                      const struct mcp_fault *fault) {
        bool by_status = message->newest || message->kind != MCP_REQUEST || fault->status == 404;

        answers_json(request, by_status ? fault->status : 200, mcp_message_fault(message->id, fault));
}

static bool is_asked(const struct server_request *request) {
        return request->path && strcmp(request->path, MCP_PATH) == 0;
}

/* The message was not read, and its id is unknown: "id" is null. Clients do not accept an error without the member. */
static void answer_refusal(struct server_request *request, const struct answers_problem *problem) {
        json_t *json = json_checked(
                json_pack("{s:s, s:n, s:{s:i, s:o, s:{s:s, s:i}}}", "jsonrpc", "2.0", "id", "error", "code",
                          problem->status >= 500 ? MCP_INTERNAL_ERROR : MCP_INVALID_REQUEST, "message",
                          json_from_text(arena_printf(request->arena, "%s: %s%s%s", problem->code,
                                                      problem->detail, problem->remedy ? ": " : "",
                                                      problem->remedy ? problem->remedy : "")),
                          "data", "code", problem->code, "status", (int)problem->status));

        answers_json(request, problem->status, json);
}

const struct answers_form mcp_form = { is_asked, answer_refusal, NULL };

static void accept_message(struct server_request *request) {
        server_answer(request, 202, NULL, "", 0);
}

/* --- methods --- */

struct served {
        struct mcp_call call;
        const char *mcp_session; /* "": none */
};

static json_t *capabilities_json(void) {
        return json_checked(json_pack("{s:{}, s:{}}", "tools", "resources"));
}

/*
 * How long it may be kept, and in whose cache: all of it is of one owner, or names what one client
 * may choose.
 */
static json_t *with_cache(const struct mcp_message *message, json_t *result, json_int_t ttl_ms) {
        if (message->newest) {
                json_put(result, "ttlMs", json_integer(ttl_ms));
                json_set_text(result, "cacheScope", "private");
        }
        return result;
}

static int discover(struct served *served, json_t **ret, struct mcp_fault *fault) {
        (void)fault;
        *ret = json_checked(json_pack("{s:[s], s:o, s:s}", "supportedVersions", MCP_VERSION, "capabilities",
                                      capabilities_json(), "instructions", instructions));
        *ret = with_cache(served->call.message, *ret, LISTS_TTL_MS);
        return 0;
}

static int initialize(struct served *served, json_t **ret, struct mcp_fault *fault) {
        const char *wanted = json_text(served->call.message->params, "protocolVersion");
        const struct mcp_call *call = &served->call;

        if (!wanted)
                return mcp_fault_set(fault, MCP_INVALID_PARAMS, 400, "initialize needs protocolVersion");
        server_add_header(call->request, "Mcp-Session-Id",
                          mcp_session_make(call->caller.client, call->caller.owner, call->request->arena));
        *ret = json_checked(json_pack("{s:s, s:o, s:o, s:s}", "protocolVersion",
                                      mcp_version_is_before(wanted) ? wanted : MCP_VERSION_BEFORE,
                                      "capabilities", capabilities_json(), "serverInfo", mcp_message_server(),
                                      "instructions", instructions));
        return 0;
}

static int ping(struct served *served, json_t **ret, struct mcp_fault *fault) {
        (void)served;
        (void)fault;
        *ret = json_checked(json_object());
        return 0;
}

static int fail_problem(const struct served *served, const struct problem *problem, struct mcp_fault *fault) {
        bool absent = problem->code == PROBLEM_NOT_FOUND;
        enum mcp_code code = problem_status(problem->code) >= 500      ? MCP_INTERNAL_ERROR
                             : absent && !served->call.message->newest ? MCP_RESOURCE_NOT_FOUND
                                                                       : MCP_INVALID_PARAMS;

        return mcp_fault_set(fault, code, 200, "%s: %s",
                             absent ? "Resource not found" : problem_name(problem->code), problem->detail);
}

static int no_cursor(const struct served *served, struct mcp_fault *fault) {
        if (!json_object_get(served->call.message->params, "cursor"))
                return 0;
        return mcp_fault_set(fault, MCP_INVALID_PARAMS, 200,
                             "the list has one page: there is no such cursor");
}

/* Without containers, or without commands on the host, no caller has their rights. */
static unsigned rights_of(const struct served *served) {
        const struct call *call = served->call.call;

        unsigned missing = call->broker->approvals ? 0U : (unsigned)BROKER_SHELL;

        if (!broker_sessions_containers(call->broker->sessions))
                missing |= (unsigned)BROKER_CONTAINERS;
        return call->door.rights & ~missing;
}

static int list_tools(struct served *served, json_t **ret, struct mcp_fault *fault) {
        struct problem problem;
        const char *names;
        size_t count;

        if (no_cursor(served, fault) < 0)
                return -1;
        if (mcp_sessions_environments(&served->call, &names, &count, &problem) < 0)
                return fail_problem(served, &problem, fault);
        *ret = json_checked(json_pack(
                "{s:o}", "tools",
                mcp_tools_json(count ? names : NULL, rights_of(served), served->call.request->arena)));
        *ret = with_cache(served->call.message, *ret, LISTS_TTL_MS);
        return 0;
}

static int list_resources(struct served *served, json_t **ret, struct mcp_fault *fault) {
        const json_t *cursor = json_object_get(served->call.message->params, "cursor");
        struct problem problem;

        if (cursor &&
            (!json_is_string(cursor) || strlen(json_string_value(cursor)) != json_string_length(cursor)))
                return mcp_fault_set(fault, MCP_INVALID_PARAMS, 200, "cursor must be a text");
        if (mcp_files_resources(&served->call, json_string_value(cursor), ret, &problem) < 0)
                return fail_problem(served, &problem, fault);
        *ret = with_cache(served->call.message, *ret, 0);
        return 0;
}

static int list_templates(struct served *served, json_t **ret, struct mcp_fault *fault) {
        if (no_cursor(served, fault) < 0)
                return -1;
        *ret = json_checked(json_pack("{s:[{s:s, s:s, s:s, s:s}]}", "resourceTemplates", "uriTemplate",
                                      "berth://workspaces/{session}/{+path}", "name", "workspace-file",
                                      "title", "A file of a workspace", "description",
                                      "A file that code of the session wrote, at most 4 MiB."));
        *ret = with_cache(served->call.message, *ret, LISTS_TTL_MS);
        return 0;
}

static int read_resource(struct served *served, json_t **ret, struct mcp_fault *fault) {
        const json_t *uri = json_object_get(served->call.message->params, "uri");
        struct problem problem;

        if (!json_is_string(uri) || strlen(json_string_value(uri)) != json_string_length(uri))
                return mcp_fault_set(fault, MCP_INVALID_PARAMS, 200, "resources/read needs uri, a text");
        if (mcp_files_resource(&served->call, json_string_value(uri), ret, &problem) < 0) {
                (void)fail_problem(served, &problem, fault);
                fault->uri = json_string_value(uri);
                return -1;
        }
        *ret = with_cache(served->call.message, *ret, 0);
        return 0;
}

/* Answers the request itself where it returns 1. */
static int call_tool(struct served *served, json_t **ret, struct mcp_fault *fault) {
        const json_t *name = json_object_get(served->call.message->params, "name");
        json_t *arguments = json_object_get(served->call.message->params, "arguments"),
               *none JSON_CLEANUP = json_checked(json_object());
        const struct mcp_tool *tool =
                json_is_string(name) ? mcp_tool_find(json_string_value(name), rights_of(served)) : NULL;
        struct mcp_answer answer = { 0 };
        struct problem problem;

        if (!tool)
                return mcp_fault_set(fault, MCP_INVALID_PARAMS, 200, "Unknown tool: %.100s",
                                     json_is_string(name) ? json_string_value(name) : "it has no name");
        if (arguments && !json_is_object(arguments))
                return mcp_fault_set(fault, MCP_INVALID_PARAMS, 200, "arguments must be an object");
        if (!arguments)
                arguments = none;
        if (mcp_tool_check(tool, arguments, served->call.request->arena, &served->call.note, &problem) < 0) {
                *ret = mcp_tool_problem(&problem);
        } else if (!tool->answer) {
                mcp_run_answer(&served->call, served->call.message, arguments, served->mcp_session);
                return 1;
        } else {
                if (tool->answer(&served->call, arguments, &answer, &problem) < 0) {
                        *ret = mcp_tool_problem(&problem);
                        return 0;
                }
                if (tool->text && answer.data && !answer.asks)
                        answer.text = tool->text(answer.data);
                *ret = mcp_tool_result(&answer, served->call.note);
        }
        return 0;
}

enum { BEFORE = 1 << 0, NEWEST = 1 << 1 };

static const struct method {
        const char *name;
        unsigned eras, rights; /* of enum broker_right: one of them; 0: none is needed */
        int (*serve)(struct served *served, json_t **ret, struct mcp_fault *fault);
} methods[] = {
        { "server/discover", NEWEST, 0, discover },
        { "initialize", BEFORE, 0, initialize },
        { "ping", BEFORE, 0, ping },
        { "tools/list", BEFORE | NEWEST, 0, list_tools },
        { "tools/call", BEFORE | NEWEST, 0, call_tool },
        { "resources/list", BEFORE | NEWEST, BROKER_EXECUTE, list_resources },
        { "resources/templates/list", BEFORE | NEWEST, BROKER_EXECUTE, list_templates },
        { "resources/read", BEFORE | NEWEST, BROKER_EXECUTE, read_resource },
};

static void serve_request(struct served *served) {
        const struct mcp_message *message = served->call.message;
        struct mcp_fault fault;
        json_t *result;
        int served_by = -1;

        (void)mcp_fault_set(&fault, MCP_METHOD_NOT_FOUND, message->newest ? 404 : 200, "Method not found");
        for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
                if (strcmp(methods[i].name, message->method) == 0 &&
                    methods[i].eras & (message->newest ? NEWEST : BEFORE) &&
                    (!methods[i].rights || methods[i].rights & rights_of(served)))
                        served_by = methods[i].serve(served, &result, &fault);
        }
        if (served_by < 0)
                mcp_answer_fault(served->call.request, message, &fault);
        else if (served_by == 0)
                mcp_answer_result(served->call.request, message, result);
}

/* An unknown notification, or one without a meaning here, is ignored, as the revisions say. */
static void take_notification(struct served *served) {
        const struct mcp_message *message = served->call.message;
        const struct mcp_call *call = &served->call;
        const struct mcp_flight wanted = { .client = call->caller.client,
                                           .owner = call->caller.owner,
                                           .mcp_session = served->mcp_session,
                                           .id = json_object_get(message->params, "requestId") };

        if (wanted.id && strcmp(message->method, "notifications/cancelled") == 0)
                mcp_flight_cancel(call->call->engine, &call->caller, &wanted);
        accept_message(call->request);
}

/* --- the route --- */

/* Answers and is false if the message has no session, or another client's. */
static bool find_session(struct served *served) {
        struct server_request *request = served->call.request;
        const struct engine_caller *caller = &served->call.caller;
        const char *id = server_header(request, "Mcp-Session-Id");
        struct mcp_fault fault;

        if (served->call.message->newest || !server_has_header(request, "Mcp-Session-Id") ||
            (served->call.message->method && strcmp(served->call.message->method, "initialize") == 0))
                return true;
        if (id && mcp_session_is_of(id, caller->client, caller->owner, request->arena)) {
                served->mcp_session = id;
                return true;
        }
        (void)mcp_fault_set(&fault, MCP_INVALID_REQUEST, 404, "Session not found: begin with initialize");
        mcp_answer_fault(request, served->call.message, &fault);
        return false;
}

static void serve_message(struct served *served, const struct mcp_headers *headers) {
        struct server_request *request = served->call.request;
        struct mcp_fault fault;

        if (!find_session(served))
                return;
        switch (served->call.message->kind) {
        case MCP_REQUEST:
                if (mcp_message_check(served->call.message, headers, &fault) < 0)
                        mcp_answer_fault(request, served->call.message, &fault);
                else
                        serve_request(served);
                break;
        case MCP_NOTIFICATION:
                take_notification(served);
                break;
        case MCP_RESPONSE:
        default:
                accept_message(request);
                break;
        }
}

/* False where the request was answered. */
static bool read_conversation(struct server_request *request, const char **ret) {
        const char *name = server_header(request, "Berth-Conversation");

        if (!name && server_has_header(request, "Berth-Conversation"))
                return call_refuse_value(request, "the header Berth-Conversation may stand once");
        *ret = name && *name ? name : NULL;
        return true;
}

static void answer_message(struct server_request *request) {
        const struct mcp_headers headers = { server_header(request, "MCP-Protocol-Version"),
                                             server_header(request, "Mcp-Method"),
                                             server_header(request, "Mcp-Name") };
        struct mcp_message *message = arena_alloc(request->arena, sizeof(*message));
        struct call *call = call_of(request);
        struct served served = {
                .call = { .request = request, .call = call, .caller = call->caller, .message = message },
                .mcp_session = ""
        };
        struct mcp_fault fault;
        const json_t *json;
        const char *why;

        *message = (struct mcp_message){ .kind = MCP_NOTIFICATION };
        served.call.caller.observes = served.call.caller.ends_any = false;
        if (!call->caller.owner) {
                (void)call_refuse_value(request, "name the user in the header Berth-Owner");
                return;
        }
        if (!read_conversation(request, &served.call.conversation))
                return;
        if (!body_is_said_json(request)) {
                (void)call_refuse_value(request, "the body must be JSON: Content-Type: application/json");
                return;
        }
        json = body_parse(&call->body, request, &why);
        if (!json && !why)
                return;
        if (!json) {
                (void)mcp_fault_set(&fault, MCP_PARSE_ERROR, 400, "Parse error: %s", why);
                answers_json(request, fault.status, mcp_message_fault(NULL, &fault));
        } else if (mcp_message_read(json, &headers, message, &fault) < 0) {
                answers_json(request, fault.status, mcp_message_fault(message->id, &fault));
        } else {
                serve_message(&served, &headers);
        }
}

const struct server_route mcp_routes[] = {
        { .method = "POST",
          .path = MCP_PATH,
          .answer = answer_message,
          CALL_WITH_JSON(BROKER_EXECUTE | BROKER_CONTAINERS | BROKER_SHELL) },
};
const size_t mcp_route_count = sizeof(mcp_routes) / sizeof(mcp_routes[0]);
