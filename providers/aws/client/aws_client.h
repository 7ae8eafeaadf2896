/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One AWS call: endpoint, credentials, signature, quota, HTTP, the answer's form of error, and whether to try again.
 *
 * Two ways to call. In observe and ask, which may wait:
 *
 *     struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
 *     if (aws_call(client, &request, &response, err) < 0) ...     tries again by itself, sleeps on the client's clock
 *
 * In step, which may not:
 *
 *     int result = aws_step_call(client, &request, progress, &response, err);
 *     if (result != STEP_DONE)
 *             return result;      STEP_AGAIN: no quota token yet, or a try failed that is worth another; -1: it failed
 *     (the answer is in `response`)
 *
 * aws_step_call() uses progress->reserved, attempts and not_before_ms, and has reset the first two
 * whenever it returns anything but STEP_AGAIN; it sets progress->sent. A try whose answer was lost
 * is made again: a caller that creates something must take "exists already" for an answer and check
 * whether it is its own. A client may be used by many threads at once.
 */
#ifndef BERTH_PROVIDERS_AWS_CLIENT_AWS_CLIENT_H
#define BERTH_PROVIDERS_AWS_CLIENT_AWS_CLIENT_H

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "providers/provider.h"
#include "schema/value.h"

#include <jansson.h>
#include <stdbool.h>

enum aws_service {
        AWS_LAMBDA,
        AWS_ECR,
        AWS_S3,
        AWS_S3_CONTROL,
        AWS_IAM,
        AWS_STS,
        AWS_LOGS,
        AWS_TAGGING,
        AWS_KMS,
        AWS_SECRETS,
        AWS_SSM,
        AWS_EC2,
        AWS_DYNAMODB,
        AWS_SSO, /* this and the next two for credentials only, unsigned: credentials_sso.c, login_token.c */
        AWS_SSO_OIDC,
        AWS_SIGNIN,
        AWS_SERVICE_COUNT
};

struct aws_client;

/* Region, profile, endpoints, credentials' source: found as the SDKs do, overridden by the Stack's `aws` map. */
int aws_client_open(const struct value *stack_aws, const struct clock *clock, struct aws_client **ret,
                    struct error *err) MUST_USE;
void aws_client_close(struct aws_client *client); /* NULL is fine; no call may be under way */

/* The same with who watches, and with what only tests want to decide. */
struct aws_client_options {
        const struct value *stack_aws; /* may be NULL */
        const struct clock *clock;
        double rate_scale;                  /* of all quota rates; 0 for 1 */
        double (*random)(void);             /* uniform in [0, 1), for retry delays; NULL: random_unit() */
        const struct provider_watch *watch; /* borrowed for the client's life, or NULL */
};
int aws_client_open_with(const struct aws_client_options *options, struct aws_client **ret,
                         struct error *err) MUST_USE;

const char *aws_client_region(const struct aws_client *client);    /* "eu-west-1" */
const char *aws_client_partition(const struct aws_client *client); /* "aws", "aws-cn" ... */
const struct clock *aws_client_clock(const struct aws_client *client);
/* Since 1970, by AWS's clock where ours is known to be wrong. */
int64_t aws_client_wall_ms(const struct aws_client *client);
/* Static, for costs and messages: "lambda", "ecr", "s3", "iam", "sts", "logs", "tagging", "secretsmanager", ... */
const char *aws_service_name(enum aws_service service);

struct aws_query {
        const char *name;
        const char
                *value; /* raw (it is encoded for you); NULL for a key without value, as in S3's ?lifecycle */
};

#define AWS_QUERY_MAX 8
#define AWS_HEADERS_MAX 8

/* A body that is read from a file while it is sent, so that it needs no memory. */
struct aws_file {
        int descriptor; /* pread(2) */
        uint64_t offset, length;
        const char *
                sha256; /* of these bytes, in hex: what is signed. A file that is changed meanwhile is refused by AWS */
};

struct aws_request {
        enum aws_service service;
        const char *operation; /* as the service's model names it: "CreateFunction" */
        const char *method;    /* "GET", ...; ignored for JSON and query protocols: POST */
        /*
         * rest-json (Lambda): the path with each variable part already encoded by encode_path(). S3: "/key", raw
         * (it is encoded for you), "/" for the bucket itself. JSON 1.1 and query protocols: NULL.
         */
        const char *path;
        const char *bucket;  /* S3 only */
        const char *account; /* S3 Control only, whose hosts begin with it; NULL: they do not */
        const char *region;  /* NULL: the client's */
        struct aws_query query[AWS_QUERY_MAX]; /* ended by a NULL name where fewer */
        struct aws_query headers[AWS_HEADERS_MAX];
        const char *
                body; /* JSON, XML or the form of the query protocol (without Action and Version); NULL for none */
        size_t body_length;
        const struct aws_file
                *file;            /* in place of `body`; or NULL. Of a rest service; aws_ahead() takes none */
        const char *content_type; /* NULL: what the service's protocol asks */
        bool once;                /* each sending makes something: struct http_request */
        bool finishes;            /* its waits between tries end at INTERRUPT_NOW, not at INTERRUPT_FINISH */
        bool checksum;            /* of the body, as a header: S3 wants one with configuration documents */
        size_t answer_limit;      /* bytes, 0 for 16 MiB */
        int64_t timeout_ms;       /* of each try; 0 for 60 s */
        int64_t quiet_ms;         /* in its place: how long nothing may come; struct http_request */
        /* Takes the body of a 2xx answer piece by piece: `body` and `json` stay empty. For aws_call_once() alone. False ends the call. */
        bool (*sink)(void *context, const char *bytes, size_t length);
        void *context;
        const struct interrupt
                *ended_by; /* besides the clock's, what ends this call at INTERRUPT_NOW; or NULL */
};

struct aws_response {
        int status;     /* HTTP status, 0 where no answer came */
        bool too_large; /* one came, and exceeds request->answer_limit: aws_call() is -1 */
        struct strbuf body;
        json_t *json; /* the body parsed, for Lambda and the JSON services; owned by the response; may be NULL */
        int64_t date_ms; /* Date: the server's clock as it answered, in whole seconds; 0 where absent */
        int64_t content_length;  /* Content-Length; -1 where absent */
        int64_t modified_ms;     /* Last-Modified, by that same clock; 0 where absent */
        char function_error[64]; /* X-Amz-Function-Error: what a function's code came to; "" where absent */
        char etag[128];          /* with its quotes, as S3 gives it; "" where absent */
        char minimum_size
                [40]; /* S3's x-amz-transition-default-minimum-object-size: a lifecycle's; "" where absent */
        char error_code[96]; /* "ResourceNotFoundException", without namespace or suffix; "" on success */
        char error_message[1024];
        char error_reason
                [96]; /* Lambda's word for which quota throttles (`Reason`), letters alone; "" elsewhere */
        char request_id[96];
};
#define AWS_RESPONSE_INIT \
        { 0 }
void aws_response_release(struct aws_response *response);
#define AWS_RESPONSE_CLEANUP __attribute__((cleanup(aws_response_release)))

/*
 * Both: 0 (STEP_DONE) on a 2xx answer. On an error answer that no retry mends, -1 with err ("lambda CreateFunction:
 * 403 AccessDeniedException: ... (request ID)", and what to do where that is known), and error_code and status stand
 * in the response: a caller that expects ResourceNotFoundException looks there and carries on.
 */
int aws_call(struct aws_client *client, const struct aws_request *request, struct aws_response *response,
             struct error *err) MUST_USE;
int aws_step_call(struct aws_client *client, const struct aws_request *request, struct progress *progress,
                  struct aws_response *response, struct error *err) MUST_USE;

/*
 * One try, on a connection of its own, for what must not be done twice; no quota is waited for, and
 * nothing is tried again. Its result, beside 0 and -1 as of aws_call():
 */
enum aws_try {
        AWS_TRY_DONE,
        AWS_TRY_UNSENT,  /* no connection, or no credentials: AWS has not seen it */
        AWS_TRY_REFUSED, /* AWS answered with an error: the response says which */
        AWS_TRY_MENDED,  /* the same, for keys or a clock that are new or right now: to be tried again */
        AWS_TRY_UNKNOWN  /* it may have been carried out */
};
int aws_call_once(struct aws_client *client, const struct aws_request *request, struct aws_response *response,
                  enum aws_try *ret_try, struct error *err) MUST_USE;

/* How long to wait before another try after `attempts`, in ms: longer each time, at random. */
int64_t aws_retry_delay_ms(struct aws_client *client, unsigned attempts);
/* Waits until then, on the client's clock. ERROR_INTERRUPTED where that, or request->ended_by, ends it. */
int aws_wait_until(struct aws_client *client, int64_t monotonic_ms, const struct aws_request *request,
                   struct error *err) MUST_USE;

/*
 * Asking ahead: a call is begun in the background, and its answer waits for the aws_call() that
 * asks for the very same thing, which gets it as if it had made the call itself, errors and all. So
 * reading stays written in the order of what is known, while calls that need not one another are on
 * their way together. An answer that was asked ahead and is never taken costs nothing but the call.
 */
void aws_ahead(struct aws_client *client, const struct aws_request *request); /* copied */
/*
 * A listing: its first page, and after each page that came what `next` makes of it, false behind
 * the last one. `next` is called on another thread, with the copies of `first` and `context` (a
 * text, or NULL); *ret may refer to both and to the arena, and must become what aws_call() will be
 * asked for. Pages wait in bounded memory; a page with a waiting caller goes on nevertheless.
 */
typedef bool aws_next_request(const struct aws_response *page, const struct aws_request *first,
                              const char *context, struct arena *arena, struct aws_request *ret);
void aws_ahead_pages(struct aws_client *client, const struct aws_request *first, aws_next_request *next,
                     const char *context);
/*
 * Ends what is under way and forgets answers that were not taken. From then on calls are made when
 * they are called.
 */
void aws_ahead_end(struct aws_client *client);

/*
 * aws_call() for which an error answer with one of `codes` (ended by NULL) is a success: 0, err untouched, and the
 * code stands in response->error_code.
 */
int aws_call_accepting(struct aws_client *client, const struct aws_request *request, const char *const *codes,
                       struct aws_response *response, struct error *err) MUST_USE;

/*
 * GET of an absolute, presigned URL: unsigned, no Authorization; only https, or http to a loopback
 * endpoint. An answer that has not come after ten seconds and the try under way is
 * ERROR_UNREACHABLE: there are networks without a way to AWS's buckets.
 */
int aws_fetch_presigned(struct aws_client *client, const char *url, size_t limit, struct strbuf *ret,
                        struct error *err) MUST_USE;

/*
 * A presigned request of any method, once, as a client without keys makes it: 0 with the status,
 * whatever it is, and the answer's body. Unlike all else it may go without TLS, to show that S3
 * refuses that. `content_type` and `body` may be NULL.
 */
int aws_send_presigned(struct aws_client *client, const char *method, const char *url,
                       const char *content_type, const void *body, size_t length, size_t limit,
                       int *ret_status, struct strbuf *ret, struct error *err) MUST_USE;

/* Whether the last error answer has this code. */
bool aws_failed_with(const struct aws_response *response, const char *code);
/* The same for one of `codes`; NULL is empty. */
bool aws_failed_with_any(const struct aws_response *response, const char *const *codes);

/* Percent-encodes all but unreserved characters (RFC 3986), "/" too, into the arena. */
const char *encode_path(struct arena *arena, const char *part);

/* AWS query protocol bodies: appends "&name=value", encoded. */
void encode_form_add(struct strbuf *form, const char *name, const char *value);

/* sts:GetCallerIdentity, once: the account id and ARN; borrowed, for the client's life. */
int aws_client_account(struct aws_client *client, const char **ret_account, const char **ret_arn,
                       struct error *err) MUST_USE;

/*
 * Before the first of these calls: the account that it will most likely name. From now on calls keep to the pace of that account.
 * 1 where there are credentials, so that calls may be asked ahead; if it is another account after all,
 * aws_client_account() ends what was asked ahead. 0: nothing may be asked ahead, aws_client_account() will tell why. -1 where there
 * are no credentials, and another try would not bring any. `account` is copied.
 */
int aws_client_expect(struct aws_client *client, const char *account, struct error *err) MUST_USE;

/* Names of error answers that all services share, for messages: true where `code` means the caller lacks a right. */
bool aws_code_is_denied(const char *code);

#endif
