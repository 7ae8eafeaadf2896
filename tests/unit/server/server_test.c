/* SPDX-License-Identifier: Apache-2.0 */
/* Streams both ways, clients that are slow or leave, and probes meanwhile: over real sockets. */
#include "folder.h"

#include "base/clock.h"
#include "base/files.h"
#include "server/listen.h"
#include "server/server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BIG ((size_t)64 << 20)
#define PROBE "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define LONG_MS 30000
#define PATTERN(at) ((char)(1 + (at) % 250))

/* What the routes saw. */
struct seen {
        struct server *server;
        unsigned port;
        atomic_size_t produced, largest, ended, waiting, left, stopped;
        int pipe; /* what /pipe answers with */
        const char *type;
};

static size_t count_bytes(const char *bytes, size_t length, size_t at) {
        for (size_t i = 0; i < length; i++)
                assert_true(bytes[i] == PATTERN(at + i));
        return at + length;
}

/* --- routes --- */

static void begin_sum(struct server_request *request) {
        request->data = arena_alloc(request->arena, sizeof(size_t));
        *(size_t *)request->data = 0;
}

static void take_sum(struct server_request *request, const void *bytes, size_t length) {
        struct seen *seen = request->context;
        size_t *at = request->data;

        *at = count_bytes(bytes, length, *at);
        if (length > atomic_load(&seen->largest))
                atomic_store(&seen->largest, length);
}

static void answer_sum(struct server_request *request) {
        server_answer_text(request, 200, arena_printf(request->arena, "%zu", *(const size_t *)request->data));
}

static void end_sum(struct server_request *request) {
        atomic_fetch_add(&((struct seen *)request->context)->ended, 1);
}

static ssize_t read_big(void *context, struct server_request *request, char *buffer, size_t size) {
        struct seen *seen = context;
        size_t at = atomic_load(&seen->produced), length = BIG - at < size ? BIG - at : size;

        (void)request;
        for (size_t i = 0; i < length; i++)
                buffer[i] = PATTERN(at + i);
        atomic_fetch_add(&seen->produced, length);
        return (ssize_t)length;
}

static void end_stream(void *context) {
        atomic_fetch_add(&((struct seen *)context)->ended, 1);
}

static void answer_big(struct server_request *request) {
        bool known = server_query(request, "known") != NULL;
        const struct server_stream stream = { request->context, read_big, end_stream,
                                              known ? (int64_t)BIG : -1 };

        server_answer_stream(request, 200, "application/octet-stream", &stream);
}

static ssize_t read_broken(void *context, struct server_request *request, char *buffer, size_t size) {
        struct seen *seen = context;

        (void)request, (void)size;
        for (int i = 0; i < 3; i++)
                buffer[i] = "abc"[i];
        return atomic_fetch_add(&seen->produced, 1) == 0 ? 3 : -1;
}

static void answer_broken(struct server_request *request) {
        const struct server_stream stream = { request->context, read_broken, end_stream, -1 };

        server_answer_stream(request, 200, "text/plain", &stream);
}

static void answer_pipe(struct server_request *request) {
        const struct seen *seen = request->context;

        server_answer_descriptor(request, 200, seen->type, seen->pipe);
}

static void answer_wait(struct server_request *request) {
        struct seen *seen = request->context;

        atomic_fetch_add(&seen->waiting, 1);
        switch (server_wait(request, -1, 0, -1)) {
        case SERVER_LEFT:
                atomic_fetch_add(&seen->left, 1);
                break;
        case SERVER_STOPS:
                atomic_fetch_add(&seen->stopped, 1);
                break;
        default:
                break;
        }
        server_answer_text(request, 200, "over\n");
}

static void answer_ok(struct server_request *request) {
        server_answer_text(request, 200, "ok\n");
}

static void refuse_early(struct server_request *request) {
        server_answer_text(request, 403, "not you\n");
}

static void refuse_late(struct server_request *request, const void *bytes, size_t length) {
        (void)bytes, (void)length;
        server_answer_text(request, 409, "no more\n");
}

static const struct server_route routes[] = {
        { .method = "GET", .path = "/healthz", .seat = SERVER_PROBE, .answer = answer_ok },
        { .method = "POST",
          .path = "/sum",
          .body_max = BIG,
          .begin = begin_sum,
          .take = take_sum,
          .answer = answer_sum,
          .end = end_sum },
        { .method = "POST", .path = "/early", .body_max = BIG, .begin = refuse_early, .answer = answer_ok },
        { .method = "POST", .path = "/late", .body_max = BIG, .take = refuse_late, .answer = answer_ok },
        { .method = "GET", .path = "/big", .answer = answer_big },
        { .method = "GET", .path = "/broken", .answer = answer_broken },
        { .method = "GET", .path = "/pipe", .answer = answer_pipe },
        { .method = "GET", .path = "/wait", .answer = answer_wait },
};

/* --- clients --- */

static void start(struct seen *seen, int64_t patience_ms, int quiet_ms) {
        struct server_config config = { .socket_count = 1,
                                        .routes = routes,
                                        .route_count = sizeof(routes) / sizeof(routes[0]),
                                        .context = seen,
                                        .patience_ms = patience_ms,
                                        .quiet_ms = quiet_ms };
        struct error err;

        memset(seen, 0, sizeof(*seen));
        seen->pipe = -1;
        assert_int_equal(listen_open("127.0.0.1:0", &config.sockets[0], &seen->port, &err), 0);
        if (server_start(&config, &seen->server, &err) < 0)
                fail_msg("%s", err.message);
}

static int connect_from(const struct seen *seen, const char *address) {
        struct sockaddr_in from = { .sin_family = AF_INET },
                           to = { .sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)seen->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), small = 65536;
        struct timeval patience = { .tv_sec = LONG_MS / 1000 };

        assert_int_equal(inet_pton(AF_INET, address, &from.sin_addr), 1);
        assert_int_equal(bind(client, (const struct sockaddr *)&from, sizeof(from)), 0);
        /* Small buffers, so that a client that does not read is noticed soon. */
        setsockopt(client, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
        setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        assert_int_equal(connect(client, (const struct sockaddr *)&to, sizeof(to)), 0);
        return client;
}

static int ask(const struct seen *seen, const char *request) {
        int client = connect_from(seen, "127.0.0.1");

        assert_int_equal(descriptor_write(client, request, strlen(request)), 0);
        return client;
}

/* Reads until `end` has come, or the connection's end; what came is NUL-terminated. */
static bool read_until(int client, const char *end, char *buffer, size_t size) {
        size_t length = strlen(buffer);

        while (!strstr(buffer, end) && length < size - 1) {
                ssize_t count = read(client, buffer + length, size - 1 - length);

                if (count <= 0)
                        return false;
                length += (size_t)count;
                buffer[length] = '\0';
        }
        return true;
}

static void assert_answer(const struct seen *seen, const char *request, const char *status) {
        char buffer[4096] = "";
        int client = ask(seen, request);

        read_until(client, "\r\n\r\n", buffer, sizeof(buffer));
        if (strncmp(buffer + strlen("HTTP/1.1 "), status, 3) != 0)
                fail_msg("%s: %s", request, buffer);
        close(client);
}

static void until(atomic_size_t *value, size_t wanted) {
        int64_t until_ms = clock_system.monotonic_ms(&clock_system) + LONG_MS;

        while (atomic_load(value) != wanted) {
                if (clock_system.monotonic_ms(&clock_system) > until_ms)
                        fail_msg("%zu instead of %zu", atomic_load(value), wanted);
                poll(NULL, 0, 10);
        }
}

static long resident_kb(void) {
        struct rusage usage;

        getrusage(RUSAGE_SELF, &usage);
        return usage.ru_maxrss;
}

/* --- tests --- */

static void bodies_are_not_kept(void **state) {
        static char block[1 << 16];
        char buffer[4096] = "", head[200];
        struct seen seen;
        long before;
        int client;

        (void)state;
        start(&seen, 0, 0);
        assert_answer(&seen, PROBE, "200");
        before = resident_kb();
        snprintf(head, sizeof(head), "POST /sum HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n",
                 BIG);
        client = ask(&seen, head);
        for (size_t at = 0; at < BIG; at += sizeof(block)) {
                for (size_t i = 0; i < sizeof(block); i++)
                        block[i] = PATTERN(at + i);
                assert_int_equal(descriptor_write(client, block, sizeof(block)), 0);
        }
        assert_true(read_until(client, "67108864", buffer, sizeof(buffer)));
        assert_int_equal(strncmp(buffer, "HTTP/1.1 200", 12), 0);
        assert_true(resident_kb() - before < 8 << 10);
        assert_true(atomic_load(&seen.largest) <= 64 << 10);
        until(&seen.ended, 1);
        close(client);
        /* A stream that is cut off has its end, too. */
        client = ask(&seen, head);
        close(client);
        until(&seen.ended, 2);
        server_stop(seen.server);
}

static void a_body_may_be_refused(void **state) {
        struct seen seen;

        (void)state;
        start(&seen, 0, 0);
        assert_answer(&seen, "POST /early HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n",
                      "403");
        assert_answer(&seen, "POST /sum HTTP/1.1\r\nHost: localhost\r\nContent-Length: 67108865\r\n\r\n",
                      "413");
        /* Or in the midst of it; nothing that comes behind changes that. */
        assert_answer(&seen, "POST /late HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\nabc",
                      "409");
        assert_answer(&seen, "POST /late HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc", "409");
        assert_answer(&seen,
                      "POST /late HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                      "3\r\nabc\r\n3\r\nabc\r\nzz",
                      "409");
        server_stop(seen.server);
}

/* The length that GET would have, and nothing behind the head, whatever is wrong with the request. */
static void head_is_answered_without_a_body(void **state) {
        static const char *const requests[] = {
                "HEAD /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                "HEAD / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "HEAD ? HTTP/1.1\r\nHost: localhost\r\n\r\n",
                "\r\nHEAD / HTTP/1.1\r\nHost : localhost\r\n\r\n", "HEAD / HTTP/1.1\n\n"
        };
        struct seen seen;

        (void)state;
        start(&seen, 0, 0);
        for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
                char buffer[4096] = "";
                int client = ask(&seen, requests[i]);
                const char *end;

                assert_false(read_until(client, "to the end", buffer, sizeof(buffer)));
                close(client);
                assert_int_equal(strncmp(buffer, "HTTP/1.1 4", 10), 0);
                assert_non_null(strstr(buffer, "\r\nContent-Length: "));
                end = strstr(buffer, "\r\n\r\n");
                assert_non_null(end);
                if (end[4] != '\0')
                        fail_msg("%s: %s", requests[i], buffer);
        }
        server_stop(seen.server);
}

/* As fast as they are taken: what is made ahead is what sockets hold. */
static void answers_are_read_as_they_are_taken(void **state) {
        static const char *const requests[] = { "GET /big?known HTTP/1.1\r\nHost: localhost\r\n\r\n",
                                                "GET /big HTTP/1.0\r\nHost: localhost\r\n\r\n" };
        static char block[1 << 16];

        (void)state;
        for (size_t i = 0; i < 2; i++) {
                char buffer[1024] = "", *body;
                struct seen seen;
                size_t at;
                int client;

                start(&seen, 0, 0);
                client = ask(&seen, requests[i]);
                assert_true(read_until(client, "\r\n\r\n", buffer, 512));
                body = strstr(buffer, "\r\n\r\n") + 4;
                at = count_bytes(body, strlen(body), 0);
                while (at < BIG) {
                        ssize_t count = read(client, block, sizeof(block));

                        assert_true(count > 0);
                        at = count_bytes(block, (size_t)count, at);
                        assert_true(atomic_load(&seen.produced) - at < 16 << 20);
                        if (at < BIG / 1000)
                                poll(NULL, 0, 50); /* it could run far ahead in that time */
                }
                until(&seen.ended, 1);
                close(client);
                server_stop(seen.server);
        }
}

static void answers_that_break_off_are_seen_to(void **state) {
        char buffer[4096] = "";
        struct seen seen;
        int client;

        (void)state;
        start(&seen, 0, 0);
        client = ask(&seen, "GET /broken HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_false(read_until(client, "\r\n0\r\n", buffer, sizeof(buffer)));
        assert_non_null(strstr(buffer, "3\r\nabc\r\n"));
        until(&seen.ended, 1);
        close(client);
        server_stop(seen.server);
}

static void events_come_at_once_and_silence_is_filled(void **state) {
        char buffer[4096] = "";
        struct seen seen;
        int client, ends[2];

        (void)state;
        start(&seen, 0, 200);
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        seen.pipe = ends[0];
        seen.type = "text/event-stream";
        client = ask(&seen, "GET /pipe HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_true(read_until(client, ":\n\n", buffer, sizeof(buffer)));
        assert_int_equal(descriptor_write(ends[1], "data: first\n\n", 13), 0);
        assert_true(read_until(client, "data: first\n\n", buffer, sizeof(buffer)));
        buffer[0] = '\0';
        /* Not within an event: that would be another. */
        assert_int_equal(descriptor_write(ends[1], "data: half", 10), 0);
        assert_true(read_until(client, "data: half", buffer, sizeof(buffer)));
        buffer[0] = '\0';
        poll(NULL, 0, 700);
        assert_int_equal(descriptor_write(ends[1], " an event\n\n", 11), 0);
        assert_true(read_until(client, " an event\n\n", buffer, sizeof(buffer)));
        assert_null(strstr(buffer, ":\n\n"));
        buffer[0] = '\0';
        assert_true(read_until(client, ":\n\n", buffer, sizeof(buffer)));
        close(ends[1]);
        assert_true(read_until(client, "\r\n0\r\n\r\n", buffer, sizeof(buffer)));
        close(client);
        server_stop(seen.server);
}

static void who_leaves_is_noticed(void **state) {
        struct pollfd polled;
        struct seen seen;
        int client, ends[2];

        (void)state;
        start(&seen, 0, 0);
        /* Even if the route writes the events, long before the next comment would fail. */
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        seen.pipe = ends[0];
        seen.type = "text/event-stream";
        client = ask(&seen, "GET /pipe HTTP/1.1\r\nHost: localhost\r\n\r\n");
        {
                char buffer[4096] = "";

                assert_true(read_until(client, "\r\n\r\n", buffer, sizeof(buffer)));
        }
        close(client);
        polled = (struct pollfd){ .fd = ends[1], .events = 0 };
        assert_int_equal(poll(&polled, 1, 10000), 1);
        assert_true(polled.revents & POLLERR);
        close(ends[1]);
        /* And a route that waits for something else. */
        client = ask(&seen, "GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
        until(&seen.waiting, 1);
        close(client);
        until(&seen.left, 1);
        server_stop(seen.server);
}

static void who_does_not_read_is_shown_out(void **state) {
        struct seen seen;
        int client;

        (void)state;
        start(&seen, 500, 0);
        client = ask(&seen, "GET /big?known HTTP/1.1\r\nHost: localhost\r\n\r\n");
        until(&seen.ended, 1);
        assert_true(atomic_load(&seen.produced) < BIG);
        close(client);
        server_stop(seen.server);
}

/* Routes that wait, as many as may: no other request gets in, but probes. */
static void probes_are_answered_whoever_waits(void **state) {
        struct seen seen;
        int clients[128];

        (void)state;
        start(&seen, 0, 0);
        for (size_t i = 0; i < 128; i++) {
                static const char wait[] = "GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n";

                clients[i] = connect_from(&seen, i < 64 ? "127.0.0.2" : "127.0.0.3");
                assert_int_equal(descriptor_write(clients[i], wait, strlen(wait)), 0);
                /* Fewer at a time than the waiting room has places: none is shown out of it. */
                if (i % 32 == 31)
                        until(&seen.waiting, i + 1);
        }
        for (int i = 0; i < 20; i++)
                assert_answer(&seen, PROBE, "200");
        assert_answer(&seen, "GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n", "503");
        for (size_t i = 0; i < 10; i++)
                close(clients[i]);
        until(&seen.left, 10);
        /* The others are told that it stops, and do not hold it up. */
        server_stop(seen.server);
        assert_int_equal(atomic_load(&seen.stopped), 118);
        for (size_t i = 10; i < 128; i++)
                close(clients[i]);
}

/* What routes say when they are told that it stops, and what was half sent, still comes; who idles holds up nothing. */
static void answers_on_their_way_are_given_when_it_stops(void **state) {
        char buffer[4096] = "";
        struct seen seen;
        int waiting, idle, silent;
        int64_t began;

        (void)state;
        start(&seen, 0, 0);
        idle = connect_from(&seen, "127.0.0.1");
        silent = ask(&seen, "POST /sum HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n");
        waiting = ask(&seen, "GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
        until(&seen.waiting, 1);
        began = clock_system.monotonic_ms(&clock_system);
        server_stop(seen.server);
        assert_true(clock_system.monotonic_ms(&clock_system) - began < LONG_MS);
        assert_true(read_until(waiting, "over\n", buffer, sizeof(buffer)));
        assert_non_null(strstr(buffer, "Connection: close\r\n"));
        assert_int_equal(read(idle, buffer, 1), 0);
        assert_int_equal(read(silent, buffer, 1), 0);
        close(idle);
        close(silent);
        close(waiting);
}

/* A client that takes nothing of its answer does not keep it from stopping. */
static void who_does_not_read_does_not_hold_up_the_end(void **state) {
        struct seen seen;
        int client;

        (void)state;
        start(&seen, 0, 0);
        client = ask(&seen, "GET /big?known HTTP/1.1\r\nHost: localhost\r\n\r\n");
        while (atomic_load(&seen.produced) == 0)
                poll(NULL, 0, 10);
        server_stop(seen.server);
        assert_int_equal(atomic_load(&seen.ended), 1);
        assert_true(atomic_load(&seen.produced) < BIG);
        close(client);
}

/* Where the process has no descriptor left for who comes, who only waits makes room: a probe is answered. */
static void no_descriptor_left(void **state) {
        struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        struct rlimit before, few;
        char buffer[4096] = "";
        struct seen seen;
        int idle, client, next;

        (void)state;
        start(&seen, 0, 0);
        idle = ask(&seen, PROBE);
        assert_true(read_until(idle, "ok\n", buffer, sizeof(buffer)));
        assert_true((client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) >= 0);
        assert_true((next = dup(client)) >= 0);
        close(next);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        few = (struct rlimit){ (rlim_t)next, before.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        to.sin_port = htons((uint16_t)seen.port);
        assert_int_equal(connect(client, (const struct sockaddr *)&to, sizeof(to)), 0);
        assert_int_equal(descriptor_write(client, PROBE, strlen(PROBE)), 0);
        buffer[0] = '\0';
        assert_true(read_until(client, "ok\n", buffer, sizeof(buffer)));
        assert_int_equal(read(idle, buffer, 1), 0);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        close(client);
        close(idle);
        server_stop(seen.server);
}

/* The sanitizers' leak checker judges this one. */
static void heads_that_break_off_leave_nothing(void **state) {
        static const char *const heads[] = {
                "GET /healthz HTTP/1.1\r\n",
                "GET /healthz HTTP/1.1\r\nHost: loc",
                "GET /healthz HTTP/1.1\r\nno colon\r\n\r\n",
                "GET /healthz HTTP/1.1\r\n\r\n",
                "GET /healthz HTTP/7\r\n\r\n",
                "POST /sum HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        };
        struct seen seen;

        (void)state;
        start(&seen, 0, 0);
        for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
                int client = ask(&seen, heads[i]);

                shutdown(client, SHUT_WR);
                while (read(client, &(char){ 0 }, 1) == 1)
                        ;
                close(client);
        }
        assert_answer(&seen, PROBE, "200");
        server_stop(seen.server);
}

static void unix_sockets(void **state) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        struct server_config config = { .socket_count = 2,
                                        .routes = routes,
                                        .route_count = sizeof(routes) / sizeof(routes[0]) };
        char folder[200], buffer[4096] = "", path[300];
        struct stat status;
        struct seen seen;
        struct error err;
        int client;

        (void)state;
        folder_make_temporary(folder);
        snprintf(path, sizeof(path), "%s/a.sock", folder);
        memset(&seen, 0, sizeof(seen));
        config.context = &seen;
        for (int i = 0; i < 2; i++) { /* one that lies there is replaced */
                assert_int_equal(listen_open_unix(path, 0660, &config.sockets[0], &err), 0);
                assert_int_equal(listen_open("127.0.0.1:0", &config.sockets[1], &seen.port, &err), 0);
                assert_int_equal(server_start(&config, &seen.server, &err), 0);
                assert_int_equal(stat(path, &status), 0);
                assert_int_equal(status.st_mode & 07777, 0660);
                client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
                strcpy(address.sun_path, path);
                assert_int_equal(connect(client, (const struct sockaddr *)&address, sizeof(address)), 0);
                assert_int_equal(descriptor_write(client, PROBE, strlen(PROBE)), 0);
                buffer[0] = '\0';
                assert_true(read_until(client, "ok\n", buffer, sizeof(buffer)));
                close(client);
                assert_answer(&seen, PROBE, "200");
                server_stop(seen.server);
        }
        memset(path + strlen(folder) + 1, 'x', 150);
        path[strlen(folder) + 151] = '\0';
        assert_int_equal(listen_open_unix(path, 0600, &client, &err), -1);
        assert_non_null(strstr(err.message, "a socket's name has 107 bytes at the most"));
        server_stop(NULL);
        folder_remove(folder);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(bodies_are_not_kept),
                cmocka_unit_test(a_body_may_be_refused),
                cmocka_unit_test(head_is_answered_without_a_body),
                cmocka_unit_test(answers_are_read_as_they_are_taken),
                cmocka_unit_test(answers_that_break_off_are_seen_to),
                cmocka_unit_test(events_come_at_once_and_silence_is_filled),
                cmocka_unit_test(who_leaves_is_noticed),
                cmocka_unit_test(who_does_not_read_is_shown_out),
                cmocka_unit_test(probes_are_answered_whoever_waits),
                cmocka_unit_test(answers_on_their_way_are_given_when_it_stops),
                cmocka_unit_test(who_does_not_read_does_not_hold_up_the_end),
                cmocka_unit_test(no_descriptor_left),
                cmocka_unit_test(heads_that_break_off_leave_nothing),
                cmocka_unit_test(unix_sockets),
        };

        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
