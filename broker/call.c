/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/call.h"

#include "base/json.h"
#include "broker/answers.h"
#include "server/head.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CARRIED_LITTLE ((size_t)64 << 10)

static atomic_size_t carried; /* by all */

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

static bool refuse(struct server_request *request, struct answers_problem problem) {
        answers_problem(request, &problem);
        return false;
}

struct call *call_of(struct server_request *request) {
        return request->data;
}

bool call_admit(struct server_request *request) {
        struct call *call = arena_alloc(request->arena, sizeof(*call));
        unsigned rights = request->route->mark;

        *call = (struct call){ .broker = request->context, .body = BODY_INIT };
        request->data = call;
        if (!door_admit(call->broker->door, request, true, &call->door))
                return false;
        if (!(call->door.rights & rights))
                return refuse(request, (struct answers_problem){
                                               403, "not-permitted", "the client may not do this",
                                               "the client's entry in the Server lacks the right for this",
                                               "see `may` of kind: Server" });
        if (!call->door.owner && !(rights & (BROKER_OBSERVE | BROKER_ADMINISTER)))
                return refuse(request, (struct answers_problem){
                                               400, "owner-required", "the client must say for whom it asks",
                                               "this client acts for users, and the request names none",
                                               "name the user in the header Berth-Owner" });
        call->engine = broker_sessions_engine(call->broker->sessions);
        if (!call->engine)
                return refuse(
                        request,
                        (struct answers_problem){
                                503, "no-sessions", "sessions cannot be had at the moment",
                                "nothing was applied yet, or code cannot run here: the server's log says which",
                                NULL });
        if (!load_enter(call->broker->load, call->door.client, call->door.owner)) {
                server_add_header(request, "Retry-After", "1");
                return refuse(request, (struct answers_problem){
                                               429, "too-many-under-way",
                                               "as many requests are under way as one may have",
                                               "the client or the owner has as many requests and streams "
                                               "under way as one may have",
                                               "end one of them, or wait for one to end" });
        }
        call->entered = true;
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

void call_begin(struct server_request *request) {
        (void)!call_admit(request);
}

void call_take(struct server_request *request, const void *bytes, size_t length) {
        (void)body_take(&call_of(request)->body, request, bytes, length);
}

/* A slow client holds its answer for hours: each block of it has its own patience. */
bool call_carry(struct server_request *request, size_t length) {
        struct call *call = call_of(request);

        if (!call)
                return true;
        atomic_fetch_sub(&carried, call->carried);
        call->carried = 0;
        if (length <= CARRIED_LITTLE)
                return true;
        if (atomic_fetch_add(&carried, length) + length > CALL_CARRIED_MAX) {
                atomic_fetch_sub(&carried, length);
                return false;
        }
        call->carried = length;
        return true;
}

void call_end(struct server_request *request) {
        struct call *call = call_of(request);

        (void)!call_carry(request, 0);
        body_release(&call->body);
        if (call->entered)
                load_leave(call->broker->load, call->door.client, call->door.owner);
}

/* --- what requests have --- */

bool call_once(struct server_request *request, const char *body, struct engine_once *ret) {
        const char *key = server_header(request, "Idempotency-Key");

        *ret = (struct engine_once){ 0 };
        if (!server_has_header(request, "Idempotency-Key"))
                return true;
        if (!key || *key == '\0' || strlen(key) > 256)
                return call_refuse_value(request, "Idempotency-Key must stand once, and have 1 to 256 bytes");
        *ret = (struct engine_once){ .key = key,
                                     .route = arena_printf(request->arena, "%s %s", request->method,
                                                           request->path),
                                     .body = body };
        return true;
}

bool call_seconds(struct server_request *request, const json_t *body, const char *name, int64_t *ret) {
        const json_t *value = json_object_get(body, name);

        *ret = 0;
        if (!value || json_is_null(value))
                return true;
        *ret = json_integer_value(value);
        return *ret > 0 ||
               call_refuse_value(request, arena_printf(request->arena, "%s must be 1 or more", name));
}

const json_t *call_object(const json_t *body, const char *name) {
        const json_t *value = json_object_get(body, name);

        return json_is_object(value) ? value : NULL;
}

bool call_header_has(const struct server_request *request, const char *header, const char *word) {
        const char *value = server_header(request, header);

        return value && strcasestr(value, word);
}

static bool read_pair(struct server_request *request, const struct head_pair *pair,
                      struct call_query *query) {
        if (strcmp(pair->name, "limit") == 0) {
                size_t length = strlen(pair->value);
                long limit = strtol(pair->value, NULL, 10);

                if (query->limit || length < 1 || length > 4 || strspn(pair->value, "0123456789") != length ||
                    limit < 1 || limit > ENGINE_LIST_MAX)
                        return call_refuse_value(request, "limit must be a number from 1 to 1000, once");
                query->limit = (size_t)limit;
                return true;
        }
        if (strcmp(pair->name, "cursor") == 0 && !query->cursor) {
                query->cursor = pair->value;
                return true;
        }
        for (struct call_filter *filter = query->filters; filter && filter->name; filter++) {
                if (strcmp(filter->name, pair->name) != 0)
                        continue;
                if (filter->count == filter->most)
                        break;
                if (!filter->texts)
                        filter->texts = arena_array(request->arena, filter->most + 1, sizeof(*filter->texts));
                filter->texts[filter->count++] = pair->value;
                filter->texts[filter->count] = NULL;
                return true;
        }
        return call_refuse_value(request,
                                 "the query has a parameter that the list does not have, or too often");
}

bool call_query(struct server_request *request, struct call_query *query) {
        for (size_t i = 0; i < request->query_count; i++) {
                if (!read_pair(request, &request->query[i], query))
                        return false;
        }
        return true;
}
