/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libgit2 gives one number and a sentence for nearly everything. What its callbacks saw decides first; then words in
 * the sentence, which are those of curl, libssh2 and the usual servers; what is left is a server that could not be
 * reached.
 */
#include "gitops/git/remote_failure.h"

#include "gitops/git/unreadable.h"

#include <string.h>

static const struct {
        enum git_failure failure;
        const char *words;
} sayings[] = {
        { GIT_NOT_FOUND, "status code: 404" },       { GIT_NOT_FOUND, "status code: 410" },
        { GIT_NOT_FOUND, "repository not found" },   { GIT_NOT_FOUND, "not exported" },
        { GIT_NOT_FOUND, "does not exist" },         { GIT_NOT_FOUND, "not appear to be a git" },
        { GIT_NOT_FOUND, "no such repository" },     { GIT_HOST_UNTRUSTED, "cannot redirect" },
        { GIT_HOST_UNTRUSTED, "certificate" },       { GIT_HOST_UNTRUSTED, "hostkey" },
        { GIT_HOST_UNTRUSTED, "host key" },          { GIT_AUTHENTICATION, "status code: 401" },
        { GIT_AUTHENTICATION, "status code: 403" },  { GIT_AUTHENTICATION, "authentication" },
        { GIT_AUTHENTICATION, "permission denied" }, { GIT_LOCAL, "no space left on device" },
        { GIT_LOCAL, "read-only file system" },
};

static enum git_failure classify_failure(const struct remote_failure *found, const char *words) {
        if (found->over_limit || found->out_of_memory)
                return GIT_OVER_LIMIT;
        if (found->untrusted)
                return GIT_HOST_UNTRUSTED;
        if (found->refused || found->unasked)
                return GIT_AUTHENTICATION;
        for (size_t i = 0; i < sizeof(sayings) / sizeof(sayings[0]); i++) {
                if (strcasestr(words, sayings[i].words))
                        return sayings[i].failure;
        }
        return found->unauthorised ? GIT_AUTHENTICATION : GIT_UNREACHABLE;
}

/* "shallow ID" among the refs, which libgit2 reads since 1.7, is to older ones an invalid line; to all it is an id of SHA-256. */
static bool has_odd_refs(const char *words) {
        return strcasestr(words, "error parsing REF pkt-line") != NULL;
}

bool remote_failure_is_known(const struct remote_failure *found) {
        return found->untrusted || found->refused || found->unasked || found->unauthorised ||
               found->over_limit || found->out_of_memory;
}

static int fail_behind_proxy(const struct proxy *proxy, const char *host, const char *words,
                             enum git_failure failure, enum git_failure *ret_failure, struct error *err) {
        if (strcasestr(words, "proxy authentication"))
                return FAIL(GIT_AUTHENTICATION,
                            "the proxy %s asks for a user and a password, and none that it takes are given: "
                            "HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT",
                            proxy->name);
        if (strcasestr(words, "proxy returned unexpected status"))
                return FAIL(
                        GIT_UNREACHABLE,
                        "the proxy %s does not connect to %s: allow it there, or list the host in NO_PROXY "
                        "(%s)",
                        proxy->name, host, words);
        return FAIL(failure, "through the proxy %s: %s", proxy->name, words);
}

int remote_failure_report(const struct remote_failure *found, const struct url *url,
                          const struct proxy *proxy, size_t pack_bytes, const char *words,
                          enum git_failure *ret_failure, struct error *err) {
        enum git_failure failure = classify_failure(found, words);
        const char *host = url->host ? url->host : url->path;
        bool ssh = url->scheme == URL_SSH;

        if (found->over_limit)
                return FAIL(failure, "the repository is larger than the %zu bytes that it may have on disk",
                            pack_bytes);
        if (found->out_of_memory)
                return FAIL(failure, OUT_OF_MEMORY);
        if (found->untrusted && ssh)
                return FAIL(failure, "%s has a host key that credentials.knownHostsFile does not vouch for",
                            host);
        if (found->untrusted)
                return FAIL(failure,
                            "%s%s%s has a TLS certificate that is not trusted: by an unknown authority "
                            "(credentials.caFile names one of your own), expired, or for another name (an"
                            " address is not a name)",
                            host, proxy ? ", or else the proxy " : "", proxy ? proxy->name : "");
        if (found->unasked)
                return FAIL(failure, "%s asks for credentials, and none that it takes are given (%s)", host,
                            ssh ? "credentials.sshKeyFile" : "credentials.passwordFile");
        if (found->refused)
                return FAIL(failure, "%s does not accept the %s", host,
                            ssh ? "ssh key for this user, or the key cannot be read"
                                : "user name and password");
        if (strcasestr(words, "object format"))
                return FAIL(GIT_LOCAL, "the repository at %s cannot be read: " UNREADABLE_SHA256 " (%s)",
                            host, words);
        if (has_odd_refs(words))
                return FAIL(
                        GIT_LOCAL,
                        "the refs that %s lists cannot be read: the repository is shallow (run git fetch --unshallow "
                        "there, or clone it again without --depth), or " UNREADABLE_SHA256 "; git rev-parse "
                        "--is-shallow-repository --show-object-format tells which (%s)",
                        host, words);
        return proxy ? fail_behind_proxy(proxy, host, words, failure, ret_failure, err)
                     : FAIL(failure, "%s", words);
}
