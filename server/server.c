/* SPDX-License-Identifier: Apache-2.0 */
#include "server/server.h"

#include "base/clock.h"
#include "base/files.h"
#include "server/server_request.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define THREAD_STACK ((size_t)8 << 20)
#else
#define THREAD_STACK ((size_t)512 << 10)
#endif
#define SOCKETS 2
#define WAITING 64
#define WORKING 128
#define WORKING_MIN 8
#define PATIENCE_MS 60000
#define QUIET_MS 15000
#define EXHAUSTED_MS 50 /* for a newcomer when no descriptor is left */
#define GRACE_MS 2000   /* for answers that are on their way when the server is to stop */

struct server {
        struct service service;
        char **hosts;
        pthread_t accepting[SOCKETS];
        struct accepting {
                struct server *server;
                int socket;
                bool started;
        } places[SOCKETS];
        pthread_attr_t attributes;
        pthread_mutex_t lock; /* of all below */
        pthread_cond_t changed;
        size_t connections;
        pthread_t ended; /* the thread of the connection that ended last */
        bool any_ended;
};

struct connection {
        struct server *server;
        struct seat *seat;
        bool by_tls;
        struct wire wire;
};

/* --- connections --- */

/* The seat is left before the socket is closed: from then on its number may be another's. */
static void close_connection(struct connection *connection) {
        seats_leave(connection->server->service.seats, connection->seat);
        wire_close(&connection->wire);
        close_descriptor(&connection->wire.socket);
        free(connection);
}

static bool shake_hands(struct connection *connection) {
        const struct server_config *config = &connection->server->service.config;
        bool made = wire_secure(&connection->wire, config->tls);

        if (config->shook_hands)
                config->shook_hands(config->context, made);
        return made;
}

/*
 * Each thread waits for the end of the one that ended before it, and the thread that stops the
 * server waits for the last: then all are gone, with what libraries keep for each, and no list is
 * needed.
 */
static void *serve_connection(void *context) {
        struct connection *connection = context;
        struct server *server = connection->server;
        pthread_t before;
        bool is_first;

        if (!connection->by_tls || shake_hands(connection)) {
                while (server_request_serve(&server->service, &connection->wire, connection->seat))
                        ;
        }
        close_connection(connection);
        pthread_mutex_lock(&server->lock);
        before = server->ended;
        is_first = !server->any_ended;
        server->ended = pthread_self();
        server->any_ended = true;
        server->connections--;
        pthread_cond_signal(&server->changed);
        pthread_mutex_unlock(&server->lock);
        if (!is_first)
                pthread_join(before, NULL);
        return NULL;
}

static bool is_of_network(const struct sockaddr *address) {
        return address->sa_family == AF_INET || address->sa_family == AF_INET6;
}

static void begin_connection(struct server *server, int socket, const struct sockaddr *address) {
        struct connection *connection = malloc(sizeof(*connection)); /* its buffer is not touched here */
        int one = 1;
        pthread_t thread;
        bool began;

        if (!connection)
                abort();
        connection->server = server;
        connection->by_tls = server->service.config.tls && is_of_network(address);
        wire_open(&connection->wire, socket);
        connection->seat = seats_take(server->service.seats, socket, address);
        /* Answers are sent whole, or as they come: nothing that follows would fill a segment. Unix sockets refuse it. */
        (void)setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        pthread_mutex_lock(&server->lock);
        began = connection->seat &&
                pthread_create(&thread, &server->attributes, serve_connection, connection) == 0;
        server->connections += began;
        pthread_mutex_unlock(&server->lock);
        if (!began)
                close_connection(connection);
}

/*
 * If the process has no descriptor left for a new connection, that one waits a moment, in which
 * another may end; then the connection that waits longest is closed for it: the new one may be a
 * probe. accept4(2) says EMFILE also if no connection waits.
 */
static void *accept_connections(void *context) {
        struct accepting *place = context;
        struct pollfd polled[] = {
                { .fd = interrupt_descriptor(&place->server->service.stop, INTERRUPT_NOW), .events = POLLIN },
                { .fd = place->socket, .events = POLLIN },
        };
        bool exhausted = false;

        while (interrupt_level(&place->server->service.stop) < INTERRUPT_NOW) {
                struct sockaddr_storage address = { 0 };
                socklen_t length = sizeof(address);
                int socket;

                if (poll(polled, 2, -1) < 0 || !polled[1].revents)
                        continue;
                socket = accept4(place->socket, (struct sockaddr *)&address, &length, SOCK_CLOEXEC);
                if (socket >= 0) {
                        begin_connection(place->server, socket, (const struct sockaddr *)&address);
                        exhausted = false;
                } else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
                        if (exhausted)
                                seats_make_room(place->server->service.seats);
                        exhausted = true;
                        poll(polled, 1, EXHAUSTED_MS);
                }
        }
        return NULL;
}

/* --- life --- */

/*
 * Half of the descriptors that this process may have are for connections, the others for what they
 * ask for: clients cannot take those from the daemon. One connection is one descriptor.
 */
static struct seats_limits limits_of(const struct server_config *config) {
        struct seats_limits limits = { .waiting = WAITING,
                                       .working = config->working ? config->working : WORKING,
                                       .patience_ms =
                                               config->patience_ms ? config->patience_ms : PATIENCE_MS };
        struct rlimit most;
        size_t room;

        if (getrlimit(RLIMIT_NOFILE, &most) == 0 && most.rlim_cur / 2 < 2 * WAITING + limits.working) {
                room = (size_t)most.rlim_cur / 2;
                limits.working = room / 2 > WORKING_MIN ? room / 2 : WORKING_MIN;
                limits.waiting = limits.working / 2;
        }
        limits.working_per_address = limits.working / 2; /* behind a proxy all clients have the same */
        return limits;
}

static struct server *make_server(const struct server_config *config) {
        struct server *server = calloc(1, sizeof(*server));
        struct service *service;
        pthread_condattr_t attributes;

        if (!server || !(server->hosts = calloc(config->host_count + 1, sizeof(*server->hosts))) ||
            pthread_mutex_init(&server->lock, NULL) != 0 || pthread_condattr_init(&attributes) != 0 ||
            pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) != 0 ||
            pthread_cond_init(&server->changed, &attributes) != 0 ||
            pthread_attr_init(&server->attributes) != 0 ||
            pthread_attr_setstacksize(&server->attributes, THREAD_STACK) != 0)
                abort();
        pthread_condattr_destroy(&attributes);
        service = &server->service;
        service->config = *config;
        if (service->config.quiet_ms == 0)
                service->config.quiet_ms = QUIET_MS;
        service->stop.reached[0] = service->stop.reached[1] = -1;
        for (size_t i = 0; i < config->host_count; i++) {
                if (!(server->hosts[i] = strdup(config->hosts[i])))
                        abort();
        }
        service->allowed = (struct head_hosts){ (const char *const *)server->hosts, config->host_count,
                                                config->any_host, config->behind_proxy, false };
        return server;
}

static int start_accepting(struct server *server, struct error *err) {
        for (size_t i = 0; i < server->service.config.socket_count; i++) {
                struct accepting *place = &server->places[i];
                int code;

                *place = (struct accepting){ server, server->service.config.sockets[i], false };
                code = pthread_create(&server->accepting[i], NULL, accept_connections, place);
                if (code != 0)
                        return error_set(err, "cannot start a thread: %s", strerror(code));
                place->started = true;
        }
        return 0;
}

int server_start(const struct server_config *config, struct server **ret, struct error *err) {
        const struct seats_limits limits = limits_of(config);
        struct server *server = make_server(config);

        if (interrupt_init(&server->service.stop, err) < 0 || watch_open(&server->service.watch, err) < 0 ||
            seats_open(&limits, &server->service.seats, err) < 0 || start_accepting(server, err) < 0) {
                server_stop(server);
                return error_context(err, "cannot serve HTTP");
        }
        *ret = server;
        return 0;
}

void server_count_connections(struct server *server, size_t *ret_waiting, size_t *ret_working) {
        seats_count(server->service.seats, ret_waiting, ret_working);
}

/* Waits until all connections have ended, at most `for_ms`. */
static void await_connections(struct server *server, int for_ms) {
        const struct timespec until = clock_after_ms(for_ms < 0 ? 0 : for_ms);
        int code = 0;

        pthread_mutex_lock(&server->lock);
        while (server->connections > 0 && code == 0)
                code = for_ms < 0 ? pthread_cond_wait(&server->changed, &server->lock)
                                  : pthread_cond_timedwait(&server->changed, &server->lock, &until);
        pthread_mutex_unlock(&server->lock);
}

/*
 * No new connection is let in; a read finds the end; routes that wait are told (server_wait()).
 * Answers that are on their way have a little time; then a client that does not read its answer is
 * cut off.
 */
static void end_connections(struct server *server) {
        interrupt_raise_to(&server->service.stop, INTERRUPT_NOW);
        for (size_t i = 0; i < server->service.config.socket_count; i++) {
                if (server->places[i].started)
                        pthread_join(server->accepting[i], NULL);
        }
        seats_dismiss(server->service.seats, SHUT_RD);
        await_connections(server, GRACE_MS);
        seats_dismiss(server->service.seats, SHUT_RDWR);
        await_connections(server, -1);
        if (server->any_ended)
                pthread_join(server->ended, NULL);
}

void server_stop(struct server *server) {
        struct service *service;

        if (!server)
                return;
        service = &server->service;
        if (service->seats)
                end_connections(server);
        seats_close(service->seats);
        watch_close(service->watch);
        for (size_t i = 0; i < service->config.socket_count; i++)
                close_descriptor(&service->config.sockets[i]);
        interrupt_dispose(&service->stop);
        for (size_t i = 0; i < service->config.host_count; i++)
                free(server->hosts[i]);
        free(server->hosts);
        pthread_attr_destroy(&server->attributes);
        pthread_cond_destroy(&server->changed);
        pthread_mutex_destroy(&server->lock);
        free(server);
}
