/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Source: "Using the Lambda runtime API for custom runtimes" and "Response streaming in custom runtimes" of AWS's developer guide.
 *
 * An answer that streams is a POST in chunks, with the header Lambda-Runtime-Function-Response-Mode: streaming; where it goes wrong in the
 * middle, trailers say so. Lambda-Runtime-Invocation-Id, where an event has it, goes back with its answer: Lambda then refuses
 * the late answer to an attempt that it has given up.
 */
#include "runtime/lambda/lambda_api.h"

#include "base/clock.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"
#include "runtime/lambda/lambda_http.h"
#include "runtime/protocol/invocation.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RUNTIME "/2018-06-01/runtime/"
#define ANSWER_MAX ((size_t)65536) /* of the API's word on what we answered */
#define CHUNK_MAX ((size_t)262144)

int lambda_api_open(const char *address, struct lambda_api *ret, struct error *err) {
        struct lambda_api api = { .asked = -1 };
        struct sockaddr_in *four = (struct sockaddr_in *)&api.address;
        struct sockaddr_in6 *six = (struct sockaddr_in6 *)&api.address;
        const char *colon = strrchr(address, ':');
        char host[64], *end;
        size_t length = colon ? (size_t)(colon - address) : 0;
        unsigned long port = colon ? strtoul(colon + 1, &end, 10) : 0;
        bool in_brackets = length > 2 && address[0] == '[' && address[length - 1] == ']';

        if (!colon || strlen(address) >= sizeof(api.host) || colon[1] < '0' || colon[1] > '9' || *end ||
            port < 1 || port > 65535)
                return error_set(err, "the Runtime API's address is no ADDRESS:PORT");
        memcpy(host, address + in_brackets, length - 2 * in_brackets);
        host[length - 2 * in_brackets] = '\0';
        memcpy(api.host, address, strlen(address) + 1);
        if (strcmp(host, "localhost") == 0)
                memcpy(host, "127.0.0.1", sizeof("127.0.0.1"));
        if (inet_pton(AF_INET, host, &four->sin_addr) == 1) {
                four->sin_family = AF_INET;
                four->sin_port = htons((uint16_t)port);
                api.address_length = sizeof(*four);
        } else if (in_brackets && inet_pton(AF_INET6, host, &six->sin6_addr) == 1) {
                six->sin6_family = AF_INET6;
                six->sin6_port = htons((uint16_t)port);
                api.address_length = sizeof(*six);
        } else
                return error_set(err, "the Runtime API's address is not in numbers");
        *ret = api;
        return 0;
}

void lambda_event_release(struct lambda_event *event) {
        strbuf_release(&event->body);
}

/* --- one connection --- */

/* It waits LAMBDA_TIMEOUT_MS at most for each step that blocks. */
static int dial(const struct lambda_api *api, struct error *err) {
        const struct timeval most = { .tv_sec = LAMBDA_TIMEOUT_MS / 1000 };
        int file = socket(api->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (file < 0 || setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most)) < 0 ||
            setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most)) < 0 ||
            connect(file, (const struct sockaddr *)&api->address, api->address_length) < 0) {
                (void)error_set(err, "the Runtime API cannot be reached: %s", strerror(errno));
                close_descriptor(&file);
        }
        return file;
}

static int send_all(int file, const void *bytes, size_t length, struct error *err) {
        for (const char *at = bytes; length > 0;) {
                ssize_t count = send(file, at, length, MSG_NOSIGNAL);

                if (count < 0 && errno == EINTR)
                        continue;
                if (count <= 0)
                        return error_set(err, "the Runtime API does not listen: %s", strerror(errno));
                at += count;
                length -= (size_t)count;
        }
        return 0;
}

static int receive_answer(int file, struct lambda_http *answer, struct error *err) {
        char bytes[65536];
        int result = 0;

        while (result == 0) {
                ssize_t count = recv(file, bytes, sizeof(bytes), 0);

                if (count < 0 && errno == EINTR)
                        continue;
                if (count < 0)
                        return error_set(err, "the Runtime API does not answer: %s", strerror(errno));
                result = lambda_http_read(answer, bytes, (size_t)count, err);
        }
        return result < 0 ? -1 : 0;
}

static void begin_request(const struct lambda_api *api, const char *method, const struct lambda_event *event,
                          const char *path, struct strbuf *to) {
        strbuf_printf(to, "%s " RUNTIME "%s%s%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n", method,
                      event ? "invocation/" : "", event ? event->request : "", path, api->host);
        if (event && event->invocation[0])
                strbuf_printf(to, "Lambda-Runtime-Invocation-Id: %s\r\n", event->invocation);
}

/* Sends a request that is whole and takes the API's word on it. */
static int exchange(const struct lambda_api *api, const struct strbuf *head, const char *body, size_t length,
                    int *ret_status, struct error *err) {
        struct lambda_http answer LAMBDA_HTTP_CLEANUP = LAMBDA_HTTP_INIT(ANSWER_MAX);
        int file DESCRIPTOR_CLEANUP = dial(api, err);
        struct error unsent;

        if (file < 0)
                return -1;
        /*
         * A server that refuses a body may answer before it has read all of it, and close: its
         * answer counts.
         */
        if (send_all(file, strbuf_text(head), head->length, &unsent) == 0)
                (void)!send_all(file, body, length, &unsent);
        if (receive_answer(file, &answer, err) < 0)
                return -1;
        *ret_status = answer.status;
        return 0;
}

/* --- the next event --- */

int lambda_api_ask(struct lambda_api *api, struct error *err) {
        struct strbuf request STRBUF_CLEANUP = STRBUF_INIT;
        int file DESCRIPTOR_CLEANUP = dial(api, err);

        if (file < 0)
                return -1;
        begin_request(api, "GET", NULL, "invocation/next", &request);
        strbuf_append(&request, "\r\n");
        if (send_all(file, request.data, request.length, err) < 0)
                return -1;
        api->asked = file;
        file = -1;
        return 0;
}

/* As a part of a path: Lambda's are UUIDs. */
static bool is_request(const char *text) {
        return *text &&
               text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-")] == '\0';
}

int lambda_api_take(struct lambda_api *api, struct lambda_event *ret, struct error *err) {
        struct lambda_http answer LAMBDA_HTTP_CLEANUP = LAMBDA_HTTP_INIT(INVOCATION_EVENT_MAX + 1024);
        struct lambda_event event = { 0 };
        int file DESCRIPTOR_CLEANUP = api->asked;
        char deadline[32], *end = deadline;

        api->asked = -1;
        if (receive_answer(file, &answer, err) < 0)
                return -1;
        if (answer.status != 200)
                return error_set(err, "the Runtime API gives no next event: %d", answer.status);
        if (lambda_http_header(&answer, "Lambda-Runtime-Aws-Request-Id", event.request,
                               sizeof(event.request)) != 1 ||
            !is_request(event.request) ||
            lambda_http_header(&answer, "Lambda-Runtime-Deadline-Ms", deadline, sizeof(deadline)) != 1 ||
            lambda_http_header(&answer, "Lambda-Runtime-Invocation-Id", event.invocation,
                               sizeof(event.invocation)) < 0 ||
            lambda_http_header(&answer, "Lambda-Runtime-Aws-Tenant-Id", event.tenant, sizeof(event.tenant)) <
                    0)
                return error_set(err, "an event of the Runtime API has invalid headers");
        event.deadline_ms = strtoll(deadline, &end, 10);
        if (deadline[0] < '0' || deadline[0] > '9' || *end || event.deadline_ms > INT64_MAX / 4)
                return error_set(err, "an event of the Runtime API has an invalid deadline");
        event.body = answer.body;
        answer.body = (struct strbuf)STRBUF_INIT;
        *ret = event;
        return 0;
}

/* --- answers at once --- */

int lambda_api_answer(struct lambda_api *api, const struct lambda_event *event, const char *body,
                      size_t length, int *ret_status, struct error *err) {
        struct strbuf head STRBUF_CLEANUP = STRBUF_INIT;

        begin_request(api, "POST", event, "/response", &head);
        strbuf_printf(&head, "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n", length);
        return exchange(api, &head, body, length, ret_status, err);
}

static char *error_body(const char *type, const char *message) {
        json_t *json JSON_CLEANUP = json_checked(json_object());

        json_put(json, "errorType", json_string(type));
        json_put(json, "errorMessage", invocation_text(message, 4096));
        json_put(json, "stackTrace", json_array());
        return json_compact(json);
}

int lambda_api_fail(struct lambda_api *api, const struct lambda_event *event, const char *type,
                    const char *message, int *ret_status, struct error *err) {
        struct strbuf head STRBUF_CLEANUP = STRBUF_INIT;
        char *body TEXT_CLEANUP = error_body(type, message);

        begin_request(api, "POST", event, event ? "/error" : "init/error", &head);
        strbuf_printf(&head,
                      "Content-Type: application/vnd.aws.lambda.error+json\r\n"
                      "Lambda-Runtime-Function-Error-Type: %s\r\nContent-Length: %zu\r\n\r\n",
                      type, strlen(body));
        return exchange(api, &head, body, strlen(body), ret_status, err);
}

/* --- answers as they come --- */

/*
 * Sent bytes are removed from the front, once they are more than the rest: a receiver that is
 * always a little behind would keep them all.
 */
static void forget_what_was_sent(struct lambda_stream *stream) {
        size_t left = stream->unsent.length - stream->sent;

        if (stream->sent < CHUNK_MAX || stream->sent < left)
                return;
        memmove(stream->unsent.data, stream->unsent.data + stream->sent, left);
        stream->unsent.length = left;
        stream->sent = 0;
}

void lambda_stream_release(struct lambda_stream *stream) {
        close_descriptor(&stream->socket);
        strbuf_release(&stream->unsent);
        stream->sent = 0;
}

int lambda_stream_begin(struct lambda_api *api, const struct lambda_event *event, struct lambda_stream *ret,
                        struct error *err) {
        struct lambda_stream stream = LAMBDA_STREAM_NONE;

        stream.socket = dial(api, err);
        if (stream.socket < 0)
                return -1;
        begin_request(api, "POST", event, "/response", &stream.unsent);
        strbuf_append(
                &stream.unsent,
                "Content-Type: application/octet-stream\r\n"
                "Lambda-Runtime-Function-Response-Mode: streaming\r\n"
                "Transfer-Encoding: chunked\r\n"
                "Trailer: Lambda-Runtime-Function-Error-Type, Lambda-Runtime-Function-Error-Body\r\n\r\n");
        *ret = stream;
        return 0;
}

void lambda_stream_say(struct lambda_stream *stream, const void *bytes, size_t length) {
        if (stream->socket < 0)
                return;
        for (const char *at = bytes; length > 0;) {
                size_t piece = length < CHUNK_MAX ? length : CHUNK_MAX;

                strbuf_printf(&stream->unsent, "%zx\r\n", piece);
                strbuf_append_bytes(&stream->unsent, at, piece);
                strbuf_append(&stream->unsent, "\r\n");
                at += piece;
                length -= piece;
        }
}

size_t lambda_stream_backlog(const struct lambda_stream *stream) {
        return stream->socket < 0 ? 0 : stream->unsent.length - stream->sent;
}

int lambda_stream_send(struct lambda_stream *stream, struct error *err) {
        while (stream->socket >= 0 && stream->sent < stream->unsent.length) {
                ssize_t count = send(stream->socket, stream->unsent.data + stream->sent,
                                     stream->unsent.length - stream->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

                if (count < 0 && errno == EINTR)
                        continue;
                if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
                        forget_what_was_sent(stream);
                        return 0;
                }
                if (count <= 0) {
                        (void)error_set(err, "the Runtime API does not take the answer: %s", strerror(errno));
                        lambda_stream_release(stream);
                        return -1;
                }
                stream->sent += (size_t)count;
        }
        strbuf_clear(&stream->unsent);
        stream->sent = 0;
        return 0;
}

int lambda_stream_end(struct lambda_stream *stream, const char *type, const char *message, int *ret_status,
                      struct error *err) {
        struct lambda_http answer LAMBDA_HTTP_CLEANUP = LAMBDA_HTTP_INIT(ANSWER_MAX);
        struct error unsent;
        int result = -1;

        if (stream->socket < 0)
                return error_set(err, "the Runtime API has closed the answer");
        strbuf_append(&stream->unsent, "0\r\n");
        if (type) {
                char *body TEXT_CLEANUP = error_body(type, message);
                char *text TEXT_CLEANUP = malloc(4 * ((strlen(body) + 2) / 3) + 1);

                if (!text)
                        abort();
                digest_base64((const uint8_t *)body, strlen(body), text);
                strbuf_printf(&stream->unsent,
                              "Lambda-Runtime-Function-Error-Type: %s\r\n"
                              "Lambda-Runtime-Function-Error-Body: %s\r\n",
                              type, text);
        }
        strbuf_append(&stream->unsent, "\r\n");
        (void)!send_all(stream->socket, stream->unsent.data + stream->sent,
                        stream->unsent.length - stream->sent, &unsent);
        if (receive_answer(stream->socket, &answer, err) == 0) {
                *ret_status = answer.status;
                result = 0;
        }
        lambda_stream_release(stream);
        return result;
}
