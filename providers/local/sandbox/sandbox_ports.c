/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections, two sockets each, and one thread that moves bytes between them. One side is read
 * again only once the other has taken the bytes before, so that a slow reader slows down the
 * writer, and nothing grows. The end of what one side sends is passed on as such (half-closed
 * connections go on the other way), and a connection that breaks on one side is broken on the
 * other.
 *
 * Where much comes, pages are passed on by splice(2) through a pipe, and not copied. There are a
 * few pipes, made before the sandbox's program runs: each has one direction's bytes at a time, and
 * is free again once they are sent. Where none is free, or the machine gave none, there is the
 * buffer; and bytes that the other side does not take are copied there from the last pipe, so that
 * a slow reader cannot hold it. Pages that a pipe keeps are charged to no limit, and how many pages
 * of pipes a user has is bounded (pipe(7)): so there are few.
 *
 * That splice(2) brings nothing is no end: at an urgent byte it stands still, and returns the same. recv(2) goes past it, and
 * says whether there is an end. But an error that splice(2) returns counts: it is told once, and recv(2) would see an end
 * instead.
 */
#include "providers/local/sandbox/sandbox_ports.h"

#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* A connection that takes all that it is given is read in larger and larger pieces. */
#define PIECE_LEAST ((size_t)16 << 10)
#define PIECE_MOST ((size_t)256 << 10)
/* Or, from some size on, by pages. */
#define PIECE_OF_PAGES ((size_t)64 << 10)
#define PAGES_MOST ((size_t)512 << 10)
/* At most 16 MiB in all of them: a socket's pieces are of 32 KiB at most. */
#define PIPES 4
#define PIPE_BYTES (512 << 10) /* of which each page is a piece, however little it has */
#define REST_PIECES 64
#define EVENTS 64
/* Other descriptors than those of connections: two of each pipe, those that listen, a few. With fewer there are no pipes. */
#define SPARE 64
/* Where the machine has no descriptors or memory for one more: after this it is tried again. */
#define REST_MS 100

enum source { FROM_LISTENER, FROM_OUTSIDE, FROM_INSIDE };

struct pipe {
        int out, in;
        struct pipe *next; /* of those that are free */
};

/* One socket of a connection, and what it is still to be sent. */
struct side {
        enum source source;
        struct connection *connection;
        int socket;
        uint32_t events; /* that are waited for */
        /*
         * Bytes from the other side that are not sent yet: in a buffer, in a pipe, or none and both
         * NULL.
         */
        char *held;
        struct pipe *pipe;
        size_t at, length;
        size_t piece;  /* bytes that are read from it at once */
        bool breaks;   /* if it is closed as it is: with us, where we are killed */
        bool read_all; /* it sends no more */
        bool told_end; /* that the other side sends no more */
};

struct connection {
        struct connection *next; /* of those that are over */
        uint16_t port;
        bool connects, by_six, over;
        struct side outside, inside;
};

struct listener {
        enum source source;
        int socket;
        uint16_t port;
};

struct ports {
        int waits; /* epoll(7) */
        struct listener listeners[SANDBOX_PORTS_MAX];
        size_t listener_count;
        bool listens, rests;
        size_t connections, most;
        struct connection *over; /* freed once no event of this turn is theirs any more */
        struct pipe pipes[PIPES], *free_pipes;
        char piece[PIECE_MOST];
};

/* --- one connection --- */

static struct side *other_of(struct side *side) {
        struct connection *connection = side->connection;

        return side == &connection->outside ? &connection->inside : &connection->outside;
}

static bool is_full(const struct side *side) {
        return side->held || side->pipe;
}

static void make_splice_pipes(struct ports *ports) {
        for (size_t i = 0; i < PIPES; i++) {
                struct pipe *made = &ports->pipes[i];
                int ends[2];

                if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
                        return;
                *made = (struct pipe){ ends[0], ends[1], ports->free_pipes };
                /* Whose user has many already gets smaller ones (pipe(7)), which are slower than a buffer. */
                if (fcntl(made->out, F_SETPIPE_SZ, PIPE_BYTES) < PIPE_BYTES) {
                        close_descriptor(&made->out);
                        close_descriptor(&made->in);
                        return;
                }
                ports->free_pipes = made;
        }
}

static void free_pipe(struct ports *ports, struct side *side) {
        side->pipe->next = ports->free_pipes;
        ports->free_pipes = side->pipe;
        side->pipe = NULL;
}

/* The next connection must not get what is left in it. */
static void empty_pipe(struct ports *ports, struct side *side) {
        while (side->at < side->length) {
                ssize_t count = read(side->pipe->out, ports->piece, sizeof(ports->piece));

                /* It cannot be: and if it is, this pipe is used no more. */
                if (count <= 0) {
                        side->pipe = NULL;
                        return;
                }
                side->at += (size_t)count;
        }
        free_pipe(ports, side);
}

/*
 * A connection closed this way is broken for the other end: it does not take a part for the whole.
 */
static void set_breaks(struct side *side, bool breaks) {
        const struct linger linger = { breaks, 0 };

        if (side->breaks != breaks)
                (void)setsockopt(side->socket, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
        side->breaks = breaks;
}

static void end_connection(struct ports *ports, struct connection *connection, bool broken) {
        struct side *sides[] = { &connection->outside, &connection->inside };

        if (connection->over)
                return;
        for (size_t i = 0; i < 2; i++) {
                if (sides[i]->socket >= 0)
                        set_breaks(sides[i], broken);
                close_descriptor(&sides[i]->socket);
                free(sides[i]->held);
                sides[i]->held = NULL;
                if (sides[i]->pipe)
                        empty_pipe(ports, sides[i]);
        }
        connection->over = true;
        connection->next = ports->over;
        ports->over = connection;
        ports->connections--;
}

static void watch_side(struct ports *ports, struct side *side) {
        const struct connection *connection = side->connection;
        struct epoll_event event = { .data.ptr = side };

        if (connection->connects) {
                event.events = side == &connection->inside ? EPOLLOUT : 0;
        } else {
                if (!side->read_all && !is_full(other_of(side)))
                        event.events |= EPOLLIN;
                if (is_full(side))
                        event.events |= EPOLLOUT;
                /* One whose both directions have ended is always ready for what is waited for: that it breaks is told once. */
                if (!event.events && side->told_end)
                        event.events = EPOLLET;
        }
        if (event.events != side->events)
                (void)epoll_ctl(ports->waits, EPOLL_CTL_MOD, side->socket, &event);
        side->events = event.events;
        if (!connection->connects)
                set_breaks(side, is_full(side));
}

static int copy_held(struct ports *ports, struct side *side) {
        size_t left = side->length - side->at, count = 0;
        char *held = malloc(left);

        while (held && count < left) {
                ssize_t got = read(side->pipe->out, held + count, left - count);

                if (got <= 0) {
                        free(held);
                        return -1;
                }
                count += (size_t)got;
        }
        if (!held)
                return -1;
        free_pipe(ports, side);
        side->held = held;
        side->at = 0;
        side->length = left;
        return 0;
}

/* -1: it broke. */
static int send_held(struct ports *ports, struct side *side) {
        while (is_full(side)) {
                size_t left = side->length - side->at;
                ssize_t count = side->pipe ? splice(side->pipe->out, NULL, side->socket, NULL, left,
                                                    SPLICE_F_NONBLOCK)
                                           : send(side->socket, side->held + side->at, left,
                                                  MSG_DONTWAIT | MSG_NOSIGNAL);

                if (count < 0 && errno != EAGAIN && errno != EINTR)
                        return -1;
                if (count < 0)
                        return side->pipe && !ports->free_pipes ? copy_held(ports, side) : 0;
                side->at += (size_t)count;
                if (side->at == side->length && side->pipe) {
                        free_pipe(ports, side);
                } else if (side->at == side->length) {
                        free(side->held);
                        side->held = NULL;
                } else if (count == 0) {
                        return -1;
                }
        }
        return 0;
}

/*
 * Bytes that are not taken at once are kept: no more than these, since nothing is read while some
 * are left.
 */
static int pass(struct side *to, struct side *from, const char *bytes, size_t length) {
        ssize_t count = send(to->socket, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
        size_t sent = count > 0 ? (size_t)count : 0;

        if (count < 0 && errno != EAGAIN && errno != EINTR)
                return -1;
        if (sent == length) {
                if (length == from->piece && from->piece < PIECE_MOST)
                        from->piece *= 2;
                return 0;
        }
        from->piece = PIECE_LEAST;
        to->held = malloc(length - sent);
        if (!to->held)
                return -1;
        memcpy(to->held, bytes + sent, length - sent);
        to->at = 0;
        to->length = length - sent;
        return 0;
}

/* Once all is sent, the end is passed on. */
static int pass_end(struct side *from, struct side *to) {
        if (!from->read_all || is_full(to) || to->told_end)
                return 0;
        to->told_end = true;
        return shutdown(to->socket, SHUT_WR) < 0 && errno != ENOTCONN ? -1 : 0;
}

/* -1: it broke; 0: recv(2) is to say; 1: some came. */
static int read_pages(struct ports *ports, struct side *side) {
        struct side *to = other_of(side);
        struct pipe *pipe = ports->free_pipes;
        ssize_t count;

        if (!pipe || side->piece < PIECE_OF_PAGES)
                return 0;
        count = splice(side->socket, NULL, pipe->in, NULL, PAGES_MOST, SPLICE_F_NONBLOCK);
        if (count < 0 && errno != EAGAIN && errno != EINTR && errno != EINVAL && errno != ENOMEM)
                return -1;
        if (count <= 0)
                return 0;
        ports->free_pipes = pipe->next;
        to->pipe = pipe;
        to->at = 0;
        to->length = (size_t)count;
        /* Many small pieces fill a pipe with few bytes. */
        if (to->length < PIECE_LEAST)
                side->piece = PIECE_LEAST;
        return send_held(ports, to) < 0 ? -1 : 1;
}

/* -1: it broke; 0: nothing came, or there is no room for it; 1: some came. */
static int read_side(struct ports *ports, struct side *side) {
        struct side *to = other_of(side);
        ssize_t count;
        int came;

        if (side->read_all || is_full(to))
                return 0;
        came = read_pages(ports, side);
        if (came != 0)
                return came;
        count = recv(side->socket, ports->piece, side->piece, MSG_DONTWAIT);
        if (count < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : -1;
        if (count == 0) {
                side->read_all = true;
                return 0;
        }
        return pass(to, side, ports->piece, (size_t)count) < 0 ? -1 : 1;
}

/* No byte is lost that came as urgent: it is one of the others. */
static void set_up(int socket) {
        const int yes = 1;

        (void)setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
        (void)setsockopt(socket, SOL_SOCKET, SO_OOBINLINE, &yes, sizeof(yes));
}

static int connect_inside(struct ports *ports, struct connection *connection) {
        struct sockaddr_in four = { .sin_family = AF_INET,
                                    .sin_port = htons(connection->port),
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        struct sockaddr_in6 six = { .sin6_family = AF_INET6,
                                    .sin6_port = htons(connection->port),
                                    .sin6_addr = IN6ADDR_LOOPBACK_INIT };
        struct epoll_event event = { .events = EPOLLOUT, .data.ptr = &connection->inside };
        int made = socket(connection->by_six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                          0);

        if (made < 0)
                return -1;
        close_descriptor(&connection->inside.socket);
        connection->inside.socket = made;
        connection->inside.breaks = false;
        connection->inside.events = event.events;
        set_up(made);
        if ((connection->by_six ? connect(made, (const struct sockaddr *)&six, sizeof(six))
                                : connect(made, (const struct sockaddr *)&four, sizeof(four))) < 0 &&
            errno != EINPROGRESS)
                return -1;
        return epoll_ctl(ports->waits, EPOLL_CTL_ADD, made, &event);
}

/* What listens at ::1 alone is found as well. */
static int connect_failed(struct ports *ports, struct connection *connection) {
        if (connection->by_six)
                return -1;
        connection->by_six = true;
        return connect_inside(ports, connection);
}

/*
 * If no program listens, and the port that the kernel chose for our end is that very one, TCP
 * connects it to itself: the client would receive its own bytes, and the program that should listen
 * there would find the port taken.
 */
static bool is_connected_to_itself(const struct side *inside) {
        struct sockaddr_in6 own = { 0 }; /* one of IPv4 has its port at the same place */
        socklen_t length = sizeof(own);

        return getsockname(inside->socket, (struct sockaddr *)&own, &length) == 0 &&
               ntohs(own.sin6_port) == inside->connection->port;
}

static int go_on_connecting(struct ports *ports, struct connection *connection, uint32_t events) {
        int failed = 0;
        socklen_t length = sizeof(failed);

        if (!(events & (EPOLLOUT | EPOLLERR | EPOLLHUP)))
                return 0;
        if (getsockopt(connection->inside.socket, SOL_SOCKET, SO_ERROR, &failed, &length) < 0 || failed)
                return connect_failed(ports, connection);
        if (is_connected_to_itself(&connection->inside)) {
                set_breaks(&connection->inside, true); /* so that the port is free at once */
                return connect_failed(ports, connection);
        }
        connection->connects = false;
        return 0;
}

static int move(struct ports *ports, struct side *side, uint32_t events) {
        struct connection *connection = side->connection;
        struct side *other = other_of(side);

        if (connection->connects)
                return side == &connection->inside ? go_on_connecting(ports, connection, events) : -1;
        if (events & EPOLLERR)
                return -1;
        return send_held(ports, side) < 0 || read_side(ports, side) < 0 || pass_end(side, other) < 0 ||
                               pass_end(other, side) < 0
                       ? -1
                       : 0;
}

/*
 * For a connection that broke: sends what came before, as far as the other side takes it at once. A
 * peer that answers, closes, and leaves its input unread, has answered nevertheless. The broken
 * side takes none of the bytes that are read of the whole one.
 */
static void pass_the_rest(struct ports *ports, struct side *side) {
        for (int i = 0; i < REST_PIECES && !side->connection->connects && read_side(ports, side) > 0; i++) {
        }
}

static bool is_done(const struct connection *connection) {
        return connection->outside.told_end && connection->inside.told_end;
}

static void see_to(struct ports *ports, struct side *side, uint32_t events) {
        struct connection *connection = side->connection;

        if (connection->over)
                return;
        if (move(ports, side, events) < 0) {
                pass_the_rest(ports, &connection->inside);
                pass_the_rest(ports, &connection->outside);
                end_connection(ports, connection, true);
        } else if (is_done(connection)) {
                end_connection(ports, connection, false);
        } else {
                watch_side(ports, &connection->outside);
                watch_side(ports, &connection->inside);
        }
}

/* --- those that listen --- */

static void listen_to(struct ports *ports, bool listens) {
        for (size_t i = 0; i < ports->listener_count && listens != ports->listens; i++) {
                struct epoll_event event = { .events = listens ? EPOLLIN : 0,
                                             .data.ptr = &ports->listeners[i] };

                (void)epoll_ctl(ports->waits, EPOLL_CTL_MOD, ports->listeners[i].socket, &event);
        }
        ports->listens = listens;
}

static void accept_connection(struct ports *ports, const struct listener *listener) {
        int taken = accept4(listener->socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        struct connection *connection = taken < 0 ? NULL : calloc(1, sizeof(*connection));
        struct epoll_event event = { 0 };

        if (!connection) {
                /* EMFILE and the like: the socket would stay readable forever. */
                ports->rests = taken >= 0 || (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR);
                close_descriptor(&taken);
                return;
        }
        *connection = (struct connection){
                .port = listener->port,
                .connects = true,
                .outside = { FROM_OUTSIDE, connection, taken, .piece = PIECE_LEAST },
                .inside = { FROM_INSIDE, connection, -1, .piece = PIECE_LEAST },
        };
        ports->connections++;
        set_up(taken);
        event.data.ptr = &connection->outside;
        if (epoll_ctl(ports->waits, EPOLL_CTL_ADD, taken, &event) < 0 ||
            (connect_inside(ports, connection) < 0 && connect_failed(ports, connection) < 0))
                end_connection(ports, connection, true);
}

static void poll_ports(struct ports *ports) {
        struct epoll_event events[EVENTS];
        int count;

        listen_to(ports, ports->connections < ports->most && !ports->rests);
        count = epoll_wait(ports->waits, events, EVENTS, ports->rests ? REST_MS : -1);
        ports->rests = ports->rests && count > 0;
        for (int i = 0; i < count; i++) {
                const enum source *source = events[i].data.ptr;

                if (*source != FROM_LISTENER)
                        see_to(ports, events[i].data.ptr, events[i].events);
                else if (ports->connections < ports->most && !ports->rests)
                        accept_connection(ports, events[i].data.ptr);
        }
        while (ports->over) {
                struct connection *connection = ports->over;

                ports->over = connection->next;
                free(connection);
        }
}

/* As many connections as there may be descriptors for. */
static void raise_file_limit(struct ports *ports) {
        struct rlimit files;

        ports->most = 1;
        if (getrlimit(RLIMIT_NOFILE, &files) < 0)
                return;
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
        if (files.rlim_cur < SPARE + 2)
                return;
        ports->most = (files.rlim_cur - SPARE) / 2;
        if (ports->most > SANDBOX_PORT_CONNECTIONS_MAX)
                ports->most = SANDBOX_PORT_CONNECTIONS_MAX;
        make_splice_pipes(ports);
}

void sandbox_ports_main(const int *listeners, const uint16_t *numbers, size_t count) {
        static struct ports ports;

        prctl(PR_SET_NAME, "berth-ports");
        signal(SIGPIPE, SIG_IGN);
        ports.waits = epoll_create1(EPOLL_CLOEXEC);
        raise_file_limit(&ports);
        if (ports.waits < 0)
                _exit(EXIT_FAILURE);
        for (size_t i = 0; i < count; i++) {
                struct listener *listener = &ports.listeners[ports.listener_count++];
                struct epoll_event event = { .data.ptr = listener };

                *listener = (struct listener){ FROM_LISTENER, listeners[i], numbers[i] };
                if (epoll_ctl(ports.waits, EPOLL_CTL_ADD, listener->socket, &event) < 0)
                        _exit(EXIT_FAILURE);
        }
        for (;;)
                poll_ports(&ports);
}
