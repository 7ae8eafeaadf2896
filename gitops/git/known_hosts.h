/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A known_hosts file of OpenSSH's (sshd(8)), brought into the form in which libssh2 reads it for one host: patterns
 * replaced by the host that they match, keys that are @revoked left out, certificate authorities too. Hashed names stay: libssh2
 * compares those. The verdict is libssh2's, and it knows nothing but what is here.
 */
#ifndef BERTH_GITOPS_GIT_KNOWN_HOSTS_H
#define BERTH_GITOPS_GIT_KNOWN_HOSTS_H

#include "base/strbuf.h"

/*
 * Appends lines. `port`: NULL or "22" for ssh's own. `type`: of keys, such as "ssh-ed25519"; NULL for all. Returns how many lines may
 * speak of the host.
 */
size_t known_hosts_select(const char *text, const char *host, const char *port, const char *type,
                          struct strbuf *ret);

#endif
