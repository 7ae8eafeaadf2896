/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of sources, and the keys in use with their refreshing.
 *
 * The first source that has something to say is used for the client's whole life; one that is set
 * up wrong is an error, and no later one is asked in its place, since its setting was meant.
 *
 * Keys that expire are refreshed as botocore does it. With less than ADVISORY_MS left one thread
 * tries, and no other waits: a failure is kept quiet for a minute. With less than MANDATORY_MS left
 * all wait for one thread that fetches. The lock `fetching` is held while a source is asked, which
 * may take seconds; `lock` only while pointers are looked at.
 */
#include "providers/aws/client/credentials.h"

#include "base/log.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define ADVISORY_MS (15 * 60 * 1000)
#define MANDATORY_MS (10 * 60 * 1000)
#define JUST_FETCHED_MS (60 * 1000)

struct credentials_chain {
        struct credentials_settings settings;
        pthread_mutex_t fetching;          /* held while a source is asked; taken before `lock` */
        pthread_mutex_t lock;              /* of `current` and `failed_ms` */
        struct credentials_source *source; /* found at the first need; under `fetching` */
        struct credentials *current;
        int64_t failed_ms;  /* monotonic: an advisory refresh failed, so that not every call tries */
        int64_t fetched_ms; /* monotonic: `current` came then */
};

/* In order. What a later source needs is one more file and one more row. */
static const struct {
        credentials_constructor *construct;
        bool environment; /* variables with keys: set aside where the Stack names a profile */
        bool own;         /* the profile's own: what a role's source_profile is asked for */
} sources[] = {
        { credentials_environment, true, false },  { credentials_role, false, false },
        { credentials_web_identity, false, true }, { credentials_sso, false, true },
        { credentials_file_keys, false, true },    { credentials_login, false, true },
        { credentials_process, false, true },      { credentials_config_keys, false, true },
        { credentials_container, false, false },   { credentials_instance, false, false },
};

struct credentials_chain *credentials_chain_new(const struct credentials_settings *settings) {
        struct credentials_chain *chain = calloc(1, sizeof(*chain));

        if (!chain || pthread_mutex_init(&chain->lock, NULL) != 0 ||
            pthread_mutex_init(&chain->fetching, NULL) != 0)
                abort();
        chain->settings = *settings;
        return chain;
}

void credentials_chain_free(struct credentials_chain *chain) {
        if (!chain)
                return;
        credentials_source_free(chain->source);
        credentials_unref(chain->current);
        pthread_mutex_destroy(&chain->lock);
        pthread_mutex_destroy(&chain->fetching);
        free(chain);
}

/* Asks the constructors in order: 1 with *ret, 0 with all that was looked at in `tried`, -1 with err. */
static int find_in_order(const struct credentials_settings *settings, bool own_only,
                         struct credentials_source **ret, struct strbuf *tried, struct error *err) {
        for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
                struct strbuf looked STRBUF_CLEANUP = STRBUF_INIT;
                int found;

                if ((own_only && !sources[i].own) || (settings->no_environment && sources[i].environment))
                        continue;
                found = sources[i].construct(settings, ret, &looked, err);
                if (found != 0)
                        return found;
                if (looked.length)
                        strbuf_printf(tried, "%s%s", tried->length ? "; " : "", strbuf_text(&looked));
        }
        return 0;
}

int credentials_of_profile(const struct credentials_settings *settings, struct credentials_source **ret,
                           struct strbuf *tried, struct error *err) {
        return find_in_order(settings, true, ret, tried, err);
}

/* NULL on failure. */
static struct credentials_source *choose_source(const struct credentials_settings *settings,
                                                struct error *err) {
        struct strbuf tried STRBUF_CLEANUP = STRBUF_INIT;
        struct credentials_source *source = NULL;
        int found;

        /* Whatever the variables hold: a named profile that does not exist is a typing mistake. */
        if (profiles_check(settings->profiles, settings->profile, settings->profile_named_by, err) < 0)
                return NULL;
        found = find_in_order(settings, false, &source, &tried, err);
        if (found == 0)
                error_set(
                        err,
                        "no AWS credentials found. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile "
                        "by AWS_PROFILE or the Stack's aws.profile. Looked at: %s",
                        strbuf_text(&tried));
        return found > 0 ? source : NULL;
}

static struct credentials_source *open_credentials(const struct credentials_settings *settings,
                                                   struct error *err) {
        struct credentials_source *source = choose_source(settings, err);

        if (source && settings->assume_role && *settings->assume_role) {
                struct role role = { .arn = settings->assume_role };

                source = credentials_assume_role(settings, &role, source);
        }
        return source;
}

enum freshness { FRESH, STALE_SOON, STALE };

static enum freshness freshness_of(const struct credentials_chain *chain,
                                   const struct credentials *credentials) {
        const struct clock *clock = chain->settings.clock;
        int64_t expires_ms, left_ms;

        if (!credentials)
                return STALE;
        expires_ms = credentials_expire_ms(credentials);
        if (expires_ms == 0)
                return FRESH;
        left_ms = expires_ms - clock->wall_ms(clock);
        /* Some sources give keys that live for minutes only: not one fetch a call. */
        if (left_ms > 0 && clock->monotonic_ms(clock) - chain->fetched_ms < JUST_FETCHED_MS)
                return FRESH;
        if (left_ms <= MANDATORY_MS)
                return STALE;
        return left_ms <= ADVISORY_MS ? STALE_SOON : FRESH;
}

/* The current keys, if they will do. */
static struct credentials *take_current(struct credentials_chain *chain, enum freshness *ret_freshness,
                                        bool *ret_failed_lately) {
        const struct clock *clock = chain->settings.clock;
        struct credentials *result = NULL;

        pthread_mutex_lock(&chain->lock);
        *ret_freshness = freshness_of(chain, chain->current);
        *ret_failed_lately = chain->failed_ms && clock->monotonic_ms(clock) - chain->failed_ms < 60 * 1000;
        if (*ret_freshness != STALE)
                result = credentials_ref(chain->current);
        pthread_mutex_unlock(&chain->lock);
        return result;
}

/* With `fetching` held. */
static int fetch_from_source(struct credentials_chain *chain, struct credentials **ret,
                             enum retry_reason *ret_reason, int64_t *ret_asked_ms, struct error *err) {
        const struct clock *clock = chain->settings.clock;
        struct credentials *fetched = NULL, *old;

        if (!chain->source && !(chain->source = open_credentials(&chain->settings, err)))
                return -1;
        if (chain->source->ops->fetch(chain->source, &fetched, ret_reason, ret_asked_ms, err) < 0) {
                pthread_mutex_lock(&chain->lock);
                chain->failed_ms = clock->monotonic_ms(clock);
                pthread_mutex_unlock(&chain->lock);
                return -1;
        }
        pthread_mutex_lock(&chain->lock);
        old = chain->current;
        chain->current = credentials_ref(fetched);
        chain->failed_ms = 0;
        chain->fetched_ms = clock->monotonic_ms(clock);
        pthread_mutex_unlock(&chain->lock);
        credentials_unref(old);
        log_debug("aws: credentials of %s", credentials_origin(fetched));
        *ret = fetched;
        return 0;
}

int credentials_chain_get(struct credentials_chain *chain, struct credentials **ret,
                          enum retry_reason *ret_reason, int64_t *ret_asked_ms, struct error *err) {
        struct credentials *current;
        struct error ignored;
        enum freshness freshness;
        bool failed_lately;
        int result;

        *ret_reason = RETRY_NOT;
        *ret_asked_ms = 0;
        current = take_current(chain, &freshness, &failed_lately);
        if (freshness == FRESH || (freshness == STALE_SOON && failed_lately)) {
                *ret = current;
                return 0;
        }
        if (freshness == STALE_SOON) {
                /* Where another thread is at it, or it fails, the old ones will do for minutes. */
                if (pthread_mutex_trylock(&chain->fetching) == 0) {
                        struct credentials *fetched;

                        if (fetch_from_source(chain, &fetched, ret_reason, ret_asked_ms, &ignored) == 0) {
                                credentials_unref(current);
                                current = fetched;
                        }
                        pthread_mutex_unlock(&chain->fetching);
                        *ret_reason = RETRY_NOT;
                }
                *ret = current;
                return 0;
        }
        pthread_mutex_lock(&chain->fetching);
        current = take_current(chain, &freshness,
                               &failed_lately); /* the holder of the lock may have brought some */
        if (current) {
                *ret = current;
                result = 0;
        } else {
                result = fetch_from_source(chain, ret, ret_reason, ret_asked_ms, err);
        }
        pthread_mutex_unlock(&chain->fetching);
        return result;
}

static bool lives_on(const struct credentials_chain *chain, const struct credentials *credentials,
                     int64_t life_ms) {
        const struct clock *clock = chain->settings.clock;
        int64_t expires_ms = credentials_expire_ms(credentials);

        return expires_ms == 0 || expires_ms >= clock->wall_ms(clock) + life_ms;
}

int credentials_chain_get_long(struct credentials_chain *chain, int64_t life_ms, struct credentials **ret,
                               enum retry_reason *ret_reason, int64_t *ret_asked_ms, struct error *err) {
        const struct clock *clock = chain->settings.clock;
        struct credentials *fetched;
        struct error ignored;
        int64_t now_ms;
        bool asks;

        if (credentials_chain_get(chain, ret, ret_reason, ret_asked_ms, err) < 0)
                return -1;
        if (lives_on(chain, *ret, life_ms))
                return 0;
        pthread_mutex_lock(&chain->fetching);
        pthread_mutex_lock(&chain->lock);
        /* The holder of the lock may have brought some. */
        if (chain->current && chain->current != *ret) {
                credentials_unref(*ret);
                *ret = credentials_ref(chain->current);
        }
        now_ms = clock->monotonic_ms(clock);
        asks = !lives_on(chain, *ret, life_ms) && now_ms - chain->fetched_ms >= JUST_FETCHED_MS &&
               !(chain->failed_ms && now_ms - chain->failed_ms < JUST_FETCHED_MS);
        pthread_mutex_unlock(&chain->lock);
        if (asks && fetch_from_source(chain, &fetched, ret_reason, ret_asked_ms, &ignored) == 0) {
                credentials_unref(*ret);
                *ret = fetched;
        }
        pthread_mutex_unlock(&chain->fetching);
        *ret_reason = RETRY_NOT;
        return 0;
}

bool credentials_chain_expired(struct credentials_chain *chain, const struct credentials *refused) {
        struct credentials *dropped = NULL;

        if (credentials_expire_ms(refused) == 0)
                return false; /* the same would come back */
        pthread_mutex_lock(&chain->lock);
        if (chain->current == refused) {
                dropped = chain->current;
                chain->current = NULL;
        }
        pthread_mutex_unlock(&chain->lock);
        credentials_unref(dropped);
        return true;
}
