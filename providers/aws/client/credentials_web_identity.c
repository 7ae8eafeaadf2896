/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A role by a token of an issuer that it trusts (Kubernetes, a CI system), which stands in a file
 * that the issuer renews:
 *
 *     POST / on the regional STS host, unsigned
 *     Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=...&RoleSessionName=...&WebIdentityToken=...
 *
 * AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN, AWS_ROLE_SESSION_NAME, each before the profile's own setting of that name
 * (web_identity_token_file, role_arn, role_session_name).
 */
#include "providers/aws/client/credentials.h"

#include "base/files.h"
#include "providers/aws/client/aws_client.h"
#include "providers/aws/client/credentials_answer.h"
#include "providers/aws/client/setting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOKEN_LIMIT (64U * 1024U)

struct web_identity_source {
        struct credentials_source source;
        struct credentials_caller *caller;
        char *token_file;
        char *arn;
        char *session_name;
        char *origin;
};

/* The file is read again each time: the issuer of the tokens replaces it. */
static int make_form(const struct web_identity_source *self, struct strbuf *form, struct error *err) {
        struct strbuf token = STRBUF_SECRET;
        int result = file_read(self->token_file, TOKEN_LIMIT, &token, err);

        if (result == 0 && (token.length == 0 || strlen(strbuf_text(&token)) != token.length))
                result = error_set(err, "%s holds no token", self->token_file);
        if (result == 0) {
                encode_form_add(form, "RoleArn", self->arn);
                encode_form_add(form, "RoleSessionName", self->session_name);
                encode_form_add(form, "WebIdentityToken", strbuf_text(&token));
        }
        strbuf_release(&token);
        return result;
}

static int fetch_web_identity(struct credentials_source *source, struct credentials **ret,
                              enum retry_reason *ret_reason, int64_t *ret_asked_ms, struct error *err) {
        struct web_identity_source *self = (struct web_identity_source *)source;
        struct strbuf form = STRBUF_SECRET, answer = STRBUF_SECRET;
        int result = make_form(self, &form, err);

        if (result == 0)
                result = self->caller->sts(self->caller, "AssumeRoleWithWebIdentity", NULL, self->origin,
                                           strbuf_text(&form), &answer, ret_reason, ret_asked_ms, err);
        if (result < 0)
                error_context(err, "cannot assume the role %s by web identity", self->arn);
        else
                result = credentials_answer_read_sts(&answer, "AssumeRoleWithWebIdentity", self->arn, ret,
                                                     err);
        strbuf_release(&form);
        strbuf_release(&answer);
        return result;
}

static void release_web_identity(struct credentials_source *source) {
        struct web_identity_source *self = (struct web_identity_source *)source;

        free(self->token_file);
        free(self->arn);
        free(self->session_name);
        free(self->origin);
        free(self);
}

static const struct credentials_source_ops ops = { fetch_web_identity, release_web_identity };

/* NULL where neither says anything. A variable that is set but empty hides the profile's setting, as in botocore. */
static const char *setting_or_variable(const struct credentials_settings *settings, const char *variable,
                                       const char *key) {
        const char *value = settings->no_environment ? NULL : getenv(variable);

        if (!value)
                value = profiles_get(settings->profiles, settings->profile, key);
        return value && *value ? value : NULL;
}

int credentials_web_identity(const struct credentials_settings *settings, struct credentials_source **ret,
                             struct strbuf *tried, struct error *err) {
        const char *token_file =
                setting_or_variable(settings, "AWS_WEB_IDENTITY_TOKEN_FILE", "web_identity_token_file");
        const char *arn = setting_or_variable(settings, "AWS_ROLE_ARN", "role_arn");
        const char *session_name =
                setting_or_variable(settings, "AWS_ROLE_SESSION_NAME", "role_session_name");
        struct web_identity_source *self;
        struct strbuf origin = STRBUF_INIT;
        char usual_name[64];

        if (!token_file) {
                strbuf_append(tried, settings->no_environment
                                             ? "web identity (no web_identity_token_file)"
                                             : "web identity (AWS_WEB_IDENTITY_TOKEN_FILE is not set)");
                return 0;
        }
        if (!arn)
                return error_set(
                        err,
                        "there is a web identity token (%s) but no role to assume with it: set AWS_ROLE_ARN, "
                        "or role_arn of the profile %s",
                        token_file, settings->profile);
        if (!(self = calloc(1, sizeof(*self))))
                abort();
        snprintf(usual_name, sizeof(usual_name), "berth-%ld", (long)getpid());
        strbuf_printf(&origin, "the web identity token %s", token_file);
        self->source.ops = &ops;
        self->caller = settings->caller;
        self->token_file = profiles_expand(token_file);
        self->arn = setting_copy(arn);
        self->session_name = setting_copy(session_name ? session_name : usual_name);
        self->origin = strbuf_take(&origin);
        *ret = &self->source;
        return 1;
}
