/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile's role_arn, assumed with the keys of source_profile (which may be such a profile itself, or have its keys
 * from anywhere a profile may) or of credential_source.
 */
#include "providers/aws/client/credentials.h"

#include <stdlib.h>
#include <string.h>

#define CHAIN_MAX 16 /* roles behind one another */

static bool has_keys(const struct profiles *profiles, const char *profile) {
        return profiles_get(profiles, profile, "aws_access_key_id") ||
               profiles_get(profiles, profile, "aws_secret_access_key");
}

static bool has_role(const struct profiles *profiles, const char *profile) {
        return profiles_get(profiles, profile, "role_arn") &&
               !profiles_get(profiles, profile, "web_identity_token_file");
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

static int named_source(const struct credentials_settings *settings, const char *name,
                        struct credentials_source **ret, struct error *err) {
        static const struct {
                const char *name;
                credentials_constructor *construct;
        } named[] = {
                { "Environment", credentials_environment },
                { "EcsContainer", credentials_container },
                { "Ec2InstanceMetadata", credentials_instance },
        };
        struct strbuf tried STRBUF_CLEANUP = STRBUF_INIT;

        for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
                int found;

                if (strcmp(named[i].name, name) != 0)
                        continue;
                found = named[i].construct(settings, ret, &tried, err);
                if (found == 0)
                        return error_set(
                                err,
                                "the profile %s has credential_source = %s, which has no credentials: %s",
                                settings->profile, name, strbuf_text(&tried));
                if (found < 0)
                        return error_context(err, "credential_source of the profile %s", settings->profile);
                return 0;
        }
        return error_set(
                err,
                "the profile %s has credential_source = %.100s: it must be Environment, EcsContainer or "
                "Ec2InstanceMetadata",
                settings->profile, name);
}

/* Profiles on the way down, so that a circle is seen. */
struct visit {
        const char *profile;
        const struct visit *above;
        unsigned depth;
};

static int resolve_role(const struct credentials_settings *settings, const struct visit *visit,
                        struct credentials_source **ret, struct error *err);

/* The profile's credentials by any way but a role. */
static int resolve_own(const struct credentials_settings *settings, struct credentials_source **ret,
                       struct error *err) {
        struct strbuf tried STRBUF_CLEANUP = STRBUF_INIT;
        int found = credentials_of_profile(settings, ret, &tried, err);

        if (found == 0)
                return error_set(err, "the profile %s has no credentials. Looked at: %s", settings->profile,
                                 strbuf_text(&tried));
        return found < 0 ? -1 : 0;
}

/*
 * botocore's rules: a profile that has keys uses them for its own role or another's; one that has none is resolved as
 * a role in turn. A profile that comes up twice on the way can never end.
 */
static int resolve_source_profile(const struct credentials_settings *settings, const struct visit *visit,
                                  const char *source_profile, struct credentials_source **ret,
                                  struct error *err) {
        const struct profiles *profiles = settings->profiles;
        struct visit next = { source_profile, visit, visit->depth + 1 };
        struct credentials_settings below = *settings;

        below.profile = source_profile;
        below.no_environment = true;
        if (!profiles_has(profiles, source_profile))
                return error_set(err,
                                 "the profile %s names the source_profile %s, which is in neither %s nor %s",
                                 visit->profile, source_profile, profiles_config_path(profiles),
                                 profiles_credentials_path(profiles));
        for (const struct visit *at = visit; at; at = at->above) {
                /* A profile may be its own source: its keys then assume its role. */
                if (strcmp(at->profile, source_profile) == 0 &&
                    !(at == visit && has_keys(profiles, source_profile)))
                        return error_set(
                                err,
                                "the profiles %s and %s lead to each other by source_profile: one of them "
                                "must have keys",
                                source_profile, visit->profile);
        }
        if (has_keys(profiles, source_profile) || !has_role(profiles, source_profile))
                return resolve_own(&below, ret, err);
        if (next.depth > CHAIN_MAX)
                return error_set(err, "more than %d profiles behind one another by source_profile",
                                 CHAIN_MAX);
        return resolve_role(&below, &next, ret, err);
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
                result = named_source(settings, source_name, &below, err);
        else
                result = resolve_source_profile(settings, visit, source_profile, &below, err);
        if (result < 0)
                return -1;
        *ret = credentials_assume_role(settings, &role, below);
        return 0;
}

int credentials_role(const struct credentials_settings *settings, struct credentials_source **ret,
                     struct strbuf *tried, struct error *err) {
        struct visit visit = { .profile = settings->profile };

        if (!has_role(settings->profiles, settings->profile)) {
                strbuf_printf(tried, "the profile %s (no role_arn)", settings->profile);
                return 0;
        }
        return resolve_role(settings, &visit, ret, err) < 0 ? -1 : 1;
}
