/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names to addresses, by DNS: the name servers of the machine's /etc/resolv.conf, as it was when the resolver began. Neither
 * /etc/hosts nor search domains are looked at: a name means here what it means everywhere. By c-ares, without threads, so that the
 * process may be kept from every file afterwards.
 *
 * One thread. Nothing is kept: each question is asked again.
 */
#ifndef BERTH_EGRESS_RESOLVER_H
#define BERTH_EGRESS_RESOLVER_H

#include "base/error.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define RESOLVE_ADDRESSES_MAX 64
#define RESOLVE_POLLED_MAX 32

struct resolve_answer {
        const char *problem; /* NULL: there are addresses; a literal, or c-ares's */
        struct sockaddr_storage addresses[RESOLVE_ADDRESSES_MAX]; /* with the port; IPv4 first */
        size_t count;
        bool cut; /* there were more of them, which were not looked at: none may be used */
};

struct resolver;

/* Loads its library and reads /etc/resolv.conf. */
int resolver_open(struct resolver **ret, struct error *err) MUST_USE;
void resolver_close(struct resolver *resolver); /* NULL is fine */

struct resolve_question;
typedef void resolve_told(void *context, const struct resolve_answer *answer);

/*
 * `told` is called once, in here or in resolver_process(), unless the question is dropped before. The question lives until then. NULL
 * where it was told in here.
 */
struct resolve_question *resolver_ask(struct resolver *resolver, const char *host, uint16_t port,
                                      resolve_told *told, void *context);
void resolver_drop(struct resolve_question *question);

/* What to poll for; how many, and the milliseconds until resolver_process() must be called anyway (at most `most`). */
size_t resolver_poll(const struct resolver *resolver, struct pollfd ret[RESOLVE_POLLED_MAX], int most,
                     int *ret_timeout);
void resolver_process(struct resolver *resolver, const struct pollfd *polled, size_t count);

#endif
