/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which algorithms an ssh server offers. libgit2 says of a server with which libssh2 has none in common that no keys could be
 * exchanged, and not which: so the worker asks for the offer itself, which a server makes to all before anything is secret. Only a
 * message comes of it.
 */
#ifndef BERTH_GITOPS_GIT_SSH_OFFER_H
#define BERTH_GITOPS_GIT_SSH_OFFER_H

#include "gitops/git/git_parts.h"
#include "gitops/git/url.h"

#include <stddef.h>
#include <stdint.h>

#define SSH_OFFER_LISTS 6
#define SSH_OFFER_MAX ((size_t)48 * 1024) /* bytes that are read of a server */

/* Names by commas, in the order of RFC 4253, 7.1: key exchange, host keys, ciphers and MACs to the server and from it. */
struct ssh_offer {
        const char *lists[SSH_OFFER_LISTS];
};

/* From all that the server has said: 1 with the offer, 0 where more must come, -1 where it is no ssh. Pure. */
int ssh_offer_read(const uint8_t *bytes, size_t length, struct arena *arena, struct ssh_offer *ret) MUST_USE;

/* Which of the lists have nothing that each libssh2 knows, and what the server should allow; NULL: none. Pure. */
const char *ssh_offer_objection(const struct ssh_offer *offer, struct arena *arena);

/* Connects, and waits for the offer for ten seconds at most. -1 where none came. */
int ssh_offer_ask(const char *host, const char *port, struct arena *arena, struct ssh_offer *ret) MUST_USE;

/* -1. In place of an error that no keys could be exchanged: what is missing; where that cannot be found out, the error stays. */
int ssh_offer_explain(const struct url *url, struct arena *arena, enum git_failure *ret_failure,
                      struct error *err) MUST_USE;

#endif
