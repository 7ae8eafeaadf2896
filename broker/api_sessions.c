/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions and executions over HTTP: what comes is put into the engine's terms, and what it says is handed on. Who waits for a result
 * waits on his connection's thread, and sees to it that he is still there; the execution goes on whoever leaves.
 */
#include "broker/api_sessions.h"

#include "base/json.h"
#include "base/strbuf.h"
#include "broker/answers.h"
#include "broker/body.h"
#include "broker/broker.h"
#include "broker/events.h"
#include "server/head.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NUMBER_DIGITS 10 /* of executions */
#define FILTERS_MAX 32   /* of one name in a query */

/* What each route begins with: who calls, and the engine. */
struct call {
        struct engine *engine;
        struct engine_caller caller;
        struct door_caller door;
};

static const char *const *texts_of(const struct value *list, struct arena *arena) {
        const char **texts;

        if (!list)
                return NULL;
        texts = arena_array(arena, (size_t)list->count + 1, sizeof(*texts));
        for (uint32_t i = 0; i < list->count; i++)
                texts[i] = value_text_of(&list->items[i]);
        texts[list->count] = NULL;
        return texts;
}

static bool refuse_problem(struct server_request *request, const struct problem *problem) {
        answers_refusal(request, problem);
        return false;
}

static bool refuse_value(struct server_request *request, const char *why) {
        struct problem problem;

        (void)problem_set(&problem, PROBLEM_INVALID, "%s", why);
        return refuse_problem(request, &problem);
}

/*
 * False where the request was answered. `rights`: of them the client needs one. An owner is needed for all but looking and
 * ending.
 */
static bool begin_call(struct call *call, struct server_request *request, unsigned rights) {
        struct broker *broker = request->context;

        if (!door_admit(broker->door, request, true, &call->door))
                return false;
        if (!(call->door.rights & rights)) {
                answers_problem(request, &(struct answers_problem){
                                                 403, "not-permitted", "the client may not do this",
                                                 "the client's entry in the Server lacks the right for this",
                                                 "see `may` of kind: Server" });
                return false;
        }
        if (!call->door.owner && !(rights & (BROKER_OBSERVE | BROKER_ADMINISTER))) {
                answers_problem(request,
                                &(struct answers_problem){
                                        400, "owner-required", "the client must say for whom it asks",
                                        "this client acts for users, and the request names none",
                                        "name the user in the header Berth-Owner" });
                return false;
        }
        call->engine = broker_sessions_engine(broker->sessions);
        if (!call->engine) {
                answers_problem(
                        request,
                        &(struct answers_problem){
                                503, "no-sessions", "sessions cannot be had at the moment",
                                "nothing was applied yet, or code cannot run here: the server's log says which",
                                NULL });
                return false;
        }
        call->caller = (struct engine_caller){
                .client = call->door.client,
                .owner = call->door.owner,
                .environments = texts_of(call->door.environments, request->arena),
                .agents = texts_of(call->door.agents, request->arena),
                .observes =
                        (call->door.rights & BROKER_OBSERVE) && !server_has_header(request, "Berth-Owner"),
                .ends_any = (call->door.rights & BROKER_ADMINISTER) != 0,
        };
        return true;
}

static bool read_once(struct server_request *request, struct engine_once *ret) {
        const char *key = server_header(request, "Idempotency-Key");

        *ret = (struct engine_once){ 0 };
        if (!server_has_header(request, "Idempotency-Key"))
                return true;
        if (!key || *key == '\0' || strlen(key) > 256)
                return refuse_value(request, "Idempotency-Key must stand once, and have 1 to 256 bytes");
        *ret = (struct engine_once){ .key = key,
                                     .route = arena_printf(request->arena, "%s %s", request->method,
                                                           request->path),
                                     .body = body_hash(request) };
        return true;
}

/* A member of 1 or more; 0 where it is not there. */
static bool read_seconds(struct server_request *request, const json_t *body, const char *name, int64_t *ret) {
        const json_t *value = json_object_get(body, name);

        *ret = 0;
        if (!value || json_is_null(value))
                return true;
        *ret = json_integer_value(value);
        return *ret > 0 || refuse_value(request, arena_printf(request->arena, "%s must be 1 or more", name));
}

static const json_t *object_of(const json_t *body, const char *name) {
        const json_t *value = json_object_get(body, name);

        return json_is_object(value) ? value : NULL;
}

/* --- sessions --- */

static void answer_create(struct server_request *request) {
        static const struct body_member members[] = {
                { "environment", JSON_STRING }, { "agent", JSON_STRING },     { "conversation", JSON_STRING },
                { "labels", JSON_OBJECT },      { "variables", JSON_OBJECT }, { "idleSeconds", JSON_INTEGER },
                { "ttlSeconds", JSON_INTEGER }, { NULL, JSON_NULL },
        };
        struct engine_wish wish;
        struct problem problem;
        const json_t *body;
        struct call call;
        json_t *session;
        int made;

        if (!begin_call(&call, request, BROKER_EXECUTE) || !(body = body_object(request, members)))
                return;
        wish = (struct engine_wish){
                .environment = json_text(body, "environment"),
                .agent = json_text(body, "agent"),
                .conversation = json_text(body, "conversation"),
                .labels = object_of(body, "labels"),
                .variables = object_of(body, "variables"),
        };
        if (!read_seconds(request, body, "idleSeconds", &wish.idle_seconds) ||
            !read_seconds(request, body, "ttlSeconds", &wish.ttl_seconds) || !read_once(request, &wish.once))
                return;
        made = engine_create(call.engine, &call.caller, &wish, &session, &problem);
        if (made < 0)
                answers_refusal(request, &problem);
        else
                answers_json(request, made ? 201 : 200, session);
}

static void answer_session(struct server_request *request) {
        struct problem problem;
        struct call call;
        json_t *session;

        if (!begin_call(&call, request, BROKER_EXECUTE | BROKER_OBSERVE | BROKER_ADMINISTER))
                return;
        if (engine_show(call.engine, &call.caller, request->parameters[0], &session, &problem) < 0)
                answers_refusal(request, &problem);
        else
                answers_json(request, 200, session);
}

static void answer_patch(struct server_request *request) {
        static const struct body_member members[] = {
                { "labels", JSON_OBJECT },
                { "idleSeconds", JSON_INTEGER },
                { "ttlSeconds", JSON_INTEGER },
                { NULL, JSON_NULL },
        };
        struct engine_patch patch;
        struct problem problem;
        const json_t *body;
        struct call call;
        json_t *session;

        if (!begin_call(&call, request, BROKER_EXECUTE) || !(body = body_object(request, members)))
                return;
        patch = (struct engine_patch){ .labels = object_of(body, "labels") };
        if (!read_seconds(request, body, "idleSeconds", &patch.idle_seconds) ||
            !read_seconds(request, body, "ttlSeconds", &patch.ttl_seconds))
                return;
        if (engine_patch(call.engine, &call.caller, request->parameters[0], &patch, &session, &problem) < 0)
                answers_refusal(request, &problem);
        else
                answers_json(request, 200, session);
}

static void answer_end(struct server_request *request) {
        struct problem problem;
        struct call call;

        if (!begin_call(&call, request, BROKER_EXECUTE | BROKER_ADMINISTER))
                return;
        if (engine_end(call.engine, &call.caller, request->parameters[0], &problem) < 0)
                answers_refusal(request, &problem);
        else
                answers_nothing(request);
}

/* --- lists --- */

/* What a list's query may have. */
struct query {
        size_t limit;
        const char *cursor;
        struct filter {
                const char *name;
                const char **texts; /* ended by NULL */
                size_t count;
        } filters[4];
};

static bool read_pair(struct server_request *request, const struct head_pair *pair, struct query *query) {
        if (strcmp(pair->name, "limit") == 0) {
                size_t length = strlen(pair->value);
                long limit = strtol(pair->value, NULL, 10);

                if (query->limit || length < 1 || length > 4 || strspn(pair->value, "0123456789") != length ||
                    limit < 1 || limit > ENGINE_LIST_MAX)
                        return refuse_value(request, "limit must be a number from 1 to 1000, once");
                query->limit = (size_t)limit;
                return true;
        }
        if (strcmp(pair->name, "cursor") == 0 && !query->cursor) {
                query->cursor = pair->value;
                return true;
        }
        for (struct filter *filter = query->filters; filter->name; filter++) {
                if (strcmp(filter->name, pair->name) != 0)
                        continue;
                if (filter->count == FILTERS_MAX)
                        break;
                if (!filter->texts)
                        filter->texts = arena_array(request->arena, FILTERS_MAX + 1, sizeof(*filter->texts));
                filter->texts[filter->count++] = pair->value;
                filter->texts[filter->count] = NULL;
                return true;
        }
        return refuse_value(request, "the query has a parameter that the list does not have, or too often");
}

static bool read_query(struct server_request *request, struct query *query) {
        for (size_t i = 0; i < request->query_count; i++) {
                if (!read_pair(request, &request->query[i], query))
                        return false;
        }
        return true;
}

static void answer_list(struct server_request *request) {
        struct query query = { .filters = { { .name = "status" },
                                            { .name = "environment" },
                                            { .name = "agent" },
                                            { .name = NULL } } };
        const char **labels = arena_array(request->arena, FILTERS_MAX + 1, sizeof(*labels));
        struct engine_filter filter;
        struct problem problem;
        struct call call;
        json_t *list;
        size_t count = 0, kept = 0;
        struct head_pair *pairs = arena_array(request->arena, request->query_count + 1, sizeof(*pairs));

        if (!begin_call(&call, request, BROKER_EXECUTE | BROKER_OBSERVE))
                return;
        /* Labels must fit all, the others one of each: they are kept apart. */
        for (size_t i = 0; i < request->query_count; i++) {
                if (strcmp(request->query[i].name, "label") == 0 && count < FILTERS_MAX)
                        labels[count++] = request->query[i].value;
                else
                        pairs[kept++] = request->query[i];
        }
        labels[count] = NULL;
        request->query = pairs;
        request->query_count = kept;
        if (!read_query(request, &query))
                return;
        filter = (struct engine_filter){ .statuses = query.filters[0].texts,
                                         .environments = query.filters[1].texts,
                                         .agents = query.filters[2].texts,
                                         .labels = count ? labels : NULL,
                                         .all_owners = call.caller.observes,
                                         .limit = query.limit,
                                         .cursor = query.cursor };
        if (engine_list(call.engine, &call.caller, &filter, &list, &problem) < 0)
                answers_refusal(request, &problem);
        else
                answers_json(request, 200, list);
}

static void answer_history(struct server_request *request) {
        struct query query = { .limit = 0 };
        struct problem problem;
        struct call call;
        json_t *list;

        if (!begin_call(&call, request, BROKER_EXECUTE) || !read_query(request, &query))
                return;
        if (engine_history(call.engine, &call.caller, request->parameters[0], query.limit, query.cursor,
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

/* Until the execution has ended: false where there is nobody to answer, or the server stops, which he was told. */
static bool wait_for_result(struct server_request *request, struct engine_follower *follower) {
        struct engine_event event;
        struct problem problem;

        for (;;) {
                switch (engine_follower_next(follower, &event)) {
                case ENGINE_EVENT:
                        json_decref(event.data);
                        continue;
                case ENGINE_ENDED:
                        return true;
                case ENGINE_NOTHING:
                default:
                        break;
                }
                switch (server_wait(request, engine_follower_descriptor(follower), POLLIN, -1)) {
                case SERVER_LEFT:
                        return false;
                case SERVER_STOPS:
                        (void)problem_set(
                                &problem, PROBLEM_STOPPING,
                                "what runs goes on, unless onDisconnect says otherwise: ask for the result once the server is back");
                        return refuse_problem(request, &problem);
                case SERVER_TIME:
                case SERVER_READY:
                default:
                        break;
                }
        }
}

static bool accepts_events(const struct server_request *request) {
        const char *accept = server_header(request, "Accept");

        return accept && strcasestr(accept, "text/event-stream");
}

static bool prefers_not_to_wait(const struct server_request *request) {
        const char *prefer = server_header(request, "Prefer");

        return prefer && strcasestr(prefer, "respond-async");
}

static bool read_code(struct server_request *request, const json_t *body, struct engine_code *ret) {
        const char *on = json_text(body, "onDisconnect");
        const json_t *code = json_object_get(body, "code"), *input = json_object_get(body, "stdin");

        if (!json_is_string(code))
                return refuse_value(request, "code is required");
        if (on && strcmp(on, "interrupt") != 0 && strcmp(on, "continue") != 0)
                return refuse_value(request, "onDisconnect must be interrupt or continue");
        *ret = (struct engine_code){ .code = json_string_value(code),
                                     .code_length = json_string_length(code),
                                     .language = json_text(body, "language"),
                                     .context = json_text(body, "context"),
                                     .variables = object_of(body, "variables"),
                                     .input = json_string_value(input),
                                     .input_length = json_string_length(input),
                                     .interrupt_on_disconnect = on && strcmp(on, "interrupt") == 0 };
        return read_seconds(request, body, "timeoutSeconds", &ret->timeout_seconds) &&
               read_once(request, &ret->once);
}

static void answer_execute(struct server_request *request) {
        static const struct body_member members[] = {
                { "code", JSON_STRING },         { "language", JSON_STRING },
                { "context", JSON_STRING },      { "variables", JSON_OBJECT },
                { "stdin", JSON_STRING },        { "timeoutSeconds", JSON_INTEGER },
                { "onDisconnect", JSON_STRING }, { NULL, JSON_NULL },
        };
        bool waits = !prefers_not_to_wait(request);
        struct engine_follower *follower = NULL;
        struct engine_code code;
        struct problem problem;
        const json_t *body;
        struct call call;
        int64_t n;

        if (!begin_call(&call, request, BROKER_EXECUTE) || !(body = body_object(request, members)) ||
            !read_code(request, body, &code))
                return;
        if (engine_execute(call.engine, &call.caller, request->parameters[0], &code, &n,
                           waits ? &follower : NULL, &problem) < 0) {
                answers_refusal(request, &problem);
                return;
        }
        if (!waits) {
                answer_result_of(request, &call, 202, n);
                return;
        }
        if (accepts_events(request)) {
                events_answer(request, follower);
                return;
        }
        if (wait_for_result(request, follower))
                answer_result_of(request, &call, 200, n);
        engine_follower_close(follower);
}

static void answer_result(struct server_request *request) {
        struct call call;

        if (begin_call(&call, request, BROKER_EXECUTE))
                answer_result_of(request, &call, 200, number_of(request->parameters[1]));
}

static void answer_events(struct server_request *request) {
        const char *from = server_query(request, "from");
        struct engine_follower *follower;
        struct problem problem;
        struct call call;

        if (!begin_call(&call, request, BROKER_EXECUTE))
                return;
        if (request->query_count > (from ? 1U : 0U) ||
            (from && strcmp(from, "0") != 0 && number_of(from) == 0)) {
                (void)refuse_value(request, "the query may have from, the id of an event");
                return;
        }
        if (engine_follow(call.engine, &call.caller, request->parameters[0],
                          number_of(request->parameters[1]), from ? number_of(from) : 0, &follower,
                          &problem) < 0)
                answers_refusal(request, &problem);
        else
                events_answer(request, follower);
}

static void answer_interrupt(struct server_request *request) {
        static const struct body_member none[] = { { NULL, JSON_NULL } };
        struct problem problem;
        struct call call;

        if (!begin_call(&call, request, BROKER_EXECUTE) || !body_object(request, none))
                return;
        if (engine_interrupt(call.engine, &call.caller, request->parameters[0],
                             number_of(request->parameters[1]), &problem) < 0)
                answers_refusal(request, &problem);
        else
                answers_nothing(request);
}

static void answer_restart(struct server_request *request) {
        static const struct body_member members[] = { { "context", JSON_STRING }, { NULL, JSON_NULL } };
        struct problem problem;
        const json_t *body;
        struct call call;

        if (!begin_call(&call, request, BROKER_EXECUTE) || !(body = body_object(request, members)))
                return;
        if (engine_restart(call.engine, &call.caller, request->parameters[0], json_text(body, "context"),
                           &problem) < 0)
                answers_refusal(request, &problem);
        else
                answers_nothing(request);
}

#define WITH_BODY .body_max = BODY_MAX, .begin = body_begin, .take = body_take, .end = body_end

const struct server_route api_sessions_routes[] = {
        { .method = "POST", .path = "/v1/sessions", .answer = answer_create, WITH_BODY },
        { .method = "GET", .path = "/v1/sessions", .answer = answer_list },
        { .method = "GET", .path = "/v1/sessions/{id}", .answer = answer_session },
        { .method = "PATCH", .path = "/v1/sessions/{id}", .answer = answer_patch, WITH_BODY },
        { .method = "DELETE", .path = "/v1/sessions/{id}", .answer = answer_end },
        { .method = "POST", .path = "/v1/sessions/{id}/restart", .answer = answer_restart, WITH_BODY },
        { .method = "POST", .path = "/v1/sessions/{id}/executions", .answer = answer_execute, WITH_BODY },
        { .method = "GET", .path = "/v1/sessions/{id}/executions", .answer = answer_history },
        { .method = "GET", .path = "/v1/sessions/{id}/executions/{n}", .answer = answer_result },
        { .method = "GET", .path = "/v1/sessions/{id}/executions/{n}/events", .answer = answer_events },
        { .method = "POST",
          .path = "/v1/sessions/{id}/executions/{n}/interrupt",
          .answer = answer_interrupt,
          WITH_BODY },
};
const size_t api_sessions_route_count = sizeof(api_sessions_routes) / sizeof(api_sessions_routes[0]);
