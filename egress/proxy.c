/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread, one poll(2) for all. More connections than CONNECTIONS_MAX are not taken: they wait in the listener's queue, which is
 * the sandbox's own.
 */
#include "egress/proxy.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/strbuf.h"
#include "egress/connection.h"
#include "egress/hello.h"
#include "process/cage.h"
#include "process/frame.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS_MAX 256
/*
 * Each asks the machine's name servers again, which are shared: a cloud's answer some 1000
 * questions a second.
 */
#define TAKEN_A_SECOND 200
#define SECOND_MS 1000
#define TALLY_MS 200
/*
 * After each line of the log, before the next one: a client that asks for a new name each time must
 * not fill the log.
 */
#define TALLY_LINE_MS 1000
#define DAY_MS INT64_C(86400000)
#define DATA_BYTES_MAX (UINT64_C(128) << 20)
#define FILES_OPEN 1024
#define POLL_MOST_MS 3600000

struct proxy {
        struct connection_shared shared;
        int channel, listener;
        struct frame_reader reader;
        struct connection *connections[CONNECTIONS_MAX];
        size_t count;
        int64_t second_ms; /* when this second began, and how many were taken in it */
        size_t taken;
        struct tally tally;
        int64_t tally_ms;       /* when it is told */
        int64_t tally_rests_ms; /* and not before */
        int64_t day_ms;         /* when the count of bytes begins again */
};

static volatile sig_atomic_t told_to_end;

static void on_end(int number) {
        (void)number;
        told_to_end = 1;
}

static bool takes_more(struct proxy *proxy) {
        int64_t now = clock_now_ms();

        if (now >= proxy->second_ms + SECOND_MS) {
                proxy->second_ms = now;
                proxy->taken = 0;
        }
        return proxy->count < CONNECTIONS_MAX && proxy->taken < TAKEN_A_SECOND;
}

static void accept_some(struct proxy *proxy) {
        while (takes_more(proxy)) {
                int client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

                if (client < 0)
                        return;
                proxy->connections[proxy->count++] = connection_new(&proxy->shared, client);
                proxy->taken++;
        }
}

static void end_connection(struct proxy *proxy, struct connection *connection) {
        struct tally_line line;

        connection_end(connection, &line);
        tally_add(&proxy->tally, &line);
        if (proxy->tally_ms == INT64_MAX) {
                proxy->tally_ms = clock_now_ms() + TALLY_MS;
                if (proxy->tally_ms < proxy->tally_rests_ms)
                        proxy->tally_ms = proxy->tally_rests_ms;
        }
}

/* Traffic that cannot be logged must not go out: without its log the proxy ends. */
static void tell_tally(struct proxy *proxy) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct error ignored;

        if (proxy->tally.count == 0)
                return;
        tally_write(&proxy->tally, &text);
        if (frame_send_now(proxy->channel, PROXY_TALLY, text.data, text.length, NULL, 0, &ignored) < 0)
                _exit(EXIT_FAILURE);
        proxy->tally_rests_ms = clock_now_ms() + (int64_t)proxy->tally.count * TALLY_LINE_MS;
        proxy->tally.count = 0;
        proxy->tally_ms = INT64_MAX;
}

static void exit_proxy(struct proxy *proxy) __attribute__((noreturn));
static void exit_proxy(struct proxy *proxy) {
        while (proxy->count > 0)
                end_connection(proxy, proxy->connections[--proxy->count]);
        tell_tally(proxy);
        _exit(EXIT_SUCCESS);
}

static void hear_channel(struct proxy *proxy) {
        struct frame frame FRAME_CLEANUP = { 0 };
        struct error ignored;
        int answer = frame_receive(&proxy->reader, &frame, &ignored);

        if (answer == FRAME_WAIT)
                return;
        if (answer != FRAME_WHOLE || frame.type != PROXY_LISTENER || frame.count != 1 || proxy->listener >= 0)
                _exit(EXIT_FAILURE);
        proxy->listener = frame_take(&frame, 0);
}

static int64_t earliest(const struct proxy *proxy) {
        int64_t until_ms = proxy->tally_ms < proxy->day_ms ? proxy->tally_ms : proxy->day_ms;

        if (proxy->taken >= TAKEN_A_SECOND && proxy->second_ms + SECOND_MS < until_ms)
                until_ms = proxy->second_ms + SECOND_MS;
        for (size_t i = 0; i < proxy->count; i++) {
                if (connection_until_ms(proxy->connections[i]) < until_ms)
                        until_ms = connection_until_ms(proxy->connections[i]);
        }
        return until_ms;
}

#define OWN_POLLED 2

static void poll_once(struct proxy *proxy, const sigset_t *unblocked) {
        struct pollfd polled[OWN_POLLED + RESOLVE_POLLED_MAX + CONNECTION_POLLED * CONNECTIONS_MAX] = {
                { .fd = proxy->channel, .events = POLLIN },
                { .fd = takes_more(proxy) ? proxy->listener : -1, .events = POLLIN },
        };
        struct pollfd *of_connections;
        int64_t left = earliest(proxy) - clock_now_ms();
        int most = left <= 0 ? 0 : left < POLL_MOST_MS ? (int)left : POLL_MOST_MS, timeout;
        size_t asking = resolver_poll(proxy->shared.resolver, polled + OWN_POLLED, most, &timeout), kept = 0;
        size_t connections = proxy->count;
        struct timespec wait = { timeout / 1000, timeout % 1000 * 1000000L };

        of_connections = polled + OWN_POLLED + asking;
        for (size_t i = 0; i < connections; i++)
                connection_poll(proxy->connections[i], of_connections + CONNECTION_POLLED * i);
        if (ppoll(polled, OWN_POLLED + asking + CONNECTION_POLLED * connections, &wait, unblocked) < 0 &&
            errno != EINTR)
                _exit(EXIT_FAILURE);
        if (told_to_end)
                exit_proxy(proxy);
        for (size_t i = 0; i < connections; i++)
                connection_polled(proxy->connections[i], of_connections + CONNECTION_POLLED * i);
        resolver_process(proxy->shared.resolver, polled + OWN_POLLED, asking);
        for (size_t i = 0; i < connections; i++) {
                if (connection_go_on(proxy->connections[i]))
                        proxy->connections[kept++] = proxy->connections[i];
                else
                        end_connection(proxy, proxy->connections[i]);
        }
        proxy->count = kept;
        if (polled[0].revents)
                hear_channel(proxy);
        if (polled[1].revents)
                accept_some(proxy);
        if (clock_now_ms() >= proxy->day_ms) {
                proxy->shared.bytes = 0;
                proxy->day_ms += DAY_MS;
        }
        if (clock_now_ms() >= proxy->tally_ms)
                tell_tally(proxy);
}

/* --- the process --- */

/* The ports of the list, and that of name servers. */
static int enter_proxy_cage(const struct allow_list *list, struct error *err) {
        uint16_t ports[2 * ALLOW_ENTRIES_MAX + 2] = { 0 };
        struct cage cage = { .calls = CAGE_PROXY,
                             .ports = ports,
                             .data_bytes = DATA_BYTES_MAX,
                             .files_open = FILES_OPEN,
                             .cpu_seconds = UINT_MAX };
        const char *weak;
        size_t count = 0;

        for (size_t i = 0; i < list->count && i < ALLOW_ENTRIES_MAX; i++)
                count += allow_ports(list->entries[i], ports + count);
        ports[count] = 53;
        return cage_enter(&cage, &weak, err);
}

int proxy_listen(int *ret, uint16_t *ret_port, struct error *err) {
        struct sockaddr_in address = { .sin_family = AF_INET,
                                       .sin_port = htons(PROXY_PORT),
                                       .sin_addr = { htonl(INADDR_LOOPBACK) } };
        int listener DESCRIPTOR_CLEANUP = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        socklen_t length = sizeof(address);

        if (listener >= 0 && bind(listener, (struct sockaddr *)&address, sizeof(address)) < 0 &&
            errno == EADDRINUSE) {
                address.sin_port = 0;
                if (bind(listener, (struct sockaddr *)&address, sizeof(address)) < 0)
                        close_descriptor(&listener);
        }
        if (listener < 0 || listen(listener, SOMAXCONN) < 0 ||
            getsockname(listener, (struct sockaddr *)&address, &length) < 0)
                return error_set(err, "no proxy can listen in the sandbox: %s", strerror(errno));
        *ret_port = ntohs(address.sin_port);
        *ret = listener;
        listener = -1;
        return 0;
}

void proxy_main(int channel, const struct allow_list *list) {
        static struct proxy proxy;
        struct sigaction end = { .sa_handler = on_end };
        sigset_t blocked, unblocked;
        struct error err;

        proxy = (struct proxy){ .shared = { .list = list },
                                .channel = channel,
                                .listener = -1,
                                .reader = FRAME_READER(channel),
                                .tally_ms = INT64_MAX,
                                .day_ms = clock_now_ms() + DAY_MS };
        prctl(PR_SET_NAME, "berth-egress");
        signal(SIGPIPE, SIG_IGN);
        sigemptyset(&blocked);
        sigemptyset(&unblocked);
        sigaddset(&blocked, SIGTERM);
        if (sigprocmask(SIG_SETMASK, &blocked, NULL) < 0 || sigaction(SIGTERM, &end, NULL) < 0 ||
            hello_load(&err) < 0 || resolver_open(&proxy.shared.resolver, &err) < 0 ||
            enter_proxy_cage(list, &err) < 0)
                _exit(EXIT_FAILURE);
        for (;;)
                poll_once(&proxy, &unblocked);
}
