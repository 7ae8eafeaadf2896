/* SPDX-License-Identifier: Apache-2.0 */
/*
 * login_session, of `aws login`. Its tokens are bound to a key that the AWS CLI keeps, so Berth cannot use them. It says so
 * rather than pass on to the next source, which would be another identity than the profile names.
 */
#include "providers/aws/client/credentials.h"

int credentials_login(const struct credentials_settings *settings, struct credentials_source **ret,
                      struct strbuf *tried, struct error *err) {
        (void)ret, (void)tried;
        if (!profiles_get(settings->profiles, settings->profile, "login_session"))
                return 0;
        return error_set(
                err,
                "the profile %s gets its credentials by login_session, which Berth does not read: add "
                "a profile with credential_process = aws configure export-credentials --profile %s",
                settings->profile, settings->profile);
}
