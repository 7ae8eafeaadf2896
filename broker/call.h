/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the routes of sessions and workspaces begin and end with: who calls, whether he may, how much he has under way, the engine.
 * All of it is known before a byte of the body is read.
 *
 *      { .method = "GET", .path = "/v1/...", .answer = ..., CALL(BROKER_EXECUTE) }
 */
#ifndef BERTH_BROKER_CALL_H
#define BERTH_BROKER_CALL_H

#include "broker/body.h"
#include "broker/broker.h"
#include "sessions/engine.h"

#define CALL_TRANSFER_MAX ((uint64_t)100 << 20) /* bytes of one request or answer that is no JSON */

/* The request's data. */
struct call {
        struct broker *broker;
        struct engine *engine;
        struct engine_caller caller;
        struct door_caller door;
        struct body body; /* JSON, where the route takes it */
        void *more;       /* the route's own */
        size_t carried;   /* call_carry() */
        bool entered;
};

/* `rights`, the route's mark: of them the client needs one. An owner is needed for all but looking and ending. */
void call_begin(struct server_request *request);
void call_take(struct server_request *request, const void *bytes, size_t length);
void call_end(struct server_request *request);
struct call *call_of(struct server_request *request);

#define CALL(rights) .mark = (rights), .begin = call_begin, .end = call_end
#define CALL_WITH_JSON(rights) CALL(rights), .body_max = BODY_MAX, .take = call_take

/* For a `begin` of its own: false where the request was answered. */
bool call_admit(struct server_request *request) MUST_USE;

/*
 * What of the answer is in memory until the client has taken it: so much from now on, until call_end(). False where all that is
 * carried would be more than CALL_CARRIED_MAX: nothing of it is then. Little does not count, nor what is no route's of these.
 */
#define CALL_CARRIED_MAX ((size_t)256 << 20)
bool call_carry(struct server_request *request, size_t length) MUST_USE;

/* --- what requests have --- */

/* Answer, and are false. */
bool call_refuse(struct server_request *request, const struct problem *problem);
bool call_refuse_value(struct server_request *request, const char *why);

/* `body` is the SHA-256 of what was asked, in hex. */
bool call_once(struct server_request *request, const char *body, struct engine_once *ret) MUST_USE;
/* A member of 1 or more; 0 where it is not there. */
bool call_seconds(struct server_request *request, const json_t *body, const char *name,
                  int64_t *ret) MUST_USE;
/* The member where it is an object. */
const json_t *call_object(const json_t *body, const char *name);

/* Whether the header, a list, has it, whatever its parameters; `word` in lower case. */
bool call_header_has(const struct server_request *request, const char *header, const char *word);

/* What a list's query may have: limit, cursor, and the names given, each as often as it says. */
struct call_filter {
        const char *name;   /* NULL ends the list */
        size_t most;        /* at most CALL_FILTERS_MAX */
        const char **texts; /* ended by NULL; NULL where there is none */
        size_t count;
};
#define CALL_FILTERS_MAX 32
struct call_query {
        size_t limit; /* 0: not said */
        const char *cursor;
        struct call_filter *filters; /* or NULL */
};
bool call_query(struct server_request *request, struct call_query *query) MUST_USE;

#endif
