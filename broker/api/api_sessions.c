/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions and executions over HTTP: what comes is put into the engine's terms, and what it says is handed on. */
#include "broker/api/api.h"

#include "base/json.h"
#include "base/strbuf.h"
#include "broker/api/shapes.h"
#include "broker/request/answers.h"
#include "broker/request/call.h"
#include "broker/request/events.h"
#include "broker/work/approvals.h"
#include "broker/work/execute.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NUMBER_DIGITS 10 /* of executions */

/* --- sessions --- */

static void answer_create(struct server_request *request) {
        struct call *call = call_of(request);
        struct engine_wish wish;
        struct problem problem;
        const json_t *body;
        json_t *session;
        int made;

        if (!(body = body_object(&call->body, request)))
                return;
        wish = (struct engine_wish){
                .environment = json_text(body, "environment"),
                .agent = json_text(body, "agent"),
                .conversation = json_text(body, "conversation"),
                .labels = call_object(body, "labels"),
                .variables = call_object(body, "variables"),
                .idle_seconds = json_integer_or(body, "idleSeconds", 0),
                .ttl_seconds = json_integer_or(body, "ttlSeconds", 0),
                .once = call_once(request, call->body.hash),
        };
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
        struct engine_patch patch;
        struct problem problem;
        const json_t *body;
        json_t *session;

        if (!(body = body_object(&call->body, request)))
                return;
        patch = (struct engine_patch){ .labels = call_object(body, "labels"),
                                       .idle_seconds = json_integer_or(body, "idleSeconds", 0),
                                       .ttl_seconds = json_integer_or(body, "ttlSeconds", 0) };
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
        const struct engine_filter filter = { .statuses = call_texts(request, "status"),
                                              .environments = call_texts(request, "environment"),
                                              .agents = call_texts(request, "agent"),
                                              .labels = call_texts(request, "label"),
                                              .all_owners = call->caller.observes,
                                              .limit = call_limit(call),
                                              .cursor = json_text(call->query, "cursor") };
        struct problem problem;
        json_t *list;

        if (engine_list(call->engine, &call->caller, &filter, &list, &problem) < 0)
                answers_refusal(request, &problem);
        else
                answers_json(request, 200, list);
}

static void answer_history(struct server_request *request) {
        struct call *call = call_of(request);
        struct problem problem;
        json_t *list;

        if (engine_history(call->engine, &call->caller, request->parameters[0], call_limit(call),
                           json_text(call->query, "cursor"), &list, &problem) < 0)
                answers_refusal(request, &problem);
        else
                answers_json(request, 200, list);
}

/* --- executions --- */

/* The number of an execution; 0 for an invalid one, which no execution has. */
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

/* The first event that is wanted. The header comes from a client that goes on, and wins: its query is the one that it began with. */
static int64_t first_event(struct server_request *request) {
        const char *seen = server_header(request, "Last-Event-ID");

        return seen ? strtoll(seen, NULL, 10) + 1 : json_integer_or(call_of(request)->query, "from", 0);
}

static void answer_events(struct server_request *request) {
        struct call *call = call_of(request);
        struct engine_follower *follower;
        struct problem problem;

        if (engine_follow(call->engine, &call->caller, request->parameters[0],
                          number_of(request->parameters[1]), first_event(request), &follower, &problem) < 0)
                answers_refusal(request, &problem);
        else
                events_answer(request, follower, NULL, NULL);
}

static void answer_interrupt(struct server_request *request) {
        struct call *call = call_of(request);
        struct engine_once once;
        struct problem problem;
        int done;

        if (!body_object(&call->body, request))
                return;
        if (!call_once_begin(request, request->parameters[0], &once))
                return;
        done = engine_interrupt(call->engine, &call->caller, request->parameters[0],
                                number_of(request->parameters[1]), &problem);
        call_once_end(request, request->parameters[0], &once, 204, done < 0 ? NULL : json_null());
        if (done < 0)
                answers_refusal(request, &problem);
        else
                answers_nothing(request);
}

static void answer_restart(struct server_request *request) {
        struct call *call = call_of(request);
        struct engine_once once;
        struct problem problem;
        const json_t *body;
        int done;

        if (!(body = body_object(&call->body, request)) ||
            !call_once_begin(request, request->parameters[0], &once))
                return;
        done = engine_restart(call->engine, &call->caller, request->parameters[0], json_text(body, "context"),
                              &problem);
        call_once_end(request, request->parameters[0], &once, 204, done < 0 ? NULL : json_null());
        if (done < 0)
                answers_refusal(request, &problem);
        else
                answers_nothing(request);
}

static void answer_park(struct server_request *request) {
        struct call *call = call_of(request);
        bool waits = !call_header_has(request, "Prefer", "respond-async");
        struct engine_once once;
        struct problem problem;
        json_t *session = NULL;

        if (!body_object(&call->body, request) || !call_once_begin(request, request->parameters[0], &once))
                return;
        if (engine_park(call->engine, &call->caller, request->parameters[0], &problem) < 0) {
                call_once_end(request, request->parameters[0], &once, 0, NULL);
                answers_refusal(request, &problem);
                return;
        }
        /* Who asks again hears what the session is then, if this one's client does not wait for it. */
        if (waits && !execute_await_parked(request, request->parameters[0])) {
                call_once_end(request, request->parameters[0], &once, 0, NULL);
                return;
        }
        if (engine_show(call->engine, &call->caller, request->parameters[0], &session, &problem) < 0) {
                call_once_end(request, request->parameters[0], &once, 0, NULL);
                answers_refusal(request, &problem);
                return;
        }
        call_once_end(request, request->parameters[0], &once, waits ? 200 : 202, session);
        answers_json(request, waits ? 200 : 202, session);
}

static void answer_all_events(struct server_request *request) {
        const struct call *call = call_of(request);
        unsigned rights = call->door.rights, approvals = broker_approvals_followed(request, &call->door);
        struct engine_follower *follower;
        struct problem problem;

        if (!call->caller.observes && !call->caller.owner && !approvals) {
                (void)call_refuse_value(request, "name the user in the header Berth-Owner");
                return;
        }
        if (engine_follow_all(
                    call->engine, &call->caller,
                    (rights & (BROKER_EXECUTE | BROKER_OBSERVE) ? ENGINE_OF_SESSIONS : 0) |
                            (rights & (BROKER_CONTAINERS | BROKER_OBSERVE) ? ENGINE_OF_CONTAINERS : 0) |
                            approvals,
                    server_has_header(request, "Last-Event-ID"), &follower, &problem) < 0)
                answers_refusal(request, &problem);
        else
                events_answer(request, follower, NULL, NULL);
}

#define SESSIONS "Sessions"
#define EXECUTIONS "Executions"
#define JSON "application/json"

static const struct operation_answer create_answers[] = {
        { .status = 201,
          .doc = "The session was created; its sandbox is being started.",
          .type = JSON,
          .shape = &shape_session },
        { .status = 200,
          .doc = "The existing session of that conversation or key.",
          .type = JSON,
          .shape = &shape_session },
        { 0 },
};
static const struct operation_answer session_answers[] = {
        { .status = 200, .doc = "The session.", .type = JSON, .shape = &shape_session }, { 0 }
};
static const struct operation_answer sessions_answers[] = {
        { .status = 200,
          .doc = "Sessions, newest last.",
          .type = JSON,
          .shape = &shape_session,
          .list = true },
        { 0 },
};
static const struct operation_answer park_answers[] = {
        { .status = 200,
          .doc = "The session is parked, or stays as it is: `status` says which.",
          .type = JSON,
          .shape = &shape_session },
        { .status = 202, .doc = "The session is being parked.", .type = JSON, .shape = &shape_session },
        { 0 },
};
static const struct operation_answer nothing_answers[] = { { .status = 204, .doc = "Done." }, { 0 } };
static const struct operation_answer run_answers[] = {
        { .status = 200, .doc = "The session has ended.", .type = JSON, .shape = &shape_execution },
        { .status = 200,
          .doc = "The execution's events as they happen, the result as `done`.",
          .type = "text/event-stream",
          .events = &shape_execution_events },
        { .status = 200,
          .doc = "The result, and the files that `returnFiles` asked for as parts behind it.",
          .type = "multipart/mixed" },
        { .status = 202,
          .doc = "The execution waits or runs.",
          .type = JSON,
          .shape = &shape_execution_pending,
          .other = &shape_execution },
        { 0 },
};
static const struct operation_answer history_answers[] = {
        { .status = 200,
          .doc = "Executions, oldest first.",
          .type = JSON,
          .shape = &shape_execution_summary,
          .list = true },
        { 0 },
};
static const struct operation_answer result_answers[] = {
        { .status = 200,
          .doc = "The execution's result, as history keeps it, or its status while it has not ended.",
          .type = JSON,
          .shape = &shape_execution,
          .other = &shape_execution_pending },
        { 0 },
};
static const struct operation_answer stream_answers[] = {
        { .status = 200,
          .doc = "Events, each with `id`, `event` and `data`, which is JSON.",
          .type = "text/event-stream",
          .events = &shape_execution_events },
        { 0 },
};
static const struct operation_answer all_answers[] = {
        { .status = 200,
          .doc = "Events, each with `id`, `event` and `data`, which is JSON.",
          .type = "text/event-stream",
          .events = &shape_all_events },
        { 0 },
};

static const char *const create_problems[] = { "not-found", /* a key's, which has ended */
                                               "unknown-environment",
                                               "unknown-agent",
                                               "agent-out-of-service",
                                               "environment-unfit",
                                               "conflict",
                                               "too-large",
                                               "busy",
                                               "idempotency-key-reused",
                                               "idempotency-keys-full",
                                               "owner-limit",
                                               "server-limit",
                                               "agent-limit",
                                               "workspace-failed",
                                               "place-failed",
                                               "workspace-full",
                                               NULL };
static const char *const found_problems[] = { "not-found", NULL };
static const char *const end_problems[] = { "not-found", "workspace-failed", NULL };
static const char *const run_problems[] = { "not-found",
                                            "agent-out-of-service",
                                            "conflict",
                                            "too-large",
                                            "idempotency-key-reused",
                                            "idempotency-keys-full",
                                            "queue-full",
                                            "agent-limit",
                                            "workspace-failed",
                                            "place-failed",
                                            "busy",
                                            "workspace-full",
                                            NULL };
static const char *const alone_problems[] = { "not-found",
                                              "unknown-environment",
                                              "unknown-agent",
                                              "agent-out-of-service",
                                              "environment-unfit",
                                              "busy",
                                              "conflict",
                                              "too-large",
                                              "idempotency-key-reused",
                                              "idempotency-keys-full",
                                              "queue-full",
                                              "owner-limit",
                                              "server-limit",
                                              "agent-limit",
                                              "workspace-failed",
                                              "place-failed",
                                              "workspace-full",
                                              NULL };
static const char *const interrupt_problems[] = {
        "not-found", "not-running", "busy", "idempotency-key-reused", "idempotency-keys-full", NULL
};
static const char *const restart_problems[] = { "not-found",
                                                "agent-out-of-service",
                                                "busy",
                                                "place-failed",
                                                "idempotency-key-reused",
                                                "idempotency-keys-full",
                                                NULL };
static const char *const park_problems[] = { "not-found",
                                             "busy",
                                             "place-failed",
                                             "workspace-failed",
                                             "idempotency-key-reused",
                                             "idempotency-keys-full",
                                             NULL };

const struct operation api_sessions_operations[] = {
        { .route = { .method = "POST",
                     .path = "/v1/sessions",
                     .answer = answer_create,
                     CALL_WITH_JSON(BROKER_EXECUTE) },
          .id = "createSession",
          .tag = SESSIONS,
          .title = "Create a session",
          .doc = "A sandbox of one environment, for one owner. With a conversation, all requests "
                 "get the same session, under any race.",
          .headers = shape_once_headers,
          .body = &shape_session_wish,
          .example =
                  "{\"environment\": \"data\", \"conversation\": \"thesis\", \"labels\": {\"team\": \"blue\"}}",
          .answers = create_answers,
          .problems = create_problems },
        { .route = { .method = "GET",
                     .path = "/v1/sessions",
                     .answer = answer_list,
                     CALL(BROKER_EXECUTE | BROKER_OBSERVE) },
          .id = "listSessions",
          .tag = SESSIONS,
          .title = "List sessions",
          .doc = "The owner's sessions; every owner's for a client that may observe and names no "
                 "owner. Filters may stand several times.",
          .query = shape_sessions_query,
          .answers = sessions_answers },
        { .route = { .method = "GET",
                     .path = "/v1/sessions/{id}",
                     .answer = answer_session,
                     CALL(BROKER_EXECUTE | BROKER_OBSERVE | BROKER_ADMINISTER) },
          .id = "getSession",
          .tag = SESSIONS,
          .title = "Get a session",
          .answers = session_answers,
          .problems = found_problems },
        { .route = { .method = "PATCH",
                     .path = "/v1/sessions/{id}",
                     .answer = answer_patch,
                     CALL_WITH_JSON(BROKER_EXECUTE) },
          .id = "changeSession",
          .tag = SESSIONS,
          .title = "Change a session's labels and times",
          .doc = "Members that are left out stay as they are.",
          .body = &shape_session_patch,
          .example = "{\"idleSeconds\": 600}",
          .answers = session_answers,
          .problems = found_problems },
        { .route = { .method = "DELETE",
                     .path = "/v1/sessions/{id}",
                     .answer = answer_end,
                     CALL(BROKER_EXECUTE | BROKER_ADMINISTER) },
          .id = "endSession",
          .tag = SESSIONS,
          .title = "End a session",
          .doc = "Its processes are killed. Its workspace stays, with its history.",
          .answers = nothing_answers,
          .problems = end_problems },
        { .route = { .method = "POST",
                     .path = "/v1/sessions/{id}/restart",
                     .answer = answer_restart,
                     CALL_WITH_JSON(BROKER_EXECUTE) },
          .id = "restartSession",
          .tag = SESSIONS,
          .title = "Restart a session's kernel",
          .doc = "The next execution gets a fresh kernel; a running one is interrupted.",
          .headers = shape_once_headers,
          .body = &shape_restart,
          .example = "{\"context\": \"main\"}",
          .answers = nothing_answers,
          .problems = restart_problems },
        { .route = { .method = "POST",
                     .path = "/v1/sessions/{id}/park",
                     .answer = answer_park,
                     CALL_WITH_JSON(BROKER_EXECUTE) },
          .id = "parkSession",
          .tag = SESSIONS,
          .title = "Park a session",
          .doc = "Saves its variables beside its workspace and ends its sandbox; the next execution"
                 " restores them.",
          .headers = shape_run_headers,
          .body = &shape_nothing,
          .answers = park_answers,
          .problems = park_problems },
        { .route = { .method = "GET",
                     .path = "/v1/events",
                     .answer = answer_all_events,
                     CALL(BROKER_EXECUTE | BROKER_CONTAINERS | BROKER_OBSERVE | BROKER_SHELL |
                          BROKER_APPROVE) },
          .id = "followAll",
          .tag = SESSIONS,
          .title = "Follow sessions, containers and approvals",
          .doc = "From now on, of all that the client may see: `session` (the session, as its "
                 "status changes; `{id, owner, status: \"ended\"}`), `execution` (`{session, n, "
                 "status}`, as it begins and ends), `container` (`{id, owner, environment, agent, "
                 "status}`, as its status changes; `removed` at last), `approval` (`{id, owner, "
                 "agent, status}`, as its status changes, for clients that `/v1/approvals` shows it"
                 " to; a client that acts for users names one), `missed` where more happened than "
                 "is kept, and first for a client that reconnects (`Last-Event-ID`). It goes on "
                 "until the client leaves.",
          .headers = shape_again_headers,
          .answers = all_answers },
        { .route = { .method = "POST",
                     .path = "/v1/sessions/{id}/executions",
                     .mark = BROKER_EXECUTE,
                     .body_max = CALL_TRANSFER_MAX,
                     .begin = execute_begin,
                     .take = execute_take,
                     .answer = execute_answer,
                     .end = execute_end },
          .id = "execute",
          .tag = EXECUTIONS,
          .title = "Execute code in a session",
          .doc = "One execution runs at a time, eight wait in line. The answer comes when it has "
                 "ended; with `Accept: text/event-stream` its events as they happen; with `Prefer: "
                 "respond-async` at once. As multipart/form-data the first part is named `request` "
                 "and is the JSON, each other part is a file, its name the path.",
          .headers = shape_run_headers,
          .body = &shape_execution_wish,
          .form = true,
          .example = "{\"code\": \"x = 41\\nx + 1\"}",
          .answers = run_answers,
          .problems = run_problems },
        { .route = { .method = "POST",
                     .path = "/v1/execute",
                     .mark = BROKER_EXECUTE,
                     .body_max = BODY_MAX,
                     .begin = execute_begin_alone,
                     .take = execute_take,
                     .answer = execute_answer,
                     .end = execute_end },
          .id = "executeAlone",
          .tag = EXECUTIONS,
          .title = "Execute code in a new session",
          .doc = "Creates a session, executes, and ends it. The workspace and the result stay, "
                 "under the session's id.",
          .headers = shape_run_headers,
          .body = &shape_alone_wish,
          .example = "{\"environment\": \"data\", \"code\": \"print(6 * 7)\"}",
          .answers = run_answers,
          .problems = alone_problems },
        { .route = { .method = "GET",
                     .path = "/v1/sessions/{id}/executions",
                     .answer = answer_history,
                     CALL(BROKER_EXECUTE) },
          .id = "listExecutions",
          .tag = EXECUTIONS,
          .title = "List a session's executions",
          .query = shape_history_query,
          .answers = history_answers,
          .problems = found_problems },
        { .route = { .method = "GET",
                     .path = "/v1/sessions/{id}/executions/{n}",
                     .answer = answer_result,
                     CALL(BROKER_EXECUTE) },
          .id = "getExecution",
          .tag = EXECUTIONS,
          .title = "Get an execution's result",
          .answers = result_answers,
          .problems = found_problems },
        { .route = { .method = "GET",
                     .path = "/v1/sessions/{id}/executions/{n}/events",
                     .answer = answer_events,
                     CALL(BROKER_EXECUTE) },
          .id = "followExecution",
          .tag = EXECUTIONS,
          .title = "Follow an execution's events",
          .doc = "`started`, `stdout` and `stderr` (`{text}` or `{contentBase64}`), `display`, `done`"
                 " (the result), with rising ids; a comment each 10 s. An execution that has ended is"
                 " replayed, as far as history has kept it, with the same ids. `gap` (`{stream, "
                 "bytes}`) stands for output that is not kept; an event of output whose bytes are "
                 "kept in part has `gap` (`{at, bytes}`), as in the result. ",
          .query = shape_events_query,
          .headers = shape_events_headers,
          .answers = stream_answers,
          .problems = found_problems },
        { .route = { .method = "POST",
                     .path = "/v1/sessions/{id}/executions/{n}/interrupt",
                     .answer = answer_interrupt,
                     CALL_WITH_JSON(BROKER_EXECUTE) },
          .id = "interruptExecution",
          .tag = EXECUTIONS,
          .title = "Interrupt an execution",
          .doc = "Like Ctrl-C; code that still runs two seconds later is killed.",
          .headers = shape_once_headers,
          .body = &shape_nothing,
          .answers = nothing_answers,
          .problems = interrupt_problems },
};
const size_t api_sessions_operation_count =
        sizeof(api_sessions_operations) / sizeof(api_sessions_operations[0]);
