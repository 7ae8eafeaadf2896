/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/request/operation.h"

#include "base/json.h"
#include "broker/request/answers.h"
#include "schema/json_check.h"
#include "server/head.h"

#include <stdlib.h>
#include <string.h>

#define DIGITS_MAX 18 /* of a number that is not too large for certain */

const struct operation *operation_of(const struct server_request *request) {
        return request->route ? request->route->about : NULL;
}

static bool refuse(struct server_request *request, const char *why) {
        struct problem problem;

        (void)problem_set(&problem, PROBLEM_INVALID, "%s", why);
        answers_refusal(request, &problem);
        return false;
}

/* A new reference: what no number is stays a text, which the table refuses; NULL where it is no UTF-8. */
static json_t *read_text(const struct field *field, const char *text) {
        size_t length = strlen(text);

        if (field->type == FIELD_INTEGER && length > 0 && length <= DIGITS_MAX &&
            strspn(text, "0123456789") == length && (*text != '0' || length == 1))
                return json_checked(json_integer(strtoll(text, NULL, 10)));
        return json_string(text);
}

/* Whether it was added: not a second one of what stands once, nor what is no UTF-8. */
static bool add_text(json_t *object, const struct field *field, const char *text) {
        json_t *value = read_text(field->type == FIELD_LIST ? field->item : field, text),
               *list = json_object_get(object, field->name);

        if (!value || (list && field->type != FIELD_LIST)) {
                json_decref(value);
                return false;
        }
        if (field->type != FIELD_LIST) {
                json_put(object, field->name, value);
                return true;
        }
        if (!list) {
                list = json_checked(json_array());
                json_put(object, field->name, list);
        }
        json_add(list, value);
        return true;
}

static bool read_query(struct server_request *request, const struct field *fields, json_t *query) {
        for (size_t i = 0; i < request->query_count; i++) {
                const struct head_pair *pair = &request->query[i];
                const struct field *field = fields ? field_find(fields, pair->name) : NULL;

                if (!field)
                        return refuse(request, "the query has a parameter that is not known");
                if (!add_text(query, field, pair->value))
                        return refuse(request,
                                      arena_printf(request->arena,
                                                   "the parameter %s may stand once, in UTF-8", field->name));
        }
        return true;
}

/* Lists of words (Prefer) may repeat: a reader of them looks by itself. */
static bool read_headers(struct server_request *request, const struct field *fields, json_t *headers) {
        for (const struct field *field = fields; field && field->name; field++) {
                const char *value = server_header(request, field->name);

                if (field->type == FIELD_LIST || !server_has_header(request, field->name))
                        continue;
                if (!value || !add_text(headers, field, value))
                        return refuse(request,
                                      arena_printf(request->arena, "the header %s may stand once, in UTF-8",
                                                   field->name));
        }
        return true;
}

bool operation_parameters(struct server_request *request, json_t **ret) {
        static const struct field none[] = { { 0 } };
        const struct operation *operation = operation_of(request);
        json_t *query JSON_CLEANUP = json_checked(json_object()),
                      *headers JSON_CLEANUP = json_checked(json_object());
        const char *wrong;

        if (!read_query(request, operation->query, query) ||
            !read_headers(request, operation->headers, headers))
                return false;
        wrong = json_check(query, operation->query ? operation->query : none, NULL, request->arena);
        if (!wrong)
                wrong = json_check(headers, operation->headers ? operation->headers : none, NULL,
                                   request->arena);
        if (wrong)
                return refuse(request, wrong);
        *ret = json_incref(query);
        return true;
}
