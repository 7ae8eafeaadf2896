/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 by tables of routes, to the letter of RFC 9112 (README.md says why by no library). Each
 * connection has a thread of its own, so that a route may wait, for its caller or for anything
 * else, and delays no other client; how many there are is bounded (server/seats.h). With a
 * certificate (server/tls.h) clients that come by TCP speak TLS; without one it belongs on
 * loopback, or behind a proxy that has it.
 *
 * A request's head is judged before it is routed (server/head.h). Its body is given to the route
 * piece by piece, as it comes, and is kept nowhere; an answer may be given whole, or read piece by
 * piece as its client takes it. Connections are kept for the next request, but not after a refused
 * one, or one whose body was not read: the bytes that follow are not taken for a request.
 */
#ifndef BERTH_SERVER_SERVER_H
#define BERTH_SERVER_SERVER_H

#include "base/arena.h"
#include "base/error.h"
#include "base/interrupt.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SERVER_PARAMETERS 4

struct head_pair;
struct server_route;
struct tls;

/* One request, from its head to the end of its answer; of one thread. */
struct server_request {
        const struct server_route *route;
        void *context;       /* the server's */
        void *data;          /* the route's own */
        struct arena *arena; /* lives as long as the request */
        const char *method, *path;
        const char *parameters[SERVER_PARAMETERS];
        const struct head_pair *query; /* in its order */
        size_t query_count;
};

enum server_seat {
        SERVER_WORKS, /* 503 where all seats are taken */
        /* answered even if all seats are taken: at once, in a few bytes, and without a body */
        SERVER_PROBE
};

/* All are called on the connection's thread, and may wait (server_wait()); those that are NULL are left out, but `answer`. */
struct server_route {
        const char *method; /* GET is HEAD too */
        const char *
                path; /* "/hooks/{name}": a part that is not empty; "{path...}" at the end: all that is left */
        enum server_seat seat;
        unsigned mark;     /* the routes' own, for what they have in common: nothing here looks at it */
        const void *about; /* the same: what describes it */
        uint64_t
                body_max; /* bytes; 0: no body is taken; of more that comes in chunks the route sees no end */
        /*
         * The head is there, the body not yet; then a piece of it. Both may answer already: what is left of the body is not read
         * then, and the connection ends.
         */
        void (*begin)(struct server_request *request);
        void (*take)(struct server_request *request, const void *bytes, size_t length);
        void (*answer)(struct server_request *request);
        /* Always called, at last, where `begin` was (or would have been): also where the client left in between. */
        void (*end)(struct server_request *request);
        void (*refused)(void *context,
                        unsigned status); /* the request was for this route, and answered before `begin` */
};

struct server_config {
        int sockets[2]; /* that listen; taken over, whatever comes of it */
        size_t socket_count;
        const struct server_route *routes; /* borrowed, as all below but `hosts` */
        size_t route_count;
        void *context;
        const char *const *
                hosts; /* names that clients may call it by, besides localhost and loopback addresses; copied */
        size_t host_count;
        bool any_host;
        bool behind_proxy; /* pages may have come by https */
        struct tls *tls;   /* for all connections but those of Unix sockets; NULL: none speaks it */
        size_t working;    /* requests at a time; 0 for 128. Descriptors bound it further */
        /* The form of answers that no route gives, by server_answer(); `why` is a sentence. NULL: plain text. Any thread's. */
        void (*say)(struct server_request *request, unsigned status, const char *why);
        /* Each answer, once it is there and before it is sent: how long its request took from its head on. Any thread's; or NULL. */
        void (*answered)(struct server_request *request, unsigned status, int64_t took_us);
        void (*shook_hands)(void *context, bool made); /* a handshake of TLS has ended; as above */
        int64_t patience_ms;                           /* see seats.h; 0 for 60 s */
        int quiet_ms; /* after which an event stream says that it lives; 0 for 15 s */
};

struct server;
/* Answers from then on, by threads of its own. */
int server_start(const struct server_config *config, struct server **ret, struct error *err) MUST_USE;
/*
 * Ends what is under way: server_wait() returns SERVER_STOPS to routes that wait, and what they
 * answer then is sent for two more seconds. Returns when all routes have. NULL is fine.
 */
void server_stop(struct server *server);

/* Connections now: those that wait for a request's head or in a handshake, and those whose request is under way. */
void server_count_connections(struct server *server, size_t *ret_waiting, size_t *ret_working);

/* --- for routes --- */

/* The value of the one field of that name; NULL if absent, or more than one. */
const char *server_header(const struct server_request *request, const char *name);
/* Whether there is any field of that name. */
bool server_has_header(const struct server_request *request, const char *name);
/* The user at the other end, by the kernel's word: false if the connection is of no Unix socket. */
bool server_peer_user(const struct server_request *request, uid_t *ret);
/* The first of that name in the query; NULL if absent. */
const char *server_query(const struct server_request *request, const char *name);

/*
 * One answer a request; what is added to it comes before it. Bytes are copied. Control characters
 * in values become blanks. `type`: NULL for no bytes.
 */
void server_add_header(struct server_request *request, const char *name, const char *value);
void server_answer(struct server_request *request, unsigned status, const char *type, const void *bytes,
                   size_t length);
void server_answer_text(struct server_request *request, unsigned status, const char *text);

/* An answer that is read as its client takes it, by the connection's thread. */
struct server_stream {
        void *context;
        /* At most `size` bytes: how many; 0 at the end; -1 where it broke off, which the client then sees. May wait. */
        ssize_t (*read)(void *context, struct server_request *request, char *buffer, size_t size);
        void (*end)(void *context); /* called once, however it ended */
        int64_t length;             /* in all; -1: not known */
};
void server_answer_stream(struct server_request *request, unsigned status, const char *type,
                          const struct server_stream *stream);
/*
 * Answers with the bytes of a descriptor (a pipe, a file, a socket), which is taken over, up to its
 * end. Of text/event-stream a comment is sent every 15 s in which nothing came, between two events:
 * proxies and clients know then that it lives. If the client leaves, the descriptor is closed, and
 * a writer into it gets EPIPE.
 */
void server_answer_descriptor(struct server_request *request, unsigned status, const char *type,
                              int descriptor);

enum server_wait { SERVER_READY, SERVER_TIME, SERVER_LEFT, SERVER_STOPS };
/*
 * Waits for `events` of the descriptor (-1: for nothing), at most `timeout_ms` (-1: forever);
 * SERVER_LEFT if the client closed its end, SERVER_STOPS if the server must stop: the route should
 * give up then.
 */
enum server_wait server_wait(struct server_request *request, int descriptor, short events, int timeout_ms);

/*
 * Raised to INTERRUPT_NOW once the client has left, or the server is to stop: for work that cannot wait by server_wait(). It lives
 * as long as the request, its stream and its `end`.
 */
const struct interrupt *server_interrupt(struct server_request *request);

#endif
