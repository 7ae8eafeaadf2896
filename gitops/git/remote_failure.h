/* SPDX-License-Identifier: Apache-2.0 */
/* What went wrong between us and a server, as users see it. libgit2 tells much of it by words alone. */
#ifndef BERTH_GITOPS_GIT_REMOTE_FAILURE_H
#define BERTH_GITOPS_GIT_REMOTE_FAILURE_H

#include "gitops/git/git_parts.h"
#include "gitops/git/proxy.h"
#include "gitops/git/url.h"

/* What our callbacks found, and libgit2's codes where they are clear. */
struct remote_failure {
        bool untrusted;     /* certificate or host key */
        bool refused;       /* credentials, given and not accepted */
        bool unasked;       /* credentials, asked for and not there */
        bool unauthorised;  /* the server says so in some other way */
        bool over_limit;    /* larger than pack_bytes */
        bool out_of_memory; /* of what the worker may have */
};

#define OUT_OF_MEMORY                                                                                                   \
        "to read the repository takes more memory than the 256 MiB that Berth gives to it: it holds very large files, " \
        "or was made to do harm"

bool remote_failure_is_known(const struct remote_failure *found);

/* -1 with the failure and its message; `words` are libgit2's, cleaned. `proxy`: on the way to the server, or NULL. */
int remote_failure_report(const struct remote_failure *found, const struct url *url,
                          const struct proxy *proxy, size_t pack_bytes, const char *words,
                          enum git_failure *ret_failure, struct error *err) MUST_USE;

#endif
