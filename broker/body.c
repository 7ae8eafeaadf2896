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

struct body {
        struct strbuf text;
        json_t *json;
};

static atomic_size_t bodies; /* bytes of all */

void body_begin(struct server_request *request) {
        struct body *body = arena_alloc(request->arena, sizeof(*body));

        *body = (struct body){ .text = STRBUF_INIT };
        request->data = body;
}

void body_take(struct server_request *request, const void *bytes, size_t length) {
        struct body *body = request->data;

        if (atomic_fetch_add(&bodies, length) + length > BODIES_MAX) {
                atomic_fetch_sub(&bodies, length);
                server_add_header(request, "Retry-After", "1");
                answers_unrouted(request, 503,
                                 "the bodies of all requests together are too large: ask again");
                return;
        }
        strbuf_append_bytes(&body->text, bytes, length);
}

void body_end(struct server_request *request) {
        struct body *body = request->data;

        atomic_fetch_sub(&bodies, body->text.length);
        strbuf_wipe(&body->text); /* variables may be secrets */
        strbuf_release(&body->text);
        json_decref(body->json);
}

const char *body_hash(struct server_request *request) {
        const struct body *body = request->data;
        char *hex = arena_alloc(request->arena, SHA256_HEX_SIZE);

        digest_sha256_hex(strbuf_text(&body->text), body->text.length, hex);
        return hex;
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

/* The parser calls itself for each level, and threads have little stack: what nests deeper is not given to it. */
static bool is_shallow(const struct strbuf *text) {
        bool quoted = false;
        unsigned depth = 0;

        for (size_t i = 0; i < text->length; i++) {
                char byte = text->data[i];

                if (quoted && byte == '\\')
                        i++;
                else if (byte == '"')
                        quoted = !quoted;
                else if (!quoted && (byte == '[' || byte == '{') && ++depth > DEPTH_MAX)
                        return false;
                else if (!quoted && (byte == ']' || byte == '}') && depth > 0)
                        depth--;
        }
        return true;
}

const json_t *body_object(struct server_request *request, const struct body_member *members) {
        struct body *body = request->data;
        const char *type = server_header(request, "Content-Type"), *name;
        json_t *value;

        if (body->text.length == 0) {
                body->json = json_checked(json_object());
                return body->json;
        }
        /* A page of somebody else's may post a form without asking, never JSON. */
        if (!type || strncasecmp(type, "application/json", 16) != 0 ||
            !(type[16] == '\0' || type[16] == ';' || type[16] == ' '))
                return refuse(request, "the body must be JSON: ", "Content-Type: application/json");
        if (!is_shallow(&body->text))
                return refuse(request, "the body nests too deep", "");
        body->json = json_loadb(body->text.data, body->text.length, JSON_REJECT_DUPLICATES, NULL);
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
