/* SPDX-License-Identifier: Apache-2.0 */
#include "server/server_request.h"

#include "base/clock.h"
#include "base/files.h"
#include "server/answer.h"
#include "server/chunks.h"
#include "server/route.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HEAD_MAX ((size_t)16 << 10)
#define HEADERS_MAX 8
#define BLOCK ((size_t)32 << 10)
#define BODY_BYTES_PER_MS 64 /* slower than this a body is too slow, once its first minute is over */
#define LINGER_MS 2000
#define BAD_REQUEST 400U
#define NOT_FOUND 404U
#define METHOD_NOT_ALLOWED 405U
#define CONTENT_TOO_LARGE 413U
#define URI_TOO_LONG 414U
#define FIELDS_TOO_LARGE 431U
#define UNAVAILABLE 503U

struct request {
        struct server_request public; /* the first: its routes see only this */
        struct service *service;
        struct wire *wire;
        struct seat *seat;
        struct watched watched; /* once a route has asked for it */
        struct head head;
        struct head_parts parts;
        struct timespec since; /* its head was there */
        bool begun, body_read;
        bool of_head;  /* it asks by HEAD, whatever else is wrong with it */
        bool last;     /* the connection ends with it */
        bool answered; /* all below is set */
        unsigned status;
        const char *type;
        struct answer_header headers[HEADERS_MAX];
        size_t header_count;
        const char *bytes; /* or what the stream gives, where it has a `read` */
        size_t length;
        struct server_stream stream;
};

static struct request *own_request(const struct server_request *request) {
        return (struct request *)(uintptr_t)request;
}

/* --- for routes --- */

const char *server_header(const struct server_request *request, const char *name) {
        return head_field(&own_request(request)->head, name);
}

bool server_has_header(const struct server_request *request, const char *name) {
        return head_has_field(&own_request(request)->head, name);
}

bool server_peer_user(const struct server_request *request, uid_t *ret) {
        int socket = own_request(request)->wire->socket, domain;
        struct ucred peer;
        socklen_t length = sizeof(domain), peer_length = sizeof(peer);

        if (getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &length) < 0 || domain != AF_UNIX ||
            getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &peer_length) < 0 || peer.uid == (uid_t)-1)
                return false;
        *ret = peer.uid;
        return true;
}

const char *server_query(const struct server_request *request, const char *name) {
        for (size_t i = 0; i < request->query_count; i++) {
                if (strcmp(request->query[i].name, name) == 0)
                        return request->query[i].value;
        }
        return NULL;
}

void server_add_header(struct server_request *request, const char *name, const char *value) {
        struct request *own = own_request(request);

        if (own->header_count == HEADERS_MAX)
                abort();
        own->headers[own->header_count++] = (struct answer_header){ arena_strdup(request->arena, name),
                                                                    arena_strdup(request->arena, value) };
}

/*
 * It is sent once the route has returned: a client that takes it slowly is timed then, and the
 * route is not.
 */
static struct request *set_answer(struct server_request *request, unsigned status, const char *type) {
        struct request *own = own_request(request);

        if (own->answered)
                abort();
        own->answered = true;
        own->status = status;
        own->type = type ? arena_strdup(request->arena, type) : NULL;
        return own;
}

void server_answer(struct server_request *request, unsigned status, const char *type, const void *bytes,
                   size_t length) {
        struct request *own = set_answer(request, status, type);

        own->bytes = length > 0 ? arena_strndup(request->arena, bytes, length) : "";
        own->length = length;
}

void server_answer_text(struct server_request *request, unsigned status, const char *text) {
        server_answer(request, status, "text/plain; charset=utf-8", text, strlen(text));
}

void server_answer_stream(struct server_request *request, unsigned status, const char *type,
                          const struct server_stream *stream) {
        set_answer(request, status, type)->stream = *stream;
}

enum server_wait server_wait(struct server_request *request, int descriptor, short events, int timeout_ms) {
        struct request *own = own_request(request);
        struct pollfd polled[] = {
                { .fd = descriptor, .events = events },
                { .fd = own->wire->socket, .events = POLLRDHUP },
                { .fd = interrupt_descriptor(&own->service->stop, INTERRUPT_NOW), .events = POLLIN },
        };
        int ready;

        do
                ready = poll(polled, 3, timeout_ms);
        while (ready < 0 && errno == EINTR);
        if (polled[2].revents)
                return SERVER_STOPS;
        if (polled[1].revents)
                return SERVER_LEFT;
        return ready > 0 ? SERVER_READY : SERVER_TIME;
}

const struct interrupt *server_interrupt(struct server_request *request) {
        struct request *own = own_request(request);
        struct error err;

        if (!own->watched.added && watch_add(own->service->watch, own->wire->socket, &own->watched, &err) < 0)
                return &own->service->stop;
        return &own->watched.interrupt;
}

/* --- a descriptor as a stream --- */

struct pipe_stream {
        int descriptor;
        bool events;
        int quiet_ms;
        char tail[2]; /* what was sent last: between two events it is an empty line's end */
};

static ssize_t read_pipe(void *context, struct server_request *request, char *buffer, size_t size) {
        static const char comment[] = { ':', '\n', '\n' };
        struct pipe_stream *pipe = context;

        for (;;) {
                ssize_t count;

                switch (server_wait(request, pipe->descriptor, POLLIN, pipe->events ? pipe->quiet_ms : -1)) {
                case SERVER_LEFT:
                        return -1;
                case SERVER_STOPS:
                        return pipe->events ? 0 : -1; /* a stream of events has no end that could be missed */
                case SERVER_TIME:
                        if (size < sizeof(comment) || memcmp(pipe->tail, "\n\n", 2) != 0)
                                continue;
                        memcpy(buffer, comment, sizeof(comment));
                        return sizeof(comment);
                case SERVER_READY:
                default:
                        break;
                }
                count = read(pipe->descriptor, buffer, size);
                if (count < 0 && (errno == EINTR || errno == EAGAIN))
                        continue;
                if (count == 1)
                        pipe->tail[0] = pipe->tail[1];
                for (ssize_t i = count > 2 ? count - 2 : 0; i < count; i++)
                        pipe->tail[2 - (count - i)] = buffer[i];
                return count;
        }
}

static void end_descriptor(void *context) {
        struct pipe_stream *pipe = context;

        close_descriptor(&pipe->descriptor); /* its memory is the request's */
}

void server_answer_descriptor(struct server_request *request, unsigned status, const char *type,
                              int descriptor) {
        struct pipe_stream *pipe = arena_alloc(request->arena, sizeof(*pipe));
        struct server_stream stream = { pipe, read_pipe, end_descriptor, -1 };

        *pipe = (struct pipe_stream){
                .descriptor = descriptor,
                .events = strncmp(type, "text/event-stream", 17) == 0,
                .quiet_ms = own_request(request)->service->config.quiet_ms,
                .tail = { '\n', '\n' },
        };
        server_answer_stream(request, status, type, &stream);
}

/* --- the head --- */

static void answer_status(struct request *request, unsigned status, const char *why) {
        struct server_request *public = &request->public;

        if (request->service->config.say)
                request->service->config.say(public, status, why);
        else
                server_answer_text(public, status, arena_printf(public->arena, "%s\n", why));
}

static void refuse_request(struct request *request, unsigned status, const char *why) {
        request->last = true;
        answer_status(request, status, why);
}

/* Refusals count too: a HEAD's client reads no body, and would take one for the next answer. */
static bool asks_by_head(const char *bytes, size_t length) {
        static const char method[] = "HEAD ";
        size_t skip = length >= 2 && memcmp(bytes, "\r\n", 2) == 0 ? 2 : 0;

        return length - skip >= sizeof(method) - 1 && memcmp(bytes + skip, method, sizeof(method) - 1) == 0;
}

/*
 * The head as text of the request's own, NULL where the client left before it was whole, or where
 * it is refused. A malformed head is refused as soon as it is seen: a client that ends lines in
 * another way would wait forever.
 */
static char *receive_head(struct request *request) {
        struct wire *wire = request->wire;
        size_t length, seen = 0;
        const char *bytes;
        ssize_t end;

        for (;;) {
                bytes = wire_bytes(wire, &length);
                request->of_head = asks_by_head(bytes, length);
                end = head_end(bytes, length < HEAD_MAX ? length : HEAD_MAX, &seen);
                if (end != 0)
                        break;
                if (length >= HEAD_MAX) {
                        bool in_target = !memchr(bytes, '\n', length);

                        refuse_request(request, in_target ? URI_TOO_LONG : FIELDS_TOO_LARGE,
                                       in_target ? "the target is too long" : "the head is too long");
                        return NULL;
                }
                if (wire_fill(wire) == 0)
                        return NULL;
        }
        if (end < 0) {
                refuse_request(request, BAD_REQUEST,
                               "a line of the head does not end with CRLF, or has a NUL");
                return NULL;
        }
        wire_use(wire, (size_t)end);
        return arena_strndup(request->public.arena, bytes, (size_t)end);
}

/* False where it is refused, which ends the connection. */
static bool understand_head(struct request *request, char *text) {
        struct server_request *public = &request->public;
        struct head_hosts allowed = request->service->allowed;
        const char *why;
        unsigned status = head_parse(text, public->arena, &request->head, &why);

        allowed.by_tls = request->wire->line != NULL;
        if (status == 0) {
                status = head_read(&request->head, &allowed, public->arena, &request->parts, &why);
                /* A refusal has the form of its interface, which the path names. */
                if (request->parts.path)
                public->path = request->parts.path;
        }
        if (status != 0) {
                refuse_request(request, status, why);
                return false;
        }
        public->method = request->head.method;
        public->query = request->parts.query;
        public->query_count = request->parts.query_count;
        request->last = request->parts.last;
        return true;
}

/* --- the route --- */

/*
 * Finds its route; 503 where there is no seat for it. A body that is not read ends the connection:
 * the next request would begin in the midst of it.
 */
static void begin_request(struct request *request) {
        struct server_request *public = &request->public;
        struct service *service = request->service;
        const struct server_route *route;
        const char *allow;
        unsigned status = 0;

        route = route_find(service->config.routes, service->config.route_count, public->method, public->path,
                           public->arena, public->parameters, &allow);
        if (request->parts.slash &&
            (!route || !route_takes_slash(route, (const char *const *)public->parameters, public->path,
                                          request->parts.slash))) {
                refuse_request(request, BAD_REQUEST, "the path has an escaped slash where none may stand");
                return;
        }
        if (!route) {
                if (allow)
                        server_add_header(public, "Allow", allow);
                answer_status(request, allow ? METHOD_NOT_ALLOWED : NOT_FOUND,
                              allow ? "method not allowed for this path" : "no such path");
                return;
        }
        if (request->parts.length > route->body_max || (request->parts.has_body && route->body_max == 0))
                status = CONTENT_TOO_LARGE;
        else if (route->seat == SERVER_WORKS && !seats_work(service->seats, request->seat))
                status = UNAVAILABLE;
        if (status != 0) {
                if (status == UNAVAILABLE)
                        server_add_header(public, "Retry-After", "1");
                if (route->refused)
                        route->refused(public->context, status);
                refuse_request(request, status,
                               status == CONTENT_TOO_LARGE ? "the body is too large"
                                                           : "all seats are taken: ask again");
                return;
        }
        public->route = route;
        request->begun = true;
        if (route->begin)
                route->begin(public);
}

static void take_body(struct request *request, const void *bytes, size_t length) {
        seats_allow(request->service->seats, request->seat, (int64_t)(length / BODY_BYTES_PER_MS));
        if (length > 0 && request->public.route->take)
                request->public.route->take(&request->public, bytes, length);
}

/* Both end early where the client leaves, or the route has its answer already. */
static void read_plain_body(struct request *request) {
        uint64_t left = request->parts.length;

        while (left > 0) {
                size_t length;
                const char *bytes = wire_bytes(request->wire, &length);

                if (length > left)
                        length = (size_t)left;
                take_body(request, bytes, length);
                wire_use(request->wire, length);
                left -= length;
                if (left > 0 && (request->answered || wire_fill(request->wire) == 0))
                        return;
        }
        request->body_read = true;
}

static void read_chunked_body(struct request *request) {
        uint64_t left = request->public.route->body_max;
        struct chunks chunks = { 0 };

        for (;;) {
                const char *bytes, *data;
                size_t length, data_length;
                ssize_t used;

                bytes = wire_bytes(request->wire, &length);
                used = chunks_take(&chunks, bytes, length, &data, &data_length);
                if (used < 0) {
                        refuse_request(request, BAD_REQUEST, "the body is not in chunks");
                        return;
                }
                if (data_length > left) {
                        refuse_request(request, CONTENT_TOO_LARGE, "the body is too large");
                        return;
                }
                take_body(request, data, data_length);
                left -= data_length;
                wire_use(request->wire, (size_t)used);
                if (chunks_ended(&chunks))
                        break;
                if (request->answered || (used == 0 && wire_fill(request->wire) == 0))
                        return;
        }
        request->body_read = true;
}

/* A client that has sent some of it already does not wait for the go-ahead. */
static void receive_body(struct request *request) {
        static const char go_ahead[] = "HTTP/1.1 100 Continue\r\n\r\n";
        const struct wire_piece piece = { go_ahead, sizeof(go_ahead) - 1 };
        size_t length;

        (void)wire_bytes(request->wire, &length);
        if (request->parts.awaits_go_ahead && length == 0 && wire_send(request->wire, &piece, 1) < 0)
                return;
        if (request->parts.chunked)
                read_chunked_body(request);
        else
                read_plain_body(request);
}

/* --- the answer --- */

/* A block that was found the client has to take in time. */
static int send_block(struct request *request, const struct wire_piece *pieces, size_t count) {
        seats_resume(request->service->seats, request->seat);
        return wire_send(request->wire, pieces, count);
}

static int send_bytes(struct request *request, const struct wire_piece *head, bool with_body) {
        size_t at = 0, length = with_body ? request->length : 0;

        do {
                size_t block = length - at < BLOCK ? length - at : BLOCK;
                const struct wire_piece pieces[] = { at == 0 ? *head : (struct wire_piece){ "", 0 },
                                                     { request->bytes + at, block } };

                if (send_block(request, pieces, 2) < 0)
                        return -1;
                at += block;
        } while (at < length);
        return 0;
}

/* The client owes us nothing while we look for something to send. */
static ssize_t read_stream(struct request *request, char *buffer, size_t size) {
        ssize_t count;

        seats_pause(request->service->seats, request->seat);
        count = request->stream.read(request->stream.context, &request->public, buffer, size);
        seats_resume(request->service->seats, request->seat);
        return count;
}

/* -1 also where it broke off: the client sees that, as its last chunk, or some of its length, is missing. */
static int send_stream(struct request *request, int64_t length) {
        char *block = arena_alloc(request->public.arena, BLOCK), size_line[24];
        int64_t left = length;

        while (left != 0) {
                ssize_t count = read_stream(request, block,
                                            left >= 0 && left < (int64_t)BLOCK ? (size_t)left : BLOCK);
                struct wire_piece pieces[] = { { "", 0 }, { block, (size_t)count }, { "", 0 } };

                if (count < 0 || (count == 0 && left > 0)) {
                        if (length == ANSWER_UNKNOWN)
                                wire_reset(request->wire);
                        return -1;
                }
                if (count == 0)
                        break;
                if (length == ANSWER_CHUNKED) {
                        int digits = snprintf(size_line, sizeof(size_line), "%zx\r\n", (size_t)count);

                        pieces[0] = (struct wire_piece){ size_line, (size_t)digits };
                        pieces[2] = (struct wire_piece){ "\r\n", 2 };
                }
                if (send_block(request, pieces, 3) < 0)
                        return -1;
                if (left > 0)
                        left -= count;
        }
        return length == ANSWER_CHUNKED ? send_block(request, &(const struct wire_piece){ "0\r\n\r\n", 5 }, 1)
                                        : 0;
}

static int64_t body_length(const struct request *request) {
        if (!answer_has_body(request->status))
                return ANSWER_BODILESS;
        if (!request->stream.read)
                return (int64_t)request->length;
        if (request->stream.length >= 0)
                return request->stream.length;
        return request->head.old ? ANSWER_UNKNOWN : ANSWER_CHUNKED;
}

static int send_answer(struct request *request) {
        const struct answer_head head = { .status = request->status,
                                          .type = request->type,
                                          .headers = request->headers,
                                          .header_count = request->header_count,
                                          .length = body_length(request),
                                          .wall_ms = clock_wall_ms(),
                                          .last = request->last };
        bool with_body = head.length != ANSWER_BODILESS && !request->of_head;
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct wire_piece piece;

        answer_head_write(&head, &text);
        piece = (struct wire_piece){ text.data, text.length };
        if (!request->stream.read)
                return send_bytes(request, &piece, with_body);
        if (send_block(request, &piece, 1) < 0)
                return -1;
        return with_body ? send_stream(request, head.length) : 0;
}

/* --- all of it --- */

/* While a request is in the hands of its route, the client is not timed. */
static void let_route_answer(struct request *request) {
        request->body_read = !request->parts.has_body;
        begin_request(request);
        if (!request->answered && !request->body_read)
                receive_body(request);
        if (!request->body_read)
                request->last = true; /* what is left of it is no request */
        if (request->answered || !request->body_read)
                return;
        seats_pause(request->service->seats, request->seat);
        request->public.route->answer(&request->public);
        seats_resume(request->service->seats, request->seat);
}

/* Microseconds: many a request takes less than one of the clock's milliseconds. */
static int64_t took_us(const struct request *request) {
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (now.tv_sec - request->since.tv_sec) * INT64_C(1000000) +
               (now.tv_nsec - request->since.tv_nsec) / 1000;
}

bool server_request_serve(struct service *service, struct wire *wire, struct seat *seat) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct request request = {
                .public = { .context = service->config.context, .arena = arena, .method = "" },
                .service = service,
                .wire = wire,
                .seat = seat
        };
        char *head = receive_head(&request);
        bool sent;

        clock_gettime(CLOCK_MONOTONIC, &request.since);
        if (head && understand_head(&request, head))
                let_route_answer(&request);
        if (request.answered && service->config.answered)
                service->config.answered(&request.public, request.status, took_us(&request));
        if (interrupt_level(&service->stop) >= INTERRUPT_NOW)
                request.last = true;
        sent = request.answered && send_answer(&request) == 0;
        if (request.stream.end)
                request.stream.end(request.stream.context);
        if (request.begun && request.public.route->end)
                request.public.route->end(&request.public);
        watch_remove(service->watch, &request.watched);
        seats_renew(service->seats, seat);
        if (sent && request.last)
                wire_linger(wire, interrupt_descriptor(&service->stop, INTERRUPT_NOW), LINGER_MS);
        return sent && !request.last;
}
