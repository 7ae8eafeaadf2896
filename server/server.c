/* SPDX-License-Identifier: Apache-2.0 */
#include "server/server.h"

#include "base/files.h"
#include "base/interrupt.h"
#include "base/library.h"
#include "base/log.h"
#include "server/head.h"
#include "server/route.h"
#include "server/seats.h"

#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MICROHTTPD_SYMBOLS(X)                \
        X(MHD_add_response_header)           \
        X(MHD_create_response_from_buffer)   \
        X(MHD_create_response_from_callback) \
        X(MHD_destroy_response)              \
        X(MHD_get_connection_info)           \
        X(MHD_get_connection_values_n)       \
        X(MHD_queue_response)                \
        X(MHD_start_daemon)                  \
        X(MHD_stop_daemon)

MICROHTTPD_SYMBOLS(LIBRARY_POINTER)
static const struct library_symbol microhttpd_symbols[] = { MICROHTTPD_SYMBOLS(LIBRARY_SYMBOL) };
static struct library microhttpd = LIBRARY(MICROHTTPD_SONAME, "libmicrohttpd12", "HTTP", microhttpd_symbols);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define THREAD_STACK ((size_t)8 << 20)
#else
#define THREAD_STACK ((size_t)512 << 10)
#endif
#define WAITING 64
#define WORKING 128
#define WORKING_PER_ADDRESS 64 /* behind a proxy everybody has the same */
#define CONNECTIONS (2 * WAITING + WORKING)
#define HEAD_MAX ((size_t)16 << 10)
#define FIELDS_MAX 128
#define HEADERS_MAX 8
#define BLOCK ((size_t)32 << 10)
#define PATIENCE_MS 60000
#define BODY_BYTES_PER_MS 64  /* slower than this a body is too slow, once its first minute is over */
#define QUIET_MS 15000        /* after which an event stream says that it lives */
#define CONTENT_TOO_LARGE 413 /* the library renamed its own more than once */

struct server {
        struct server_config config;
        char **hosts;
        struct head_hosts allowed;
        struct MHD_Daemon *daemons[2];
        struct seats *seats;
        struct interrupt stop;
};

struct header {
        const char *name, *value;
};

struct request {
        struct server_request public; /* the first: its routes see only this */
        struct server *server;
        struct MHD_Connection *connection;
        struct seat *seat;
        int socket;
        const char *target, *place; /* a copy; and where it lies in the library's buffer */
        struct head head;
        struct head_parts parts;
        struct header headers[HEADERS_MAX]; /* of the answer */
        size_t header_count;
        uint64_t body_length;
        bool read, begun, answered, last; /* `last`: the connection ends with it */
        enum MHD_Result result;
        struct server_stream stream;
};

static struct request *of(const struct server_request *request) {
        return (struct request *)(uintptr_t)request;
}

/* --- answers --- */

static void queue(struct request *request, unsigned status, const char *type, struct MHD_Response *response) {
        if (!response)
                abort();
        sym_MHD_add_response_header(response, "Content-Type", type);
        sym_MHD_add_response_header(response, "Cache-Control", "no-store");
        sym_MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
        for (size_t i = 0; i < request->header_count; i++)
                sym_MHD_add_response_header(response, request->headers[i].name, request->headers[i].value);
        if (request->last)
                sym_MHD_add_response_header(response, "Connection", "close");
        request->answered = true;
        request->result = sym_MHD_queue_response(request->connection, status, response);
        sym_MHD_destroy_response(response);
}

void server_add_header(struct server_request *request, const char *name, const char *value) {
        struct request *own = of(request);

        if (own->header_count == HEADERS_MAX)
                abort();
        own->headers[own->header_count++] =
                (struct header){ arena_strdup(request->arena, name), arena_strdup(request->arena, value) };
}

void server_answer(struct server_request *request, unsigned status, const char *type, const void *bytes,
                   size_t length) {
        /* The library takes the bytes as it would some to change, but copies them. */
        queue(of(request), status, type,
              sym_MHD_create_response_from_buffer(length, (void *)(uintptr_t)bytes, MHD_RESPMEM_MUST_COPY));
}

void server_answer_text(struct server_request *request, unsigned status, const char *text) {
        server_answer(request, status, "text/plain; charset=utf-8", text, strlen(text));
}

/* The client owes us nothing while we look for something to send; a block that was found he has to take in time. */
static ssize_t read_stream(void *context, uint64_t at, char *buffer, size_t size) {
        struct request *request = context;
        ssize_t count;

        (void)at;
        seats_pause(request->server->seats, request->seat);
        count = request->stream.read(request->stream.context, &request->public, buffer, size);
        seats_resume(request->server->seats, request->seat);
        if (count == 0)
                return MHD_CONTENT_READER_END_OF_STREAM;
        return count > 0 ? count : (ssize_t)MHD_CONTENT_READER_END_WITH_ERROR;
}

void server_answer_stream(struct server_request *request, unsigned status, const char *type,
                          const struct server_stream *stream) {
        struct request *own = of(request);

        own->stream = *stream;
        queue(own, status, type,
              sym_MHD_create_response_from_callback(stream->length < 0 ? MHD_SIZE_UNKNOWN
                                                                       : (uint64_t)stream->length,
                                                    BLOCK, read_stream, own, NULL));
}

enum server_wait server_wait(struct server_request *request, int descriptor, short events, int timeout_ms) {
        struct request *own = of(request);
        int64_t patience = timeout_ms;
        struct pollfd polled[] = {
                { .fd = descriptor, .events = events },
                { .fd = own->socket, .events = POLLRDHUP },
                { .fd = interrupt_descriptor(&own->server->stop, INTERRUPT_NOW), .events = POLLIN },
        };
        int ready;

        do
                ready = poll(polled, 3, (int)patience);
        while (ready < 0 && errno == EINTR);
        if (polled[2].revents)
                return SERVER_STOPS;
        if (polled[1].revents)
                return SERVER_LEFT;
        return ready > 0 ? SERVER_READY : SERVER_TIME;
}

/* A descriptor as a stream. */
struct pipe_stream {
        int descriptor;
        bool events;
        int quiet_ms;
        char tail[2]; /* what was sent last: between two events it is an empty line's end */
};

static ssize_t read_descriptor(void *context, struct server_request *request, char *buffer, size_t size) {
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
        struct server_stream stream = { pipe, read_descriptor, end_descriptor, -1 };

        *pipe = (struct pipe_stream){
                .descriptor = descriptor,
                .events = strncmp(type, "text/event-stream", 17) == 0,
                .quiet_ms = of(request)->server->config.quiet_ms,
                .tail = { '\n', '\n' },
        };
        server_answer_stream(request, status, type, &stream);
}

const char *server_header(const struct server_request *request, const char *name) {
        return head_field(&of(request)->head, name);
}

const char *server_query(const struct server_request *request, const char *name) {
        for (size_t i = 0; i < request->query_count; i++) {
                if (strcmp(request->query[i].name, name) == 0)
                        return request->query[i].value;
        }
        return NULL;
}

/* --- requests --- */

/* The request line is there: its target as it came, before the library takes it apart in its own way. */
static void *on_target(void *context, const char *target, struct MHD_Connection *connection) {
        struct arena *arena = arena_new();
        struct request *request = arena_alloc(arena, sizeof(*request));
        const union MHD_ConnectionInfo *socket =
                sym_MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        const union MHD_ConnectionInfo *seat =
                sym_MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

        *request = (struct request){ .public = { .arena = arena },
                                     .server = context,
                                     .connection = connection,
                                     .socket = socket->connect_fd,
                                     .seat = seat->socket_context,
                                     .target = arena_strdup(arena, target),
                                     .place = target,
                                     .result = MHD_YES };
        request->public.context = request->server->config.context;
        return request;
}

/* Escapes stay as they came: head.c resolves them, and sees what they hide. */
static size_t leave_escapes(void *context, struct MHD_Connection *connection, char *text) {
        (void)context, (void)connection;
        return strlen(text);
}

static enum MHD_Result collect_field(void *context, enum MHD_ValueKind kind, const char *name,
                                     size_t name_length, const char *value, size_t value_length) {
        struct request *request = context;

        (void)kind;
        if (request->head.field_count == FIELDS_MAX)
                return MHD_NO;
        request->head.fields[request->head.field_count++] =
                (struct head_field){ name, value ? value : "", name_length, value ? value_length : 0 };
        return MHD_YES;
}

static void refuse(struct request *request, unsigned status, const char *why) {
        struct server_request *public = &request->public;

        request->last = true;
        server_answer_text(public, status, arena_printf(public->arena, "%s\n", why));
}

/* The head is there, and stays where it is until the answer is given. An answer now is a refusal, which ends the connection. */
static void read_head(struct request *request, const char *method, const char *version) {
        struct server_request *public = &request->public;
        const char *why;
        unsigned status;

        request->read = true;
        /* The library ends the target at a NUL: then more lies between it and the version than the one space. */
        if (version != request->place + strlen(request->target) + 1) {
                public->method = "";
                refuse(request, MHD_HTTP_BAD_REQUEST, "the request line is malformed");
                return;
        }
        public->method = arena_strdup(public->arena, method);
        request->head = (struct head){ .version = version,
                                       .target = request->target,
                                       .fields = arena_array(public->arena, FIELDS_MAX,
                                                             sizeof(request->head.fields[0])) };
        if (sym_MHD_get_connection_values_n(request->connection, MHD_HEADER_KIND, NULL, NULL) > FIELDS_MAX) {
                refuse(request, MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE, "there are too many header fields");
                return;
        }
        sym_MHD_get_connection_values_n(request->connection, MHD_HEADER_KIND, collect_field, request);
        status = head_read(&request->head, &request->server->allowed, public->arena, &request->parts, &why);
        if (status != 0) {
                refuse(request, status, why);
                return;
        }
        public->path = request->parts.path;
        public->query = request->parts.query;
        public->query_count = request->parts.query_count;
}

/*
 * Finds who answers it; 503 where there is no seat for it. A body that nobody reads ends the connection: the next request would
 * begin in the midst of it.
 */
static void begin(struct request *request) {
        struct server_request *public = &request->public;
        struct server *server = request->server;
        const struct server_route *route;
        const char *allow;
        unsigned status = 0;

        route = route_find(server->config.routes, server->config.route_count, public->method, public->path,
                           public->arena, public->parameters, &allow);
        request->last = request->parts.has_body;
        if (!route) {
                if (allow)
                        server_add_header(public, MHD_HTTP_HEADER_ALLOW, allow);
                server_answer_text(public, allow ? MHD_HTTP_METHOD_NOT_ALLOWED : MHD_HTTP_NOT_FOUND,
                                   allow ? "the method does not fit\n" : "there is nothing here\n");
                return;
        }
        if (request->parts.length > route->body_max || (request->parts.has_body && route->body_max == 0))
                status = CONTENT_TOO_LARGE;
        else if (route->seat == SERVER_WORKS && !seats_work(server->seats, request->seat))
                status = MHD_HTTP_SERVICE_UNAVAILABLE;
        if (status != 0) {
                if (status == MHD_HTTP_SERVICE_UNAVAILABLE)
                        server_add_header(public, MHD_HTTP_HEADER_RETRY_AFTER, "1");
                if (route->refused)
                        route->refused(public->context, status);
                refuse(request, status,
                       status == CONTENT_TOO_LARGE ? "the body is too large"
                                                   : "all seats are taken: ask again");
                return;
        }
        public->route = route;
        request->begun = true;
        if (route->begin)
                route->begin(public);
}

/*
 * Called for the head, then for each piece of the body, then once more with none. The library ends a connection whose request
 * is answered at its head, so that one without a body waits for the last call. While a request is in the hands of its
 * route, the client is not timed.
 */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *target,
                                  const char *method, const char *version, const char *piece,
                                  size_t *piece_length, void **request_pointer) {
        struct request *request = *request_pointer;
        struct server *server = context;

        (void)target, (void)connection;
        if (!request)
                return MHD_NO;
        if (!request->read) {
                read_head(request, method, version);
                if (!request->answered && request->parts.has_body)
                        begin(request);
                return request->result;
        }
        if (*piece_length > 0) {
                size_t length = *piece_length;

                request->body_length += length;
                /* No answer can be given in the middle of a body: the connection ends. */
                if (!request->begun || request->body_length > request->public.route->body_max)
                        return MHD_NO;
                seats_allow(server->seats, request->seat, (int64_t)(length / BODY_BYTES_PER_MS));
                if (request->public.route->take)
                        request->public.route->take(&request->public, piece, length);
                *piece_length = 0;
                return MHD_YES;
        }
        request->last = false;
        if (!request->begun)
                begin(request);
        if (!request->answered) {
                seats_pause(server->seats, request->seat);
                request->public.route->answer(&request->public);
                seats_resume(server->seats, request->seat);
        }
        return request->answered ? request->result : MHD_NO;
}

static void on_completed(void *context, struct MHD_Connection *connection, void **request_pointer,
                         enum MHD_RequestTerminationCode how) {
        const struct server *server = context;
        struct request *request = *request_pointer;

        (void)connection, (void)how;
        *request_pointer = NULL;
        if (!request)
                return;
        if (request->stream.end)
                request->stream.end(request->stream.context);
        if (request->begun && request->public.route->end)
                request->public.route->end(&request->public);
        seats_renew(server->seats, request->seat);
        arena_free(request->public.arena);
}

/* --- connections --- */

static void on_connection(void *context, struct MHD_Connection *connection, void **seat,
                          enum MHD_ConnectionNotificationCode what) {
        const struct server *server = context;

        if (what == MHD_CONNECTION_NOTIFY_CLOSED)
                seats_leave(server->seats, *seat);
        else if (what == MHD_CONNECTION_NOTIFY_STARTED)
                *seat = seats_take(server->seats,
                                   sym_MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)
                                           ->connect_fd,
                                   sym_MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)
                                           ->client_addr);
}

/* --- life --- */

static struct server *make(const struct server_config *config) {
        struct server *server = calloc(1, sizeof(*server));

        if (!server || !(server->hosts = calloc(config->host_count + 1, sizeof(*server->hosts))))
                abort();
        server->config = *config;
        if (server->config.quiet_ms == 0)
                server->config.quiet_ms = QUIET_MS;
        server->stop.reached[0] = server->stop.reached[1] = -1;
        for (size_t i = 0; i < config->host_count; i++) {
                if (!(server->hosts[i] = strdup(config->hosts[i])))
                        abort();
        }
        server->allowed = (struct head_hosts){ (const char *const *)server->hosts, config->host_count,
                                               config->any_host };
        return server;
}

static void close_sockets(struct server_config *config) {
        for (size_t i = 0; i < config->socket_count; i++)
                close_descriptor(&config->sockets[i]);
}

/* Takes over the sockets, one after the other. MHD_USE_ITC: stopping wakes its threads at once. */
static int start_daemons(struct server *server, struct error *err) {
        for (size_t i = 0; i < server->config.socket_count; i++) {
                server->daemons[i] = sym_MHD_start_daemon(
                        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL |
                                MHD_USE_ITC,
                        0, NULL, NULL, on_request, server, MHD_OPTION_LISTEN_SOCKET,
                        server->config.sockets[i], MHD_OPTION_THREAD_STACK_SIZE, THREAD_STACK,
                        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS,
                        MHD_OPTION_CONNECTION_MEMORY_LIMIT, HEAD_MAX, MHD_OPTION_STRICT_FOR_CLIENT, 1,
                        MHD_OPTION_UNESCAPE_CALLBACK, leave_escapes, NULL, MHD_OPTION_URI_LOG_CALLBACK,
                        on_target, server, MHD_OPTION_NOTIFY_CONNECTION, on_connection, server,
                        MHD_OPTION_NOTIFY_COMPLETED, on_completed, server, MHD_OPTION_END);
                if (!server->daemons[i])
                        return error_set(err, "cannot serve HTTP: libmicrohttpd did not start");
                server->config.sockets[i] = -1;
        }
        return 0;
}

int server_start(const struct server_config *config, struct server **ret, struct error *err) {
        const struct seats_limits limits = { WAITING, WORKING, WORKING_PER_ADDRESS,
                                             config->patience_ms ? config->patience_ms : PATIENCE_MS };
        struct server *server = make(config);

        if (library_load(&microhttpd, err) < 0 || interrupt_init(&server->stop, err) < 0 ||
            seats_open(&limits, &server->seats, err) < 0 || start_daemons(server, err) < 0) {
                server_stop(server);
                return error_context(err, "cannot serve HTTP");
        }
        *ret = server;
        return 0;
}

void server_stop(struct server *server) {
        if (!server)
                return;
        if (server->stop.reached[0] >= 0)
                interrupt_raise_to(&server->stop, INTERRUPT_NOW);
        for (size_t i = 0; i < server->config.socket_count; i++) {
                if (server->daemons[i])
                        sym_MHD_stop_daemon(server->daemons[i]);
        }
        seats_close(server->seats);
        close_sockets(&server->config);
        interrupt_dispose(&server->stop);
        for (size_t i = 0; i < server->config.host_count; i++)
                free(server->hosts[i]);
        free(server->hosts);
        free(server);
}
