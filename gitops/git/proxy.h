/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxy on the way to a server by https, as the environment names it and curl and git read it. The controller chooses it,
 * whose environment it is; the worker checks it, and lets nothing else through to libgit2.
 */
#ifndef BERTH_GITOPS_GIT_PROXY_H
#define BERTH_GITOPS_GIT_PROXY_H

#include "base/arena.h"
#include "base/error.h"
#include "gitops/git/url.h"

#include <stdint.h>

struct proxy {
        const char *url;    /* as libgit2 takes it, with a port; it may hold a password: never in a message */
        const char *name;   /* HOST:PORT, for messages */
        const char *secret; /* the password as it stands in `url`; NULL: none */
        uint16_t port;
};

/*
 * What https_proxy, HTTPS_PROXY, all_proxy or ALL_PROXY says, the first of them that is not empty; NULL where none is, where `url` is
 * not https, or where no_proxy or NO_PROXY has its host. Borrowed from the environment.
 */
const char *proxy_for(const struct url *url);

/* [http://|https://][USER[:PASSWORD]@]HOST[:PORT]; without a port 1080 or 443, as curl has it. The error does not quote `text`. */
int proxy_parse(const char *text, struct arena *arena, struct proxy *ret, struct error *err) MUST_USE;

/* Whether a list of names, by commas or blanks, has the host or a domain above it; "*" is all. Pure; letters of any case. */
bool proxy_is_excepted(const char *list, const char *host);

#endif
