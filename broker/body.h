/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON that clients send: collected as it comes, all of it together within one bound for the whole server, then read by a table of
 * members. What no table has is refused, and so is a member that stands twice.
 */
#ifndef BERTH_BROKER_BODY_H
#define BERTH_BROKER_BODY_H

#include "server/server.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define BODY_MAX ((size_t)20 << 20)    /* of one request */
#define BODIES_MAX ((size_t)256 << 20) /* of all that are under way */

/* For routes with a body: they begin and end a request's, and take a piece of it. request->data is theirs. */
void body_begin(struct server_request *request);
void body_take(struct server_request *request, const void *bytes, size_t length);
void body_end(struct server_request *request);

struct body_member {
        const char *name;
        json_type type; /* JSON_TRUE: a boolean. null is as if it were not there */
};

/*
 * The body as an object with no member but those of the table, which ends with a NULL name; an empty body is an empty object. NULL
 * where the request was answered with what is wrong. Borrowed: it lives as long as the request.
 */
const json_t *body_object(struct server_request *request, const struct body_member *members);
/* SHA-256 of the body in hex, in the arena. */
const char *body_hash(struct server_request *request);

#endif
