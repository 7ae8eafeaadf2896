/* SPDX-License-Identifier: Apache-2.0 */
/* Lists in pages: {items, cursor}, by `limit` and `cursor` of the query. */
#ifndef BERTH_BROKER_REQUEST_PAGE_H
#define BERTH_BROKER_REQUEST_PAGE_H

#include "server/server.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct page {
        size_t limit;
        const char *after; /* the name that the page before ended with; "" for the first */
        json_t *items;
        const char *last; /* the name of the last item */
        bool more;
};

/* By the request's query (call.h). */
void page_begin(struct page *page, const struct server_request *request);
/* Whether the item of that name belongs onto the page; names come in rising order. */
bool page_wants(struct page *page, const char *name);
/* Gives the reference away. */
void page_add(struct page *page, const char *name, json_t *item);
/* Answers. */
void page_end(struct page *page, struct server_request *request);

#endif
