/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/resolver.h"

#include "base/library.h"

#include <ares.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#define TRY_MS 2500
#define TRIES 3

#define CARES_SYMBOLS(X)     \
        X(ares_destroy)      \
        X(ares_freeaddrinfo) \
        X(ares_getaddrinfo)  \
        X(ares_init_options) \
        X(ares_library_init) \
        X(ares_process_fd)   \
        X(ares_strerror)     \
        X(ares_timeout)

CARES_SYMBOLS(LIBRARY_POINTER)
static const struct library_symbol cares_symbols[] = { CARES_SYMBOLS(LIBRARY_SYMBOL) };
static struct library cares = LIBRARY(CARES_SONAME, "libc-ares2", "resolving names", cares_symbols);

struct resolver {
        ares_channel channel;
        struct pollfd polled[RESOLVE_POLLED_MAX];
        size_t count;
};

struct resolve_question {
        resolve_told *told; /* NULL: it was dropped */
        void *context;
        uint16_t port;
        bool asking, done; /* resolver_ask() is still at it; it was told meanwhile */
};

/* Which sockets c-ares waits for. One beyond the room is not waited for, and its question times out. */
static void note_socket(void *data, ares_socket_t socket, int readable, int writable) {
        struct resolver *resolver = data;
        short events = (short)((readable ? POLLIN : 0) | (writable ? POLLOUT : 0));
        size_t i = 0;

        while (i < resolver->count && resolver->polled[i].fd != socket)
                i++;
        if (events == 0 && i < resolver->count)
                resolver->polled[i] = resolver->polled[--resolver->count];
        else if (events != 0 && i < RESOLVE_POLLED_MAX) {
                resolver->polled[i] = (struct pollfd){ .fd = socket, .events = events };
                resolver->count += i == resolver->count;
        }
}

int resolver_open(struct resolver **ret, struct error *err) {
        char by_dns[] = "b";
        struct resolver *resolver;
        struct ares_options options = { 0 };
        int status;

        if (library_load(&cares, err) < 0)
                return -1;
        if (!(resolver = calloc(1, sizeof(*resolver))))
                abort();
        options.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES;
        options.timeout = TRY_MS;
        options.tries = TRIES;
        options.lookups = by_dns;
        options.sock_state_cb = note_socket;
        options.sock_state_cb_data = resolver;
        status = sym_ares_library_init(ARES_LIB_INIT_ALL);
        if (status == ARES_SUCCESS)
                status = sym_ares_init_options(&resolver->channel, &options,
                                               ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES |
                                                       ARES_OPT_LOOKUPS | ARES_OPT_SOCK_STATE_CB);
        if (status != ARES_SUCCESS) {
                free(resolver);
                return error_set(err, "no names can be resolved: %s", sym_ares_strerror(status));
        }
        *ret = resolver;
        return 0;
}

void resolver_close(struct resolver *resolver) {
        if (!resolver)
                return;
        sym_ares_destroy(resolver->channel);
        free(resolver);
}

static void add_family(const struct ares_addrinfo *info, int family, uint16_t port,
                       struct resolve_answer *answer) {
        for (const struct ares_addrinfo_node *node = info->nodes; node; node = node->ai_next) {
                struct sockaddr_storage *address = &answer->addresses[answer->count];

                if (node->ai_family != family || (size_t)node->ai_addrlen > sizeof(*address))
                        continue;
                if (answer->count == RESOLVE_ADDRESSES_MAX) {
                        answer->cut = true;
                        return;
                }
                memcpy(address, node->ai_addr, (size_t)node->ai_addrlen);
                if (family == AF_INET)
                        ((struct sockaddr_in *)address)->sin_port = htons(port);
                else
                        ((struct sockaddr_in6 *)address)->sin6_port = htons(port);
                answer->count++;
        }
}

static void take_answer(void *context, int status, int timeouts, struct ares_addrinfo *info) {
        struct resolve_question *question = context;
        struct resolve_answer answer = { 0 };

        (void)timeouts;
        if (status == ARES_SUCCESS && info) {
                add_family(info, AF_INET, question->port, &answer);
                add_family(info, AF_INET6, question->port, &answer);
        }
        if (answer.count == 0)
                answer.problem = status == ARES_SUCCESS ? "it has no address" : sym_ares_strerror(status);
        if (info)
                sym_ares_freeaddrinfo(info);
        if (question->told)
                question->told(question->context, &answer);
        if (question->asking)
                question->done = true;
        else
                free(question);
}

struct resolve_question *resolver_ask(struct resolver *resolver, const char *host, uint16_t port,
                                      resolve_told *told, void *context) {
        struct ares_addrinfo_hints hints = { .ai_flags = ARES_AI_NOSORT, .ai_family = AF_UNSPEC };
        struct resolve_question *question = calloc(1, sizeof(*question));

        if (!question)
                abort();
        *question =
                (struct resolve_question){ .told = told, .context = context, .port = port, .asking = true };
        sym_ares_getaddrinfo(resolver->channel, host, NULL, &hints, take_answer, question);
        question->asking = false;
        if (!question->done)
                return question;
        free(question);
        return NULL;
}

/* c-ares cannot take one question back: its answer is dropped. */
void resolver_drop(struct resolve_question *question) {
        if (question)
                question->told = NULL;
}

size_t resolver_poll(const struct resolver *resolver, struct pollfd ret[RESOLVE_POLLED_MAX], int most,
                     int *ret_timeout) {
        struct timeval longest = { most / 1000, most % 1000 * 1000 }, wait;
        const struct timeval *next = sym_ares_timeout(resolver->channel, &longest, &wait);

        *ret_timeout = next ? (int)(next->tv_sec * 1000 + (next->tv_usec + 999) / 1000) : most;
        memcpy(ret, resolver->polled, resolver->count * sizeof(ret[0]));
        return resolver->count;
}

void resolver_process(struct resolver *resolver, const struct pollfd *polled, size_t count) {
        for (size_t i = 0; i < count; i++) {
                bool reads = polled[i].revents & (POLLIN | POLLERR | POLLHUP),
                     writes = polled[i].revents & POLLOUT;

                if (reads || writes)
                        sym_ares_process_fd(resolver->channel, reads ? polled[i].fd : ARES_SOCKET_BAD,
                                            writes ? polled[i].fd : ARES_SOCKET_BAD);
        }
        sym_ares_process_fd(resolver->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
}
