/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The AWS CLI keeps a token in ~/.aws/sso/cache, in a file named by the SHA-1 of the session's name (or of the start
 * URL, in the older form). It is used as long as it lasts and renewed by its refresh token in the last RENEW_MS, as
 * botocore does. Signing in takes a browser and is left to `aws sso login`.
 */
#include "providers/aws/client/sso_token.h"

#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "providers/aws/client/credentials_answer.h"
#include "providers/aws/client/profiles.h"

#include <stdlib.h>
#include <string.h>

#define FILE_LIMIT (256U * 1024U)
#define ANSWER_LIMIT (256U * 1024U)
#define RENEW_MS (15 * 60 * 1000)
#define TIMEOUT_MS 30000

char *sso_token_path(const char *key, struct error *err) {
        uint8_t digest[SHA1_SIZE];
        char hex[2 * SHA1_SIZE + 1];
        struct strbuf path STRBUF_CLEANUP = STRBUF_INIT;

        if (!digest_sha1(key, strlen(key), digest)) {
                error_set(
                        err,
                        "the file of the sign-in to %s is named by a SHA-1, which OpenSSL does not give here "
                        "(FIPS): use another source of credentials",
                        key);
                return NULL;
        }
        digest_hex(digest, sizeof(digest), hex);
        strbuf_printf(&path, "~/.aws/sso/cache/%s.json", hex);
        return profiles_expand(strbuf_text(&path));
}

static int load_token(const char *path, const char *key, json_t **ret, struct error *err) {
        struct strbuf text = STRBUF_SECRET;
        struct error problem = { 0 };
        int result = file_read(path, FILE_LIMIT, &text, &problem);

        if (result < 0 && problem.kind == ERROR_NOT_FOUND)
                error_set(err, "not signed in to %s yet (%s does not exist)", key, path);
        else if (result < 0)
                *err = problem;
        else
                result = credentials_answer_parse(&text, path, ret, err);
        strbuf_release(&text);
        return result;
}

/* The request's body, to be wiped and released; NULL where the token cannot be renewed. */
static char *make_request(const json_t *token, int64_t now_ms) {
        json_t *body CREDENTIALS_ANSWER_CLEANUP = NULL;

        if (!json_text(token, "refreshToken") || !json_text(token, "clientId") ||
            !json_text(token, "clientSecret") ||
            credentials_answer_time_ms(json_text(token, "registrationExpiresAt")) <= now_ms)
                return NULL;
        body = json_object();
        json_set_text(body, "grantType", "refresh_token");
        json_set_text(body, "clientId", json_text(token, "clientId"));
        json_set_text(body, "clientSecret", json_text(token, "clientSecret"));
        json_set_text(body, "refreshToken", json_text(token, "refreshToken"));
        return json_compact(body);
}

static int ask_for_token(const struct sso_token_source *source, const char *body, json_t **ret,
                         struct error *err) {
        static const struct http_header type = { "content-type", "application/json" };
        struct http_response answer HTTP_RESPONSE_CLEANUP = HTTP_RESPONSE_INIT;
        struct strbuf url STRBUF_CLEANUP = STRBUF_INIT;
        struct http_request request = {
                .method = "POST",
                .headers = &type,
                .header_count = 1,
                .body = body,
                .body_length = strlen(body),
                .answer_limit = ANSWER_LIMIT,
                .timeout_ms = TIMEOUT_MS,
                .allow_plain = source->oidc->configured_by != NULL,
                .interrupt = source->clock->interrupt,
        };
        enum http_failure failure;
        int result;

        strbuf_printf(&url, "%s://%s%s/token", source->oidc->scheme, source->oidc->host,
                      source->oidc->prefix);
        request.url = strbuf_text(&url);
        if (http_send(source->http, &request, &answer, &failure, err) < 0)
                return -1;
        log_debug("aws: sso-oidc CreateToken: %d", answer.status);
        if (answer.status != 200)
                result = error_set(err, "sso-oidc CreateToken: %d", answer.status);
        else
                result = credentials_answer_parse(&answer.body, "the answer to sso-oidc CreateToken", ret,
                                                  err);
        strbuf_release(&answer.body);
        return result;
}

/* Puts new texts into `token` if a new token can be had. */
static int renew_token(const struct sso_token_source *source, const char *path, json_t *token,
                       struct error *err) {
        int64_t now_ms = source->clock->wall_ms(source->clock);
        json_t *answer CREDENTIALS_ANSWER_CLEANUP = NULL;
        struct strbuf spent = STRBUF_SECRET;
        char *body = make_request(token, now_ms), when[32];
        json_int_t seconds;
        int result;

        if (!body)
                return error_set(err, "it cannot be renewed");
        result = ask_for_token(source, body, &answer, err);
        explicit_bzero(body, strlen(body));
        free(body);
        if (result < 0)
                return -1;
        seconds = json_integer_or(answer, "expiresIn", 0);
        if (!json_text(answer, "accessToken") || strpbrk(json_text(answer, "accessToken"), "\r\n") ||
            seconds <= 0 || seconds > 366 * 24 * 3600)
                return error_set(err, "the answer to sso-oidc CreateToken holds no token");
        clock_format(now_ms + seconds * 1000, when, sizeof(when));
        strbuf_append(&spent, json_text(token, "refreshToken"));
        credentials_answer_set(token, "accessToken", json_text(answer, "accessToken"));
        json_set_text(token, "expiresAt", when);
        credentials_answer_set(token, "refreshToken", json_text(answer, "refreshToken"));
        credentials_answer_keep(path, strbuf_text(&spent), token);
        strbuf_release(&spent);
        return 0;
}

/* Another process has renewed it meanwhile: then the service refuses what this one has sent, and the file has the new token. */
static void read_others(const char *path, const char *key, json_t **token, int64_t *expires_ms) {
        json_t *now CREDENTIALS_ANSWER_CLEANUP = NULL;
        struct error ignored;
        int64_t until_ms;

        if (load_token(path, key, &now, &ignored) < 0 || !json_text(now, "accessToken"))
                return;
        until_ms = credentials_answer_time_ms(json_text(now, "expiresAt"));
        if (until_ms <= *expires_ms)
                return;
        credentials_answer_forget(token);
        *token = now;
        *expires_ms = until_ms;
        now = NULL;
}

int sso_token_get(const struct sso_token_source *source, struct strbuf *ret, struct error *err) {
        char *path TEXT_CLEANUP = sso_token_path(source->key, err);
        int64_t now_ms = source->clock->wall_ms(source->clock), expires_ms;
        json_t *token CREDENTIALS_ANSWER_CLEANUP = NULL;
        struct error problem = { 0 };
        const char *text;

        if (!path || load_token(path, source->key, &token, err) < 0)
                return -1;
        expires_ms = credentials_answer_time_ms(json_text(token, "expiresAt"));
        if (!json_text(token, "accessToken") || expires_ms < 0)
                return error_set(err, "%s holds no token", path);
        if (source->renewable && expires_ms - now_ms < RENEW_MS) {
                if (renew_token(source, path, token, &problem) == 0) {
                        expires_ms = credentials_answer_time_ms(json_text(token, "expiresAt"));
                } else {
                        log_debug("aws: the SSO token of %s is not renewed: %s", source->key,
                                  problem.message);
                        read_others(path, source->key, &token, &expires_ms);
                }
        }
        if (expires_ms <= now_ms)
                return error_set(err, "the sign-in to %s has expired", source->key);
        text = json_text(token, "accessToken");
        if (strpbrk(text, "\r\n"))
                return error_set(err, "%s holds a token with a line break", path);
        strbuf_append(ret, text);
        return 0;
}
