/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread and a ring of deliveries for each target, so that a target that hangs delays no other.
 * The loop only puts a delivery into the ring; when that is full the oldest one goes. Each delivery
 * is tried until it is sent, refused for good, or too old.
 */
#include "gitops/notifier.h"

#include "base/clock.h"
#include "base/digest.h"
#include "base/json.h"
#include "base/log.h"
#include "http/http.h"
#include "server/secret.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_MAX ((size_t)1 << 20)
#define THREAD_STACK ((size_t)512 << 10)
#define RETRY_AFTER_MAX_S 900

static const struct notify_pace usual_pace = {
        .first_wait_ms = 1000,
        .longest_wait_ms = INT64_C(5) * 60 * 1000,
        .give_up_ms = INT64_C(60) * 60 * 1000,
        .timeout_ms = 10 * 1000,
};

struct delivery {
        enum notify_event event;
        char *body; /* owned */
        char id[33];
        int64_t queued_ms; /* monotonic */
};

/* One URL: a ring of deliveries, and the thread that empties it. */
struct channel {
        struct notifier *notifier;
        const struct notify_target *target;
        char *place; /* scheme and host, for messages */
        struct strbuf secret;
        pthread_t thread;
        bool started;
        pthread_cond_t changed; /* with the notifier's lock, as all below */
        struct delivery queue[NOTIFY_QUEUE];
        size_t first, count;
        bool failing; /* said so; the next success says that it is over */
};

struct notifier {
        struct metrics *metrics;
        const struct interrupt *interrupt;
        struct notify_pace pace;
        struct http_pool *http;
        pthread_mutex_t lock;
        bool stopping;
        int64_t stop_ms; /* monotonic: nothing is tried any more after it */
        size_t channel_count;
        struct channel *channels;
};

/* How a try went. */
enum verdict { VERDICT_SENT, VERDICT_AGAIN, VERDICT_FINAL };

static void count_deliveries(struct notifier *notifier, const char *result, size_t amount) {
        if (amount)
                metrics_add(notifier->metrics, METRIC_NOTIFICATIONS, (double)amount,
                            (const char *const[]){ result });
}

static void release_delivery(struct delivery *delivery) {
        free(delivery->body);
        *delivery = (struct delivery){ 0 };
}

/* --- one try --- */

struct headers {
        struct http_header list[8];
        size_t count;
        char timestamp[24], signature[sizeof("sha256=") + SHA256_HEX_SIZE];
};

static void add_header(struct headers *headers, const char *name, const char *value) {
        headers->list[headers->count++] = (struct http_header){ name, value };
}

static void sign_body(struct headers *headers, const struct strbuf *secret, const char *body) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        uint8_t mac[SHA256_SIZE];
        char hex[SHA256_HEX_SIZE];

        strbuf_printf(&text, "%s.%s", headers->timestamp, body);
        digest_hmac_sha256(secret->data, secret->length, strbuf_text(&text), text.length, mac);
        digest_hex(mac, sizeof(mac), hex);
        snprintf(headers->signature, sizeof(headers->signature), "sha256=%s", hex);
        add_header(headers, "X-Berth-Signature", headers->signature);
}

static enum verdict judge_answer(const struct http_response *answer, int64_t *ret_asked_ms,
                                 struct error *err) {
        int status = answer->status;
        char after[32];

        if (status >= 200 && status < 300)
                return VERDICT_SENT;
        if (status >= 300 && status < 400) {
                error_set(err, "it answered %d: redirects are not followed, the URL has to be the last one",
                          status);
                return VERDICT_FINAL;
        }
        error_set(err, "it answered %d", status);
        if (status != 408 && status != 429 && status < 500)
                return VERDICT_FINAL;
        if (http_header(answer, "retry-after", after, sizeof(after))) {
                char *end;
                long seconds = strtol(after, &end, 10);

                if (end != after && *end == '\0' && seconds > 0)
                        *ret_asked_ms = 1000 * (seconds < RETRY_AFTER_MAX_S ? seconds : RETRY_AFTER_MAX_S);
        }
        return VERDICT_AGAIN;
}

static enum verdict deliver_once(const struct channel *channel, const struct delivery *delivery,
                                 int64_t timeout_ms, int64_t *ret_asked_ms, struct error *err) {
        struct headers headers = { 0 };
        struct http_response answer HTTP_RESPONSE_CLEANUP = HTTP_RESPONSE_INIT;
        enum http_failure failure;
        struct http_request request = {
                .method = "POST",
                .url = channel->target->url,
                .headers = headers.list,
                .body = delivery->body,
                .body_length = strlen(delivery->body),
                .answer_limit = ANSWER_MAX,
                .timeout_ms = timeout_ms,
                .allow_plain = true, /* a person wrote that URL */
                .interrupt = channel->notifier->interrupt,
        };

        *ret_asked_ms = 0;
        snprintf(headers.timestamp, sizeof(headers.timestamp), "%lld", (long long)(clock_wall_ms() / 1000));
        add_header(&headers, "Content-Type", "application/json");
        add_header(&headers, "X-Berth-Event", config_event_name(delivery->event));
        add_header(&headers, "X-Berth-Delivery", delivery->id);
        add_header(&headers, "X-Berth-Timestamp", headers.timestamp);
        if (channel->target->secret_file)
                sign_body(&headers, &channel->secret, delivery->body);
        request.header_count = headers.count;
        if (http_send(channel->notifier->http, &request, &answer, &failure, err) < 0)
                return failure == HTTP_REFUSED ? VERDICT_FINAL : VERDICT_AGAIN;
        return judge_answer(&answer, ret_asked_ms, err);
}

/* --- a channel's thread --- */

/* With the lock held. False where the notifier will have stopped before that time. */
static bool wait_until(struct channel *channel, int64_t until_ms) {
        struct notifier *notifier = channel->notifier;

        while (clock_now_ms() < until_ms) {
                const struct timespec until = clock_timespec(until_ms);

                if (notifier->stopping && until_ms > notifier->stop_ms)
                        return false;
                pthread_cond_timedwait(&channel->changed, &notifier->lock, &until);
        }
        return true;
}

/* The wait after the n-th failure: a random time between half of it and the whole, so that those who failed together come apart. */
static int64_t backoff_of(const struct notify_pace *pace, unsigned failures, int64_t asked_ms) {
        int64_t wait_ms = pace->first_wait_ms;

        while (--failures > 0 && wait_ms < pace->longest_wait_ms)
                wait_ms *= 2;
        if (wait_ms > pace->longest_wait_ms)
                wait_ms = pace->longest_wait_ms;
        wait_ms = (int64_t)((double)wait_ms * (0.5 + random_unit() / 2));
        return wait_ms > asked_ms ? wait_ms : asked_ms;
}

/* With the lock held. How long a try may take, 0: there is no time left for one. */
static int64_t time_for_a_try(const struct notifier *notifier, const struct delivery *delivery) {
        int64_t now = clock_now_ms(), left = notifier->pace.timeout_ms;

        if (now - delivery->queued_ms >= notifier->pace.give_up_ms ||
            (notifier->stopping && now >= notifier->stop_ms))
                return 0;
        if (notifier->stopping && notifier->stop_ms - now < left)
                left = notifier->stop_ms - now;
        return left;
}

static void say_failure(struct channel *channel, const struct delivery *delivery, bool final,
                        const struct error *err) {
        if (final)
                log_warning("notification \"%s\" to %s is dropped: %s", config_event_name(delivery->event),
                            channel->place, err->message);
        else if (!channel->failing)
                log_warning("notifications to %s do not arrive, and are tried again: %s", channel->place,
                            err->message);
        channel->failing = true;
}

/* With the lock held, which is given back while others are waited for. Releases the delivery. */
static void deliver(struct channel *channel, struct delivery *delivery) {
        struct notifier *notifier = channel->notifier;
        struct error err = { 0 };
        enum verdict verdict = VERDICT_AGAIN;

        error_set(&err, "there was no time for it");
        for (unsigned failures = 0;;) {
                int64_t timeout_ms = time_for_a_try(notifier, delivery), asked_ms = 0;

                if (timeout_ms == 0)
                        break;
                pthread_mutex_unlock(&notifier->lock);
                verdict = deliver_once(channel, delivery, timeout_ms, &asked_ms, &err);
                pthread_mutex_lock(&notifier->lock);
                if (verdict != VERDICT_AGAIN)
                        break;
                say_failure(channel, delivery, false, &err);
                count_deliveries(notifier, "retried", 1);
                if (!wait_until(channel, clock_now_ms() + backoff_of(&notifier->pace, ++failures, asked_ms)))
                        break;
        }
        if (verdict == VERDICT_SENT) {
                if (channel->failing)
                        log_info("notifications to %s arrive again", channel->place);
                channel->failing = false;
        } else {
                say_failure(channel, delivery, true, &err);
        }
        count_deliveries(notifier, verdict == VERDICT_SENT ? "sent" : "dropped", 1);
        release_delivery(delivery);
}

static struct delivery take_delivery(struct channel *channel) {
        struct delivery delivery = channel->queue[channel->first];

        channel->queue[channel->first] = (struct delivery){ 0 };
        channel->first = (channel->first + 1) % NOTIFY_QUEUE;
        channel->count--;
        return delivery;
}

static void *empty_queue(void *context) {
        struct channel *channel = context;
        struct notifier *notifier = channel->notifier;

        pthread_mutex_lock(&notifier->lock);
        while (!notifier->stopping || (channel->count > 0 && clock_now_ms() < notifier->stop_ms)) {
                struct delivery delivery;

                if (channel->count == 0) {
                        pthread_cond_wait(&channel->changed, &notifier->lock);
                        continue;
                }
                delivery = take_delivery(channel);
                deliver(channel, &delivery);
        }
        pthread_mutex_unlock(&notifier->lock);
        return NULL;
}

/* --- for the loop --- */

static void enqueue(struct channel *channel, enum notify_event event, const char *body) {
        struct delivery *place;
        uint8_t id[16];

        if (channel->count == NOTIFY_QUEUE) {
                struct delivery oldest = take_delivery(channel);

                release_delivery(&oldest);
                count_deliveries(channel->notifier, "dropped", 1);
        }
        place = &channel->queue[(channel->first + channel->count++) % NOTIFY_QUEUE];
        *place = (struct delivery){ .event = event, .body = strdup(body), .queued_ms = clock_now_ms() };
        if (!place->body)
                abort();
        random_bytes(id, sizeof(id));
        digest_hex(id, sizeof(id), place->id);
        pthread_cond_signal(&channel->changed);
}

void notifier_post(struct notifier *notifier, enum notify_event event, json_t *document) {
        char *body;

        json_set_text(document, "formatVersion", "1");
        body = json_compact(document);
        json_decref(document);
        pthread_mutex_lock(&notifier->lock);
        for (size_t i = 0; i < notifier->channel_count; i++) {
                if (!(notifier->channels[i].target->events & (unsigned)event))
                        continue;
                if (notifier->stopping)
                        count_deliveries(notifier, "dropped", 1);
                else
                        enqueue(&notifier->channels[i], event, body);
        }
        pthread_mutex_unlock(&notifier->lock);
        free(body);
}

/* --- life --- */

/* Such a URL may hold a password, which no message should show. */
static bool names_a_user(const char *url) {
        const char *authority = strstr(url, "://");

        return authority && memchr(authority + 3, '@', strcspn(authority + 3, "/?#"));
}

static int prepare_channel(struct channel *channel, struct error *err) {
        struct strbuf place STRBUF_CLEANUP = STRBUF_INIT;
        struct http_url url HTTP_URL_CLEANUP = { 0 };

        if (names_a_user(channel->target->url))
                return error_set(err, "a notification's url must not hold a user name or password");
        if (http_url_split(channel->target->url, "the notification's url", &url, err) < 0)
                return -1;
        strbuf_printf(&place, "%s://%s%s%s", url.scheme, url.host, *url.port ? ":" : "", url.port);
        channel->place = strbuf_take(&place);
        return channel->target->secret_file ? secret_read(channel->target->secret_file, &channel->secret, err)
                                            : 0;
}

static int start_thread(struct channel *channel, struct error *err) {
        pthread_attr_t attributes;
        int failed;

        if (pthread_attr_init(&attributes) != 0)
                abort();
        /* One a target that mostly sleeps: the usual 8 MB would only be reserved for nothing. */
        pthread_attr_setstacksize(&attributes, THREAD_STACK);
        failed = pthread_create(&channel->thread, &attributes, empty_queue, channel);
        pthread_attr_destroy(&attributes);
        if (failed)
                return error_set(err, "no thread can be started for notifications: %s", strerror(failed));
        channel->started = true;
        return 0;
}

static struct notifier *make_notifier(const struct notify_target *targets, size_t target_count,
                                      struct metrics *metrics, const struct interrupt *interrupt,
                                      const struct notify_pace *pace) {
        struct notifier *notifier = calloc(1, sizeof(*notifier));
        pthread_condattr_t attributes;

        if (!notifier || !(notifier->channels = calloc(target_count + 1, sizeof(notifier->channels[0]))) ||
            pthread_mutex_init(&notifier->lock, NULL) != 0 || pthread_condattr_init(&attributes) != 0 ||
            pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) != 0)
                abort();
        notifier->metrics = metrics;
        notifier->interrupt = interrupt;
        notifier->pace = *pace;
        notifier->http = http_pool_new(NULL);
        notifier->channel_count = target_count;
        for (size_t i = 0; i < target_count; i++) {
                notifier->channels[i].notifier = notifier;
                notifier->channels[i].target = &targets[i];
                notifier->channels[i].secret = (struct strbuf)STRBUF_SECRET;
                if (pthread_cond_init(&notifier->channels[i].changed, &attributes) != 0)
                        abort();
        }
        pthread_condattr_destroy(&attributes);
        return notifier;
}

int notifier_start_with(const struct notify_target *targets, size_t target_count, struct metrics *metrics,
                        const struct interrupt *interrupt, const struct notify_pace *pace,
                        struct notifier **ret, struct error *err) {
        struct notifier *notifier = make_notifier(targets, target_count, metrics, interrupt, pace);

        for (size_t i = 0; i < target_count; i++) {
                if (prepare_channel(&notifier->channels[i], err) < 0 ||
                    start_thread(&notifier->channels[i], err) < 0) {
                        notifier_stop(notifier, 0);
                        return -1;
                }
        }
        *ret = notifier;
        return 0;
}

int notifier_start(const struct notify_target *targets, size_t target_count, struct metrics *metrics,
                   const struct interrupt *interrupt, struct notifier **ret, struct error *err) {
        return notifier_start_with(targets, target_count, metrics, interrupt, &usual_pace, ret, err);
}

static void release_channel(struct channel *channel) {
        if (channel->count > 0)
                log_warning("%zu %s to %s dropped: there was no time for more", channel->count,
                            channel->count == 1 ? "notification" : "notifications", channel->place);
        count_deliveries(channel->notifier, "dropped", channel->count);
        while (channel->count > 0) {
                struct delivery delivery = take_delivery(channel);

                release_delivery(&delivery);
        }
        strbuf_release(&channel->secret);
        free(channel->place);
        pthread_cond_destroy(&channel->changed);
}

void notifier_stop(struct notifier *notifier, int64_t grace_ms) {
        if (!notifier)
                return;
        pthread_mutex_lock(&notifier->lock);
        notifier->stopping = true;
        notifier->stop_ms = clock_now_ms() + grace_ms;
        for (size_t i = 0; i < notifier->channel_count; i++)
                pthread_cond_signal(&notifier->channels[i].changed);
        pthread_mutex_unlock(&notifier->lock);
        for (size_t i = 0; i < notifier->channel_count; i++) {
                if (notifier->channels[i].started)
                        pthread_join(notifier->channels[i].thread, NULL);
        }
        for (size_t i = 0; i < notifier->channel_count; i++)
                release_channel(&notifier->channels[i]);
        free(notifier->channels);
        http_pool_free(notifier->http);
        pthread_mutex_destroy(&notifier->lock);
        free(notifier);
}
