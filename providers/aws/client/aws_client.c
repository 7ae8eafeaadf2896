/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a call: quota -> credentials -> signature -> HTTP -> the answer's form -> once more, or not.
 *
 * attempt() makes one try and says what may follow; aws_call() and aws_step_call() differ only in how they wait.
 */
#include "providers/aws/client/aws_client.h"

#include "base/interrupt.h"
#include "base/json.h"
#include "base/log.h"
#include "providers/aws/client/ahead.h"
#include "providers/aws/client/answer.h"
#include "providers/aws/client/aws_client_state.h"
#include "providers/aws/client/aws_json.h"
#include "providers/aws/client/aws_xml_answer.h"
#include "providers/aws/client/explain.h"
#include "providers/aws/client/request.h"
#include "providers/aws/client/service_facts.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_LIMIT (16U * 1024U * 1024U)
#define SKEW_WORTH_MENDING_MS (4 * 60 * 1000)
#define LAST_TRY_MS (5 * 60 * 1000) /* after the first, where a call waits by itself */
#define PRESIGNED_MS (10 * 1000)    /* for a fetch, and after its first try for the last one */

/* What one try came to. */
struct outcome {
        enum retry_reason reason;
        int64_t asked_ms;
        enum http_failure failure;
        bool sent; /* as far as http_send(): `failure` says how that went */
};

void aws_response_release(struct aws_response *response) {
        strbuf_release(&response->body);
        json_forget(response->json);
        *response = (struct aws_response)AWS_RESPONSE_INIT;
}

bool aws_failed_with(const struct aws_response *response, const char *code) {
        return strcmp(response->error_code, code) == 0;
}

bool aws_failed_with_any(const struct aws_response *response, const char *const *codes) {
        for (; codes && *codes; codes++) {
                if (aws_failed_with(response, *codes))
                        return true;
        }
        return false;
}

static int64_t signing_time(struct aws_client *client) {
        return client->clock->wall_ms(client->clock) + (int64_t)atomic_load(&client->skew_ms);
}

/*
 * Takes over AWS's clock if the request was signed far off it: true, since it is worth signing
 * again. Requests that were on their way together may all find that out; what counts is each one's
 * own time, not what another has mended meanwhile.
 */
static bool mend_clock(struct aws_client *client, const struct http_response *answer, int64_t signed_ms) {
        char date[64];
        int64_t theirs, skew, off;

        if (!http_header(answer, "date", date, sizeof(date)) || (theirs = http_date_ms(date)) < 0)
                return false;
        off = theirs - signed_ms;
        if (off < SKEW_WORTH_MENDING_MS && off > -SKEW_WORTH_MENDING_MS)
                return false;
        skew = theirs - client->clock->wall_ms(client->clock);
        log_debug("aws: this machine's clock is %lld s off; signing by the server's",
                  (long long)(skew / 1000));
        atomic_store(&client->skew_ms, skew);
        return true;
}

static struct quota_bucket *quota_of(struct aws_client *client, const struct aws_request *request) {
        return &atomic_load(&client->quotas)->buckets[quota_kind_of(request->service, request->operation)];
}

/*
 * What the answer's code asks for before another try: the clock mended, other keys, a slower pace. Where that cannot
 * be had there is no other try.
 */
static enum retry_reason reason_to_retry(struct aws_client *client, const struct aws_request *request,
                                         const struct http_response *answer,
                                         const struct aws_response *response,
                                         const struct credentials *credentials, int64_t signed_ms) {
        enum retry_reason reason = retry_reason_of(HTTP_ANSWERED, response->status, response->error_code);

        if (reason == RETRY_CLOCK && !mend_clock(client, answer, signed_ms))
                return RETRY_NOT;
        if (reason == RETRY_KEYS && !(credentials && credentials_chain_expired(client->chain, credentials)))
                return RETRY_NOT;
        if (reason == RETRY_THROTTLED)
                quota_slow_down(quota_of(client, request), client->clock->monotonic_ms(client->clock));
        return reason;
}

/* The rest of a file. */
struct sending {
        const struct aws_file *file;
        uint64_t sent;
};

static ssize_t send_piece(void *context, char *buffer, size_t size) {
        struct sending *sending = context;
        uint64_t left = sending->file->length - sending->sent;
        ssize_t count;

        do
                count = pread(sending->file->descriptor, buffer, size < left ? size : (size_t)left,
                              (off_t)(sending->file->offset + sending->sent));
        while (count < 0 && errno == EINTR);
        if (count > 0)
                sending->sent += (uint64_t)count;
        return count == 0 && left > 0 ? -1 : count; /* it is shorter than it was said to be */
}

static int send_signed(struct aws_client *client, const struct aws_request *request,
                       const struct endpoint *endpoint, const struct signed_request *ready,
                       struct http_response *answer, enum http_failure *ret_failure, struct error *err) {
        struct sending sending = { .file = request->file };
        struct http_request http = {
                .method = ready->method,
                .url = strbuf_text(&ready->url),
                .headers = ready->headers,
                .header_count = ready->header_count,
                .body = ready->body,
                .body_length = ready->body_length,
                .answer_limit = request->answer_limit ? request->answer_limit : ANSWER_LIMIT,
                .timeout_ms = request->timeout_ms,
                .allow_plain = endpoint->configured_by != NULL,
                .quiet_ms = request->quiet_ms,
                .sink = request->sink,
                .context = request->context,
                .once = request->once,
                .interrupt = client->clock->interrupt,
                .ended_by = request->ended_by,
        };

        if (request->file) {
                http.source_length = (int64_t)request->file->length;
                http.source = send_piece;
                http.context = &sending;
        }
        return http_send(client->http, &http, answer, ret_failure, err);
}

static void tell_called(const struct aws_client *client, const struct aws_request *request, int status,
                        bool throttled) {
        const struct provider_watch *watch = client->watch;

        if (watch && watch->called)
                watch->called(watch->context, aws_service_name(request->service), request->operation, status,
                              throttled);
}

/* One try with the keys given; none for an unsigned call. `origin` says where they are from. */
static int attempt_with(struct aws_client *client, const struct aws_request *request,
                        const struct credentials *credentials, const char *origin,
                        struct aws_response *response, struct outcome *ret_outcome, struct error *err) {
        struct endpoint elsewhere ENDPOINT_CLEANUP = { 0 };
        const struct endpoint *endpoint = &client->endpoints[request->service];
        struct sigv4_keys keys = { 0 };
        struct signed_request ready SIGNED_REQUEST_CLEANUP = SIGNED_REQUEST_INIT;
        struct http_response answer HTTP_RESPONSE_CLEANUP = HTTP_RESPONSE_INIT;
        struct circumstances circumstances = {
                .request = request,
                .endpoint = endpoint,
                .credentials_origin = origin,
                .wall_ms = signing_time(client),
        };
        enum http_failure failure;
        int result;

        *ret_outcome = (struct outcome){ .reason = RETRY_NOT };
        if (request->region && strcmp(request->region, client->region) != 0) {
                if (client_endpoint(client, request->service, request->region, &elsewhere, err) < 0)
                        return -1;
                endpoint = &elsewhere;
                circumstances.endpoint = endpoint;
        }
        if (credentials)
                keys = credentials_keys(credentials);
        request_sign(request, endpoint, credentials ? &keys : NULL, circumstances.wall_ms, &ready);
        ret_outcome->sent = true;
        if (send_signed(client, request, endpoint, &ready, &answer, &failure, err) < 0) {
                ret_outcome->failure = failure;
                ret_outcome->reason = retry_reason_of(failure, 0, "");
                response->too_large = failure == HTTP_TOO_LARGE;
                tell_called(client, request, 0, false);
                log_debug("aws: %s %s: %s", aws_service_name(request->service), request->operation,
                          err->message);
                return explain_failure(&circumstances, failure, err);
        }
        result = answer_read(service_facts(request->service)->protocol, request->operation, &answer, response,
                             err);
        if (endpoint->configured_by)
                answer_withhold(response);
        log_debug("aws: %s %s: %d %s%s%s", aws_service_name(request->service), request->operation,
                  response->status, response->error_code, *response->request_id ? " request " : "",
                  response->request_id);
        if (result < 0) {
                tell_called(client, request, response->status, false);
                ret_outcome->reason = RETRY_TRANSIENT;
                return error_context(err, "%s", aws_service_name(request->service));
        }
        if (response->status < 200 || response->status >= 300) {
                ret_outcome->reason = reason_to_retry(client, request, &answer, response, credentials,
                                                      circumstances.wall_ms);
                ret_outcome->asked_ms = retry_asked_ms(&answer, client->clock->wall_ms(client->clock));
                result = explain_answer(&circumstances, response, err);
        }
        tell_called(client, request, response->status, ret_outcome->reason == RETRY_THROTTLED);
        response->body = answer.body; /* moved */
        answer.body = (struct strbuf)STRBUF_INIT;
        return result;
}

/*
 * With the client's own credentials, which may have to be fetched first: that may fail as a call does, and be worth
 * another try.
 */
static int attempt(struct aws_client *client, const struct aws_request *request,
                   struct aws_response *response, struct outcome *ret_outcome, struct error *err) {
        struct credentials *credentials CREDENTIALS_CLEANUP = NULL;

        aws_response_release(response);
        if (credentials_chain_get(client->chain, &credentials, &ret_outcome->reason, &ret_outcome->asked_ms,
                                  err) < 0)
                return error_context(err, "%s %s", aws_service_name(request->service), request->operation);
        return attempt_with(client, request, credentials, credentials_origin(credentials), response,
                            ret_outcome, err);
}

/* For roles: one try, with keys that are not the client's own. */
int client_sts(struct credentials_caller *caller, const char *operation, const struct credentials *signer,
               const char *origin, const char *form, struct strbuf *ret_answer, enum retry_reason *ret_reason,
               int64_t *ret_asked_ms, struct error *err) {
        struct aws_client *client = (struct aws_client *)caller;
        struct aws_request request = {
                .service = AWS_STS,
                .operation = operation,
                .body = form,
                .body_length = strlen(form),
        };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct outcome outcome;
        int result = attempt_with(client, &request, signer, signer ? credentials_origin(signer) : origin,
                                  &response, &outcome, err);

        *ret_reason = outcome.reason;
        *ret_asked_ms = outcome.asked_ms;
        if (result == 0) {
                *ret_answer = response.body;
                response.body = (struct strbuf)STRBUF_INIT;
        }
        return result;
}

/* Whether to try again after `attempts` tries, and when. */
static bool try_again(struct aws_client *client, const struct outcome *outcome, unsigned attempts,
                      int64_t *ret_when_ms) {
        *ret_when_ms = client->clock->monotonic_ms(client->clock);
        if (!retry_allowed(outcome->reason, attempts, client->max_attempts) ||
            !retry_quota_take(&client->retries, outcome->reason))
                return false;
        if (outcome->reason != RETRY_CLOCK && outcome->reason != RETRY_KEYS)
                *ret_when_ms += retry_delay_ms(attempts, client->random(), outcome->asked_ms);
        return true;
}

/*
 * Takes the call's turn within its quota: the monotonic time before which it must not be made. `now_ms` is the caller's,
 * who compares the outcome with it: with a second look at the clock a free turn could lie a millisecond ahead.
 */
static int64_t reserve(struct aws_client *client, const struct aws_request *request, int64_t now_ms,
                       bool burst) {
        const struct provider_watch *watch = client->watch;
        int64_t go_ms = quota_reserve(quota_of(client, request), now_ms, burst);

        if (go_ms > now_ms && watch && watch->waited)
                watch->waited(watch->context, aws_service_name(request->service), go_ms - now_ms);
        return go_ms;
}

/* Waits are short slices if another interrupt than the clock's may end them. */
#define SLICE_MS 50

/* clock->sleep_until(); of what finishes something that was begun, on after an interrupt that asks for no more than that. */
static int sleep_until(const struct clock *clock, int64_t until_ms, const struct aws_request *request) {
        struct pollfd now = { .fd = interrupt_descriptor(clock->interrupt, INTERRUPT_NOW), .events = POLLIN };

        if (clock->sleep_until(clock, until_ms) == 0)
                return 0;
        while (request->finishes && interrupt_level(clock->interrupt) < INTERRUPT_NOW) {
                int64_t left_ms = until_ms - clock->monotonic_ms(clock);

                if (left_ms <= 0)
                        return 0;
                poll(&now, 1, left_ms > LAST_TRY_MS ? LAST_TRY_MS : (int)left_ms);
        }
        return -1;
}

static int wait_until(struct aws_client *client, int64_t when_ms, const struct aws_request *request,
                      struct error *err) {
        const struct clock *clock = client->clock;

        for (;;) {
                int64_t now_ms = clock->monotonic_ms(clock), slice_ms = when_ms;

                if (request->ended_by && interrupt_level(request->ended_by) >= INTERRUPT_NOW)
                        break;
                if (now_ms >= when_ms)
                        return 0;
                if (request->ended_by && when_ms - now_ms > SLICE_MS)
                        slice_ms = now_ms + SLICE_MS;
                if (sleep_until(clock, slice_ms, request) < 0)
                        break;
                if (slice_ms == when_ms)
                        return 0;
        }
        return error_set_kind(err, ERROR_INTERRUPTED, "%s %s: interrupted while waiting for another try",
                              aws_service_name(request->service), request->operation);
}

static int wait_for_turn(struct aws_client *client, int64_t turn_ms, const struct aws_request *request,
                         int64_t *ret_start_ms, struct error *err) {
        for (;;) {
                if (wait_until(client, turn_ms, request, err) < 0)
                        return -1;
                *ret_start_ms = client->clock->monotonic_ms(client->clock);
                turn_ms = quota_start(quota_of(client, request), *ret_start_ms, true);
                if (turn_ms <= *ret_start_ms)
                        return 0;
        }
}

int client_call(struct aws_client *client, const struct aws_request *request, struct aws_response *response,
                struct error *err) {
        struct error last = { 0 };
        int64_t first_ms = 0;

        for (unsigned attempts = 1;; attempts++) {
                struct outcome outcome = { 0 };
                int64_t when_ms = reserve(client, request, client->clock->monotonic_ms(client->clock), true);
                int64_t start_ms;
                int result;

                if (wait_for_turn(client, when_ms, request, &start_ms, err) < 0)
                        return -1;
                if (attempts == 1)
                        first_ms = when_ms;
                result = attempt(client, request, response, &outcome, &last);
                quota_answered(quota_of(client, request), start_ms,
                               client->clock->monotonic_ms(client->clock));
                if (result == 0) {
                        retry_quota_refund(&client->retries, attempts);
                        return 0;
                }
                if (!try_again(client, &outcome, attempts, &when_ms) || when_ms - first_ms > LAST_TRY_MS) {
                        if (attempts > 1 && outcome.reason != RETRY_NOT)
                                error_context(&last, "after %u tries", attempts);
                        *err = last;
                        return -1;
                }
                if (wait_until(client, when_ms, request, err) < 0)
                        return -1;
        }
}

int aws_call(struct aws_client *client, const struct aws_request *request, struct aws_response *response,
             struct error *err) {
        int result;

        if (ahead_take(client->ahead, request, response, &result, err))
                return result;
        return client_call(client, request, response, err);
}

int aws_call_accepting(struct aws_client *client, const struct aws_request *request, const char *const *codes,
                       struct aws_response *response, struct error *err) {
        struct error failure = { 0 };

        if (aws_call(client, request, response, &failure) == 0 || aws_failed_with_any(response, codes))
                return 0;
        *err = failure;
        return -1;
}

/* What a connection that was never made, or not to the right server, has not carried cannot have been done. */
static enum aws_try kind_of_try(const struct outcome *outcome, int status) {
        if (!outcome->sent)
                return AWS_TRY_UNSENT;
        if (outcome->failure == HTTP_UNREACHABLE || outcome->failure == HTTP_TLS ||
            outcome->failure == HTTP_REFUSED)
                return AWS_TRY_UNSENT;
        if (outcome->failure != HTTP_ANSWERED || (status >= 200 && status < 300))
                return AWS_TRY_UNKNOWN;
        return outcome->reason == RETRY_CLOCK || outcome->reason == RETRY_KEYS ? AWS_TRY_MENDED
                                                                               : AWS_TRY_REFUSED;
}

int aws_call_once(struct aws_client *client, const struct aws_request *request, struct aws_response *response,
                  enum aws_try *ret_try, struct error *err) {
        struct aws_request once = *request;
        struct outcome outcome = { 0 };

        once.once = true;
        if (attempt(client, &once, response, &outcome, err) < 0) {
                *ret_try = kind_of_try(&outcome, response->status);
                return -1;
        }
        *ret_try = AWS_TRY_DONE;
        return 0;
}

int64_t aws_retry_delay_ms(struct aws_client *client, unsigned attempts) {
        return retry_delay_ms(attempts, client->random(), 0);
}

int aws_wait_until(struct aws_client *client, int64_t monotonic_ms, const struct aws_request *request,
                   struct error *err) {
        return wait_until(client, monotonic_ms, request, err);
}

int aws_step_call(struct aws_client *client, const struct aws_request *request, struct progress *progress,
                  struct aws_response *response, struct error *err) {
        int64_t now_ms = client->clock->monotonic_ms(client->clock);
        struct outcome outcome = { 0 };
        struct error last = { 0 };
        int result;

        if (!progress->reserved) {
                progress->not_before_ms = reserve(client, request, now_ms, false);
                progress->reserved = true;
        }
        if (progress->not_before_ms <= now_ms)
                progress->not_before_ms = quota_start(quota_of(client, request), now_ms, false);
        if (progress->not_before_ms > now_ms)
                return STEP_AGAIN;
        progress->reserved = false;
        progress->sent = true;
        progress->attempts++;
        result = attempt(client, request, response, &outcome, &last);
        quota_answered(quota_of(client, request), now_ms, client->clock->monotonic_ms(client->clock));
        if (result == 0) {
                retry_quota_refund(&client->retries, progress->attempts);
                progress->attempts = 0;
                return STEP_DONE;
        }
        if (try_again(client, &outcome, progress->attempts, &progress->not_before_ms))
                return STEP_AGAIN;
        if (progress->attempts > 1 && outcome.reason != RETRY_NOT)
                error_context(&last, "after %u tries", progress->attempts);
        progress->attempts = 0;
        *err = last;
        return -1;
}

int aws_fetch_presigned(struct aws_client *client, const char *url, size_t limit, struct strbuf *ret,
                        struct error *err) {
        struct http_request http = {
                .method = "GET",
                .url = url,
                .answer_limit = limit,
                .timeout_ms = PRESIGNED_MS,
                .interrupt = client->clock->interrupt,
        };
        struct aws_request request = { .service = AWS_ECR, .operation = "presigned URL" };
        int64_t first_ms = client->clock->monotonic_ms(client->clock);
        struct error last = { 0 };

        for (unsigned attempts = 1;; attempts++) {
                struct http_response answer HTTP_RESPONSE_CLEANUP = HTTP_RESPONSE_INIT;
                struct outcome outcome = { 0 };
                enum http_failure failure;
                int64_t when_ms;

                if (http_send(client->http, &http, &answer, &failure, &last) < 0) {
                        outcome.reason = retry_reason_of(failure, 0, "");
                } else if (answer.status < 200 || answer.status >= 300) {
                        outcome.reason = retry_reason_of(failure, answer.status, "");
                        outcome.asked_ms = retry_asked_ms(&answer, client->clock->wall_ms(client->clock));
                        /* Without the query: that is the signature. */
                        error_set(&last, "%.*s answered %d", (int)strcspn(url, "?"), url, answer.status);
                } else {
                        strbuf_append_bytes(ret, strbuf_text(&answer.body), answer.body.length);
                        retry_quota_refund(&client->retries, attempts);
                        return 0;
                }
                if (!try_again(client, &outcome, attempts, &when_ms) || when_ms - first_ms > PRESIGNED_MS) {
                        *err = last;
                        return -1;
                }
                if (wait_until(client, when_ms, &request, err) < 0)
                        return -1;
        }
}

int aws_send_presigned(struct aws_client *client, const char *method, const char *url,
                       const char *content_type, const void *body, size_t length, size_t limit,
                       int *ret_status, struct strbuf *ret, struct error *err) {
        const struct http_header header = { "Content-Type", content_type };
        const struct http_request http = {
                .method = method,
                .url = url,
                .headers = &header,
                .header_count = content_type ? 1 : 0,
                .body = body,
                .body_length = length,
                .answer_limit = limit,
                .timeout_ms = PRESIGNED_MS,
                .allow_plain = true,
                .interrupt = client->clock->interrupt,
        };
        struct http_response answer HTTP_RESPONSE_CLEANUP = HTTP_RESPONSE_INIT;
        enum http_failure failure;

        if (http_send(client->http, &http, &answer, &failure, err) < 0)
                return -1;
        *ret_status = answer.status;
        strbuf_append_bytes(ret, strbuf_text(&answer.body), answer.body.length);
        return 0;
}

/* With the account's lock held. */
static int ask_account(struct aws_client *client, struct error *err) {
        struct aws_request request = { .service = AWS_STS, .operation = "GetCallerIdentity" };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct xml_document *document XML_CLEANUP = NULL;
        struct arena *arena ARENA_CLEANUP = arena_new();
        const struct xml_node *result;
        const char *account, *arn;

        if (aws_call(client, &request, &response, err) < 0)
                return -1;
        if (aws_answer_xml(&response, "sts GetCallerIdentity", "GetCallerIdentityResponse", &document, err) <
            0)
                return -1;
        result = xml_child(xml_root(document), "GetCallerIdentityResult");
        account = xml_text(result, "Account", arena);
        arn = xml_text(result, "Arn", arena);
        if (!account || !arn)
                return error_set(err, "the answer to sts GetCallerIdentity names no account");
        client->account = strdup(account);
        client->arn = strdup(arn);
        if (!client->account || !client->arn)
                abort();
        return 0;
}

/* From now on within what all clients of this process share there. Threads may still be at the set of before. */
static void share_quotas(struct aws_client *client, const char *account) {
        client->shared_quotas =
                quota_set_share(account, client->region, client->clock, client->own_quotas->scale);
        atomic_store(&client->quotas, client->shared_quotas);
}

/* The set of the expected account is unused once the calls ahead have ended. */
static void forget_expected(struct aws_client *client) {
        aws_ahead_end(client);
        atomic_store(&client->quotas, client->own_quotas);
        quota_set_release(client->shared_quotas);
        client->shared_quotas = NULL;
        free(client->expected);
        client->expected = NULL;
}

int aws_client_expect(struct aws_client *client, const char *account, struct error *err) {
        struct credentials *credentials CREDENTIALS_CLEANUP = NULL;
        enum retry_reason reason;
        struct error failure = { 0 };
        int64_t asked_ms;
        int expected = 1;

        /* One by one the threads that ask ahead would wait for a source that fails, and a person be asked for a code again. */
        if (credentials_chain_get(client->chain, &credentials, &reason, &asked_ms, &failure) < 0) {
                if (reason != RETRY_NOT)
                        return 0;
                *err = failure;
                return error_context(err, "sts GetCallerIdentity");
        }
        pthread_mutex_lock(&client->account_lock);
        if (client->account) {
                expected = strcmp(client->account, account) == 0;
        } else if (!client->expected || strcmp(client->expected, account) != 0) {
                forget_expected(client);
                client->expected = strdup(account);
                if (!client->expected)
                        abort();
                share_quotas(client, account);
        }
        pthread_mutex_unlock(&client->account_lock);
        return expected;
}

int aws_client_account(struct aws_client *client, const char **ret_account, const char **ret_arn,
                       struct error *err) {
        int result = 0;

        pthread_mutex_lock(&client->account_lock);
        if (!client->account) {
                result = ask_account(client, err);
                if (result == 0 && client->expected && strcmp(client->expected, client->account) != 0)
                        forget_expected(client);
                if (result == 0 && !client->shared_quotas)
                        share_quotas(client, client->account);
        }
        if (result == 0) {
                *ret_account = client->account;
                *ret_arn = client->arn;
        }
        pthread_mutex_unlock(&client->account_lock);
        return result;
}
