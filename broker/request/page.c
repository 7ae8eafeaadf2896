/* SPDX-License-Identifier: Apache-2.0 */
/* A cursor is the last name of the page before: what was applied or deleted in between moves nothing else. */
#include "broker/request/page.h"

#include "base/json.h"
#include "broker/request/answers.h"
#include "broker/request/call.h"

#include <string.h>

void page_begin(struct page *page, const struct server_request *request) {
        const struct call *call = request->data;
        const char *after = json_text(call->query, "cursor");

        *page = (struct page){ .limit = call_limit(call),
                               .after = after ? after : "",
                               .items = json_checked(json_array()) };
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
