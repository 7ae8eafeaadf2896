/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions and executions over HTTP: what comes is put into the engine's terms, and what it says is handed on. */
#include "broker/api_sessions.h"

#include "base/json.h"
#include "base/strbuf.h"
#include "broker/answers.h"
#include "broker/call.h"
#include "broker/events.h"
#include "broker/execute.h"
#include "server/head.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NUMBER_DIGITS 10 /* of executions */

/* --- sessions --- */

static void answer_create(struct server_request *request) {
        struct call *call = call_of(request);
        static const struct body_member members[] = {
                { "environment", JSON_STRING }, { "agent", JSON_STRING },     { "conversation", JSON_STRING },
                { "labels", JSON_OBJECT },      { "variables", JSON_OBJECT }, { "idleSeconds", JSON_INTEGER },
                { "ttlSeconds", JSON_INTEGER }, { NULL, JSON_NULL },
        };
        struct engine_wish wish;
        struct problem problem;
        const json_t *body;
        json_t *session;
        int made;

        if (!(body = body_object(&call->body, request, members)))
                return;
        wish = (struct engine_wish){
                .environment = json_text(body, "environment"),
                .agent = json_text(body, "agent"),
                .conversation = json_text(body, "conversation"),
                .labels = call_object(body, "labels"),
                .variables = call_object(body, "variables"),
        };
        if (!call_seconds(request, body, "idleSeconds", &wish.idle_seconds) ||
            !call_seconds(request, body, "ttlSeconds", &wish.ttl_seconds) ||
            !call_once(request, call->body.hash, &wish.once))
                return;
        made = engine_create(call->engine, &call->caller, &wish, &session, &problem);
        if (made < 0)
                answers_refusal(request, &problem);
        else
                answers_json(request, made ? 201 : 200, session);
}

static void answer_session(struct server_request *request) {
        struct call *call = call_of(request);
        struct problem problem;
        json_t *session;

        if (engine_show(call->engine, &call->caller, request->parameters[0], &session, &problem) < 0)
                answers_refusal(request, &problem);
        else
                answers_json(request, 200, session);
}

static void answer_patch(struct server_request *request) {
        struct call *call = call_of(request);
        static const struct body_member members[] = {
                { "labels", JSON_OBJECT },
                { "idleSeconds", JSON_INTEGER },
                { "ttlSeconds", JSON_INTEGER },
                { NULL, JSON_NULL },
        };
        struct engine_patch patch;
        struct problem problem;
        const json_t *body;
        json_t *session;

        if (!(body = body_object(&call->body, request, members)))
                return;
        patch = (struct engine_patch){ .labels = call_object(body, "labels") };
        if (!call_seconds(request, body, "idleSeconds", &patch.idle_seconds) ||
            !call_seconds(request, body, "ttlSeconds", &patch.ttl_seconds))
                return;
        if (engine_patch(call->engine, &call->caller, request->parameters[0], &patch, &session, &problem) < 0)
                answers_refusal(request, &problem);
        else
                answers_json(request, 200, session);
}

static void answer_end(struct server_request *request) {
        struct call *call = call_of(request);
        struct problem problem;

        if (engine_end(call->engine, &call->caller, request->parameters[0], &problem) < 0)
                answers_refusal(request, &problem);
        else
                answers_nothing(request);
}

/* --- lists --- */

static void answer_list(struct server_request *request) {
        struct call *call = call_of(request);
        struct call_filter filters[] = { { .name = "status", .most = CALL_FILTERS_MAX },
                                         { .name = "environment", .most = CALL_FILTERS_MAX },
                                         { .name = "agent", .most = CALL_FILTERS_MAX },
                                         { .name = "label", .most = CALL_FILTERS_MAX },
                                         { .name = NULL } };
        struct call_query query = { .filters = filters };
        struct engine_filter filter;
        struct problem problem;
        json_t *list;

        if (!call_query(request, &query))
                return;
        filter = (struct engine_filter){ .statuses = filters[0].texts,
                                         .environments = filters[1].texts,
                                         .agents = filters[2].texts,
                                         .labels = filters[3].texts,
                                         .all_owners = call->caller.observes,
                                         .limit = query.limit,
                                         .cursor = query.cursor };
        if (engine_list(call->engine, &call->caller, &filter, &list, &problem) < 0)
                answers_refusal(request, &problem);
        else
                answers_json(request, 200, list);
}

static void answer_history(struct server_request *request) {
        struct call *call = call_of(request);
        struct call_query query = { .limit = 0 };
        struct problem problem;
        json_t *list;

        if (!call_query(request, &query))
                return;
        if (engine_history(call->engine, &call->caller, request->parameters[0], query.limit, query.cursor,
                           &list, &problem) < 0)
                answers_refusal(request, &problem);
        else
                answers_json(request, 200, list);
}

/* --- executions --- */

/* The number of an execution; 0 for what is none, which no execution has. */
static int64_t number_of(const char *text) {
        size_t length = strlen(text);

        if (length < 1 || length > NUMBER_DIGITS || strspn(text, "0123456789") != length || *text == '0')
                return 0;
        return strtoll(text, NULL, 10);
}

static void answer_result_of(struct server_request *request, const struct call *call, unsigned status,
                             int64_t n) {
        struct problem problem;
        json_t *result;

        if (engine_result(call->engine, &call->caller, request->parameters[0], n, &result, &problem) < 0)
                answers_refusal(request, &problem);
        else
                answers_json(request, status, result);
}

static void answer_result(struct server_request *request) {
        answer_result_of(request, call_of(request), 200, number_of(request->parameters[1]));
}

static void answer_events(struct server_request *request) {
        struct call *call = call_of(request);
        const char *from = server_query(request, "from");
        struct engine_follower *follower;
        struct problem problem;

        if (request->query_count > (from ? 1U : 0U) ||
            (from && strcmp(from, "0") != 0 && number_of(from) == 0)) {
                (void)call_refuse_value(request, "the query may have from, the id of an event");
                return;
        }
        if (engine_follow(call->engine, &call->caller, request->parameters[0],
                          number_of(request->parameters[1]), from ? number_of(from) : 0, &follower,
                          &problem) < 0)
                answers_refusal(request, &problem);
        else
                events_answer(request, follower, NULL, NULL);
}

static void answer_interrupt(struct server_request *request) {
        struct call *call = call_of(request);
        static const struct body_member none[] = { { NULL, JSON_NULL } };
        struct problem problem;

        if (!body_object(&call->body, request, none))
                return;
        if (engine_interrupt(call->engine, &call->caller, request->parameters[0],
                             number_of(request->parameters[1]), &problem) < 0)
                answers_refusal(request, &problem);
        else
                answers_nothing(request);
}

static void answer_restart(struct server_request *request) {
        struct call *call = call_of(request);
        static const struct body_member members[] = { { "context", JSON_STRING }, { NULL, JSON_NULL } };
        struct problem problem;
        const json_t *body;

        if (!(body = body_object(&call->body, request, members)))
                return;
        if (engine_restart(call->engine, &call->caller, request->parameters[0], json_text(body, "context"),
                           &problem) < 0)
                answers_refusal(request, &problem);
        else
                answers_nothing(request);
}

/* Whether it is not on its way there any more; false where there is nobody to answer, or he was answered. */
static bool await_parked(struct server_request *request, const struct call *call) {
        const char *id = request->parameters[0];
        struct engine_follower *follower;
        struct engine_event event;
        struct problem problem;
        bool there = true;

        if (engine_follow_session(call->engine, &call->caller, id, &follower, &problem) < 0)
                return call_refuse(request, &problem);
        while (there && engine_is_parking(call->engine, &call->caller, id)) {
                if (engine_follower_next(follower, &event) == ENGINE_EVENT) {
                        json_decref(event.data);
                        continue;
                }
                switch (server_wait(request, engine_follower_descriptor(follower), POLLIN, -1)) {
                case SERVER_LEFT:
                        there = false;
                        break;
                case SERVER_STOPS:
                        (void)problem_set(&problem, PROBLEM_STOPPING, "the session is being parked");
                        there = call_refuse(request, &problem);
                        break;
                case SERVER_TIME:
                case SERVER_READY:
                default:
                        break;
                }
        }
        engine_follower_close(follower);
        return there;
}

static void answer_park(struct server_request *request) {
        static const struct body_member none[] = { { NULL, JSON_NULL } };
        struct call *call = call_of(request);
        bool waits = !call_header_has(request, "Prefer", "respond-async");
        struct problem problem;
        json_t *session;

        if (!body_object(&call->body, request, none))
                return;
        if (engine_park(call->engine, &call->caller, request->parameters[0], &problem) < 0) {
                answers_refusal(request, &problem);
                return;
        }
        if (waits && !await_parked(request, call))
                return;
        if (engine_show(call->engine, &call->caller, request->parameters[0], &session, &problem) < 0)
                answers_refusal(request, &problem);
        else
                answers_json(request, waits ? 200 : 202, session);
}

static void answer_all_events(struct server_request *request) {
        const struct call *call = call_of(request);
        struct engine_follower *follower;

        if (!call->caller.observes && !call->caller.owner) {
                (void)call_refuse_value(request, "name the user in the header Berth-Owner");
                return;
        }
        engine_follow_all(call->engine, &call->caller, &follower);
        events_answer(request, follower, NULL, NULL);
}

const struct server_route api_sessions_routes[] = {
        { .method = "POST", .path = "/v1/sessions", .answer = answer_create, CALL_WITH_JSON(BROKER_EXECUTE) },
        { .method = "GET",
          .path = "/v1/sessions",
          .answer = answer_list,
          CALL(BROKER_EXECUTE | BROKER_OBSERVE) },
        { .method = "GET",
          .path = "/v1/sessions/{id}",
          .answer = answer_session,
          CALL(BROKER_EXECUTE | BROKER_OBSERVE | BROKER_ADMINISTER) },
        { .method = "PATCH",
          .path = "/v1/sessions/{id}",
          .answer = answer_patch,
          CALL_WITH_JSON(BROKER_EXECUTE) },
        { .method = "DELETE",
          .path = "/v1/sessions/{id}",
          .answer = answer_end,
          CALL(BROKER_EXECUTE | BROKER_ADMINISTER) },
        { .method = "POST",
          .path = "/v1/sessions/{id}/restart",
          .answer = answer_restart,
          CALL_WITH_JSON(BROKER_EXECUTE) },
        { .method = "POST",
          .path = "/v1/sessions/{id}/park",
          .answer = answer_park,
          CALL_WITH_JSON(BROKER_EXECUTE) },
        { .method = "GET",
          .path = "/v1/events",
          .answer = answer_all_events,
          CALL(BROKER_EXECUTE | BROKER_OBSERVE) },
        { .method = "POST",
          .path = "/v1/sessions/{id}/executions",
          .mark = BROKER_EXECUTE,
          .body_max = CALL_TRANSFER_MAX,
          .begin = execute_begin,
          .take = execute_take,
          .answer = execute_answer,
          .end = execute_end },
        { .method = "POST",
          .path = "/v1/execute",
          .mark = BROKER_EXECUTE,
          .body_max = BODY_MAX,
          .begin = execute_begin_alone,
          .take = execute_take,
          .answer = execute_answer,
          .end = execute_end },
        { .method = "GET",
          .path = "/v1/sessions/{id}/executions",
          .answer = answer_history,
          CALL(BROKER_EXECUTE) },
        { .method = "GET",
          .path = "/v1/sessions/{id}/executions/{n}",
          .answer = answer_result,
          CALL(BROKER_EXECUTE) },
        { .method = "GET",
          .path = "/v1/sessions/{id}/executions/{n}/events",
          .answer = answer_events,
          CALL(BROKER_EXECUTE) },
        { .method = "POST",
          .path = "/v1/sessions/{id}/executions/{n}/interrupt",
          .answer = answer_interrupt,
          CALL_WITH_JSON(BROKER_EXECUTE) },
};
const size_t api_sessions_route_count = sizeof(api_sessions_routes) / sizeof(api_sessions_routes[0]);
