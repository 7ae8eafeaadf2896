/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A role of IAM Identity Center, by the token of a user that has signed in (sso_token.h):
 *
 *     GET https://portal.sso.{sso_region}.amazonaws.com/federation/credentials?role_name=...&account_id=..., unsigned
 *     x-amz-sso_bearer_token: the token
 *     <- {"roleCredentials": {"accessKeyId", "secretAccessKey", "sessionToken", "expiration": ms}}
 *
 * The profile says sso_role_name, sso_account_id and sso_session, whose section says sso_start_url and sso_region; or,
 * the older way, both of these itself.
 */
#include "providers/aws/client/credentials.h"

#include "base/json.h"
#include "base/log.h"
#include "providers/aws/client/credentials_answer.h"
#include "providers/aws/client/encode.h"
#include "providers/aws/client/sso_token.h"

#include <stdlib.h>
#include <string.h>

#define ANSWER_LIMIT (256U * 1024U)

struct sso_source {
        struct credentials_source source;
        struct credentials_settings at;
        const char *session; /* NULL for the older way */
        const char *start_url;
        const char *region;
        const char *role;
        const char *account;
        struct endpoint portal;
        struct endpoint oidc;
};

static int read_credentials(const struct sso_source *self, const struct strbuf *text,
                            struct credentials **ret, struct error *err) {
        json_t *object CREDENTIALS_ANSWER_CLEANUP = NULL;
        struct strbuf origin STRBUF_CLEANUP = STRBUF_INIT;
        const char *access_key, *secret_key, *token;
        const json_t *keys;
        json_int_t expires_ms;

        if (credentials_answer_parse(text, "the answer to sso GetRoleCredentials", &object, err) < 0)
                return -1;
        keys = json_object_get(object, "roleCredentials");
        access_key = json_text(keys, "accessKeyId");
        secret_key = json_text(keys, "secretAccessKey");
        token = json_text(keys, "sessionToken");
        expires_ms = json_integer_or(keys, "expiration", 0);
        if (!access_key || !secret_key || !token || expires_ms <= 0)
                return error_set(err, "the answer to sso GetRoleCredentials holds no complete credentials");
        strbuf_printf(&origin, "the profile %s", self->at.profile);
        return credentials_new(
                &(struct credentials_parts){ .access_key = access_key,
                                             .secret_key = secret_key,
                                             .token = token,
                                             .expires_ms = expires_ms,
                                             .origin = strbuf_text(&origin),
                                             .names = { "accessKeyId", "secretAccessKey", "sessionToken" } },
                ret, err);
}

static int add_sign_in_hint(const struct sso_source *self, struct error *err) {
        struct strbuf hint STRBUF_CLEANUP = STRBUF_INIT;

        strbuf_append(&hint, err->message);
        return error_set(err, "%s; sign in: aws sso login --profile %s", strbuf_text(&hint),
                         self->at.profile);
}

static int explain_refusal(const struct sso_source *self, const struct http_response *answer,
                           struct error *err) {
        error_set(err, "sso GetRoleCredentials: %d", answer->status);
        if (answer->status == 401)
                return add_sign_in_hint(self, err);
        if (answer->status == 403 || answer->status == 404)
                return error_set(
                        err,
                        "sso GetRoleCredentials: %d: the user that signed in has no role %s in the account %s",
                        answer->status, self->role, self->account);
        return -1;
}

static int ask_for_role(const struct sso_source *self, const struct strbuf *token, struct credentials **ret,
                        enum retry_reason *ret_reason, int64_t *ret_asked_ms, struct error *err) {
        struct http_response answer HTTP_RESPONSE_CLEANUP = HTTP_RESPONSE_INIT;
        struct http_header header = { "x-amz-sso_bearer_token", strbuf_text(token) };
        struct strbuf url STRBUF_CLEANUP = STRBUF_INIT;
        struct http_request request = {
                .method = "GET",
                .headers = &header,
                .header_count = 1,
                .answer_limit = ANSWER_LIMIT,
                .allow_plain = self->portal.configured_by != NULL,
                .interrupt = self->at.clock->interrupt,
        };
        enum http_failure failure;
        int result;

        strbuf_printf(&url, "%s://%s%s/federation/credentials?role_name=", self->portal.scheme,
                      self->portal.host, self->portal.prefix);
        encode_percent(&url, self->role, strlen(self->role), false);
        strbuf_append(&url, "&account_id=");
        encode_percent(&url, self->account, strlen(self->account), false);
        request.url = strbuf_text(&url);
        if (http_send(self->at.http, &request, &answer, &failure, err) < 0) {
                *ret_reason = retry_reason_of(failure, 0, "");
                return error_context(err, "sso GetRoleCredentials");
        }
        log_debug("aws: sso GetRoleCredentials: %d", answer.status);
        if (answer.status == 200) {
                result = read_credentials(self, &answer.body, ret, err);
        } else {
                *ret_reason = retry_reason_of(failure, answer.status, "");
                *ret_asked_ms = retry_asked_ms(&answer, self->at.clock->wall_ms(self->at.clock));
                result = explain_refusal(self, &answer, err);
        }
        strbuf_release(&answer.body);
        return result;
}

static int fetch_sso(struct credentials_source *source, struct credentials **ret,
                     enum retry_reason *ret_reason, int64_t *ret_asked_ms, struct error *err) {
        const struct sso_source *self = (const struct sso_source *)source;
        struct sso_token_source from = {
                .key = self->session ? self->session : self->start_url,
                .renewable = self->session != NULL,
                .oidc = &self->oidc,
                .clock = self->at.clock,
                .http = self->at.http,
        };
        struct strbuf token = STRBUF_SECRET;
        int result = sso_token_get(&from, &token, err);

        if (result < 0)
                add_sign_in_hint(self, err);
        else
                result = ask_for_role(self, &token, ret, ret_reason, ret_asked_ms, err);
        strbuf_release(&token);
        return result < 0 ? error_context(err, "SSO of the profile %s", self->at.profile) : 0;
}

static void release_sso(struct credentials_source *source) {
        struct sso_source *self = (struct sso_source *)source;

        endpoint_release(&self->portal);
        endpoint_release(&self->oidc);
        free(self);
}

static const struct credentials_source_ops ops = { fetch_sso, release_sso };

/* The session's setting, which the profile may only repeat; without a session the profile's own. */
static int setting_of_sso(const struct sso_source *self, const char *key, const char **ret,
                          struct error *err) {
        const char *own = profiles_get(self->at.profiles, self->at.profile, key);
        const char *shared =
                self->session ? profiles_sso_session(self->at.profiles, self->session, key) : NULL;

        if (own && shared && strcmp(own, shared) != 0)
                return error_set(err, "the profile %s and its sso-session %s differ in %s", self->at.profile,
                                 self->session, key);
        *ret = shared ? shared : own;
        if (!*ret || !**ret)
                return error_set(err, "the profile %s is to use SSO, but %s is not set", self->at.profile,
                                 key);
        return 0;
}

static int read_settings(struct sso_source *self, struct error *err) {
        struct endpoint_settings where = {
                /* The Stack's endpointUrl is for what Berth manages: signed-in people's tokens do not go there. */
                .profiles = self->at.profiles,
                .profile = self->at.session_profile,
        };

        if (self->session && !profiles_has_sso_session(self->at.profiles, self->session))
                return error_set(err, "the profile %s names the sso-session %s, which is not in %s",
                                 self->at.profile, self->session, profiles_config_path(self->at.profiles));
        if (setting_of_sso(self, "sso_start_url", &self->start_url, err) < 0 ||
            setting_of_sso(self, "sso_region", &self->region, err) < 0 ||
            setting_of_sso(self, "sso_role_name", &self->role, err) < 0 ||
            setting_of_sso(self, "sso_account_id", &self->account, err) < 0)
                return -1;
        where.region = self->region;
        if (endpoint_resolve(&where, AWS_SSO, &self->portal, err) < 0 ||
            endpoint_resolve(&where, AWS_SSO_OIDC, &self->oidc, err) < 0)
                return error_context(err, "SSO of the profile %s", self->at.profile);
        return 0;
}

int credentials_sso(const struct credentials_settings *settings, struct credentials_source **ret,
                    struct strbuf *tried, struct error *err) {
        const struct profiles *profiles = settings->profiles;
        struct sso_source *self;

        if (!profiles_get(profiles, settings->profile, "sso_role_name") &&
            !profiles_get(profiles, settings->profile, "sso_account_id")) {
                strbuf_printf(tried, "SSO (the profile %s has no sso_role_name)", settings->profile);
                return 0;
        }
        if (!(self = calloc(1, sizeof(*self))))
                abort();
        self->source.ops = &ops;
        self->at = *settings;
        self->session = profiles_get(profiles, settings->profile, "sso_session");
        if (read_settings(self, err) < 0) {
                release_sso(&self->source);
                return -1;
        }
        *ret = &self->source;
        return 1;
}
