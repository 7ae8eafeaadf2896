/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients whose tokens are JSON Web Tokens: which of them a token is of, by the keys of its issuer.
 * Those come from a file, or are fetched by https, before the first request and then every
 * ISSUERS_FETCH_S, and are kept. A changed file is read again. A token that names a key which is
 * not known has them fetched at once, and waits for that: an issuer may sign by a new key as soon
 * as it has published it. Invented key names cause at most ISSUERS_TURNS fetches, and one more each
 * ISSUERS_TURN_S.
 */
#ifndef BERTH_BROKER_AUTH_ISSUERS_H
#define BERTH_BROKER_AUTH_ISSUERS_H

#include "base/arena.h"
#include "base/error.h"
#include "broker/auth/config.h"
#include "server/metrics.h"

#define ISSUERS_FETCH_S 600
/* keys that could not be fetched again for this time are no longer trusted */
#define ISSUERS_FORGET_S 86400
#define ISSUERS_TURNS 4
#define ISSUERS_TURN_S 30
#define ISSUERS_WAIT_S 5       /* that a request waits for keys */
#define ISSUERS_WAITING_MAX 64 /* requests that wait, for each issuer */

struct issuers;
/* All borrowed. Fetching begins; `fetches` is the family of `metrics` that counts it. */
int issuers_new(const struct broker_client *clients, size_t count, struct metrics *metrics, size_t fetches,
                struct issuers **ret, struct error *err) MUST_USE;
/* No thread waits for keys any more. NULL is fine. */
void issuers_stop(struct issuers *issuers);
/* After that; no thread may ask any more. NULL is fine. */
void issuers_free(struct issuers *issuers);

/* Reads files that changed: to be called now and then. */
void issuers_look(struct issuers *issuers);

enum issuers_verdict {
        ISSUERS_KNOWN,
        ISSUERS_STRANGER, /* no token of any client's */
        ISSUERS_REFUSED,  /* a client's, that is not valid now, or names no owner where it must */
        ISSUERS_NO_KEYS   /* not known: the issuer's keys cannot be had at the moment */
};
struct issuers_found {
        const struct broker_client *client;
        const char *owner; /* by ownerClaim, in the arena; NULL if the token has none */
        int64_t until_s;   /* since 1970: the token's end */
        const char *why;   /* refused: in words for the token's holder */
};
/* Any thread; may wait. The arena is the request's. */
enum issuers_verdict issuers_ask(struct issuers *issuers, const char *token, struct arena *arena,
                                 struct issuers_found *ret);

#endif
