/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/body.h"

#include "base/digest.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "broker/answers.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DEPTH_MAX 64

static atomic_size_t bodies; /* bytes of all */

static bool count(struct body *body, struct server_request *request, size_t length) {
        if (atomic_fetch_add(&bodies, length) + length > BODIES_MAX) {
                atomic_fetch_sub(&bodies, length);
                server_add_header(request, "Retry-After", "1");
                answers_unrouted(request, 503,
                                 "the bodies of all requests together are too large: ask again");
                return false;
        }
        body->counted += length;
        return true;
}

bool body_refuse_size(struct server_request *request) {
        answers_unrouted(request, 413, "JSON may have 32 MiB");
        return false;
}

bool body_take(struct body *body, struct server_request *request, const void *bytes, size_t length) {
        if (length > BODY_MAX - body->text.length)
                return body_refuse_size(request);
        if (!count(body, request, length))
                return false;
        strbuf_append_bytes(&body->text, bytes, length);
        return true;
}

void body_release(struct body *body) {
        atomic_fetch_sub(&bodies, body->counted);
        body->counted = 0;
        strbuf_wipe(&body->text); /* variables may be secrets */
        json_decref(body->json);
        body->json = NULL;
}

static const json_t *refuse(struct server_request *request, const char *what, const char *name) {
        struct problem problem;

        (void)problem_set(&problem, PROBLEM_INVALID, "%s%s", what, name);
        answers_refusal(request, &problem);
        return NULL;
}

static bool fits(const json_t *value, json_type type) {
        if (json_is_null(value))
                return true;
        return type == JSON_TRUE ? json_is_boolean(value) : json_typeof(value) == type;
}

static const struct body_member *find_member(const struct body_member *members, const char *name) {
        for (; members->name; members++) {
                if (strcmp(members->name, name) == 0)
                        return members;
        }
        return NULL;
}

/*
 * The parser calls itself for each level, and threads have little stack; and of "[[],[],..." it makes forty times the text: what
 * nests deeper, or has more values, is not given to it.
 */
static const char *too_much(const struct strbuf *text) {
        bool quoted = false;
        unsigned depth = 0, values = 0;

        for (size_t i = 0; i < text->length; i++) {
                char byte = text->data[i];

                if (quoted && byte == '\\')
                        i++;
                else if (byte == '"')
                        quoted = !quoted;
                if (quoted || !byte || !strchr("[{]},:", byte))
                        continue;
                if ((byte == '[' || byte == '{') && ++depth > DEPTH_MAX)
                        return "the body nests too deep";
                if ((byte == ']' || byte == '}') && depth > 0)
                        depth--;
                if (++values > BODY_VALUES_MAX)
                        return "the body has too many values";
        }
        return NULL;
}

/* The text becomes what it says. Both are there for a moment, which is why both count. */
static bool parse(struct body *body, struct server_request *request) {
        size_t length = body->text.length;

        if (!count(body, request, length))
                return false;
        body->json = json_loadb(body->text.data, length, JSON_REJECT_DUPLICATES, NULL);
        strbuf_wipe(&body->text);
        atomic_fetch_sub(&bodies, length);
        body->counted -= length;
        return true;
}

const json_t *body_read(struct body *body, struct server_request *request,
                        const struct body_member *members) {
        const char *wrong = too_much(&body->text), *name;
        json_t *value;

        digest_sha256_hex(strbuf_text(&body->text), body->text.length, body->hash);
        if (body->text.length == 0) {
                body->json = json_checked(json_object());
                return body->json;
        }
        if (wrong)
                return refuse(request, wrong, "");
        if (!parse(body, request))
                return NULL;
        if (!json_is_object(body->json))
                return refuse(request, "the body must be one JSON object, ",
                              "each member of which stands once");
        json_object_foreach (body->json, name, value) {
                const struct body_member *member = find_member(members, name);

                if (!member)
                        return refuse(request, "the body has a member that is not known: ",
                                      arena_strndup(request->arena, name, strnlen(name, 100)));
                if (!fits(value, member->type))
                        return refuse(request, "of another type than it must be is the member ",
                                      member->name);
        }
        return body->json;
}

const json_t *body_object(struct body *body, struct server_request *request,
                          const struct body_member *members) {
        const char *type = server_header(request, "Content-Type");

        /* A page of somebody else's may post a form without asking, never JSON. */
        if (body->text.length > 0 && (!type || strncasecmp(type, "application/json", 16) != 0 ||
                                      !(type[16] == '\0' || type[16] == ';' || type[16] == ' ')))
                return refuse(request, "the body must be JSON: ", "Content-Type: application/json");
        return body_read(body, request, members);
}
