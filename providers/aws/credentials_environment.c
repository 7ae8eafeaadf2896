/* SPDX-License-Identifier: Apache-2.0 */
/* AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN. */
#include "providers/aws/credentials.h"

#include <stdlib.h>

static const char *variable(const char *name) {
        const char *value = getenv(name);

        return value && *value ? value : NULL;
}

static int fetch(struct credentials_source *source, struct credentials **ret, enum retry_reason *ret_reason,
                 int64_t *ret_asked_ms, struct error *err) {
        const char *access_key = variable("AWS_ACCESS_KEY_ID"),
                   *secret_key = variable("AWS_SECRET_ACCESS_KEY");

        (void)source, (void)ret_reason, (void)ret_asked_ms;
        if (!access_key || !secret_key)
                return error_set(err, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are no longer set");
        *ret = credentials_new(access_key, secret_key, variable("AWS_SESSION_TOKEN"), 0, "AWS_ACCESS_KEY_ID");
        return 0;
}

static void release(struct credentials_source *source) {
        free(source);
}

static const struct credentials_source_ops ops = { fetch, release };

int credentials_environment(const struct credentials_settings *settings, struct credentials_source **ret,
                            struct strbuf *tried, struct error *err) {
        const char *access_key = variable("AWS_ACCESS_KEY_ID"),
                   *secret_key = variable("AWS_SECRET_ACCESS_KEY");

        (void)settings;
        if (!access_key && !secret_key) {
                strbuf_append(tried, "the environment (AWS_ACCESS_KEY_ID is not set)");
                return 0;
        }
        if (!access_key || !secret_key)
                return error_set(err,
                                 "AWS credentials in the environment are incomplete: %s is set, %s is not",
                                 access_key ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY",
                                 access_key ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID");
        if (!(*ret = calloc(1, sizeof(**ret))))
                abort();
        (*ret)->ops = &ops;
        return 1;
}
