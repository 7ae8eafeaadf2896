/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies are made in the arena of the call and owned by the request. Lists of tags come in two forms: {key: value}
 * from Lambda and Logs, [{Key, Value}] from ECR and the tagging API; both become a map.
 */
#include "providers/aws/client/aws_json.h"

#include "base/json.h"
#include "providers/aws/client/texts.h"

#include <stdlib.h>
#include <string.h>

const char *aws_json_text(json_t *json, struct arena *arena) {
        const char *copy;
        char *text;

        /* It may hold variables that are secrets. */
        json_secret_begin();
        text = json_compact(json);
        copy = arena_strdup(arena, text);
        explicit_bzero(text, strlen(text));
        free(text);
        json_decref(json);
        json_secret_end();
        return copy;
}

bool aws_json_says(const json_t *object, const char *name, const char *text) {
        return texts_same(json_text(object, name), text);
}

void aws_request_body(struct aws_request *request, json_t *body, struct arena *arena) {
        request->body = aws_json_text(body, arena);
        request->body_length = strlen(request->body);
}

struct aws_request aws_json_request(enum aws_service service, const char *operation, json_t *body,
                                    struct arena *arena) {
        struct aws_request request = { .service = service, .operation = operation, .method = "POST" };

        aws_request_body(&request, body, arena);
        return request;
}

int aws_next_page(const struct aws_response *response, const char *member, struct aws_paging *paging,
                  struct arena *arena, struct error *err) {
        return aws_paging_next(paging, json_text(response->json, member), arena, err);
}

bool aws_json_next(const struct aws_response *page, const struct aws_request *first, const char *member,
                   struct arena *arena, struct aws_request *ret) {
        const char *token = json_text(page->json, member);
        json_t *body;

        if (!token || !*token || !(body = json_loadb(first->body, first->body_length, 0, NULL)))
                return false;
        *ret = *first;
        json_set_text(body, member, token);
        aws_request_body(ret, body, arena);
        return true;
}

json_t *aws_json_map(const struct value *texts) {
        json_t *object = json_object();

        for (uint32_t i = 0; texts && texts->type == VALUE_MAP && i < texts->count; i++)
                json_set_text(object, texts->members[i].name, value_text_of(&texts->members[i].value));
        return object;
}

json_t *aws_json_tag_list(const struct value *tags) {
        json_t *list = json_array();

        for (uint32_t i = 0; tags && tags->type == VALUE_MAP && i < tags->count; i++) {
                const char *text = value_text_of(&tags->members[i].value);

                if (text)
                        json_array_append_new(
                                list, json_pack("{s:s, s:s}", "Key", tags->members[i].name, "Value", text));
        }
        return list;
}

json_t *aws_json_keys(const struct value *map) {
        json_t *list = json_array();

        for (uint32_t i = 0; map && map->type == VALUE_MAP && i < map->count; i++)
                json_array_append_new(list, json_string(map->members[i].name));
        return list;
}

struct value *aws_tags_from_json(const json_t *tags, struct arena *arena) {
        struct value *map = value_new_map(arena);
        const char *name;
        json_t *item;
        size_t i;

        if (json_is_object(tags)) {
                json_object_foreach ((json_t *)tags, name, item)
                        value_set_text(arena, map, name, json_string_value(item));
                return map;
        }
        json_array_foreach (tags, i, item) {
                if (json_text(item, "Key"))
                        value_set_text(arena, map, json_text(item, "Key"), json_text(item, "Value"));
        }
        return map;
}
