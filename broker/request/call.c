/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/request/call.h"

#include "base/json.h"
#include "broker/request/answers.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

bool call_refuse(struct server_request *request, const struct problem *problem) {
        answers_refusal(request, problem);
        return false;
}

bool call_refuse_value(struct server_request *request, const char *why) {
        struct problem problem;

        (void)problem_set(&problem, PROBLEM_INVALID, "%s", why);
        return call_refuse(request, &problem);
}

static bool refuse(struct server_request *request, const char *code, const char *detail) {
        answers_refuse(request, code, detail);
        return false;
}

struct call *call_of(struct server_request *request) {
        return request->data;
}

/* What sessions need beside. */
static bool join_engine(struct server_request *request, struct call *call, unsigned rights) {
        if (!call->door.owner && !(rights & (BROKER_OBSERVE | BROKER_ADMINISTER)))
                return refuse(request, "owner-required",
                              "this client acts for users, and the request names none");
        call->engine = broker_sessions_engine(call->broker->sessions);
        if (!call->engine)
                return refuse(
                        request, "no-sessions",
                        "nothing was applied yet, or code cannot run here: the server's log says which");
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

/* For a known caller. */
static bool admit_known(struct server_request *request, struct call *call, enum operation_needs needs) {
        unsigned rights = request->route->mark;

        if (rights && !(call->door.rights & rights))
                return refuse(request, "not-permitted",
                              "the client's entry in the Server lacks the right for this");
        if (needs == OPERATION_NEEDS_SESSIONS && !join_engine(request, call, rights))
                return false;
        if (!load_enter(call->broker->load, call->door.limits, call->door.client, call->door.owner)) {
                server_add_header(request, "Retry-After", "1");
                return refuse(
                        request, "too-many-under-way",
                        "the client or the owner has as many requests and streams under way as one may have");
        }
        call->entered = true;
        call->body.held =
                (struct load_held){ call->broker->load, call->door.client, call->door.owner, LOAD_BODIES, 0 };
        call->carried = (struct load_held){ call->broker->load, call->door.client, call->door.owner,
                                            LOAD_ANSWERS, 0 };
        return !operation_of(request) || operation_parameters(request, &call->query);
}

static struct call *make_call(struct server_request *request) {
        struct call *call = arena_alloc(request->arena, sizeof(*call));

        *call = (struct call){ .broker = request->context, .body = BODY_INIT };
        request->data = call;
        return call;
}

bool call_admit(struct server_request *request) {
        const struct operation *operation = operation_of(request);
        enum operation_needs needs = operation ? operation->needs : OPERATION_NEEDS_SESSIONS;
        struct call *call = make_call(request);
        struct door_refusal refusal;

        if (!door_admit(call->broker->door, request, needs <= OPERATION_NEEDS_OWNER, &call->door, &refusal))
                return refuse(request, refusal.code, refusal.detail);
        return admit_known(request, call, needs);
}

bool call_admit_as(struct server_request *request, const struct door_caller *caller) {
        struct call *call = make_call(request);

        call->door = *caller;
        return admit_known(request, call, OPERATION_NEEDS_SESSIONS);
}

void call_begin(struct server_request *request) {
        (void)!call_admit(request);
}

void call_take(struct server_request *request, const void *bytes, size_t length) {
        (void)body_take(&call_of(request)->body, request, bytes, length);
}

/* A slow client holds its answer for hours: each block of it has its own patience. */
bool call_carry(struct server_request *request, size_t length) {
        struct call *call = call_of(request);

        return !call || load_hold(&call->carried, length);
}

void call_end(struct server_request *request) {
        struct call *call = call_of(request);

        (void)!call_carry(request, 0);
        json_decref(call->query);
        body_release(&call->body);
        if (call->entered)
                load_leave(call->broker->load, call->door.client, call->door.owner);
}

/* --- what requests have --- */

struct engine_once call_once(const struct server_request *request, const char *body) {
        const char *key = server_header(request, "Idempotency-Key");

        if (!key)
                return (struct engine_once){ 0 };
        return (struct engine_once){ .key = key,
                                     .route = arena_printf(request->arena, "%s %s", request->method,
                                                           request->path),
                                     .body = body };
}

/* What call_once_end() has kept; records of versions before this one have the answer alone, which was 200. */
static json_t *read_kept(json_t *kept, unsigned *ret_status) {
        json_t *status = json_object_get(kept, "status"), *answer = json_object_get(kept, "answer");

        *ret_status = answer && json_is_integer(status) ? (unsigned)json_integer_value(status) : 200;
        answer = json_incref(answer && json_is_integer(status) ? answer : kept);
        json_decref(kept);
        return answer;
}

int call_once_look(struct server_request *request, const char *session, struct engine_once *ret,
                   json_t **ret_answer, unsigned *ret_status) {
        const struct call *call = call_of(request);
        struct problem problem;
        json_t *kept = NULL;
        int done;

        *ret = call_once(request, call->body.hash);
        done = engine_once_begin(call->engine, &call->caller, ret, session, &kept, &problem);
        if (done < 0)
                answers_refusal(request, &problem);
        if (done > 0)
                *ret_answer = read_kept(kept, ret_status);
        return done;
}

bool call_once_begin(struct server_request *request, const char *session, struct engine_once *ret) {
        json_t *answer;
        unsigned status;
        int done = call_once_look(request, session, ret, &answer, &status);

        if (done > 0 && json_is_null(answer))
                answers_nothing(request);
        else if (done > 0)
                answers_json(request, status, answer);
        return done == 0;
}

void call_once_end(struct server_request *request, const char *session, const struct engine_once *once,
                   unsigned status, const json_t *answer) {
        const struct call *call = call_of(request);
        json_t *kept JSON_CLEANUP =
                answer ? json_checked(json_pack("{s:i, s:O}", "status", (int)status, "answer", answer))
                       : NULL;

        engine_once_end(call->engine, &call->caller, once, session, kept);
}

const json_t *call_object(const json_t *body, const char *name) {
        const json_t *value = json_object_get(body, name);

        return json_is_object(value) ? value : NULL;
}

bool call_header_has(const struct server_request *request, const char *header, const char *word) {
        const char *value = server_header(request, header);

        return value && strcasestr(value, word);
}

size_t call_limit(const struct call *call) {
        return (size_t)json_integer_or(call->query, "limit", CALL_LIMIT);
}

const char *const *call_texts(const struct server_request *request, const char *name) {
        const json_t *list = json_object_get(((const struct call *)request->data)->query, name), *item;
        const char **texts;
        size_t index;

        if (!list)
                return NULL;
        texts = arena_array(request->arena, json_array_size(list) + 1, sizeof(*texts));
        json_array_foreach (list, index, item)
                texts[index] = json_string_value(item);
        texts[json_array_size(list)] = NULL;
        return texts;
}
