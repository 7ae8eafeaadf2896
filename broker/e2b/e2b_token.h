/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens of one sandbox, for one client and owner. Nothing is kept of them: they say whose they are, and prove it by an HMAC with the
 * server's key. They are void once the sandbox is gone, its client has another token than when they were made, or the JSON Web Token
 * that its client had then has expired.
 */
#ifndef BERTH_BROKER_E2B_E2B_TOKEN_H
#define BERTH_BROKER_E2B_E2B_TOKEN_H

#include "base/arena.h"
#include "broker/auth/door.h"

enum e2b_token_kind {
        E2B_TOKEN_ACCESS, /* envdAccessToken: X-Access-Token */
        E2B_TOKEN_TRAFFIC /* trafficAccessToken: E2B-Traffic-Access-Token */
};

/* `until_s`: since 1970; 0: without an end, for clients that have tokens of their own. */
const char *e2b_token_make(const uint8_t key[SHA256_SIZE], enum e2b_token_kind kind,
                           const struct broker_client *client, const char *owner, int64_t until_s,
                           const char *sandbox, struct arena *arena);
/* Whether it is such a token of the sandbox, and not past its end: then whose. */
bool e2b_token_check(const uint8_t key[SHA256_SIZE], enum e2b_token_kind kind, const struct door *door,
                     const char *token, const char *sandbox, struct arena *arena,
                     const struct broker_client **ret_client, const char **ret_owner);

#endif
