/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The access token that `aws sso login` leaves in ~/.aws/sso/cache/SHA1.json (of the session's name, or of the start URL
 * where a profile knows no session): accessToken, expiresAt; for sessions also refreshToken, clientId, clientSecret,
 * registrationExpiresAt, with which a new one is had shortly before its end:
 *
 *     POST https://oidc.{region}.amazonaws.com/token, unsigned
 *     {"grantType": "refresh_token", "clientId", "clientSecret", "refreshToken"}
 *     <- {"accessToken", "expiresIn": seconds, "refreshToken"}
 *
 * and put into the file, for the AWS CLI to find too.
 */
#ifndef BERTH_PROVIDERS_AWS_CLIENT_SSO_TOKEN_H
#define BERTH_PROVIDERS_AWS_CLIENT_SSO_TOKEN_H

#include "base/clock.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "http/http.h"
#include "providers/aws/client/endpoint.h"

struct sso_token_source {
        const char *key; /* the session's name or the start URL */
        bool renewable;  /* a session's */
        const struct endpoint *oidc;
        const struct clock *clock;
        struct http_pool *http;
};

/* The file's path, to be released with free(); NULL where it cannot be told, as OpenSSL withholds SHA-1. */
char *sso_token_path(const char *key, struct error *err) MUST_USE;

/* Appends a token that is good now; the caller wipes `ret`. What to do about it (sign in) is for the caller to say. */
int sso_token_get(const struct sso_token_source *source, struct strbuf *ret, struct error *err) MUST_USE;

#endif
