/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An HTTP server on a free loopback port, one thread a connection, which answers what a script says: the n-th request
 * gets the n-th answer, and the last answer is given again and again. It keeps what it was sent.
 */
#ifndef BERTH_TESTS_SCRIPTED_SERVER_H
#define BERTH_TESTS_SCRIPTED_SERVER_H

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define SERVER_CONNECTIONS 64
#define SERVER_REQUESTS 64

/* "" closes the connection without an answer. Content-Length is added where the head lacks it. */
struct scripted_answer {
        const char *head; /* "200 OK\r\nName: value\r\n" */
        const char *body;
};

struct scripted_server {
        const struct scripted_answer *answers;
        size_t answer_count;
        char url[64];
        int listener;
        pthread_mutex_t lock; /* of all below */
        pthread_t acceptor;
        pthread_t threads[SERVER_CONNECTIONS];
        int sockets[SERVER_CONNECTIONS];
        int connections;
        int requests;
        char *received[SERVER_REQUESTS]; /* head and body of each */
};

struct scripted_connection {
        struct scripted_server *server;
        int socket;
};

static struct scripted_answer scripted_next(struct scripted_server *server, const char *request) {
        struct scripted_answer answer;
        size_t index;

        pthread_mutex_lock(&server->lock);
        index = (size_t)server->requests;
        answer = server->answers[index < server->answer_count ? index : server->answer_count - 1];
        if (index < SERVER_REQUESTS)
                server->received[index] = strdup(request);
        server->requests++;
        pthread_mutex_unlock(&server->lock);
        return answer;
}

/* Reads one request, head and body. 0 where the peer has gone. */
static int scripted_read(int socket, char *buffer, size_t size) {
        size_t used = 0, wanted = 0;
        const char *end = NULL, *length;

        while (!end) {
                ssize_t got = recv(socket, buffer + used, size - 1 - used, 0);

                if (got <= 0)
                        return 0;
                used += (size_t)got;
                buffer[used] = '\0';
                end = strstr(buffer, "\r\n\r\n");
        }
        length = strcasestr(buffer, "content-length:");
        if (length && length < end)
                wanted = strtoul(length + strlen("content-length:"), NULL, 10);
        wanted += (size_t)(end + 4 - buffer);
        if (wanted >= size)
                return 0;
        while (used < wanted) {
                ssize_t got = recv(socket, buffer + used, size - 1 - used, 0);

                if (got <= 0)
                        return 0;
                used += (size_t)got;
                buffer[used] = '\0';
        }
        return 1;
}

static void *scripted_serve(void *opaque) {
        struct scripted_connection connection = *(struct scripted_connection *)opaque;
        char *buffer = malloc(65536);

        free(opaque);
        while (buffer && scripted_read(connection.socket, buffer, 65536)) {
                struct scripted_answer answer = scripted_next(connection.server, buffer);
                char head[1024];
                int length;

                if (!*answer.head)
                        break;
                length = snprintf(head, sizeof(head), "HTTP/1.1 %s", answer.head);
                if (!strcasestr(answer.head, "content-length:") &&
                    !strcasestr(answer.head, "transfer-encoding:"))
                        length += snprintf(head + length, sizeof(head) - (size_t)length,
                                           "Content-Length: %zu\r\n", strlen(answer.body));
                length += snprintf(head + length, sizeof(head) - (size_t)length, "\r\n");
                if (send(connection.socket, head, (size_t)length, MSG_NOSIGNAL) < 0 ||
                    (strncmp(buffer, "HEAD", 4) != 0 &&
                     send(connection.socket, answer.body, strlen(answer.body), MSG_NOSIGNAL) < 0))
                        break;
                if (strcasestr(answer.head, "connection: close"))
                        break;
        }
        free(buffer);
        shutdown(connection.socket, SHUT_RDWR);
        return NULL;
}

static void *scripted_accept(void *opaque) {
        struct scripted_server *server = opaque;

        for (;;) {
                struct scripted_connection *connection;
                int socket = accept(server->listener, NULL, NULL), at_once = 1;

                if (socket < 0)
                        return NULL;
                /* A body does not wait for the acknowledgement of its head. */
                setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof(at_once));
                connection = malloc(sizeof(*connection));
                if (!connection)
                        abort();
                *connection = (struct scripted_connection){ server, socket };
                pthread_mutex_lock(&server->lock);
                if (server->connections == SERVER_CONNECTIONS)
                        abort();
                server->sockets[server->connections] = socket;
                if (pthread_create(&server->threads[server->connections], NULL, scripted_serve, connection) !=
                    0)
                        abort();
                server->connections++;
                pthread_mutex_unlock(&server->lock);
        }
}

static void scripted_start(struct scripted_server *server, const struct scripted_answer *answers,
                           size_t count) {
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t size = sizeof(address);

        memset(server, 0, sizeof(*server));
        server->answers = answers;
        server->answer_count = count;
        pthread_mutex_init(&server->lock, NULL);
        server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (server->listener < 0 ||
            bind(server->listener, (struct sockaddr *)&address, sizeof(address)) < 0 ||
            listen(server->listener, 64) < 0 ||
            getsockname(server->listener, (struct sockaddr *)&address, &size) < 0 ||
            pthread_create(&server->acceptor, NULL, scripted_accept, server) != 0)
                abort();
        snprintf(server->url, sizeof(server->url), "http://127.0.0.1:%d", (int)ntohs(address.sin_port));
}

/* Afterwards `requests`, `connections` and `received` may be read; scripted_release() frees them. */
static void scripted_stop(struct scripted_server *server) {
        shutdown(server->listener, SHUT_RDWR);
        pthread_join(server->acceptor, NULL);
        close(server->listener);
        for (int i = 0; i < server->connections; i++) {
                shutdown(server->sockets[i], SHUT_RDWR);
                pthread_join(server->threads[i], NULL);
                close(server->sockets[i]);
        }
}

static void scripted_release(struct scripted_server *server) {
        for (int i = 0; i < SERVER_REQUESTS; i++)
                free(server->received[i]);
        pthread_mutex_destroy(&server->lock);
}

#endif
