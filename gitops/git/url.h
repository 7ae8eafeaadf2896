/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a repository is. Only what is understood whole is let through to libgit2: no other schemes ("ext::"), no host or
 * path that a remote shell or ssh could take for an option, no control characters, no password.
 */
#ifndef BERTH_GITOPS_GIT_URL_H
#define BERTH_GITOPS_GIT_URL_H

#include "base/arena.h"
#include "base/error.h"

#include <stdbool.h>

enum url_scheme { URL_HTTPS, URL_SSH, URL_GIT, URL_FILE };

struct url {
        enum url_scheme scheme;
        const char
                *text; /* as libgit2 takes it: the host in lower case, without a user where https has one */
        const char *user; /* or NULL */
        const char *host; /* lower case, without brackets; NULL with URL_FILE */
        const char *port; /* digits, or NULL for the scheme's own */
        const char *path; /* of a file: absolute, decoded */
};

int url_parse(const char *text, struct arena *arena, struct url *ret, struct error *err) MUST_USE;

/* A name, an IPv4 address, or an IPv6 address in brackets; 1 to 65535. */
bool url_is_host(const char *text);
bool url_is_port(const char *text);

#endif
