/* SPDX-License-Identifier: Apache-2.0 */
/* HMAC-SHA-256 as webhooks sign, and comparisons that take the same time wherever texts differ. */
#ifndef BERTH_GITOPS_SIGNATURE_H
#define BERTH_GITOPS_SIGNATURE_H

#include "base/digest.h"

#include <stdbool.h>

/* Of bytes that come piece by piece. */
struct signature {
        struct digest_stream *inner;
        uint8_t outer_key[64];
};

void signature_begin(struct signature *signature, const char *secret);
void signature_add(struct signature *signature, const void *data, size_t length);
/* Lower-case hex of all bytes so far; ends it and wipes what is left of the secret. `hex` may be NULL: only that. */
void signature_end(struct signature *signature, char hex[SHA256_HEX_SIZE]);

bool signature_same(const char *text, const char *other);

#endif
