/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile's own keys: aws_access_key_id, aws_secret_access_key, aws_session_token, all from one file. The credentials
 * file and the config file are two sources, with others between them.
 */
#include "providers/aws/client/credentials.h"

#include <stdlib.h>

struct keys_source {
        struct credentials_source source;
        const struct profiles *profiles;
        const char *profile;
        bool credentials_file;
};

static const char *setting_of_keys(const struct keys_source *self, const char *key) {
        const char *value = profiles_get_from(self->profiles, self->credentials_file, self->profile, key);

        return value && *value ? value : NULL;
}

static int fetch_keys(struct credentials_source *source, struct credentials **ret,
                      enum retry_reason *ret_reason, int64_t *ret_asked_ms, struct error *err) {
        const struct keys_source *self = (const struct keys_source *)source;
        const char *token =
                setting_of_keys(self, "aws_security_token"); /* the old name has precedence, as in botocore */
        struct credentials_parts parts = {
                .access_key = setting_of_keys(self, "aws_access_key_id"),
                .secret_key = setting_of_keys(self, "aws_secret_access_key"),
                .token = token ? token : setting_of_keys(self, "aws_session_token"),
                .names = { "aws_access_key_id", "aws_secret_access_key",
                           token ? "aws_security_token" : "aws_session_token" },
        };
        struct strbuf origin STRBUF_CLEANUP = STRBUF_INIT;

        (void)ret_reason, (void)ret_asked_ms;
        strbuf_printf(&origin, "the profile %s", self->profile);
        parts.origin = strbuf_text(&origin);
        return credentials_new(&parts, ret, err);
}

static void release_keys(struct credentials_source *source) {
        free(source);
}

static const struct credentials_source_ops ops = { fetch_keys, release_keys };

static int open_keys(const struct credentials_settings *settings, bool credentials_file,
                     struct credentials_source **ret, struct strbuf *tried, struct error *err) {
        struct keys_source *self;
        struct keys_source probe = {
                .profiles = settings->profiles,
                .profile = settings->profile,
                .credentials_file = credentials_file,
        };
        const char *path = credentials_file ? profiles_credentials_path(settings->profiles)
                                            : profiles_config_path(settings->profiles);

        if (!profiles_get_from(settings->profiles, credentials_file, settings->profile,
                               "aws_access_key_id")) {
                strbuf_printf(tried, "the profile %s in %s (no aws_access_key_id)", settings->profile, path);
                return 0;
        }
        if (!setting_of_keys(&probe, "aws_access_key_id"))
                return error_set(err, "the profile %s has an empty aws_access_key_id in %s",
                                 settings->profile, path);
        if (!setting_of_keys(&probe, "aws_secret_access_key"))
                return error_set(err,
                                 "the profile %s has aws_access_key_id but no aws_secret_access_key in %s",
                                 settings->profile, path);
        if (!(self = malloc(sizeof(*self))))
                abort();
        *self = probe;
        self->source.ops = &ops;
        *ret = &self->source;
        return 1;
}

int credentials_file_keys(const struct credentials_settings *settings, struct credentials_source **ret,
                          struct strbuf *tried, struct error *err) {
        return open_keys(settings, true, ret, tried, err);
}

int credentials_config_keys(const struct credentials_settings *settings, struct credentials_source **ret,
                            struct strbuf *tried, struct error *err) {
        return open_keys(settings, false, ret, tried, err);
}
