/* SPDX-License-Identifier: Apache-2.0 */
/* A cursor is the last name of the page before: what was applied or deleted in between moves nothing else. */
#include "broker/page.h"

#include "base/json.h"
#include "broker/answers.h"
#include "server/head.h"

#include <string.h>

static bool refuse(struct server_request *request, const char *detail) {
        const struct problem problem = { .code = PROBLEM_INVALID };
        struct problem said = problem;

        (void)problem_set(&said, PROBLEM_INVALID, "%s", detail);
        answers_refusal(request, &said);
        return false;
}

/* 0 where it is no number from 1 to PAGE_LIMIT_MAX. */
static size_t parse_limit(const char *text) {
        size_t limit = 0;

        if (strlen(text) > 4 || text[strspn(text, "0123456789")] != '\0' || *text == '0')
                return 0;
        for (; *text; text++)
                limit = limit * 10 + (size_t)(*text - '0');
        return limit <= PAGE_LIMIT_MAX ? limit : 0;
}

bool page_begin(struct page *page, struct server_request *request) {
        const char *limit = NULL, *after = NULL;

        for (size_t i = 0; i < request->query_count; i++) {
                const struct head_pair *pair = &request->query[i];
                const char **place = strcmp(pair->name, "limit") == 0    ? &limit
                                     : strcmp(pair->name, "cursor") == 0 ? &after
                                                                         : NULL;

                if (!place || *place)
                        return refuse(request, "the query may have limit and cursor, each once");
                *place = pair->value;
        }
        *page = (struct page){ .limit = limit ? parse_limit(limit) : PAGE_LIMIT,
                               .after = after ? after : "" };
        if (page->limit == 0)
                return refuse(request, "limit must be a number from 1 to 1000");
        page->items = json_checked(json_array());
        return true;
}

bool page_wants(struct page *page, const char *name) {
        if (strcmp(name, page->after) <= 0)
                return false;
        if (json_array_size(page->items) < page->limit)
                return true;
        page->more = true;
        return false;
}

void page_add(struct page *page, const char *name, json_t *item) {
        json_add(page->items, item);
        page->last = name;
}

void page_end(struct page *page, struct server_request *request) {
        answers_json(
                request, 200,
                json_pack("{s:o, s:s?}", "items", page->items, "cursor", page->more ? page->last : NULL));
}
