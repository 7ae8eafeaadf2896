/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One delivery of a webhook, judged while it comes in: `X-Hub-Signature-256: sha256=HEX` (GitHub, Gitea, Forgejo) or
 * `X-Hub-Signature: sha256=HEX` (Bitbucket), an HMAC-SHA-256 of the body; or the secret itself, as `X-Gitlab-Token` or as the
 * password of basic authentication (Azure DevOps), whose user name may be any. The body is hashed and forgotten: a hook says that there may
 * be something to see, never what.
 */
#ifndef BERTH_GITOPS_HOOK_H
#define BERTH_GITOPS_HOOK_H

#include "base/digest.h"

#include <stdbool.h>

#define HOOK_BODY_MAX ((size_t)25 << 20) /* GitHub's own limit */

/* Values of headers, NULL where they are absent; borrowed for the call. */
struct hook_headers {
        const char *signature, *token, *event, *authorization;
};

struct hook {
        struct digest_mac *body;       /* NULL where nothing is hashed */
        char claimed[SHA256_HEX_SIZE]; /* "" where there is no signature */
        bool token_is_right;
        bool ping; /* the sender only tests the address */
};

void hook_begin(struct hook *hook, const char *secret, const struct hook_headers *headers);
void hook_add(struct hook *hook, const void *data, size_t length);
/* Whether the sender knows the secret. */
bool hook_end(struct hook *hook);
/* Releases one that did not come to its end; one that did, or was never begun (zeroed), is fine. */
void hook_release(struct hook *hook);

#endif
