/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The beginning and end of operations: the caller, its rights, what it has under way, the engine,
 * the query. All of it is known before a byte of the body is read.
 *
 *      { .method = "GET", .path = "/v1/...", .answer = ..., CALL(BROKER_EXECUTE) }
 */
#ifndef BERTH_BROKER_REQUEST_CALL_H
#define BERTH_BROKER_REQUEST_CALL_H

#include "broker/request/body.h"
#include "broker/request/operation.h"
#include "broker/service/broker.h"
#include "sessions/engine.h"

#define CALL_TRANSFER_MAX ((uint64_t)100 << 20) /* bytes of one request or answer that is no JSON */

/* The request's data. */
struct call {
        struct broker *broker;
        struct engine *engine; /* this and `caller`: of operations of sessions */
        struct engine_caller caller;
        struct door_caller door;
        struct body body; /* JSON, where the route takes it */
        json_t *query;    /* by the operation's table, which it fits (operation.h); NULL without one */
        void *more;       /* the route's own */
        struct load_held carried; /* call_carry() */
        bool entered;
};

/*
 * `rights`, the route's mark: of them the client needs one; 0: any client may. Of sessions an owner is needed for all but looking and
 * ending. What else is needed, and what the query and the headers may have, the operation says; a route without one is of sessions.
 */
void call_begin(struct server_request *request);
void call_take(struct server_request *request, const void *bytes, size_t length);
void call_end(struct server_request *request);
struct call *call_of(struct server_request *request);

#define CALL(rights) .mark = (rights), .begin = call_begin, .end = call_end
#define CALL_WITH_JSON(rights) CALL(rights), .body_max = BODY_MAX, .take = call_take

/* For a `begin` of its own: false where the request was answered. */
bool call_admit(struct server_request *request) MUST_USE;
/*
 * The same for a caller that was admitted before, and is known by what it sends now. What `caller`
 * borrows lives as long as the request.
 */
bool call_admit_as(struct server_request *request, const struct door_caller *caller) MUST_USE;

/*
 * Counts `length` bytes of the answer as held in memory, instead of those counted before, until call_end(). False, and nothing changes,
 * where the owner, the client or all requests together would hold too much (load.h). A request without a route is not counted.
 */
bool call_carry(struct server_request *request, size_t length) MUST_USE;

/* --- what requests have --- */

/* Answer, and are false. */
bool call_refuse(struct server_request *request, const struct problem *problem);
bool call_refuse_value(struct server_request *request, const char *why);

/* `body` is the SHA-256 of what was asked, in hex. */
struct engine_once call_once(const struct server_request *request, const char *body);
/*
 * For operations that leave no record of their own: true if it must be done now, and
 * call_once_end() follows with its answer, or NULL if it was not done. False where the request was
 * answered: by the answer of the first request with this key, with its status; or with what is
 * wrong.
 */
bool call_once_begin(struct server_request *request, const char *session, struct engine_once *ret) MUST_USE;
/* The same. 1: there is a first answer (a new reference); 0: the request must be carried out; -1: the request was answered. */
int call_once_look(struct server_request *request, const char *session, struct engine_once *ret,
                   json_t **ret_answer, unsigned *ret_status) MUST_USE;
/* `status`: of the answer; of one without a body JSON's null stands for it. */
void call_once_end(struct server_request *request, const char *session, const struct engine_once *once,
                   unsigned status, const json_t *answer);
/* The member where it is an object. */
const json_t *call_object(const json_t *body, const char *name);

/* Whether the header, a list, has it, whatever its parameters; `word` in lower case. */
bool call_header_has(const struct server_request *request, const char *header, const char *word);

/* Of the query: `limit`, or CALL_LIMIT; the texts of a list, ended by NULL, or NULL where it has none. */
#define CALL_LIMIT 100
size_t call_limit(const struct call *call);
const char *const *call_texts(const struct server_request *request, const char *name);

#endif
