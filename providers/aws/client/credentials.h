/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys to sign with, and where they come from.
 *
 * A source is one place to look (credentials_*.c), behind a table of two functions. The chain takes the first source
 * that is configured, in botocore's order, and stays with it:
 *
 *     environment variables        unless the Stack's aws.profile names a profile
 *     the profile's role_arn       with source_profile or credential_source
 *     web identity                 by variables (unless as above) or by the profile
 *     the profile's SSO settings   a token that `aws sso login` has left
 *     the profile's keys           in the credentials file
 *     the profile's login_session  what `aws login` has left
 *     the profile's process        credential_process
 *     the profile's keys           in the config file
 *     the container's server       AWS_CONTAINER_CREDENTIALS_*
 *     the instance's metadata      IMDSv2
 *
 * and puts the Stack's assumeRole on top. Keys with an end are fetched again before it comes: from
 * 15 minutes before by the first thread that passes, while the others go on with the old ones; from
 * 10 minutes before all threads wait for it, but keys that were fetched within the last minute are
 * used as they are: some live no longer than that.
 *
 * Keys live in pages of their own that no core dump contains, and are overwritten when the last user lets go.
 */
#ifndef BERTH_PROVIDERS_AWS_CLIENT_CREDENTIALS_H
#define BERTH_PROVIDERS_AWS_CLIENT_CREDENTIALS_H

#include "base/clock.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "http/http.h"
#include "providers/aws/client/profiles.h"
#include "providers/aws/client/retry.h"
#include "providers/aws/client/sigv4.h"

#include <stdbool.h>
#include <stdint.h>

/* One set of keys; shared, never changed. */
struct credentials;

struct credentials_parts {
        const char *access_key, *secret_key;
        const char *token;    /* may be NULL */
        int64_t expires_ms;   /* wall; 0 for never */
        const char *origin;   /* where they are from, for messages */
        const char *names[3]; /* what the three texts are called there */
};
/*
 * Copies. Refused where a text holds a control character: key and token are sent in headers, and a line break would begin
 * another one.
 */
int credentials_new(const struct credentials_parts *parts, struct credentials **ret,
                    struct error *err) MUST_USE;
struct credentials *credentials_ref(struct credentials *credentials);
void credentials_unref(struct credentials *credentials); /* NULL is fine */
void credentials_unrefp(struct credentials **credentials);
#define CREDENTIALS_CLEANUP __attribute__((cleanup(credentials_unrefp)))
struct sigv4_keys credentials_keys(const struct credentials *credentials); /* borrowed */
const char *credentials_origin(const struct credentials *credentials);
int64_t credentials_expire_ms(const struct credentials *credentials);

/* A place to get keys from. Its constructor decides whether it is configured; see below. */
struct credentials_source;
struct credentials_source_ops {
        /*
         * A new reference; called by one thread at a time. Makes one try, no more: where another is worth it,
         * *ret_reason and *ret_asked_ms say so (they are RETRY_NOT and 0 before), and the caller waits and calls.
         */
        int (*fetch)(struct credentials_source *source, struct credentials **ret,
                     enum retry_reason *ret_reason, int64_t *ret_asked_ms, struct error *err);
        void (*release)(struct credentials_source *source);
};
struct credentials_source { /* the first member of each source's own struct */
        const struct credentials_source_ops *ops;
};
void credentials_source_free(struct credentials_source *source); /* NULL is fine */

/* What sources need to know, borrowed for the client's life: sources keep a copy of it. */
struct credentials_settings {
        const struct profiles *profiles;
        const char *profile;          /* whose credentials are looked for: "default" where none was named */
        const char *profile_named_by; /* "AWS_PROFILE"; NULL where none was named */
        bool no_environment; /* variables hold no keys for this profile: it was named by the Stack, or by a role */
        const char
                *session_profile; /* whose endpoints and regions count; `profile` but for a role's source */
        const char *region;       /* where the client's calls go */
        const char *assume_role;  /* the Stack's aws.assumeRole, or NULL */
        const struct clock *clock;
        struct http_pool *http; /* for sources that are asked by HTTP */
        struct credentials_caller
                *caller; /* for sources that are asked through STS: the client's, see aws_client.c */
};

/*
 * Constructors: 1 and *ret where the source is configured, 0 where it is not and `tried` says what was looked at, -1
 * where it is configured wrongly. Only that of the instance's metadata makes calls: there is no other way to tell.
 */
typedef int credentials_constructor(const struct credentials_settings *settings,
                                    struct credentials_source **ret, struct strbuf *tried, struct error *err);
credentials_constructor credentials_environment, credentials_role, credentials_web_identity, credentials_sso,
        credentials_file_keys, credentials_login, credentials_process, credentials_config_keys,
        credentials_container, credentials_instance;

/* The same for all that belongs to settings->profile but its role: where a role's source_profile leads. */
credentials_constructor credentials_of_profile;

struct role {
        const char *arn;
        const char *session_name; /* NULL: berth-PID */
        const char *external_id;  /* or NULL */
        int64_t duration_s;       /* 0: STS's default, an hour */
};
/* Keys of a role, assumed with those of `base`, which it owns then. Never fails by itself. */
struct credentials_source *credentials_assume_role(const struct credentials_settings *settings,
                                                   const struct role *role, struct credentials_source *base);

/* The chain with its cache; used by many threads. */
struct credentials_chain;
struct credentials_chain *credentials_chain_new(const struct credentials_settings *settings);
void credentials_chain_free(struct credentials_chain *chain);
/* A new reference to keys that are good for a while; `ret_reason`, `ret_asked_ms` as in fetch. */
int credentials_chain_get(struct credentials_chain *chain, struct credentials **ret,
                          enum retry_reason *ret_reason, int64_t *ret_asked_ms, struct error *err) MUST_USE;
/*
 * The same for keys that live for another `life_ms`: what is signed with them is used for that
 * time. Where those at hand end sooner the source is asked, once a minute at most; it may have no
 * others yet, and then *ret are those that there are.
 */
int credentials_chain_get_long(struct credentials_chain *chain, int64_t life_ms, struct credentials **ret,
                               enum retry_reason *ret_reason, int64_t *ret_asked_ms,
                               struct error *err) MUST_USE;
/* These were refused as expired: forgets them if they are still the current ones. True where others may be had. */
bool credentials_chain_expired(struct credentials_chain *chain, const struct credentials *refused);

/* The seam back to the client: one try of an STS call. */
struct credentials_caller {
        /* Signed with `signer`; NULL for unsigned, and `origin` then says whose call it is. `form`: the query protocol's. */
        int (*sts)(struct credentials_caller *caller, const char *operation, const struct credentials *signer,
                   const char *origin, const char *form, struct strbuf *ret_answer,
                   enum retry_reason *ret_reason, int64_t *ret_asked_ms, struct error *err);
};

#endif
