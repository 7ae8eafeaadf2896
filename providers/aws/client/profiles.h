/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles: what ~/.aws/config and ~/.aws/credentials (or AWS_CONFIG_FILE, AWS_SHARED_CREDENTIALS_FILE) say together.
 * Where both speak of a profile, the credentials file has the last word. Files that do not exist are empty.
 */
#ifndef BERTH_PROVIDERS_AWS_CLIENT_PROFILES_H
#define BERTH_PROVIDERS_AWS_CLIENT_PROFILES_H

#include "base/error.h"
#include "base/strbuf.h"

#include <stdbool.h>

struct profiles;

int profiles_load(struct profiles **ret, struct error *err) MUST_USE;
void profiles_free(struct profiles *profiles); /* NULL is fine; wipes */

bool profiles_has(const struct profiles *profiles, const char *profile);
/* Fails where the profile does not exist and something names it: `named_by`, or NULL. */
int profiles_check(const struct profiles *profiles, const char *profile, const char *named_by,
                   struct error *err) MUST_USE;
/* Borrowed; NULL where the profile or the key is not there. */
const char *profiles_get(const struct profiles *profiles, const char *profile, const char *key);
/* The same from the credentials file or the config file alone. */
const char *profiles_get_from(const struct profiles *profiles, bool credentials_file, const char *profile,
                              const char *key);
/* A key of the config file's [sso-session NAME]; NULL where it is not there. */
const char *profiles_sso_session(const struct profiles *profiles, const char *name, const char *key);
bool profiles_has_sso_session(const struct profiles *profiles, const char *name);
/* The value of `inner` in the nested block `key` ("s3", "addressing_style"); "" and false where it is not there. */
bool profiles_nested(const struct profiles *profiles, const char *profile, const char *key, const char *inner,
                     struct strbuf *ret);
/* The same in the [services NAME] section that the profile's `services` names. */
bool profiles_service(const struct profiles *profiles, const char *profile, const char *service,
                      const char *inner, struct strbuf *ret);

/* The paths looked at, for messages. */
const char *profiles_config_path(const struct profiles *profiles);
const char *profiles_credentials_path(const struct profiles *profiles);

/* The path with the home folder in place of a leading "~"; to be released with free(). */
char *profiles_expand(const char *given);

#endif
