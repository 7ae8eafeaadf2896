/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile of ~/.aws: its role_arn, assumed with the keys of source_profile (which may be such a profile itself) or
 * of credential_source, or else its own keys.
 */
#include "providers/aws/credentials.h"

#include <stdlib.h>
#include <string.h>

#define CHAIN_MAX 16 /* roles behind one another */

struct profile_source {
        struct credentials_source base;
        const struct profiles *profiles;
        char *profile;
};

static int fetch(struct credentials_source *source, struct credentials **ret, enum retry_reason *ret_reason,
                 int64_t *ret_asked_ms, struct error *err) {
        const struct profile_source *self = (const struct profile_source *)source;
        const char *access_key = profiles_get(self->profiles, self->profile, "aws_access_key_id");
        const char *secret_key = profiles_get(self->profiles, self->profile, "aws_secret_access_key");
        const char *token = profiles_get(self->profiles, self->profile, "aws_session_token");
        struct strbuf origin STRBUF_CLEANUP = STRBUF_INIT;

        (void)ret_reason, (void)ret_asked_ms;
        if (!access_key || !*access_key || !secret_key || !*secret_key)
                return error_set(err, "the profile %s has %s but no %s", self->profile,
                                 access_key && *access_key ? "aws_access_key_id" : "aws_secret_access_key",
                                 access_key && *access_key ? "aws_secret_access_key" : "aws_access_key_id");
        if (!token || !*token)
                token = profiles_get(self->profiles, self->profile, "aws_security_token"); /* its old name */
        strbuf_printf(&origin, "the profile %s", self->profile);
        *ret = credentials_new(access_key, secret_key, token && *token ? token : NULL, 0,
                               strbuf_text(&origin));
        return 0;
}

static void release(struct credentials_source *source) {
        struct profile_source *self = (struct profile_source *)source;

        free(self->profile);
        free(self);
}

static const struct credentials_source_ops ops = { fetch, release };

static struct credentials_source *new_static(const struct credentials_settings *settings,
                                             const char *profile) {
        struct profile_source *self = calloc(1, sizeof(*self));

        if (!self || !(self->profile = strdup(profile)))
                abort();
        self->base.ops = &ops;
        self->profiles = settings->profiles;
        return &self->base;
}

static bool has_keys(const struct profiles *profiles, const char *profile) {
        return profiles_get(profiles, profile, "aws_access_key_id") ||
               profiles_get(profiles, profile, "aws_secret_access_key");
}

static bool has_role(const struct profiles *profiles, const char *profile) {
        return profiles_get(profiles, profile, "role_arn") &&
               !profiles_get(profiles, profile, "web_identity_token_file");
}

/* Settings that name sources of a kind that is not read: better said than passed over. */
static const char *unread_setting(const struct profiles *profiles, const char *profile) {
        static const char *const names[] = { "web_identity_token_file", "sso_session", "sso_start_url",
                                             "credential_process", "login_session" };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                if (profiles_get(profiles, profile, names[i]))
                        return names[i];
        }
        return NULL;
}

static int role_of(const struct profiles *profiles, const char *profile, struct role *ret,
                   struct error *err) {
        const char *duration = profiles_get(profiles, profile, "duration_seconds");

        if (profiles_get(profiles, profile, "mfa_serial"))
                return error_set(
                        err,
                        "the profile %s has mfa_serial, which asks for a code at each run: get a session "
                        "first (aws sts assume-role, or get-session-token) and use its keys",
                        profile);
        *ret = (struct role){
                .arn = profiles_get(profiles, profile, "role_arn"),
                .session_name = profiles_get(profiles, profile, "role_session_name"),
                .external_id = profiles_get(profiles, profile, "external_id"),
        };
        if (duration) {
                char *end;
                long value = strtol(duration, &end, 10);

                if (end == duration || *end || value < 900 || value > 43200)
                        return error_set(
                                err, "the profile %s has duration_seconds = %.40s: it must be 900 to 43200",
                                profile, duration);
                ret->duration_s = value;
        }
        return 0;
}

static int named_source(const struct credentials_settings *settings, const char *profile, const char *name,
                        struct credentials_source **ret, struct error *err) {
        struct strbuf tried STRBUF_CLEANUP = STRBUF_INIT;
        int found;

        if (strcmp(name, "Environment") != 0)
                return error_set(
                        err,
                        "the profile %s has credential_source = %.100s, which Berth does not read; it reads "
                        "Environment",
                        profile, name);
        found = credentials_environment(settings, ret, &tried, err);
        if (found == 0)
                return error_set(
                        err,
                        "the profile %s has credential_source = Environment, but AWS_ACCESS_KEY_ID and "
                        "AWS_SECRET_ACCESS_KEY are not set",
                        profile);
        return found < 0 ? -1 : 0;
}

/* Profiles on the way down, so that a circle is seen. */
struct visit {
        const char *profile;
        const struct visit *above;
        unsigned depth;
};

static int resolve(const struct credentials_settings *settings, const struct visit *visit,
                   struct credentials_source **ret, struct error *err);

static int resolve_source_profile(const struct credentials_settings *settings, const struct visit *visit,
                                  const char *source_profile, struct credentials_source **ret,
                                  struct error *err) {
        const struct profiles *profiles = settings->profiles;
        struct visit next = { source_profile, visit, visit->depth + 1 };

        if (!profiles_has(profiles, source_profile))
                return error_set(err,
                                 "the profile %s names the source_profile %s, which is in neither %s nor %s",
                                 visit->profile, source_profile, profiles_config_path(profiles),
                                 profiles_credentials_path(profiles));
        /* A profile may be its own source: its keys then assume its role. */
        if (has_keys(profiles, source_profile)) {
                *ret = new_static(settings, source_profile);
                return 0;
        }
        for (const struct visit *at = visit; at; at = at->above) {
                if (strcmp(at->profile, source_profile) == 0)
                        return error_set(
                                err,
                                "the profiles %s and %s lead to each other by source_profile: one of them "
                                "must have keys",
                                source_profile, visit->profile);
        }
        if (next.depth > CHAIN_MAX)
                return error_set(err, "more than %d profiles behind one another by source_profile",
                                 CHAIN_MAX);
        return resolve(settings, &next, ret, err);
}

static int resolve_role(const struct credentials_settings *settings, const struct visit *visit,
                        struct credentials_source **ret, struct error *err) {
        const char *source_profile = profiles_get(settings->profiles, visit->profile, "source_profile");
        const char *source_name = profiles_get(settings->profiles, visit->profile, "credential_source");
        struct credentials_source *below = NULL;
        struct role role;
        int result;

        if (role_of(settings->profiles, visit->profile, &role, err) < 0)
                return -1;
        if (!source_profile == !source_name)
                return error_set(
                        err,
                        "the profile %s has role_arn and %s source_profile %s credential_source: it needs "
                        "one of them",
                        visit->profile, source_profile ? "both" : "neither", source_profile ? "and" : "nor");
        if (source_name)
                result = named_source(settings, visit->profile, source_name, &below, err);
        else
                result = resolve_source_profile(settings, visit, source_profile, &below, err);
        if (result < 0)
                return -1;
        *ret = credentials_assume_role(settings, &role, below);
        return 0;
}

static int resolve(const struct credentials_settings *settings, const struct visit *visit,
                   struct credentials_source **ret, struct error *err) {
        const struct profiles *profiles = settings->profiles;
        const char *unread;

        if (has_role(profiles, visit->profile))
                return resolve_role(settings, visit, ret, err);
        if (has_keys(profiles, visit->profile)) {
                *ret = new_static(settings, visit->profile);
                return 0;
        }
        unread = unread_setting(profiles, visit->profile);
        if (unread)
                return error_set(
                        err,
                        "the profile %s gets its credentials by %s, which Berth does not read: export them "
                        "first (aws configure export-credentials --profile %s --format env)",
                        visit->profile, unread, visit->profile);
        return error_set(err, "the profile %s has no credentials: neither aws_access_key_id nor role_arn",
                         visit->profile);
}

int credentials_profile(const struct credentials_settings *settings, struct credentials_source **ret,
                        struct strbuf *tried, struct error *err) {
        const struct profiles *profiles = settings->profiles;
        struct visit visit = { .profile = settings->profile };

        if (!profiles_has(profiles, settings->profile)) {
                if (settings->profile_named)
                        return error_set(err, "the profile %s, named by %s, is in neither %s nor %s",
                                         settings->profile, settings->profile_named_by,
                                         profiles_config_path(profiles), profiles_credentials_path(profiles));
                strbuf_printf(tried, "the profile %s (in neither %s nor %s)", settings->profile,
                              profiles_config_path(profiles), profiles_credentials_path(profiles));
                return 0;
        }
        if (!settings->profile_named && !has_role(profiles, settings->profile) &&
            !has_keys(profiles, settings->profile) && !unread_setting(profiles, settings->profile)) {
                strbuf_printf(tried, "the profile %s (it has no credentials)", settings->profile);
                return 0;
        }
        return resolve(settings, &visit, ret, err) < 0 ? -1 : 1;
}
