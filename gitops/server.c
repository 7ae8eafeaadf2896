/* SPDX-License-Identifier: Apache-2.0 */
#include "gitops/server.h"

#include "base/clock.h"
#include "base/library.h"
#include "base/log.h"
#include "gitops/hook.h"
#include "gitops/listen.h"

#include <microhttpd.h>
#include <pthread.h>
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

/* A connection, and since when it owes us a whole request. */
struct seat {
        int socket; /* -1: free */
        int64_t since_ms;
};

struct server {
        struct MHD_Daemon *daemon;
        struct server_ops ops;
        struct metrics *metrics;
        char *secret;
        unsigned port;
        int64_t request_ms;
        /* Who sends a byte now and then is never silent, so connections are timed by a thread of ours. */
        pthread_t usher;
        bool has_usher;
        pthread_mutex_t lock; /* of all below */
        pthread_cond_t changed;
        struct seat seats[CONNECTIONS];
        bool stopping;
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

static int64_t now_ms(void) {
        return clock_system.monotonic_ms(&clock_system);
}

static void on_connection(void *context, struct MHD_Connection *connection, void **seat_pointer,
                          enum MHD_ConnectionNotificationCode what) {
        struct server *server = context;
        struct seat *seat = *seat_pointer;

        pthread_mutex_lock(&server->lock);
        if (what == MHD_CONNECTION_NOTIFY_CLOSED && seat) {
                seat->socket =
                        -1; /* before it is closed: the usher never touches one that is somebody else's by now */
        } else if (what == MHD_CONNECTION_NOTIFY_STARTED) {
                for (seat = server->seats; seat < server->seats + CONNECTIONS && seat->socket >= 0;)
                        seat++;
                if (seat < server->seats + CONNECTIONS) {
                        *seat = (struct seat){ sym_MHD_get_connection_info(connection,
                                                                           MHD_CONNECTION_INFO_CONNECTION_FD)
                                                       ->connect_fd,
                                               now_ms() };
                        *seat_pointer = seat;
                        pthread_cond_signal(&server->changed);
                }
        }
        pthread_mutex_unlock(&server->lock);
}

static void on_completed(void *context, struct MHD_Connection *connection, void **request_pointer,
                         enum MHD_RequestTerminationCode how) {
        struct server *server = context;
        struct request *request = *request_pointer;
        const union MHD_ConnectionInfo *info =
                sym_MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
        struct seat *seat = info ? info->socket_context : NULL;

        (void)how;
        if (request)
                hook_release(&request->hook);
        free(request);
        *request_pointer = NULL;
        if (!seat)
                return;
        pthread_mutex_lock(&server->lock);
        seat->since_ms = now_ms();
        pthread_mutex_unlock(&server->lock);
}

/* With the lock held. Shows out who is over his time; when to look again, or 0: nobody is there. */
static int64_t show_out(struct server *server) {
        int64_t now = now_ms(), next = 0;

        for (struct seat *seat = server->seats; seat < server->seats + CONNECTIONS; seat++) {
                int64_t until = seat->since_ms + server->request_ms;

                if (seat->socket < 0)
                        continue;
                if (until <= now) {
                        /* The library notices, and closes it. */
                        shutdown(seat->socket, SHUT_RDWR);
                        until = now + server->request_ms;
                        seat->since_ms = now;
                }
                if (next == 0 || until < next)
                        next = until;
        }
        return next;
}

static void *ushers(void *context) {
        struct server *server = context;

        pthread_mutex_lock(&server->lock);
        while (!server->stopping) {
                int64_t next = show_out(server);
                struct timespec until = { .tv_sec = next / 1000, .tv_nsec = next % 1000 * 1000000 };

                if (next == 0)
                        pthread_cond_wait(&server->changed, &server->lock);
                else
                        pthread_cond_timedwait(&server->changed, &server->lock, &until);
        }
        pthread_mutex_unlock(&server->lock);
        return NULL;
}

/* --- life --- */

static struct server *make(const struct server_config *config) {
        struct server *server = calloc(1, sizeof(*server));
        pthread_condattr_t attributes;

        if (!server || pthread_mutex_init(&server->lock, NULL) != 0 ||
            pthread_condattr_init(&attributes) != 0 ||
            pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) != 0 ||
            pthread_cond_init(&server->changed, &attributes) != 0)
                abort();
        pthread_condattr_destroy(&attributes);
        server->ops = config->ops;
        server->metrics = config->metrics;
        server->request_ms = config->request_ms ? config->request_ms : REQUEST_MS;
        if (config->webhook_secret && !(server->secret = strdup(config->webhook_secret)))
                abort();
        for (size_t i = 0; i < CONNECTIONS; i++)
                server->seats[i].socket = -1;
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
        if (start_daemon(server, listener, err) < 0) {
                server_stop(server);
                return -1;
        }
        if (pthread_create(&server->usher, NULL, ushers, server) != 0) {
                server_stop(server);
                return error_set(err, "cannot serve HTTP: no thread can be started");
        }
        server->has_usher = true;
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
        pthread_mutex_lock(&server->lock);
        server->stopping = true;
        pthread_cond_signal(&server->changed);
        pthread_mutex_unlock(&server->lock);
        if (server->has_usher)
                pthread_join(server->usher, NULL);
        if (server->secret)
                explicit_bzero(server->secret, strlen(server->secret));
        free(server->secret);
        pthread_cond_destroy(&server->changed);
        pthread_mutex_destroy(&server->lock);
        free(server);
}
