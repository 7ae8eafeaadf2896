/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file is read each time that keys are asked for: the AWS CLI, or another Berth, may have renewed it. Keys with less than
 * RENEW_MS left are renewed here, as botocore does. Of two processes that renew at the same time both may get an answer, where the
 * service takes a refresh token again for a while; one that is refused takes what the other has put into the file. Signing in takes a browser and is left to `aws login`.
 */
#include "providers/aws/client/login_token.h"

#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/public_key.h"
#include "providers/aws/client/credentials_answer.h"
#include "providers/aws/client/profiles.h"
#include "providers/aws/client/setting.h"

#include <stdlib.h>
#include <string.h>

#define FILE_LIMIT (256U * 1024U)
#define ANSWER_LIMIT (256U * 1024U)
#define RENEW_MS (5 * 60 * 1000)
#define TIMEOUT_MS 30000
#define ID_SIZE 37

char *login_token_path(const char *session) {
        const char *given = setting_variable("AWS_LOGIN_CACHE_DIRECTORY");
        char *folder TEXT_CLEANUP = profiles_expand(given ? given : "~/.aws/login/cache");
        char hex[SHA256_HEX_SIZE];
        struct strbuf path = STRBUF_INIT;

        digest_sha256_hex(session, strlen(session), hex);
        strbuf_printf(&path, "%s/%s.json", folder, hex);
        return strbuf_take(&path);
}

/* --- the file --- */

static int load_file(const struct login_token_source *source, const char *path, json_t **ret,
                     struct error *err) {
        static const char *const members[] = { "refreshToken", "clientId", "dpopKey" };
        static const char *const key_members[] = { "accessKeyId", "secretAccessKey", "sessionToken",
                                                   "expiresAt" };
        json_t *token CREDENTIALS_ANSWER_CLEANUP = NULL;
        struct strbuf text = STRBUF_SECRET;
        struct error problem = { 0 };
        int result = file_read(path, FILE_LIMIT, &text, &problem);

        if (result < 0 && problem.kind == ERROR_NOT_FOUND)
                error_set(err, "there is no session yet (%s does not exist): run aws login --profile %s",
                          path, source->profile);
        else if (result < 0)
                *err = problem;
        else
                result = credentials_answer_parse(&text, path, &token, err);
        strbuf_release(&text);
        if (result < 0)
                return -1;
        for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
                if (!json_text(token, members[i]))
                        return error_set(err, "%s has no %s: run aws login --profile %s", path, members[i],
                                         source->profile);
        }
        for (size_t i = 0; i < sizeof(key_members) / sizeof(key_members[0]); i++) {
                if (!json_text(json_object_get(token, "accessToken"), key_members[i]))
                        return error_set(err, "%s has no accessToken.%s: run aws login --profile %s", path,
                                         key_members[i], source->profile);
        }
        *ret = token;
        token = NULL;
        return 0;
}

/* --- the proof --- */

static void append_base64url(struct strbuf *to, const void *bytes, size_t length) {
        char *text = malloc(4 * ((length + 2) / 3) + 1);

        if (!text)
                abort();
        digest_base64url(bytes, length, text);
        strbuf_append(to, text);
        free(text);
}

static void append_part(struct strbuf *to, const json_t *part) {
        char *text TEXT_CLEANUP = json_compact(part);

        append_base64url(to, text, strlen(text));
}

static json_t *describe_key(const struct public_key_pair *pair) {
        uint8_t x[PUBLIC_KEY_COORDINATE], y[PUBLIC_KEY_COORDINATE];
        struct strbuf x_text STRBUF_CLEANUP = STRBUF_INIT, y_text STRBUF_CLEANUP = STRBUF_INIT;

        public_key_pair_point(pair, x, y);
        append_base64url(&x_text, x, sizeof(x));
        append_base64url(&y_text, y, sizeof(y));
        return json_checked(json_pack("{ss ss ss ss}", "kty", "EC", "crv", "P-256", "x", strbuf_text(&x_text),
                                      "y", strbuf_text(&y_text)));
}

int login_token_prove(const char *pem, const char *url, int64_t now_ms, const char *id, struct strbuf *ret,
                      struct error *err) {
        struct public_key_pair *pair = public_key_pair_new(pem, strlen(pem));
        uint8_t signature[2 * PUBLIC_KEY_COORDINATE];
        json_t *header JSON_CLEANUP = NULL, *claims JSON_CLEANUP = NULL;
        size_t start = ret->length;

        if (!pair)
                return error_set(err, "its dpopKey is no private key of P-256");
        header = json_checked(
                json_pack("{ss ss so}", "typ", "dpop+jwt", "alg", "ES256", "jwk", describe_key(pair)));
        claims = json_checked(json_pack("{ss ss sI ss}", "htm", "POST", "htu", url, "iat",
                                        (json_int_t)(now_ms / 1000), "jti", id));
        append_part(ret, header);
        strbuf_append_char(ret, '.');
        append_part(ret, claims);
        public_key_pair_sign(pair, strbuf_text(ret) + start, ret->length - start, signature);
        strbuf_append_char(ret, '.');
        append_base64url(ret, signature, sizeof(signature));
        public_key_pair_free(pair);
        return 0;
}

/* A random UUID (RFC 9562, 5.4), as botocore sends one. */
static void make_id(char ret[ID_SIZE]) {
        uint8_t bytes[16];
        char hex[2 * sizeof(bytes) + 1];
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        random_bytes(bytes, sizeof(bytes));
        bytes[6] = (uint8_t)((bytes[6] & 0x0f) | 0x40);
        bytes[8] = (uint8_t)((bytes[8] & 0x3f) | 0x80);
        digest_hex(bytes, sizeof(bytes), hex);
        strbuf_printf(&text, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
        memcpy(ret, strbuf_text(&text), ID_SIZE);
}

/* --- renewing --- */

static int explain_refusal(const struct login_token_source *source, const struct http_response *answer,
                           struct error *err) {
        json_t *body CREDENTIALS_ANSWER_CLEANUP = NULL;
        struct error ignored = { 0 };
        const char *code;

        if (credentials_answer_parse(&answer->body, "the answer", &body, &ignored) < 0)
                return error_set(err, "signin CreateOAuth2Token: %d", answer->status);
        code = json_text(body, "error");
        if (code && (strcmp(code, "TOKEN_EXPIRED") == 0 || strcmp(code, "USER_CREDENTIALS_CHANGED") == 0))
                return error_set(err, "the session of the profile %s has %s: run aws login --profile %s",
                                 source->profile,
                                 strcmp(code, "TOKEN_EXPIRED") == 0
                                         ? "expired"
                                         : "ended, since the user's password was changed",
                                 source->profile);
        if (code && strcmp(code, "INSUFFICIENT_PERMISSIONS") == 0)
                return error_set(
                        err,
                        "the session of the profile %s is not renewed: allow signin:CreateOAuth2Token to %s",
                        source->profile, source->session);
        return error_set(err, "signin CreateOAuth2Token: %d; run aws login --profile %s", answer->status,
                         source->profile);
}

static int send_request(const struct login_token_source *source, const char *url, const char *proof,
                        const char *body, json_t **ret, enum retry_reason *ret_reason, int64_t *ret_asked_ms,
                        struct error *err) {
        const struct http_header headers[] = { { "content-type", "application/json" }, { "DPoP", proof } };
        struct http_response answer HTTP_RESPONSE_CLEANUP = HTTP_RESPONSE_INIT;
        struct http_request request = {
                .method = "POST",
                .url = url,
                .headers = headers,
                .header_count = sizeof(headers) / sizeof(headers[0]),
                .body = body,
                .body_length = strlen(body),
                .answer_limit = ANSWER_LIMIT,
                .timeout_ms = TIMEOUT_MS,
                .allow_plain = source->signin->configured_by != NULL,
                .interrupt = source->clock->interrupt,
        };
        enum http_failure failure;
        int result;

        if (http_send(source->http, &request, &answer, &failure, err) < 0) {
                *ret_reason = retry_reason_of(failure, 0, "");
                return error_context(err, "signin CreateOAuth2Token");
        }
        log_debug("aws: signin CreateOAuth2Token: %d", answer.status);
        if (answer.status == 200) {
                result = credentials_answer_parse(&answer.body, "the answer to signin CreateOAuth2Token", ret,
                                                  err);
        } else {
                *ret_reason = retry_reason_of(failure, answer.status, "");
                *ret_asked_ms = retry_asked_ms(&answer, source->clock->wall_ms(source->clock));
                result = explain_refusal(source, &answer, err);
        }
        strbuf_release(&answer.body);
        return result;
}

static int ask_for_keys(const struct login_token_source *source, const json_t *token, json_t **ret,
                        enum retry_reason *ret_reason, int64_t *ret_asked_ms, struct error *err) {
        struct strbuf url STRBUF_CLEANUP = STRBUF_INIT, proof STRBUF_CLEANUP = STRBUF_INIT;
        json_t *asked CREDENTIALS_ANSWER_CLEANUP = json_object();
        char id[ID_SIZE], *body;
        int result;

        strbuf_printf(&url, "%s://%s%s/v1/token", source->signin->scheme, source->signin->host,
                      source->signin->prefix);
        make_id(id);
        if (login_token_prove(json_text(token, "dpopKey"), strbuf_text(&url),
                              source->clock->wall_ms(source->clock), id, &proof, err) < 0)
                return error_context(err, "the cached session; run aws login --profile %s", source->profile);
        json_set_text(asked, "clientId", json_text(token, "clientId"));
        json_set_text(asked, "grantType", "refresh_token");
        json_set_text(asked, "refreshToken", json_text(token, "refreshToken"));
        body = json_compact(asked);
        result = send_request(source, strbuf_text(&url), strbuf_text(&proof), body, ret, ret_reason,
                              ret_asked_ms, err);
        explicit_bzero(body, strlen(body));
        free(body);
        return result;
}

/* Puts new keys and the next refresh token into `token`. */
static int renew(const struct login_token_source *source, json_t *token, enum retry_reason *ret_reason,
                 int64_t *ret_asked_ms, struct error *err) {
        static const char *const names[] = { "accessKeyId", "secretAccessKey", "sessionToken" };
        json_t *answer CREDENTIALS_ANSWER_CLEANUP = NULL;
        json_t *keys = json_object_get(token, "accessToken");
        int64_t now_ms = source->clock->wall_ms(source->clock);
        const json_t *given;
        json_int_t seconds;
        char when[32];

        if (ask_for_keys(source, token, &answer, ret_reason, ret_asked_ms, err) < 0)
                return -1;
        given = json_object_get(answer, "accessToken");
        seconds = json_integer_or(answer, "expiresIn", 0);
        if (!json_text(given, names[0]) || !json_text(given, names[1]) || !json_text(given, names[2]) ||
            !json_text(answer, "refreshToken") || seconds <= 0 || seconds > 366 * 24 * 3600)
                return error_set(err, "the answer to signin CreateOAuth2Token holds no complete credentials");
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                credentials_answer_set(keys, names[i], json_text(given, names[i]));
        clock_format(now_ms + seconds * 1000, when, sizeof(when));
        json_set_text(keys, "expiresAt", when);
        credentials_answer_set(token, "refreshToken", json_text(answer, "refreshToken"));
        return 0;
}

static int read_token_keys(const struct login_token_source *source, const json_t *token,
                           struct credentials **ret, struct error *err) {
        const json_t *keys = json_object_get(token, "accessToken");
        struct strbuf origin STRBUF_CLEANUP = STRBUF_INIT;

        strbuf_printf(&origin, "the profile %s", source->profile);
        return credentials_new(
                &(struct credentials_parts){ .access_key = json_text(keys, "accessKeyId"),
                                             .secret_key = json_text(keys, "secretAccessKey"),
                                             .token = json_text(keys, "sessionToken"),
                                             .expires_ms =
                                                     credentials_answer_time_ms(json_text(keys, "expiresAt")),
                                             .origin = strbuf_text(&origin),
                                             .names = { "accessKeyId", "secretAccessKey", "sessionToken" } },
                ret, err);
}

static int64_t expiry_ms(const json_t *token) {
        return credentials_answer_time_ms(json_text(json_object_get(token, "accessToken"), "expiresAt"));
}

static bool lasts(const struct login_token_source *source, const json_t *token) {
        return expiry_ms(token) - source->clock->wall_ms(source->clock) > RENEW_MS;
}

/* Another process has renewed it meanwhile: then the service may refuse what this one has sent, and the file has the keys. */
static bool read_others(const struct login_token_source *source, const char *path, const char *spent,
                        struct credentials **ret) {
        json_t *now CREDENTIALS_ANSWER_CLEANUP = NULL;
        struct error ignored;

        return load_file(source, path, &now, &ignored) == 0 &&
               strcmp(json_text(now, "refreshToken"), spent) != 0 && lasts(source, now) &&
               read_token_keys(source, now, ret, &ignored) == 0;
}

static int get_renewed(const struct login_token_source *source, const char *path, json_t *token,
                       struct credentials **ret, enum retry_reason *ret_reason, int64_t *ret_asked_ms,
                       struct error *err) {
        struct strbuf spent = STRBUF_SECRET;
        int result;

        strbuf_append(&spent, json_text(token, "refreshToken"));
        result = renew(source, token, ret_reason, ret_asked_ms, err);
        if (result == 0)
                result = read_token_keys(source, token, ret, err);
        /* Keys that cannot be used are left out of the file, which the AWS CLI reads, too. */
        if (result == 0)
                credentials_answer_keep(path, strbuf_text(&spent), token);
        else if (read_others(source, path, strbuf_text(&spent), ret))
                result = 0;
        strbuf_release(&spent);
        return result;
}

int login_token_get(const struct login_token_source *source, struct credentials **ret,
                    enum retry_reason *ret_reason, int64_t *ret_asked_ms, struct error *err) {
        char *path TEXT_CLEANUP = login_token_path(source->session);
        json_t *token CREDENTIALS_ANSWER_CLEANUP = NULL;

        if (load_file(source, path, &token, err) < 0)
                return -1;
        if (expiry_ms(token) < 0)
                return error_set(err, "%s has an accessToken.expiresAt that is no time", path);
        if (lasts(source, token))
                return read_token_keys(source, token, ret, err);
        return get_renewed(source, path, token, ret, ret_reason, ret_asked_ms, err);
}
