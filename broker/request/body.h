/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON that clients send: collected as it comes, within what a client, an owner and all may have of it together (load.h), then held
 * against the table of its operation. What no table has is refused, and so is a member that stands twice.
 *
 * What a body makes of memory is bounded as well: its text is released when it has been read, what was read counts as much as the
 * text against the same bounds, and how many values there are is counted before any of them is made.
 */
#ifndef BERTH_BROKER_REQUEST_BODY_H
#define BERTH_BROKER_REQUEST_BODY_H

#include "base/strbuf.h"
#include "broker/auth/load.h"
#include "server/server.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define BODY_MAX ((size_t)32 << 20) /* of one request */
#define BODY_VALUES_MAX 100000      /* in one of them: each takes about a hundred bytes, whatever it is */

struct body {
        struct strbuf text;
        json_t *json;
        struct load_held held;
        char hash[65]; /* of the text, once that was read */
};
#define BODY_INIT \
        { .text = STRBUF_SECRET } /* variables may be secrets */

/* A piece of it. False where the request was answered: there is too much of it, or of the client's, the owner's or all bodies. */
bool body_take(struct body *body, struct server_request *request, const void *bytes, size_t length);
/* Answers that it has more than BODY_MAX; false. */
bool body_refuse_size(struct server_request *request);
void body_release(struct body *body);

/* Whether Content-Type is `type`, whatever its parameters. */
bool body_is_type(const struct server_request *request, const char *type);
bool body_is_said_json(const struct server_request *request);
/* Answers 415: JSON is taken, and the body is not said to be JSON. */
void body_refuse_type(struct server_request *request);
/*
 * The body as JSON, a list or an object, borrowed as below. NULL if it is neither, with the reason
 * in *ret_why; or where the request was answered, since there is no room for it now: *ret_why is
 * NULL then.
 */
json_t *body_parse(struct body *body, struct server_request *request, const char **ret_why);

/*
 * The body as an object that is as the operation's table says (operation.h); an empty body is an empty object. NULL where the request was
 * answered with what is wrong. Borrowed: it lives as long as the body.
 */
const json_t *body_object(struct body *body, struct server_request *request);
/* The same whatever type the request says that its body has. */
const json_t *body_read(struct body *body, struct server_request *request);

#endif
