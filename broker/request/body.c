/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/request/body.h"

#include "base/digest.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "broker/request/answers.h"
#include "broker/request/operation.h"
#include "schema/json_check.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DEPTH_MAX 64

static const char not_an_object[] = "the body must be one JSON object, each member of which stands once";

static bool hold(struct body *body, struct server_request *request, size_t length) {
        if (load_hold(&body->held, length))
                return true;
        server_add_header(request, "Retry-After", "1");
        answers_unrouted(
                request, 503,
                "the bodies of this owner's, this client's or all requests together are too large: ask again");
        return false;
}

bool body_refuse_size(struct server_request *request) {
        answers_unrouted(request, 413, "JSON may have 32 MiB");
        return false;
}

bool body_take(struct body *body, struct server_request *request, const void *bytes, size_t length) {
        if (length > BODY_MAX - body->text.length)
                return body_refuse_size(request);
        if (!hold(body, request, body->text.length + length))
                return false;
        strbuf_append_bytes(&body->text, bytes, length);
        return true;
}

void body_release(struct body *body) {
        (void)!load_hold(&body->held, 0);
        strbuf_release(&body->text);
        json_decref(body->json);
        body->json = NULL;
}

static const json_t *refuse(struct server_request *request, const char *why) {
        struct problem problem;

        (void)problem_set(&problem, PROBLEM_INVALID, "%s", why);
        answers_refusal(request, &problem);
        return NULL;
}

/*
 * The parser calls itself for each level, and threads have little stack; and of "[[],[],..." it makes forty times the text: what
 * nests deeper, or has more values, is not given to it.
 */
static const char *too_much(const struct strbuf *text) {
        struct json_extent extent = json_measure(strbuf_text(text), text->length);

        if (extent.depth > DEPTH_MAX)
                return "the body nests too deep";
        return extent.values > BODY_VALUES_MAX ? "the body has too many values" : NULL;
}

/* The text becomes what it says. Both are there for a moment, which is why both count. */
json_t *body_parse(struct body *body, struct server_request *request, const char **ret_why) {
        size_t length = body->text.length;

        *ret_why = too_much(&body->text);
        if (*ret_why || !hold(body, request, 2 * length))
                return NULL;
        body->json = json_loadb(strbuf_text(&body->text), length, JSON_REJECT_DUPLICATES, NULL);
        strbuf_release(&body->text);
        (void)!load_hold(&body->held, length);
        if (!body->json)
                *ret_why = not_an_object;
        return body->json;
}

const json_t *body_read(struct body *body, struct server_request *request) {
        const struct field *shape = operation_of(request)->body;
        const char *wrong = NULL;

        digest_sha256_hex(strbuf_text(&body->text), body->text.length, body->hash);
        if (body->text.length == 0)
                body->json = json_checked(json_object());
        else if (!body_parse(body, request, &wrong))
                return wrong ? refuse(request, wrong) : NULL;
        if (!json_is_object(body->json))
                return refuse(request, not_an_object);
        wrong = json_check(body->json, shape->fields, shape->groups, request->arena);
        return wrong ? refuse(request, wrong) : body->json;
}

bool body_is_type(const struct server_request *request, const char *type) {
        const char *said = server_header(request, "Content-Type");
        size_t length = strlen(type);

        return said && strncasecmp(said, type, length) == 0 &&
               (said[length] == '\0' || strchr("; \t", said[length]));
}

/* A page of another site may post a form without asking, never JSON. */
bool body_is_said_json(const struct server_request *request) {
        return body_is_type(request, "application/json");
}

void body_refuse_type(struct server_request *request) {
        answers_refuse(request, "unsupported-media-type",
                       "the body must be JSON: send Content-Type: application/json");
}

const json_t *body_object(struct body *body, struct server_request *request) {
        if (body->text.length > 0 && !body_is_said_json(request)) {
                body_refuse_type(request);
                return NULL;
        }
        return body_read(body, request);
}
