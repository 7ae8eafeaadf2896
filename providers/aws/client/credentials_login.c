/* SPDX-License-Identifier: Apache-2.0 */
/*
 * login_session, of `aws login`: the keys of a person who has signed in at the console (login_token.h). A session that cannot
 * be used is an error, and no next source is asked: that would be another identity than the profile names.
 */
#include "providers/aws/client/credentials.h"

#include "providers/aws/client/login_token.h"
#include "providers/aws/client/setting.h"

#include <stdlib.h>

struct login_source {
        struct credentials_source source;
        struct credentials_settings at;
        const char *session;
        struct endpoint signin;
};

static int fetch_login(struct credentials_source *source, struct credentials **ret,
                       enum retry_reason *ret_reason, int64_t *ret_asked_ms, struct error *err) {
        const struct login_source *self = (const struct login_source *)source;
        struct login_token_source from = {
                .session = self->session,
                .profile = self->at.profile,
                .signin = &self->signin,
                .clock = self->at.clock,
                .http = self->at.http,
        };

        if (login_token_get(&from, ret, ret_reason, ret_asked_ms, err) < 0)
                return error_context(err, "login_session of the profile %s", self->at.profile);
        return 0;
}

static void release_login(struct credentials_source *source) {
        struct login_source *self = (struct login_source *)source;

        endpoint_release(&self->signin);
        free(self);
}

static const struct credentials_source_ops ops = { fetch_login, release_login };

int credentials_login(const struct credentials_settings *settings, struct credentials_source **ret,
                      struct strbuf *tried, struct error *err) {
        const char *session = profiles_get(settings->profiles, settings->profile, "login_session");
        struct endpoint_settings where = {
                /* The Stack's endpointUrl is for what Berth manages, and its region may be another one. */
                .region = setting_region(settings->profiles, settings->session_profile),
                .profiles = settings->profiles,
                .profile = settings->session_profile,
        };
        struct login_source *self;

        (void)tried;
        if (!session)
                return 0;
        if (!*session)
                return error_set(err, "the profile %s has an empty login_session: run aws login --profile %s",
                                 settings->profile, settings->profile);
        if (!(self = calloc(1, sizeof(*self))))
                abort();
        self->source.ops = &ops;
        self->at = *settings;
        self->session = session;
        if (!where.region)
                where.region = settings->region;
        if (endpoint_resolve(&where, AWS_SIGNIN, &self->signin, err) < 0) {
                release_login(&self->source);
                return error_context(err, "login_session of the profile %s", settings->profile);
        }
        *ret = &self->source;
        return 1;
}
