/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_CREDENTIAL_EXPIRATION. Only the two keys are needed. They
 * are read at each fetch and not kept, so that there is one copy less of them.
 */
#include "providers/aws/client/credentials.h"
#include "providers/aws/client/credentials_answer.h"
#include "providers/aws/client/setting.h"

#include <stdlib.h>

struct environment_source {
        struct credentials_source source;
        const struct clock *clock;
};

static int fetch_environment(struct credentials_source *source, struct credentials **ret,
                             enum retry_reason *ret_reason, int64_t *ret_asked_ms, struct error *err) {
        const struct environment_source *self = (const struct environment_source *)source;
        const char *access_key = setting_variable("AWS_ACCESS_KEY_ID"),
                   *secret_key = setting_variable("AWS_SECRET_ACCESS_KEY"),
                   *token = setting_variable(
                           "AWS_SECURITY_TOKEN"), /* the old name has precedence, as in botocore */
                           *expiration = setting_variable("AWS_CREDENTIAL_EXPIRATION");
        int64_t expires_ms = expiration ? credentials_answer_time_ms(expiration) : 0;
        struct credentials *credentials;
        struct credentials_parts parts = {
                .access_key = access_key,
                .secret_key = secret_key,
                .token = token ? token : setting_variable("AWS_SESSION_TOKEN"),
                .expires_ms = expires_ms,
                .origin = "AWS_ACCESS_KEY_ID",
                .names = { "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
                           token ? "AWS_SECURITY_TOKEN" : "AWS_SESSION_TOKEN" },
        };

        (void)ret_reason, (void)ret_asked_ms;
        if (!access_key || !secret_key)
                return error_set(err, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are no longer set");
        if (expires_ms < 0)
                return error_set(err, "AWS_CREDENTIAL_EXPIRATION is no time like 2026-01-31T12:00:00Z");
        if (credentials_new(&parts, &credentials, err) < 0)
                return -1;
        if (credentials_answer_check_expiry(credentials, self->clock, err) < 0) {
                credentials_unref(credentials);
                return -1;
        }
        *ret = credentials;
        return 0;
}

static void release_environment(struct credentials_source *source) {
        free(source);
}

static const struct credentials_source_ops ops = { fetch_environment, release_environment };

int credentials_environment(const struct credentials_settings *settings, struct credentials_source **ret,
                            struct strbuf *tried, struct error *err) {
        struct environment_source *self;

        if (!setting_variable("AWS_ACCESS_KEY_ID")) {
                strbuf_append(tried, "the environment (AWS_ACCESS_KEY_ID is not set)");
                return 0;
        }
        if (!setting_variable("AWS_SECRET_ACCESS_KEY"))
                return error_set(
                        err, "AWS credentials in the environment are incomplete: AWS_ACCESS_KEY_ID is set, "
                             "AWS_SECRET_ACCESS_KEY is not");
        if (!(self = calloc(1, sizeof(*self))))
                abort();
        self->source.ops = &ops;
        self->clock = settings->clock;
        *ret = &self->source;
        return 1;
}
