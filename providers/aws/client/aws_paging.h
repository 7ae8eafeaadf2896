/* SPDX-License-Identifier: Apache-2.0 */
/* Where a listing by pages stands, and whether it ever ends. */
#ifndef BERTH_PROVIDERS_AWS_CLIENT_AWS_PAGING_H
#define BERTH_PROVIDERS_AWS_CLIENT_AWS_PAGING_H

#include "base/arena.h"
#include "base/error.h"

/* More pages than any listing of AWS's that Berth reads can have: a million log groups come fifty a page. */
#define AWS_PAGES_MAX 20000

/* Zeroed before the first page. */
struct aws_paging {
        const char *token; /* what the next page is asked for with; NULL: the first one, or none left */
        const char *kept;  /* an earlier token, to be met again by a listing that goes in a circle */
        unsigned pages, keep_at;
};

/*
 * Goes on to the page that an answer names as the next, which is copied into the arena; NULL and "" name none, and the
 * listing is over. Fails where the listing leads back to a page that was read, or has more than AWS_PAGES_MAX of them.
 * A circle is found after three times as many pages as it takes to go round it once.
 */
int aws_paging_next(struct aws_paging *paging, const char *next, struct arena *arena,
                    struct error *err) MUST_USE;

#endif
