/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lambda's Runtime API (version 2018-06-01), as the program in a function asks it: for the next invocation, and with answers and errors.
 * One connection a request.
 *
 *     lambda_api_ask(api, &err)  ->  poll api->asked, for as long as it takes  ->  lambda_api_take(api, &event, &err)
 *     lambda_api_answer(...)          or  lambda_stream_begin, lambda_stream_say, poll, lambda_stream_send ..., lambda_stream_end
 *
 * The API is AWS's, but user code on the same machine can reach it too, and what comes is bounded and checked.
 */
#ifndef BERTH_RUNTIME_LAMBDA_LAMBDA_API_H
#define BERTH_RUNTIME_LAMBDA_LAMBDA_API_H

#include "base/error.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define LAMBDA_TIMEOUT_MS 30000 /* without a byte, of all but the wait for the next event */

struct lambda_api {
        struct sockaddr_storage address;
        socklen_t address_length;
        char host[64]; /* as it was given */
        int asked;     /* -1: not asked */
};
/* ADDRESS:PORT, as Lambda gives it in AWS_LAMBDA_RUNTIME_API: an address in numbers, or localhost. */
int lambda_api_open(const char *address, struct lambda_api *ret, struct error *err) MUST_USE;

struct lambda_event {
        char request[129];    /* names it in what is answered: letters, digits, '-' */
        char invocation[257]; /* echoed on answers; "": none */
        char tenant[257];     /* "": the function has none */
        int64_t deadline_ms;  /* since 1970 */
        struct strbuf body;   /* the event; not text */
};
void lambda_event_release(struct lambda_event *event);
#define LAMBDA_EVENT_CLEANUP __attribute__((cleanup(lambda_event_release)))

int lambda_api_ask(struct lambda_api *api, struct error *err) MUST_USE;
/* Reads what has come. -1: the API does not serve us any more. */
int lambda_api_take(struct lambda_api *api, struct lambda_event *ret, struct error *err) MUST_USE;

/* The whole answer at once, as JSON. The API's status in *ret_status: 202, or why it was not taken (400, 403, 413). */
int lambda_api_answer(struct lambda_api *api, const struct lambda_event *event, const char *body,
                      size_t length, int *ret_status, struct error *err) MUST_USE;
/* In place of an answer; `event` NULL: of the start. `type` is as Runtime.NoPython. */
int lambda_api_fail(struct lambda_api *api, const struct lambda_event *event, const char *type,
                    const char *message, int *ret_status, struct error *err) MUST_USE;

/* An answer as it comes. */
struct lambda_stream {
        int socket; /* -1: none, or broken */
        struct strbuf unsent;
        size_t sent;
};
#define LAMBDA_STREAM_NONE \
        { .socket = -1 }
void lambda_stream_release(struct lambda_stream *stream);
int lambda_stream_begin(struct lambda_api *api, const struct lambda_event *event, struct lambda_stream *ret,
                        struct error *err) MUST_USE;
/* Keeps it until it can be sent; nothing for an empty one. */
void lambda_stream_say(struct lambda_stream *stream, const void *bytes, size_t length);
/* Bytes that are kept. */
size_t lambda_stream_backlog(const struct lambda_stream *stream);
/* Sends what can be sent without waiting. -1: it is broken, and closed. */
int lambda_stream_send(struct lambda_stream *stream, struct error *err) MUST_USE;
/* Sends the rest and the end: with an error's type and message, or NULL and NULL. Closes it. */
int lambda_stream_end(struct lambda_stream *stream, const char *type, const char *message, int *ret_status,
                      struct error *err) MUST_USE;

#endif
