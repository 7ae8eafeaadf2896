/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/e2b/e2b_call.h"

#include "base/json.h"
#include "base/strbuf.h"
#include "broker/e2b/e2b_token.h"
#include "broker/request/answers.h"
#include "sessions/workspace_tree.h"

#include <string.h>

static const char access_header[] = "X-Access-Token", traffic_header[] = "E2B-Traffic-Access-Token";

static struct e2b *e2b_of(const struct server_request *request) {
        return ((const struct broker *)request->context)->e2b;
}

static bool refuse(struct server_request *request, unsigned status, const char *message) {
        e2b_answer_error(request, status, message);
        return false;
}

/* Whatever else a client may see or end: here it acts for this owner alone. */
static bool enter(struct server_request *request, const struct door_caller *caller) {
        if (!call_admit_as(request, caller))
                return false;
        if (!caller->owner)
                return refuse(request, 400, "name the user in the header Berth-Owner");
        call_of(request)->caller.observes = call_of(request)->caller.ends_any = false;
        return true;
}

void e2b_call_begin(struct server_request *request) {
        const struct broker *broker = request->context;
        const char *key = server_header(request, "X-API-Key");
        struct door_refusal refusal;
        struct door_caller caller;

        if (!key)
                (void)refuse(request, 401, "send a client's token as E2B_API_KEY: the request has none");
        else if (door_admit_token(broker->door, request, key, &caller, &refusal))
                (void)!enter(request, &caller);
        else
                answers_refuse(request, refusal.code, refusal.detail);
}

void e2b_call_end(struct server_request *request) {
        if (call_of(request))
                call_end(request);
}

const char *e2b_call_sandbox(const struct server_request *request) {
        return server_header(request, "E2b-Sandbox-Id");
}

/* The SDK tells a sandbox that is gone by this status, and these words. */
static bool refuse_gone(struct server_request *request) {
        return refuse(request, 502, "The sandbox was not found");
}

bool e2b_call_is_paused(const json_t *session) {
        const char *status = json_text(session, "status");

        return status && strcmp(status, "parked") == 0 &&
               json_integer_or(session, "ttlSeconds", 0) == ENGINE_AGE_MAX;
}

/* The two ports that sandboxes of E2B's have; what else listens in one is behind no route. */
static bool is_port(const struct server_request *request) {
        const char *port = server_header(request, "E2b-Sandbox-Port");

        return !server_has_header(request, "E2b-Sandbox-Port") ||
               (port && (strcmp(port, "49999") == 0 || strcmp(port, "49983") == 0));
}

static bool enter_sandbox(struct server_request *request, const char *sandbox) {
        const struct call *call = call_of(request);
        struct problem problem;
        json_t *session;
        bool paused;

        if (engine_show(call->engine, &call->caller, sandbox, &session, &problem) < 0)
                return problem.code == PROBLEM_NOT_FOUND ? refuse_gone(request)
                                                         : call_refuse(request, &problem);
        paused = e2b_call_is_paused(session);
        json_decref(session);
        return !paused ||
               refuse(request, 502,
                      "The sandbox was not found among those that run: it is paused, connect to it");
}

static bool admit(struct server_request *request, enum e2b_token_kind kind) {
        const struct broker *broker = request->context;
        const char *sandbox = e2b_call_sandbox(request),
                   *header = kind == E2B_TOKEN_ACCESS ? access_header : traffic_header,
                   *token = server_header(request, header), *owner;
        const struct broker_client *client;
        struct door_refusal refusal;
        struct door_caller caller;

        if (!token)
                return refuse(request, 401, "the request has no token of a sandbox");
        if (!sandbox || !e2b_token_check(e2b_of(request)->key, kind, broker->door, token, sandbox,
                                         request->arena, &client, &owner))
                return refuse_gone(request);
        if (!is_port(request))
                return refuse(request, 501, "ports of a sandbox cannot be reached from outside");
        if (!door_admit_again(broker->door, request, client, owner, &caller, &refusal)) {
                answers_refuse(request, refusal.code, refusal.detail);
                return false;
        }
        return enter(request, &caller) && enter_sandbox(request, sandbox);
}

void e2b_call_begin_by_access(struct server_request *request) {
        (void)!admit(request, E2B_TOKEN_ACCESS);
}

void e2b_call_begin_by_traffic(struct server_request *request) {
        (void)!admit(request, E2B_TOKEN_TRAFFIC);
}

bool e2b_call_admit_by_access(struct server_request *request) {
        return admit(request, E2B_TOKEN_ACCESS);
}

/* --- bodies --- */

static const char *type_name(json_type type) {
        switch (type) {
        case JSON_STRING:
                return "a text";
        case JSON_INTEGER:
                return "an integer";
        case JSON_OBJECT:
                return "an object";
        case JSON_ARRAY:
                return "a list";
        default:
                return "true or false";
        }
}

static const char *wrong_of(const json_t *body, const struct e2b_member *member, struct arena *arena) {
        const json_t *value = json_object_get(body, member->name);
        bool fits;

        if (!value || json_is_null(value))
                return member->required ? arena_printf(arena, "%s is missing", member->name) : NULL;
        fits = member->type == JSON_TRUE ? json_is_boolean(value) : json_typeof(value) == member->type;
        if (fits && json_is_string(value) && strcmp(member->name, "code") != 0 &&
            strlen(json_string_value(value)) != json_string_length(value))
                return arena_printf(arena, "%s has a NUL", member->name);
        return fits ? NULL : arena_printf(arena, "%s must be %s", member->name, type_name(member->type));
}

const json_t *e2b_call_body(struct server_request *request, const struct e2b_member *members) {
        struct body *body = &call_of(request)->body;
        const char *wrong = NULL;

        digest_sha256_hex(strbuf_text(&body->text), body->text.length, body->hash);
        if (body->text.length == 0) {
                body->json = json_checked(json_object());
        } else if (!body_is_said_json(request)) {
                body_refuse_type(request);
                return NULL;
        } else if (!body_parse(body, request, &wrong) && !wrong) {
                return NULL;
        }
        if (!wrong && !json_is_object(body->json))
                wrong = "the body must be one JSON object, each member of which stands once";
        for (; !wrong && members->name; members++)
                wrong = wrong_of(body->json, members, request->arena);
        if (wrong)
                e2b_answer_error(request, 400, wrong);
        return wrong ? NULL : body->json;
}

/* --- paths --- */

static bool has_dots(const char *path) {
        for (const char *at = path; at; at = strchr(at, '/')) {
                at += *at == '/';
                if (strcspn(at, "/") == 2 && memcmp(at, "..", 2) == 0)
                        return true;
        }
        return false;
}

int e2b_call_path(const char *path, struct arena *arena, const char **ret, struct problem *problem) {
        static const char *const roots[] = { E2B_FOLDER, "/home/user", NULL };
        const char *plain = workspace_path_plain(path, roots, arena);

        if (*path == '\0')
                return problem_set(problem, PROBLEM_INVALID, "the path is empty");
        if (*plain == '/')
                return problem_set(problem, PROBLEM_INVALID,
                                   "the path is outside of the sandbox's files, which are in " E2B_FOLDER);
        if (has_dots(plain))
                return problem_set(problem, PROBLEM_INVALID, "the path has a \"..\"");
        *ret = plain;
        return 0;
}
