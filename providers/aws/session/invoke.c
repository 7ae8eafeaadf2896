/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An error that AWS answers with a status of 4xx, or with a code of what comes before any code runs (the network, the key, the image), is
 * one after which nothing has run. Of any other, and of every connection that ended without an answer, that is not known. A stream is whole
 * when InvokeComplete has come: without it the function may have been cut off.
 */
#include "providers/aws/session/invoke.h"

#include "base/json.h"
#include "base/text.h"
#include "providers/aws/client/event_stream.h"
#include "providers/aws/services/lambda.h"

#include <stdio.h>
#include <string.h>

#define GRACE_MS (60 * 1000)
/* New keys, a right clock: neither is wrong twice in a row. */
#define MENDED_MAX 2
/* Connections that could not be made. */
#define UNSENT_MAX 3
/* InvokeComplete's payload: the log's tail is 4 KB in base64. */
#define COMPLETE_MAX ((size_t)64 << 10)

struct try {
        const struct invoke_call *invocation;
        struct invoke_result *result;
        struct event_stream *stream;
        struct error failure; /* of what came */
        bool begun;           /* a byte of the function's answer has come */
        bool complete;        /* InvokeComplete has come */
        bool broken;
};

static void set_details(struct invoke_result *result, const char *code, const char *details) {
        size_t used = 0;

        snprintf(result->code, sizeof(result->code), "%s", code ? code : "");
        for (const char *at = details ? details : ""; *at && used + 1 < sizeof(result->details); at++) {
                unsigned char byte = (unsigned char)*at;

                result->details[used++] = byte < ' ' || byte == 0x7f ? ' ' : (char)byte;
        }
        result->details[used] = '\0';
}

bool invoke_tenant_is_valid(const char *tenant) {
        size_t length = strlen(tenant);

        return length >= 1 && length <= INVOKE_TENANT_MAX &&
               strspn(tenant, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/=+-@ ") ==
                       length;
}

/* --- what comes --- */

static int take_payload(struct try *try, const void *bytes, size_t length, struct error *err) {
        try->begun |= length > 0;
        if (length > 0 && !try->invocation->sink(try->invocation->context, bytes, length))
                return error_set_kind(err, ERROR_INTERRUPTED, "the client of the answer is gone");
        return 0;
}

/* {} where the function answered; else its error. */
static int take_complete(struct try *try, const struct event_stream_message *message, struct error *err) {
        json_t *json JSON_CLEANUP = NULL;
        const char *code;

        if (message->length > COMPLETE_MAX || json_measure(message->payload, message->length).depth > 8 ||
            !(json = json_loadb(message->payload, message->length, 0, NULL)) || !json_is_object(json))
                return error_set(err, "the end of the answer is not Lambda's");
        code = json_text(json, "ErrorCode");
        if (code && *code)
                set_details(try->result, code, json_text(json, "ErrorDetails"));
        try->complete = true;
        return 0;
}

static int take_message(void *context, const struct event_stream_message *message, struct error *err) {
        struct try *try = context;
        bool is_event = message->type && strcmp(message->type, "event") == 0;

        if (try->complete)
                return error_set(err, "something came behind the end of the answer");
        if (is_event && message->event && strcmp(message->event, "PayloadChunk") == 0)
                return take_payload(try, message->payload, message->length, err);
        if (is_event && message->event && strcmp(message->event, "InvokeComplete") == 0)
                return take_complete(try, message, err);
        /* A new kind of event is no reason to give up; what is no event is an error of Lambda's in the middle of the answer. */
        if (is_event)
                return 0;
        return error_set(err, "the answer was broken off: %s",
                         message->exception ? message->exception
                         : message->code    ? message->code
                                            : "Lambda does not say why");
}

static bool take_bytes(void *context, const char *bytes, size_t length) {
        struct try *try = context;

        if (event_stream_add(try->stream, bytes, length, &try->failure) == 0)
                return true;
        try->broken = true;
        return false;
}

/* --- what it came to --- */

static bool is_throttled(const struct aws_response *response) {
        return response->status == 429 || aws_failed_with(response, "TooManyRequestsException") ||
               aws_failed_with(response, "EC2ThrottledException");
}

/* Of answers of 5xx those that are about what comes before any code runs. */
static bool is_before_any_code(const struct aws_response *response) {
        static const char *const begins[] = {
                "EC2",           "ENILimit",         "Subnet",         "KMS",
                "EFS",           "ResourceNotReady", "InvalidRuntime", "InvalidSecurityGroup",
                "InvalidSubnet", "CodeArtifact"
        };

        if (response->status >= 400 && response->status < 500)
                return true;
        for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
                if (text_begins_with(response->error_code, begins[i]))
                        return true;
        }
        return false;
}

/* No code of Lambda's own: the server that answered does not know such a path. */
static bool has_no_streams(const struct aws_response *response) {
        static const char *const codes[] = { "UnknownOperationException", "NotFound", "MethodNotAllowed",
                                             "NotImplemented", NULL };

        return (response->status == 404 || response->status == 405 || response->status == 501) &&
               aws_failed_with_any(response, codes);
}

static bool is_about_tenants(const struct aws_response *response) {
        return aws_failed_with(response, "InvalidParameterValueException") &&
               (strstr(response->error_message, "enant") != NULL);
}

static void fail_invocation(struct invoke_result *result, enum invoke_end end,
                            const struct aws_response *response, const struct error *err) {
        result->end = end;
        result->tenant_unexpected = is_about_tenants(response);
        set_details(result, response->error_code, err->message);
}

/* A result that came as one answer. */
static void read_buffered(struct try *try, const struct aws_response *response) {
        struct invoke_result *result = try->result;
        struct error err = { 0 };

        if (*response->function_error) {
                const char *type = json_text(response->json, "errorType");

                result->end = INVOKE_FAILED;
                set_details(result, type ? type : response->function_error,
                            json_text(response->json, "errorMessage"));
                return;
        }
        result->end = INVOKE_DONE;
        if (take_payload(try, strbuf_text(&response->body), response->body.length, &err) < 0) {
                result->end = INVOKE_UNKNOWN;
                set_details(result, NULL, err.message);
        }
}

static void read_streamed(struct try *try) {
        struct invoke_result *result = try->result;

        if (!try->broken && !try->complete)
                (void)error_set(&try->failure, "the answer ended without Lambda's word that it is whole");
        if (!try->complete || event_stream_end(try->stream, &try->failure) < 0 || try->broken) {
                result->end = INVOKE_UNKNOWN;
                set_details(result, NULL, try->failure.message);
                return;
        }
        result->end = *result->code ? INVOKE_FAILED : INVOKE_DONE;
}

/* --- tries --- */

/* What a try came to: whether there may be another, and when. */
enum step { STEP_ENDED, STEP_WAIT, STEP_AT_ONCE };

static struct aws_request invoke_request(const struct invoke_call *invocation, struct try *try, bool buffered,
                                         struct arena *arena) {
        struct aws_request request =
                buffered ? lambda_invoke(invocation->function, invocation->tenant, invocation->payload,
                                         invocation->length, arena)
                         : lambda_invoke_stream(invocation->function, invocation->tenant, invocation->payload,
                                                invocation->length, arena);

        request.quiet_ms = invocation->timeout_ms + GRACE_MS;
        request.answer_limit = INVOKE_PAYLOAD_MAX + ((size_t)1 << 20);
        request.ended_by = invocation->ended_by;
        if (!buffered) {
                request.sink = take_bytes;
                request.context = try;
        }
        return request;
}

static enum step judge_refusal(struct try *try, const struct aws_response *response, const struct error *err,
                               bool *buffered) {
        struct invoke_result *result = try->result;

        if (is_throttled(response)) {
                fail_invocation(result, INVOKE_THROTTLED, response, err);
                memcpy(result->reason, response->error_reason, sizeof(result->reason));
                return STEP_WAIT;
        }
        if (!*buffered && has_no_streams(response)) {
                *buffered = result->streams_missing = true;
                return STEP_AT_ONCE;
        }
        fail_invocation(result, is_before_any_code(response) ? INVOKE_REFUSED : INVOKE_UNKNOWN, response,
                        err);
        return STEP_ENDED;
}

static enum step invoke_once(struct aws_client *client, const struct invoke_call *invocation, bool *buffered,
                             unsigned *mended, unsigned *unsent, struct arena *arena,
                             struct invoke_result *result) {
        struct try try = { .invocation = invocation, .result = result };
        struct event_stream *stream EVENT_STREAM_CLEANUP = event_stream_new(take_message, &try);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request = invoke_request(invocation, &try, *buffered, arena);
        struct error err = { 0 };
        enum aws_try came;

        try.stream = stream;
        set_details(result, NULL, NULL);
        if (aws_call_once(client, &request, &response, &came, &err) == 0) {
                snprintf(result->request_id, sizeof(result->request_id), "%s", response.request_id);
                if (*buffered)
                        read_buffered(&try, &response);
                else
                        read_streamed(&try);
                return STEP_ENDED;
        }
        switch (came) {
        case AWS_TRY_MENDED:
                fail_invocation(result, INVOKE_REFUSED, &response, &err);
                return ++*mended > MENDED_MAX ? STEP_ENDED : STEP_AT_ONCE;
        case AWS_TRY_UNSENT:
                fail_invocation(result, INVOKE_REFUSED, &response, &err);
                return ++*unsent >= UNSENT_MAX || err.kind == ERROR_INTERRUPTED ? STEP_ENDED : STEP_WAIT;
        case AWS_TRY_REFUSED:
                return judge_refusal(&try, &response, &err, buffered);
        case AWS_TRY_DONE:
        case AWS_TRY_UNKNOWN:
        default:
                /* All that was to come has come, and then the connection ended badly: nothing of the answer is missing. */
                if (!*buffered && try.complete && !try.broken) {
                        read_streamed(&try);
                        return STEP_ENDED;
                }
                result->end = INVOKE_UNKNOWN;
                set_details(result, NULL, try.broken ? try.failure.message : err.message);
                return STEP_ENDED;
        }
}

static bool can_be_sent(const struct invoke_call *invocation, struct invoke_result *result) {
        result->end = INVOKE_REFUSED;
        if (invocation->tenant && !invoke_tenant_is_valid(invocation->tenant))
                set_details(result, NULL, "Lambda does not take this id of a tenant");
        else if (invocation->length > INVOKE_PAYLOAD_MAX)
                set_details(result, "RequestTooLarge", "the event is more than an invocation carries");
        else
                return true;
        return false;
}

void invoke(struct aws_client *client, const struct invoke_call *invocation, struct invoke_result *ret) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const struct clock *clock = aws_client_clock(client);
        int64_t give_up_ms = clock->monotonic_ms(clock) + invocation->throttled_ms;
        struct aws_request waiting = { .service = AWS_LAMBDA,
                                       .operation = "Invoke",
                                       .ended_by = invocation->unsent_by ? invocation->unsent_by
                                                                         : invocation->ended_by };
        bool buffered = invocation->buffered;
        unsigned mended = 0, unsent = 0;

        *ret = (struct invoke_result){ 0 };
        if (!can_be_sent(invocation, ret))
                return;
        for (unsigned attempts = 1;; attempts++) {
                enum step step = invoke_once(client, invocation, &buffered, &mended, &unsent, arena, ret);
                int64_t when_ms = clock->monotonic_ms(clock) + aws_retry_delay_ms(client, attempts);
                struct error ignored;

                if (step == STEP_ENDED ||
                    (step == STEP_WAIT &&
                     (when_ms > give_up_ms || aws_wait_until(client, when_ms, &waiting, &ignored) < 0)))
                        return;
        }
}
