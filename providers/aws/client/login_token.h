/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `aws login` leaves in ~/.aws/login/cache/SHA256.json (of the profile's login_session; AWS_LOGIN_CACHE_DIRECTORY names
 * another folder): keys for 15 minutes, and what new ones are had with.
 *
 *     {"accessToken": {"accessKeyId", "secretAccessKey", "sessionToken", "accountId", "expiresAt"},
 *      "refreshToken", "clientId", "dpopKey": a key of P-256 in PEM, ...}
 *
 *     POST https://{region}.signin.aws.amazon.com/v1/token (CreateOAuth2Token), unsigned
 *     DPoP: a proof that the key is at hand (RFC 9449)
 *     {"clientId", "grantType": "refresh_token", "refreshToken"}
 *     <- {"accessToken": {"accessKeyId", "secretAccessKey", "sessionToken"}, "expiresIn": seconds, "refreshToken"}
 *
 * New ones are put into the file, for the AWS CLI to find too, whose refresh token would be the old one otherwise.
 */
#ifndef BERTH_PROVIDERS_AWS_CLIENT_LOGIN_TOKEN_H
#define BERTH_PROVIDERS_AWS_CLIENT_LOGIN_TOKEN_H

#include "base/clock.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "http/http.h"
#include "providers/aws/client/credentials.h"
#include "providers/aws/client/endpoint.h"
#include "providers/aws/client/retry.h"

struct login_token_source {
        const char *session; /* the profile's login_session */
        const char *profile; /* for messages */
        const struct endpoint *signin;
        const struct clock *clock;
        struct http_pool *http;
};

/* The file's path, to be released with free(). */
char *login_token_path(const char *session);

/*
 * The value of the header DPoP for a POST to `url` at `now_ms`, with the key in PEM; `id` must be
 * another one each time. Pure but for the number that each signature by ECDSA takes.
 */
int login_token_prove(const char *pem, const char *url, int64_t now_ms, const char *id, struct strbuf *ret,
                      struct error *err) MUST_USE;

/*
 * Keys that last for some minutes: the file's, renewed where they have to be. One try, with `ret_reason` and `ret_asked_ms` as in
 * credentials_source_ops.
 */
int login_token_get(const struct login_token_source *source, struct credentials **ret,
                    enum retry_reason *ret_reason, int64_t *ret_asked_ms, struct error *err) MUST_USE;

#endif
