/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tickets for downloads. A browser that saves a file sends no header of a page's, so that the
 * address alone must do; and an address is kept in lists of downloads, histories and logs of
 * proxies. So a ticket stands for one file, or one archive, of the client that asked for it; it
 * works once, for a minute. Only hashes are kept. Any thread's.
 */
#ifndef BERTH_BROKER_AUTH_TICKETS_H
#define BERTH_BROKER_AUTH_TICKETS_H

#include "base/arena.h"
#include "broker/auth/door.h"

#define TICKET_SIZE 65 /* 256 random bits in hex, NUL */
#define TICKET_MS 60000
#define TICKETS_MAX 1024
#define TICKETS_PER_CALLER \
        32 /* of one client and owner: with one more the oldest of theirs is good for nothing */

/* The download that it allows. */
struct ticket {
        struct door_caller caller; /* that asked for it; what `agents` and `environments` name outlives it */
        const char *workspace;
        const char *path; /* NULL: the archive of all */
};

struct tickets;
struct tickets *tickets_new(void);
void tickets_free(struct tickets *tickets); /* NULL is fine */

/* False where too many are out. What `what` borrows is copied, but for those lists. */
bool tickets_issue(struct tickets *tickets, const struct ticket *what, int64_t now_ms,
                   char ret[TICKET_SIZE]) MUST_USE;
/* Uses the ticket up: false if it is unknown, used or expired. *ret is in the arena. */
bool tickets_redeem(struct tickets *tickets, const char *text, int64_t now_ms, struct arena *arena,
                    struct ticket *ret) MUST_USE;

#endif
