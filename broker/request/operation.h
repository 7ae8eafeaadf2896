/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of the API, one row each: the rights, the parameters, the answers. Routing,
 * checking, /openapi.json and docs/api.md all follow these rows, and a fact about an operation
 * stands nowhere else.
 *
 *      { .route = { .method = "POST", .path = "/v1/...", .answer = ..., CALL_WITH_JSON(BROKER_EXECUTE) },
 *        .id = "createSession", .tag = "Sessions", .doc = "...", .body = &wish_shape, .answers = ..., .problems = ... }
 */
#ifndef BERTH_BROKER_REQUEST_OPERATION_H
#define BERTH_BROKER_REQUEST_OPERATION_H

#include "schema/kind.h"
#include "server/server.h"

#include <jansson.h>

/*
 * Needs that are met before an operation is answered. Each asks for all that the one before it
 * does.
 */
enum operation_needs {
        OPERATION_NEEDS_SESSIONS, /* the engine of sessions */
        OPERATION_NEEDS_OWNER,    /* the owner for which the client asks */
        OPERATION_NEEDS_CLIENT,   /* the client */
        OPERATION_NEEDS_NOTHING
};

/* One form of an answer; several may be of one status. */
struct operation_answer {
        unsigned status; /* 0 ends the list */
        const char *doc;
        const char *type;                  /* NULL: it has no body */
        const struct field *shape, *other; /* of JSON: one of the two; NULL for bytes and texts */
        bool list;                         /* a page of such: {items, cursor} */
        const struct shape_events *events; /* of a stream of events */
        const char *const *headers;        /* further ones, beside the common ones, ended by NULL; or NULL */
};

struct operation {
        struct server_route route; /* `mark` is the rights of which the client needs one; 0: any client may */
        enum operation_needs needs;
        const char *id;  /* operationId; NULL: routed and checked, and told nowhere */
        const char *tag; /* the chapter that it stands in */
        const char *title, *doc;
        const struct field *
                query; /* ended by a NULL name; NULL: it takes no parameters. Lists may stand several times */
        const struct field *headers; /* the same; those that are lists are held against nothing */
        const struct field *body;    /* an object; NULL: none is taken, or bytes are */
        const char *body_type;       /* of bytes */
        bool head_too;               /* HEAD is told as well: all that can be got can be asked for its head */
        bool form;                   /* the body may be multipart/form-data, too: `request`, then files */
        const char *example;         /* of the body, JSON */
        const struct operation_answer *answers;
        const char *const *
                problems; /* codes, beside those that any operation of its kind has; ended by NULL; or NULL */
};

/* The row of the request's route; NULL where the route has none. */
const struct operation *operation_of(const struct server_request *request);

/*
 * Holds the query and the headers against the operation's fields; false where the request was answered with what is wrong. *ret is the
 * query as an object of JSON, numbers as numbers and what may stand several times as lists: a new reference.
 */
bool operation_parameters(struct server_request *request, json_t **ret) MUST_USE;

#endif
