/* SPDX-License-Identifier: Apache-2.0 */
/* An image by name, and what is found out about it: ecr_resolve.h fills it in, then admission.h. Pure. */
#ifndef BERTH_PROVIDERS_AWS_REGISTRY_ECR_REFERENCE_H
#define BERTH_PROVIDERS_AWS_REGISTRY_ECR_REFERENCE_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

/* An image by name, what that name means today, and what stands behind it. Texts are static, or in the arena. */
struct ecr_reference {
        const char *
                repository; /* as ecr_uri.h knows it: its registry in front where that is another than the stack's */
        const char *tag;    /* or NULL where the digest is given */
        const char *digest; /* given, or NULL */
        /* the answer is not needed: a call that fails for watched ones only is not an error */
        bool watched;
        /* Results: */
        const char
                *resolved; /* the digest that the name leads to, of use or not; NULL where it leads nowhere */
        const char *
                problem; /* "registry", "repository", "missing", "denied", "unread", or of the digest itself: "index",
                                 "media-type", "size", "platform"; NULL: none known */
        const char *seen; /* of the digest itself: what was seen, to follow a name ("is an index of ...") */
        const char *message; /* the problem as a sentence without its full stop */
        /* Nothing known is wrong with it, but its platform could not be looked at: why, host and all. NULL: it was. */
        const char *unverified;
        const char *media_type, *platform; /* "linux/amd64"; NULL where not known */
        const char *runtime; /* the version of Berth's runtime in it; NULL: none, or not known */
        const char *config;  /* the digest of the configuration */
        int64_t size;        /* of the layers, as they are stored */
};

/* "REPOSITORY:TAG" or "REPOSITORY@DIGEST" of a reference. */
const char *ecr_reference_name(const struct ecr_reference *reference, struct arena *arena);
/* Sets a problem of the digest itself, and the message that follows from it. `problem` is static. */
void ecr_reference_refuse(struct ecr_reference *reference, const char *problem, const char *seen,
                          struct arena *arena);

#endif
