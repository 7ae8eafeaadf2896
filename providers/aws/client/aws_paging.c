/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server that names pages in a circle would be asked forever, and each round would fill more
 * memory. To remember all tokens would be to keep the listing twice. So one is kept, and another
 * one in its place after 1, 2, 4, 8 ... pages (Brent's algorithm): once the distance is as long as
 * the circle, and the kept token lies in it, it comes round again. The bound on pages is for a
 * server that always has a new token.
 */
#include "providers/aws/client/aws_paging.h"

#include <string.h>

int aws_paging_next(struct aws_paging *paging, const char *next, struct arena *arena, struct error *err) {
        if (!next || !*next) {
                paging->token = NULL;
                return 0;
        }
        if (paging->kept && strcmp(paging->kept, next) == 0)
                return error_set(err, "the listing has no end: it leads back to the page %.80s", next);
        if (++paging->pages >= AWS_PAGES_MAX)
                return error_set(err, "the listing has no end: after %d pages there are more", AWS_PAGES_MAX);
        paging->token = arena_strdup(arena, next);
        if (paging->pages > paging->keep_at) {
                paging->kept = paging->token;
                paging->keep_at = 2 * paging->pages;
        }
        return 0;
}
