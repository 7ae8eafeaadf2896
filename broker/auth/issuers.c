/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source is where keys come from; clients of one issuer share it. A fetched source has a thread
 * of its own, so that an issuer that does not answer delays no other client. A request that waits
 * for keys counts attempts: it goes on when an attempt has ended since it began to wait, whatever
 * the attempt's result.
 *
 * A signature is checked by the keys that were there when its check began; new keys replace them at
 * once, however many checks run and whether they ever pause. The old keys are freed with their last
 * holder.
 *
 * A token of an unknown issuer or client is neither logged nor kept.
 */
#include "broker/auth/issuers.h"

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "broker/auth/door.h"
#include "broker/auth/jwks.h"
#include "broker/auth/jwt.h"
#include "http/http.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define TIMEOUT_MS 10000
#define RETRY_FIRST_MS 5000
#define RETRY_LAST_MS 60000
#define THREAD_STACK ((size_t)512 << 10)

struct keys {
        size_t holders; /* the source itself, and each check that uses them */
        struct jwks *jwks;
};

struct source {
        struct issuers *issuers;
        const struct broker_client *client; /* the first that has it: for messages */
        struct http_pool *http;             /* of a URL */
        pthread_t thread;
        bool started;
        pthread_mutex_t in_use; /* of `keys` and its holders: never held for longer than a look */
        struct keys *keys;      /* NULL: none yet */
        pthread_mutex_t lock;   /* of all below */
        pthread_cond_t changed;
        bool stopping, wanted, under_way;
        uint64_t attempts; /* that ended */
        size_t waiting, turns;
        int64_t turn_ms, succeeded_ms, retry_ms;
        struct stat seen; /* of a file: as it was when it was read */
        char said[sizeof(((struct error *)NULL)->message)];
};

struct issuers {
        const struct broker_client *clients;
        size_t count, source_count;
        struct metrics *metrics;
        size_t fetches; /* the family that counts them */
        struct interrupt stop;
        struct source *sources;
        struct source **of_client; /* NULL: it has a token */
};

/* --- keys --- */

static struct keys *hold_keys(struct source *source) {
        struct keys *keys;

        pthread_mutex_lock(&source->in_use);
        keys = source->keys;
        if (keys)
                keys->holders++;
        pthread_mutex_unlock(&source->in_use);
        return keys;
}

static void let_go(struct source *source, struct keys *keys) {
        bool is_last;

        if (!keys)
                return;
        pthread_mutex_lock(&source->in_use);
        is_last = --keys->holders == 0;
        pthread_mutex_unlock(&source->in_use);
        if (!is_last)
                return;
        jwks_free(keys->jwks);
        free(keys);
}

static void use_keys(struct source *source, struct jwks *jwks) {
        struct keys *keys = jwks ? calloc(1, sizeof(*keys)) : NULL, *before;

        if (jwks && !keys)
                abort();
        if (keys)
                *keys = (struct keys){ .holders = 1, .jwks = jwks };
        pthread_mutex_lock(&source->in_use);
        before = source->keys;
        source->keys = keys;
        pthread_mutex_unlock(&source->in_use);
        let_go(source, before);
}

/* One line for each new trouble, and one when it is over. */
static void tell(struct source *source, const char *trouble) {
        if (!trouble && source->said[0])
                log_info("client %s: the keys of its issuer can be had again", source->client->name);
        else if (trouble && strcmp(trouble, source->said) != 0)
                log_warning("client %s: the keys of its issuer: %s", source->client->name, trouble);
        snprintf(source->said, sizeof(source->said), "%s", trouble ? trouble : "");
}

static bool is_same_file(const struct stat *one, const struct stat *two) {
        return one->st_dev == two->st_dev && one->st_ino == two->st_ino && one->st_size == two->st_size &&
               one->st_mode == two->st_mode && one->st_ctim.tv_sec == two->st_ctim.tv_sec &&
               one->st_ctim.tv_nsec == two->st_ctim.tv_nsec;
}

/* A file that is no key set, or is gone, leaves the keys that there are. */
static void look_at_file(struct source *source) {
        struct stat status = { 0 };
        struct jwks *jwks;
        struct error err;

        pthread_mutex_lock(&source->lock);
        if (stat(source->client->jwt.keys_file, &status) < 0)
                memset(&status, 0, sizeof(status));
        if (!is_same_file(&status, &source->seen)) {
                source->seen = status;
                if (jwks_file(source->client->jwt.keys_file, &jwks, &err) < 0) {
                        tell(source, err.message);
                } else {
                        use_keys(source, jwks);
                        tell(source, NULL);
                }
        }
        pthread_mutex_unlock(&source->lock);
}

/* --- fetching --- */

static int fetch_keys(const struct source *source, struct jwks **ret, struct error *err) {
        static const struct http_header accept = { "Accept", "application/json" };
        struct http_response answer HTTP_RESPONSE_CLEANUP = HTTP_RESPONSE_INIT;
        const struct http_request request = {
                .method = "GET",
                .url = source->client->jwt.keys_url,
                .headers = &accept,
                .header_count = 1,
                .answer_limit = JWKS_BYTES_MAX,
                .timeout_ms = TIMEOUT_MS,
                .interrupt = &source->issuers->stop,
        };
        enum http_failure failure;

        if (http_send(source->http, &request, &answer, &failure, err) < 0)
                return -1;
        if (answer.status != 200)
                return error_set(err, "they were answered with status %d", answer.status);
        return jwks_read(strbuf_text(&answer.body), answer.body.length, ret, err);
}

/* With the lock held, but for while it fetches. */
static void attempt(struct source *source) {
        struct jwks *jwks = NULL;
        struct error err;
        int result;

        source->wanted = false;
        source->under_way = true;
        pthread_mutex_unlock(&source->lock);
        result = fetch_keys(source, &jwks, &err);
        if (result == 0)
                use_keys(source, jwks);
        pthread_mutex_lock(&source->lock);
        source->under_way = false;
        source->attempts++;
        if (source->stopping)
                return;
        metrics_add(source->issuers->metrics, source->issuers->fetches, 1,
                    (const char *const[METRICS_LABELS]){ source->client->name,
                                                         result == 0 ? "fetched" : "failed" });
        tell(source, result == 0 ? NULL : err.message);
        if (result == 0) {
                source->succeeded_ms = clock_now_ms();
                source->retry_ms = 0;
                return;
        }
        source->retry_ms = source->retry_ms == 0                  ? RETRY_FIRST_MS
                           : 2 * source->retry_ms < RETRY_LAST_MS ? 2 * source->retry_ms
                                                                  : RETRY_LAST_MS;
        if (source->keys && clock_now_ms() - source->succeeded_ms > ISSUERS_FORGET_S * INT64_C(1000))
                use_keys(source, NULL);
}

static void *keep_fetching(void *context) {
        struct source *source = context;

        pthread_mutex_lock(&source->lock);
        while (!source->stopping) {
                int64_t until_ms;

                attempt(source);
                pthread_cond_broadcast(&source->changed);
                until_ms = clock_now_ms() +
                           (source->retry_ms ? source->retry_ms : ISSUERS_FETCH_S * INT64_C(1000));
                while (!source->stopping && !source->wanted && clock_now_ms() < until_ms) {
                        const struct timespec until = clock_timespec(until_ms);

                        pthread_cond_timedwait(&source->changed, &source->lock, &until);
                }
        }
        pthread_mutex_unlock(&source->lock);
        return NULL;
}

/* With the lock held: whether keys may be fetched now for a client that is not known yet. */
static bool take_turn(struct source *source) {
        int64_t turn_ms = ISSUERS_TURN_S * INT64_C(1000),
                passed = (clock_now_ms() - source->turn_ms) / turn_ms;

        source->turn_ms += passed * turn_ms;
        source->turns = source->turns + (size_t)passed < ISSUERS_TURNS ? source->turns + (size_t)passed
                                                                       : ISSUERS_TURNS;
        if (source->turns == 0)
                return false;
        source->turns--;
        return true;
}

static uint64_t attempts_of(struct source *source) {
        uint64_t attempts;

        pthread_mutex_lock(&source->lock);
        attempts = source->attempts;
        pthread_mutex_unlock(&source->lock);
        return attempts;
}

/*
 * Whether keys may have changed since `seen` attempts had ended: waits for one that is under way,
 * or begins one, if it has a turn. *ret_crowded: as many threads wait as may.
 */
static bool await_attempt(struct source *source, uint64_t seen, bool *ret_crowded) {
        int64_t until_ms = clock_now_ms() + ISSUERS_WAIT_S * INT64_C(1000);
        const struct timespec until = { .tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000 };
        int code = 0;
        bool changed;

        *ret_crowded = false;
        if (source->client->jwt.keys_file) {
                look_at_file(source);
                return true;
        }
        pthread_mutex_lock(&source->lock);
        if (source->attempts == seen && !source->under_way && !source->wanted && take_turn(source)) {
                source->wanted = true;
                pthread_cond_broadcast(&source->changed);
        }
        if (source->under_way || source->wanted) {
                *ret_crowded = source->waiting == ISSUERS_WAITING_MAX;
                source->waiting += !*ret_crowded;
                while (!*ret_crowded && code == 0 && source->attempts == seen && !source->stopping)
                        code = pthread_cond_timedwait(&source->changed, &source->lock, &until);
                source->waiting -= !*ret_crowded;
        }
        changed = source->attempts != seen;
        pthread_mutex_unlock(&source->lock);
        return changed;
}

/* --- tokens --- */

static enum jwt_verdict verify(struct source *source, const struct jwt *jwt, bool *ret_has_keys) {
        struct keys *keys = hold_keys(source);
        enum jwt_verdict verdict = keys ? jwt_verify(jwt, keys->jwks) : JWT_UNKNOWN_KEY;

        *ret_has_keys = keys != NULL;
        let_go(source, keys);
        return verdict;
}

/* Once more where keys came in between; not a third time. */
static enum issuers_verdict judge_signature(struct source *source, const struct jwt *jwt) {
        uint64_t seen = attempts_of(source);
        bool has_keys, crowded = false;
        enum jwt_verdict verdict = verify(source, jwt, &has_keys);

        if (verdict == JWT_UNKNOWN_KEY && await_attempt(source, seen, &crowded))
                verdict = verify(source, jwt, &has_keys);
        if (verdict == JWT_GOOD)
                return ISSUERS_KNOWN;
        return verdict == JWT_UNKNOWN_KEY && (!has_keys || crowded) ? ISSUERS_NO_KEYS : ISSUERS_STRANGER;
}

static enum issuers_verdict judge_claims(const struct jwt *jwt, struct arena *arena,
                                         struct issuers_found *found) {
        const char *claim = found->client->jwt.owner_claim, *name = claim ? jwt_claim(jwt, claim) : NULL;

        found->why = jwt_check_times(jwt, clock_wall_ms() / 1000);
        if (found->why)
                return ISSUERS_REFUSED;
        if (claim && (!name || !door_is_owner_name(name))) {
                found->why =
                        "the token's claim that should name the owner (ownerClaim) names none: it must be text of 1 to "
                        "256 characters, all of which can be seen";
                return ISSUERS_REFUSED;
        }
        found->until_s = jwt_until_s(jwt);
        found->owner = name ? arena_strdup(arena, name) : NULL;
        return ISSUERS_KNOWN;
}

enum issuers_verdict issuers_ask(struct issuers *issuers, const char *token, struct arena *arena,
                                 struct issuers_found *ret) {
        struct jwt jwt JWT_CLEANUP = { 0 };
        struct issuers_found found = { 0 };
        enum issuers_verdict verdict;
        size_t at = 0;

        if (issuers->source_count == 0 || !jwt_read(token, arena, &jwt))
                return ISSUERS_STRANGER;
        while (at < issuers->count &&
               !(issuers->of_client[at] &&
                 jwt_is_of(&jwt, issuers->clients[at].jwt.issuer, issuers->clients[at].jwt.audience)))
                at++;
        if (at == issuers->count)
                return ISSUERS_STRANGER;
        found.client = &issuers->clients[at];
        verdict = judge_signature(issuers->of_client[at], &jwt);
        if (verdict == ISSUERS_KNOWN)
                verdict = judge_claims(&jwt, arena, &found);
        *ret = found;
        return verdict;
}

/* --- life --- */

static bool is_same_text(const char *one, const char *two) {
        return one == two || (one && two && strcmp(one, two) == 0);
}

static struct source *find_source(struct issuers *issuers, const struct broker_jwt *jwt) {
        for (size_t i = 0; i < issuers->source_count; i++) {
                const struct broker_jwt *other = &issuers->sources[i].client->jwt;

                if (is_same_text(jwt->keys_file, other->keys_file) &&
                    is_same_text(jwt->keys_url, other->keys_url) &&
                    is_same_text(jwt->authorities_file, other->authorities_file))
                        return &issuers->sources[i];
        }
        return NULL;
}

static int open_source(struct source *source, struct error *err) {
        pthread_condattr_t monotonic;
        pthread_attr_t small;
        int code = 0;

        if (pthread_mutex_init(&source->in_use, NULL) != 0 || pthread_mutex_init(&source->lock, NULL) != 0 ||
            pthread_condattr_init(&monotonic) != 0 ||
            pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) != 0 ||
            pthread_cond_init(&source->changed, &monotonic) != 0 || pthread_attr_init(&small) != 0 ||
            pthread_attr_setstacksize(&small, THREAD_STACK) != 0)
                abort();
        pthread_condattr_destroy(&monotonic);
        source->turns = ISSUERS_TURNS;
        source->turn_ms = clock_now_ms();
        if (source->client->jwt.keys_file) {
                look_at_file(source);
        } else {
                source->http = http_pool_new(source->client->jwt.authorities_file);
                source->under_way = true; /* the first that comes waits for it */
                code = pthread_create(&source->thread, &small, keep_fetching, source);
                source->started = code == 0;
        }
        pthread_attr_destroy(&small);
        return code == 0 ? 0 : error_set(err, "cannot start a thread: %s", strerror(code));
}

int issuers_new(const struct broker_client *clients, size_t count, struct metrics *metrics, size_t fetches,
                struct issuers **ret, struct error *err) {
        struct issuers *issuers = calloc(1, sizeof(*issuers));

        if (!issuers || !(issuers->sources = calloc(count + 1, sizeof(*issuers->sources))) ||
            !(issuers->of_client = calloc(count + 1, sizeof(*issuers->of_client))))
                abort();
        issuers->clients = clients;
        issuers->count = count;
        issuers->metrics = metrics;
        issuers->fetches = fetches;
        issuers->stop.reached[0] = issuers->stop.reached[1] = -1;
        if (interrupt_init(&issuers->stop, err) < 0) {
                issuers_free(issuers);
                return -1;
        }
        for (size_t i = 0; i < count; i++) {
                if (clients[i].has_token)
                        continue;
                if (!(issuers->of_client[i] = find_source(issuers, &clients[i].jwt))) {
                        struct source *source = &issuers->sources[issuers->source_count++];

                        source->issuers = issuers;
                        source->client = &clients[i];
                        issuers->of_client[i] = source;
                        if (open_source(source, err) < 0) {
                                issuers_stop(issuers);
                                issuers_free(issuers);
                                return -1;
                        }
                }
        }
        *ret = issuers;
        return 0;
}

void issuers_stop(struct issuers *issuers) {
        for (size_t i = 0; issuers && i < issuers->source_count; i++) {
                struct source *source = &issuers->sources[i];

                pthread_mutex_lock(&source->lock);
                source->stopping = true;
                interrupt_raise_to(&issuers->stop, INTERRUPT_NOW);
                pthread_cond_broadcast(&source->changed);
                pthread_mutex_unlock(&source->lock);
        }
}

void issuers_free(struct issuers *issuers) {
        if (!issuers)
                return;
        for (size_t i = 0; i < issuers->source_count; i++) {
                struct source *source = &issuers->sources[i];

                if (source->started)
                        pthread_join(source->thread, NULL);
                http_pool_free(source->http);
                use_keys(source, NULL);
                pthread_cond_destroy(&source->changed);
                pthread_mutex_destroy(&source->lock);
                pthread_mutex_destroy(&source->in_use);
        }
        interrupt_dispose(&issuers->stop);
        free(issuers->of_client);
        free(issuers->sources);
        free(issuers);
}

void issuers_look(struct issuers *issuers) {
        for (size_t i = 0; i < issuers->source_count; i++) {
                if (issuers->sources[i].client->jwt.keys_file)
                        look_at_file(&issuers->sources[i]);
        }
}
