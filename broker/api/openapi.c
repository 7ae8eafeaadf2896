/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects that several operations answer stand once, in `components`, and are named elsewhere; so do problems, whose name is that of
 * their codes. Members come in the tables' order, so that the same program writes the same document.
 */
#include "broker/api/openapi.h"

#include "base/json.h"
#include "base/strbuf.h"
#include "broker/api/api.h"
#include "broker/api/shapes.h"
#include "broker/auth/config.h"
#include "broker/request/answers.h"
#include "schema/json_check.h"
#include "schema/reference.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define RIGHTS_MAX 16

static const char description[] =
        "Code runs in sessions that keep their variables; files lie in workspaces that outlive them. "
        "Errors are `application/problem+json` with a stable `code`. Resources of other owners answer"
        " 404, like ids that never existed. Members and parameters that are not known are refused. "
        "Lists have pages: `cursor` of one asks for the next.";

struct writer {
        struct arena *arena;
        json_t *schemas, *responses;
};

/* --- the rows --- */

const struct operation *openapi_next(size_t *at, bool with_sessions) {
        const struct operation *operation;

        do
                operation = api_next(at, with_sessions);
        while (operation && !operation->id);
        return operation;
}

const char *const *openapi_rights(const struct operation *operation, struct arena *arena) {
        const char **names = arena_array(arena, RIGHTS_MAX, sizeof(*names)), *name;
        enum broker_right right;
        size_t count = 0;

        for (size_t i = 0;
             operation->needs <= OPERATION_NEEDS_CLIENT && (name = broker_right_name(i, &right)); i++) {
                if (operation->route.mark & right && count + 1 < RIGHTS_MAX)
                        names[count++] = name;
        }
        names[count] = NULL;
        return names;
}

/* Those of an operation's kind come first: each kind has what the one with fewer needs has. */
static const char *const of_all[] = { "bad-request",     "foreign-origin",  "too-large",
                                      "target-too-long", "foreign-host",    "unknown-expectation",
                                      "head-too-large",  "unknown-version", NULL };
static const char *const of_seats[] = { "no-seat", NULL };
static const char *const of_clients[] = {
        "invalid", "owner-invalid",     "unauthenticated",    "token-invalid", "owner-not-allowed",
        "no-keys", "too-many-requests", "too-many-under-way", "store-failed",  NULL
};
static const char *const of_bodies[] = { "unsupported-media-type", NULL };
static const char *const of_rights[] = { "not-permitted", NULL };
static const char *const of_owners[] = { "owner-required", NULL };
static const char *const of_sessions[] = { "no-sessions", "exhausted", "stopping", NULL };

static bool has(const char *const *codes, size_t count, const char *code) {
        while (count > 0) {
                if (strcmp(codes[--count], code) == 0)
                        return true;
        }
        return false;
}

const char *const *openapi_codes(const struct operation *operation, struct arena *arena) {
        const char *const *const lists[] = {
                of_all,
                operation->route.seat == SERVER_PROBE ? NULL : of_seats,
                operation->needs <= OPERATION_NEEDS_CLIENT ? of_clients : NULL,
                operation->body ? of_bodies : NULL,
                operation->route.mark ? of_rights : NULL,
                operation->needs <= OPERATION_NEEDS_OWNER ? of_owners : NULL,
                operation->needs <= OPERATION_NEEDS_SESSIONS ? of_sessions : NULL,
                operation->problems,
        };
        const char **codes = arena_array(arena, ANSWERS_CODES_MAX, sizeof(*codes));
        size_t count = 0;
        unsigned last = 0;

        /* By status: of each the lowest that is above the last one. */
        for (;;) {
                unsigned status = UINT_MAX;

                for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
                        for (const char *const *code = lists[i]; code && *code; code++) {
                                unsigned found = answers_code(*code)->status;

                                if (found > last && found < status)
                                        status = found;
                        }
                }
                if (status == UINT_MAX)
                        break;
                last = status;
                for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
                        for (const char *const *code = lists[i]; code && *code; code++) {
                                if (answers_code(*code)->status == status && !has(codes, count, *code))
                                        codes[count++] = *code;
                        }
                }
        }
        codes[count] = NULL;
        return codes;
}

const char *openapi_path_parameter(const char *path, size_t n, struct arena *arena) {
        for (const char *at = strchr(path, '{'); at; at = strchr(at + 1, '{')) {
                if (n-- == 0)
                        return arena_strndup(arena, at + 1, strcspn(at + 1, ".}"));
        }
        return NULL;
}

const char *openapi_path(const char *path, struct arena *arena) {
        const char *dots = strstr(path, "...}");

        return dots ? arena_printf(arena, "%.*s}", (int)(dots - path), path) : path;
}

/* --- what is asked --- */

static json_t *schema_of(const struct writer *writer, const struct field *field, enum schema_style style) {
        return schema_json_field(field, style, writer->schemas);
}

static json_t *parameter(const struct writer *writer, const struct field *field, const char *in) {
        bool in_header = strcmp(in, "header") == 0;
        json_t *schema = in_header && field->type == FIELD_LIST
                                 ? json_checked(json_pack("{s:s}", "type", "string"))
                                 : schema_of(writer, field, SCHEMA_ASKED);
        json_t *json = json_checked(json_pack("{s:s, s:s}", "name", field->name, "in", in));

        if (strcmp(in, "path") == 0 || field->required)
                json_put(json, "required", json_true());
        json_set_text(json, "description", field->doc);
        json_object_del(schema, "description");
        json_put(json, "schema", schema);
        return json;
}

static json_t *parameters_json(const struct writer *writer, const struct operation *operation) {
        json_t *list = json_checked(json_array());
        const char *name;

        for (size_t i = 0; (name = openapi_path_parameter(operation->route.path, i, writer->arena)); i++)
                json_add(list, parameter(writer, api_path_field(name), "path"));
        for (const struct field *field = operation->query; field && field->name; field++)
                json_add(list, parameter(writer, field, "query"));
        if (operation->needs <= OPERATION_NEEDS_OWNER)
                json_add(list, parameter(writer, &shape_owner_header, "header"));
        for (const struct field *field = operation->headers; field && field->name; field++)
                json_add(list, parameter(writer, field, "header"));
        return list;
}

static bool takes_nothing(const struct operation *operation, struct arena *arena) {
        json_t *nothing JSON_CLEANUP = json_checked(json_object());

        return operation->body &&
               !json_check(nothing, operation->body->fields, operation->body->groups, arena);
}

/* Bytes: OpenAPI 3.1 would have no schema, which generators take for no body. */
static json_t *bytes_json(void) {
        return json_checked(json_pack("{s:s, s:s}", "type", "string", "format", "binary"));
}

static json_t *body_json(const struct writer *writer, const struct operation *operation) {
        json_t *content = json_checked(json_object()), *media;

        if (operation->body_type) {
                json_put(content, operation->body_type, json_pack("{s:o}", "schema", bytes_json()));
        } else {
                media = json_checked(
                        json_pack("{s:o}", "schema", schema_of(writer, operation->body, SCHEMA_ASKED)));
                if (operation->example)
                        json_put(media, "example", json_loads(operation->example, 0, NULL));
                json_put(content, "application/json", media);
        }
        if (operation->form)
                json_put(content, "multipart/form-data",
                         json_pack("{s:{s:s, s:[s], s:{s:o}, s:o, s:{s:s, s:s}}, s:{s:{s:s}}}", "schema",
                                   "type", "object", "required", "request", "properties", "request",
                                   schema_of(writer, operation->body, SCHEMA_ASKED), "propertyNames",
                                   schema_of(writer, &shape_part_name, SCHEMA_ASKED), "additionalProperties",
                                   "type", "string", "contentMediaType", "application/octet-stream",
                                   "encoding", "request", "contentType", "application/json"));
        return json_checked(json_pack("{s:b, s:o}", "required", !takes_nothing(operation, writer->arena),
                                      "content", content));
}

/* --- what is answered --- */

/* A schema with a name, which is given away unless that is there already; what refers to it. */
static json_t *named(const struct writer *writer, const char *name, json_t *schema) {
        if (json_object_get(writer->schemas, name))
                json_decref(schema);
        else
                json_put(writer->schemas, name, schema);
        return json_checked(
                json_pack("{s:s}", "$ref", arena_printf(writer->arena, "#/components/schemas/%s", name)));
}

/* The members of its shape, and `event`. */
static json_t *event_json(const struct writer *writer, const struct shape_event *event) {
        struct field shape = *event->shape;
        json_t *schema, *required;

        shape.component = NULL;
        schema = schema_of(writer, &shape, SCHEMA_ANSWERED);
        json_put(json_object_get(schema, "properties"), "event",
                 json_pack("{s:s, s:s}", "type", "string", "const", event->name));
        required = json_object_get(schema, "required");
        if (!required) {
                required = json_checked(json_array());
                json_put(schema, "required", required);
        }
        json_add(required, json_string("event"));
        return named(writer, event->component, schema);
}

static json_t *events_json(const struct writer *writer, const struct shape_events *events) {
        json_t *choices = json_checked(json_array()), *mapping = json_checked(json_object());

        for (const struct shape_event *event = events->items; event->name; event++) {
                json_t *reference = event_json(writer, event);

                json_set_text(mapping, event->name, json_text(reference, "$ref"));
                json_add(choices, reference);
        }
        return named(writer, events->component,
                     json_checked(json_pack("{s:o, s:{s:s, s:o}}", "oneOf", choices, "discriminator",
                                            "propertyName", "event", "mapping", mapping)));
}

/* The fields of an event of the stream, as OpenAPI 3.2 has them: `data` is a text that holds JSON. */
static json_t *messages_json(const struct writer *writer, const struct shape_events *events) {
        return named(writer, arena_printf(writer->arena, "%sMessage", events->component),
                     json_checked(json_pack("{s:s, s:[s, s, s], s:{s:{s:s}, s:{s:s}, s:{s:s, s:s, s:o}}}",
                                            "type", "object", "required", "id", "event", "data", "properties",
                                            "id", "type", "string", "event", "type", "string", "data", "type",
                                            "string", "contentMediaType", "application/json", "contentSchema",
                                            events_json(writer, events))));
}

static json_t *answer_schema(const struct writer *writer, const struct operation_answer *answer) {
        json_t *schema;

        if (answer->events)
                return messages_json(writer, answer->events);
        if (!answer->shape)
                return strcmp(answer->type, "text/plain") == 0
                               ? json_checked(json_pack("{s:s}", "type", "string"))
                               : bytes_json();
        schema = schema_of(writer, answer->shape, SCHEMA_ANSWERED);
        if (answer->other)
                schema = json_pack("{s:[o, o]}", "anyOf", schema,
                                   schema_of(writer, answer->other, SCHEMA_ANSWERED));
        if (answer->list)
                schema = named(writer, arena_printf(writer->arena, "%sPage", answer->shape->component),
                               json_pack("{s:s, s:[s, s], s:{s:{s:s, s:o}, s:{s:[s, s], s:s}}}", "type",
                                         "object", "required", "items", "cursor", "properties", "items",
                                         "type", "array", "items", schema, "cursor", "type", "string", "null",
                                         "description", "Asks for the next page; null on the last."));
        return json_checked(schema);
}

static void put_header(json_t *response, const char *name) {
        json_t *headers = json_object_get(response, "headers");

        if (!headers) {
                headers = json_checked(json_object());
                json_put(response, "headers", headers);
        }
        json_put(headers, name, json_pack("{s:{s:s}}", "schema", "type", "string"));
}

static void put_answer(const struct writer *writer, json_t *responses,
                       const struct operation_answer *answer) {
        const char *status = arena_printf(writer->arena, "%u", answer->status);
        json_t *response = json_object_get(responses, status), *content;

        if (!response) {
                response = json_checked(json_pack("{s:s}", "description", answer->doc));
                json_put(responses, status, response);
        }
        for (const char *const *header = answer->headers; header && *header; header++)
                put_header(response, *header);
        if (!answer->type)
                return;
        content = json_object_get(response, "content");
        if (!content) {
                content = json_checked(json_object());
                json_put(response, "content", content);
        }
        json_put(content, answer->type, json_pack("{s:o}", "schema", answer_schema(writer, answer)));
}

static json_t *problem_response(const struct writer *writer, unsigned status, const char *const *codes,
                                size_t count) {
        json_t *names = json_checked(json_array()), *response;
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        for (size_t i = 0; i < count; i++) {
                json_add(names, json_string(codes[i]));
                strbuf_printf(&text, "%s`%s`: %s", i ? "; " : "", codes[i], answers_code(codes[i])->title);
        }
        /* One model for all problems: the codes stand beside it. */
        response = json_checked(json_pack("{s:s, s:{s:{s:o}}, s:o}", "description", strbuf_text(&text),
                                          "content", "application/problem+json", "schema",
                                          schema_of(writer, &shape_problem, SCHEMA_ANSWERED), "x-berth-codes",
                                          names));
        if (status == 401)
                put_header(response, "WWW-Authenticate");
        if (status == 429 || status == 503)
                put_header(response, "Retry-After");
        return response;
}

static void put_problems(const struct writer *writer, json_t *responses, const struct operation *operation) {
        const char *const *codes = openapi_codes(operation, writer->arena);

        while (*codes) {
                struct strbuf name STRBUF_CLEANUP = STRBUF_INIT;
                unsigned status = answers_code(*codes)->status;
                size_t count = 0;

                for (; codes[count] && answers_code(codes[count])->status == status; count++)
                        strbuf_printf(&name, "%s%s", count ? "." : "", codes[count]);
                if (!json_object_get(writer->responses, strbuf_text(&name)))
                        json_put(writer->responses, strbuf_text(&name),
                                 problem_response(writer, status, codes, count));
                json_put(responses, arena_printf(writer->arena, "%u", status),
                         json_pack("{s:s}", "$ref",
                                   arena_printf(writer->arena, "#/components/responses/%s",
                                                strbuf_text(&name))));
                codes += count;
        }
}

/* --- an operation --- */

static json_t *operation_json(const struct writer *writer, const struct operation *operation, bool is_head) {
        json_t *json = json_checked(json_object()), *responses = json_checked(json_object()), *may;
        const char *const *rights = openapi_rights(operation, writer->arena);

        json_put(json, "operationId",
                 json_string(arena_printf(writer->arena, "%s%s", operation->id, is_head ? "Head" : "")));
        json_put(json, "tags", json_pack("[s]", operation->tag));
        json_set_text(json, "summary", operation->title);
        json_set_text(json, "description", operation->doc);
        if (operation->needs == OPERATION_NEEDS_NOTHING)
                json_put(json, "security", json_array());
        if (*rights) {
                may = json_checked(json_array());
                for (; *rights; rights++)
                        json_add(may, json_string(*rights));
                json_put(json, "x-berth-may", may);
        }
        json_put(json, "parameters", parameters_json(writer, operation));
        if (operation->body || operation->body_type)
                json_put(json, "requestBody", body_json(writer, operation));
        for (const struct operation_answer *answer = operation->answers; answer->status; answer++)
                put_answer(writer, responses, answer);
        put_problems(writer, responses, operation);
        json_put(json, "responses", responses);
        return json;
}

static const char *lower_case(const char *method, struct arena *arena) {
        char *text = arena_strdup(arena, method);

        for (char *at = text; *at; at++)
                *at = (char)(*at >= 'A' && *at <= 'Z' ? *at - 'A' + 'a' : *at);
        return text;
}

static json_t *tags_json(bool with_sessions) {
        json_t *tags = json_checked(json_array());
        const struct operation *operation;
        const char *last = "";

        for (size_t at = 0; (operation = openapi_next(&at, with_sessions));) {
                if (strcmp(last, operation->tag) != 0)
                        json_add(tags, json_pack("{s:s}", "name", operation->tag));
                last = operation->tag;
        }
        return tags;
}

json_t *openapi_document(bool with_sessions) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct writer writer = { arena, json_checked(json_object()), json_checked(json_object()) };
        json_t *paths = json_checked(json_object());
        const struct operation *operation;

        for (size_t at = 0; (operation = openapi_next(&at, with_sessions));) {
                const char *path = openapi_path(operation->route.path, arena);
                json_t *item = json_object_get(paths, path);

                if (!item) {
                        item = json_checked(json_object());
                        json_put(paths, path, item);
                }
                json_put(item, lower_case(operation->route.method, arena),
                         operation_json(&writer, operation, false));
                if (operation->head_too)
                        json_put(item, "head", operation_json(&writer, operation, true));
        }
        return json_checked(json_pack(
                "{s:s, s:{s:s, s:s, s:s, s:{s:s, s:s}}, s:[{s:s}], s:[{s:[]}], s:o, s:o, s:{s:{s:{s:s, s:s}}, s:o, s:o}}",
                "openapi", "3.1.0", "info", "title", "Berth", "version", BERTH_VERSION, "description",
                description, "license", "name", "Apache-2.0", "identifier", "Apache-2.0", "servers", "url",
                "/", "security", "token", "tags", tags_json(with_sessions), "paths", paths, "components",
                "securitySchemes", "token", "type", "http", "scheme", "bearer", "schemas", writer.schemas,
                "responses", writer.responses));
}
