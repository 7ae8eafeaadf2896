/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to S3 that a client without keys makes: they are good for one object, or one folder,
 * until their time is over, and say nothing of the keys but their id ("Authenticating Requests:
 * Using Query Parameters", "Authenticating Requests in Browser-Based Uploads Using POST" in the S3
 * API Reference). A session token goes with them. Nothing is sent.
 */
#ifndef BERTH_PROVIDERS_AWS_CLIENT_AWS_PRESIGN_H
#define BERTH_PROVIDERS_AWS_CLIENT_AWS_PRESIGN_H

#include "providers/aws/client/aws_client.h"

/* Seven days: S3 takes no more. */
#define PRESIGN_SECONDS_MAX 604800

/*
 * A URL by which the object can be read, and no other; in the arena. Keys that end before it are an error: S3 would refuse it from
 * then on, and who holds it could not know why.
 */
int aws_presign_get(struct aws_client *client, const char *bucket, const char *key, int64_t seconds,
                    struct arena *arena, const char **ret_url, struct error *err) MUST_USE;

/* What a form may put where. */
struct aws_post_policy {
        const char *bucket;
        const char *key;    /* the object's key, or, with `is_prefix`, how keys begin: it ends with a slash */
        bool is_prefix;     /* the form then chooses the rest */
        uint64_t bytes_max; /* of the file; 0 is an empty one */
        const char *tagging; /* the object's tags as S3's XML, exactly; NULL: none may be set */
        const struct aws_query *
                more; /* other fields, exactly as they are ("x-amz-server-side-encryption"), ended by a NULL name; or NULL */
        int64_t seconds;
};

#define AWS_POST_FIELDS_MAX 16

/* Where the form goes, and its fields but for `key` of a prefix and `file`, which must come last. */
struct aws_post_form {
        const char *url;
        struct aws_query fields[AWS_POST_FIELDS_MAX];
        size_t count;
};

/* In the arena. An error as above; a prefix without a slash at its end, which other folders begin with, is one, too. */
int aws_presign_post(struct aws_client *client, const struct aws_post_policy *policy, struct arena *arena,
                     struct aws_post_form *ret, struct error *err) MUST_USE;

#endif
