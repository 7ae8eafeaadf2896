/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of requests and answers in JSON, tags in them, and listings by pages. */
#ifndef BERTH_PROVIDERS_AWS_CLIENT_AWS_JSON_H
#define BERTH_PROVIDERS_AWS_CLIENT_AWS_JSON_H

#include "base/arena.h"
#include "providers/aws/client/aws_client.h"
#include "providers/aws/client/aws_paging.h"
#include "schema/value.h"

#include <jansson.h>

/* Writes `body` (whose reference is taken) as the request's body. */
void aws_request_body(struct aws_request *request, json_t *body, struct arena *arena);

/* A request of a JSON 1.1 service: everything is in the body. */
struct aws_request aws_json_request(enum aws_service service, const char *operation, json_t *body,
                                    struct arena *arena);

/* aws_paging_next() with the token that `member` of the answer says. */
int aws_next_page(const struct aws_response *response, const char *member, struct aws_paging *paging,
                  struct arena *arena, struct error *err) MUST_USE;

/* An aws_next_request of a JSON 1.1 service: `first` with `member` as the page says it. */
bool aws_json_next(const struct aws_response *page, const struct aws_request *first, const char *member,
                   struct arena *arena, struct aws_request *ret);

/* Compact text in the arena; the reference to `json` is taken. */
const char *aws_json_text(json_t *json, struct arena *arena);
/* Whether the object has a member of this name that is this very text. */
bool aws_json_says(const json_t *object, const char *name, const char *text);

/* A map of texts as {KEY: TEXT}; other values are left out. NULL gives {}. A new reference. */
json_t *aws_json_map(const struct value *texts);
/* As [{"Key": KEY, "Value": TEXT}]. A new reference. */
json_t *aws_json_tag_list(const struct value *tags);
/* The names of a map's members as ["KEY"]. A new reference. */
json_t *aws_json_keys(const struct value *map);

/* From {KEY: TEXT}, or from [{"Key": KEY, "Value": TEXT}]: a map of texts, empty where `tags` is neither. */
struct value *aws_tags_from_json(const json_t *tags, struct arena *arena);

#endif
