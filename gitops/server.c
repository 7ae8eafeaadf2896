/* SPDX-License-Identifier: Apache-2.0 */
#include "gitops/server.h"

#include "base/library.h"
#include "base/log.h"
#include "gitops/hook.h"
#include "server/listen.h"
#include "server/seats.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MICROHTTPD_SYMBOLS(X)              \
        X(MHD_add_response_header)         \
        X(MHD_create_response_from_buffer) \
        X(MHD_destroy_response)            \
        X(MHD_get_connection_info)         \
        X(MHD_lookup_connection_value)     \
        X(MHD_queue_response)              \
        X(MHD_start_daemon)                \
        X(MHD_stop_daemon)

MICROHTTPD_SYMBOLS(LIBRARY_POINTER)
static const struct library_symbol microhttpd_symbols[] = { MICROHTTPD_SYMBOLS(LIBRARY_SYMBOL) };
static struct library microhttpd =
        LIBRARY(MICROHTTPD_SONAME, "libmicrohttpd12", "the controller's HTTP", microhttpd_symbols);

#define THREADS 2
#define THREAD_STACK ((size_t)1 << 20)
#define CONNECTIONS 128
#define CONNECTIONS_PER_ADDRESS 64 /* behind a proxy everybody has the same */
#define HEAD_MAX ((size_t)16 << 10)
#define PLAIN_BODY_MAX ((size_t)64 << 10) /* where no body is expected */
#define SILENCE_S 30
#define REQUEST_MS 60000
#define REASON_SIZE 512

#define HOOKS "/hooks/"
#define CONTENT_TOO_LARGE 413 /* the library renamed its own more than once */

struct server {
        struct MHD_Daemon *daemon;
        struct server_ops ops;
        struct metrics *metrics;
        char *secret;
        unsigned port;
        struct seats *seats;
};

enum route { ROUTE_NONE, ROUTE_HEALTH, ROUTE_READY, ROUTE_METRICS, ROUTE_HOOK };

struct request {
        struct hook hook;
        enum route route;
        size_t body_length;
};

/* --- answers --- */

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, const char *type,
                              const char *text, size_t length, const char *header, const char *value) {
        /* The library takes the text as it would one to change, but copies it. */
        struct MHD_Response *response =
                sym_MHD_create_response_from_buffer(length, (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
        enum MHD_Result result;

        if (!response)
                return MHD_NO;
        sym_MHD_add_response_header(response, "Content-Type", type);
        sym_MHD_add_response_header(response, "Cache-Control", "no-store");
        sym_MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
        if (header)
                sym_MHD_add_response_header(response, header, value);
        result = sym_MHD_queue_response(connection, status, response);
        sym_MHD_destroy_response(response);
        return result;
}

static enum MHD_Result answer_text(struct MHD_Connection *connection, unsigned status, const char *text) {
        return answer(connection, status, "text/plain; charset=utf-8", text, strlen(text), NULL, NULL);
}

static enum MHD_Result answer_with(struct MHD_Connection *connection, unsigned status, const char *text,
                                   const char *header, const char *value) {
        return answer(connection, status, "text/plain; charset=utf-8", text, strlen(text), header, value);
}

static enum MHD_Result answer_whether(const struct server *server, struct MHD_Connection *connection,
                                      bool (*ask)(void *context, char *reason, size_t size)) {
        char reason[REASON_SIZE] = "";
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        bool yes = !ask || ask(server->ops.context, reason, sizeof(reason));

        strbuf_printf(&text, "%s%s%s\n", yes ? "ok" : "not ok", *reason ? ": " : "", reason);
        return answer_text(connection, yes ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, strbuf_text(&text));
}

static enum MHD_Result answer_metrics(const struct server *server, struct MHD_Connection *connection) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        if (server->ops.refresh)
                server->ops.refresh(server->ops.context);
        metrics_write(server->metrics, &text);
        return answer(connection, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", strbuf_text(&text),
                      text.length, NULL, NULL);
}

static void count_hook(const struct server *server, const char *source, unsigned status) {
        char code[16];

        snprintf(code, sizeof(code), "%u", status);
        metrics_add(server->metrics, METRIC_HOOKS, 1, (const char *const[]){ source, code });
}

/* The body is there. Nothing of what was sent is believed, or told, to whoever does not know the secret. */
static enum MHD_Result answer_hook(const struct server *server, struct MHD_Connection *connection,
                                   struct request *request, const char *source) {
        bool wake;

        if (!hook_end(&request->hook)) {
                log_debug("a webhook with a wrong or missing signature");
                count_hook(server, "", MHD_HTTP_UNAUTHORIZED);
                return answer_with(connection, MHD_HTTP_UNAUTHORIZED,
                                   "the signature or token is missing or wrong\n",
                                   MHD_HTTP_HEADER_WWW_AUTHENTICATE, "X-Hub-Signature-256, X-Gitlab-Token");
        }
        /* To know whether there is such a source it has to be woken: a ping costs one look at the repository. */
        wake = server->ops.wake(server->ops.context, source);
        if (!wake) {
                count_hook(server, "", MHD_HTTP_NOT_FOUND);
                return answer_text(connection, MHD_HTTP_NOT_FOUND, "there is no such source\n");
        }
        count_hook(server, source, request->hook.ping ? MHD_HTTP_OK : MHD_HTTP_ACCEPTED);
        return request->hook.ping ? answer_text(connection, MHD_HTTP_OK, "pong\n")
                                  : answer_text(connection, MHD_HTTP_ACCEPTED, "the source will look\n");
}

/* --- requests --- */

static enum route route_of(const struct server *server, const char *path) {
        static const struct {
                const char *path;
                enum route route;
        } routes[] = {
                { "/healthz", ROUTE_HEALTH },
                { "/readyz", ROUTE_READY },
                { "/metrics", ROUTE_METRICS },
        };

        for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
                if (strcmp(path, routes[i].path) == 0)
                        return routes[i].route;
        }
        return server->secret && strncmp(path, HOOKS, strlen(HOOKS)) == 0 ? ROUTE_HOOK : ROUTE_NONE;
}

/* Whether the method fits the path. */
static bool is_allowed(enum route route, const char *method) {
        if (route == ROUTE_HOOK)
                return strcmp(method, "POST") == 0;
        return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
}

static const char *header_of(struct MHD_Connection *connection, const char *name) {
        return sym_MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static size_t body_limit(enum route route) {
        return route == ROUTE_HOOK ? HOOK_BODY_MAX : PLAIN_BODY_MAX;
}

/* The head is there: what will be too large, or is no hook, is answered before its body comes. */
static enum MHD_Result begin(const struct server *server, struct MHD_Connection *connection, const char *path,
                             const char *method, void **ret_request) {
        const char *length = header_of(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
        enum route route = route_of(server, path);
        struct request *request;

        if (length && strtoull(length, NULL, 10) > body_limit(route)) {
                if (route == ROUTE_HOOK)
                        count_hook(server, "", CONTENT_TOO_LARGE);
                return answer_text(connection, CONTENT_TOO_LARGE, "the body is too large\n");
        }
        request = calloc(1, sizeof(*request));
        if (!request)
                abort();
        request->route = route;
        if (route == ROUTE_HOOK && is_allowed(route, method)) {
                struct hook_headers headers = {
                        .signature = header_of(connection, "X-Hub-Signature-256"),
                        .token = header_of(connection, "X-Gitlab-Token"),
                        .event = header_of(connection, "X-GitHub-Event"),
                };

                hook_begin(&request->hook, server->secret, &headers);
        }
        *ret_request = request;
        return MHD_YES;
}

static enum MHD_Result finish(const struct server *server, struct MHD_Connection *connection,
                              const char *path, const char *method, struct request *request) {
        if (request->route == ROUTE_NONE)
                return answer_text(connection, MHD_HTTP_NOT_FOUND, "there is nothing here\n");
        if (!is_allowed(request->route, method))
                return answer_with(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "the method does not fit\n",
                                   MHD_HTTP_HEADER_ALLOW,
                                   request->route == ROUTE_HOOK ? "POST" : "GET, HEAD");
        switch (request->route) {
        case ROUTE_HEALTH:
                return answer_whether(server, connection, server->ops.healthy);
        case ROUTE_READY:
                return answer_whether(server, connection, server->ops.ready);
        case ROUTE_METRICS:
                return answer_metrics(server, connection);
        default:
                return answer_hook(server, connection, request, path + strlen(HOOKS));
        }
}

/* Called for the head, then for each piece of the body, then once more with none. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *piece,
                                  size_t *piece_length, void **request_pointer) {
        struct server *server = context;
        struct request *request = *request_pointer;

        (void)version;
        if (!request)
                return begin(server, connection, path, method, request_pointer);
        if (*piece_length == 0)
                return finish(server, connection, path, method, request);
        request->body_length += *piece_length;
        /* No answer can be given in the middle of a body: the connection ends. */
        if (request->body_length > body_limit(request->route))
                return MHD_NO;
        hook_add(&request->hook, piece, *piece_length);
        *piece_length = 0;
        return MHD_YES;
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
                                           ->connect_fd);
}

static void on_completed(void *context, struct MHD_Connection *connection, void **request_pointer,
                         enum MHD_RequestTerminationCode how) {
        const struct server *server = context;
        struct request *request = *request_pointer;
        const union MHD_ConnectionInfo *info =
                sym_MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

        (void)how;
        if (request)
                hook_release(&request->hook);
        free(request);
        *request_pointer = NULL;
        seats_renew(server->seats, info ? info->socket_context : NULL);
}

/* --- life --- */

static struct server *make(const struct server_config *config) {
        struct server *server = calloc(1, sizeof(*server));

        if (!server)
                abort();
        server->ops = config->ops;
        server->metrics = config->metrics;
        if (config->webhook_secret && !(server->secret = strdup(config->webhook_secret)))
                abort();
        return server;
}

/* Takes over the socket. */
static int start_daemon(struct server *server, int listener, struct error *err) {
        /* MHD_USE_ITC: stopping wakes its threads at once. */
        server->daemon = sym_MHD_start_daemon(
                MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC, 0, NULL, NULL, on_request, server,
                MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_THREAD_POOL_SIZE, (unsigned)THREADS,
                MHD_OPTION_THREAD_STACK_SIZE, THREAD_STACK, MHD_OPTION_CONNECTION_LIMIT,
                (unsigned)CONNECTIONS, MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)CONNECTIONS_PER_ADDRESS,
                MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SILENCE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                HEAD_MAX, MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_NOTIFY_COMPLETED,
                on_completed, server, MHD_OPTION_END);
        if (server->daemon)
                return 0;
        close(listener);
        return error_set(err, "cannot serve HTTP: libmicrohttpd did not start");
}

int server_start(const struct server_config *config, struct server **ret, struct error *err) {
        struct server *server;
        unsigned port;
        int listener;

        if (config->webhook_secret && !*config->webhook_secret)
                return error_set(err, "the webhooks' secret is empty: anybody could sign with it");
        if (library_load(&microhttpd, err) < 0 || listen_open(config->listen, &listener, &port, err) < 0)
                return -1;
        server = make(config);
        server->port = port;
        if (seats_open(CONNECTIONS, config->request_ms ? config->request_ms : REQUEST_MS, &server->seats,
                       err) < 0) {
                close(listener);
                server_stop(server);
                return error_context(err, "cannot serve HTTP");
        }
        if (start_daemon(server, listener, err) < 0) {
                server_stop(server);
                return -1;
        }
        *ret = server;
        return 0;
}

unsigned server_port(const struct server *server) {
        return server->port;
}

void server_stop(struct server *server) {
        if (!server)
                return;
        if (server->daemon)
                sym_MHD_stop_daemon(server->daemon);
        seats_close(server->seats);
        if (server->secret)
                explicit_bzero(server->secret, strlen(server->secret));
        free(server->secret);
        free(server);
}
