/* SPDX-License-Identifier: Apache-2.0 */
/* From a call to the HTTP request that makes it: host, path, query, headers, body, signature. Pure. */
#ifndef BERTH_PROVIDERS_AWS_CLIENT_REQUEST_H
#define BERTH_PROVIDERS_AWS_CLIENT_REQUEST_H

#include "http/http.h"
#include "providers/aws/client/aws_client.h"
#include "providers/aws/client/endpoint.h"
#include "providers/aws/client/sigv4.h"

#define REQUEST_HEADERS_MAX (AWS_HEADERS_MAX + 8)

struct signed_request {
        const char *method;
        struct strbuf url;
        struct strbuf host;
        struct strbuf form; /* the body of the query protocol */
        struct strbuf checksum;
        struct sigv4_result signature;
        const char *body; /* borrowed from the call, or from `form`; NULL for none */
        size_t body_length;
        struct http_header headers[REQUEST_HEADERS_MAX];
        size_t header_count;
};
#define SIGNED_REQUEST_INIT \
        { 0 }
void signed_request_release(struct signed_request *request); /* wipes */
#define SIGNED_REQUEST_CLEANUP __attribute__((cleanup(signed_request_release)))

/* `keys` NULL: unsigned. `keys` and `request` must outlive `ret`. `ret` must be as SIGNED_REQUEST_INIT. */
void request_sign(const struct aws_request *request, const struct endpoint *endpoint,
                  const struct sigv4_keys *keys, int64_t wall_ms, struct signed_request *ret);

/* Its URL, without a signature; the operation is of S3. */
void request_url(const struct aws_request *request, const struct endpoint *endpoint, struct strbuf *ret);
/* The URL of a request to S3 that another client sends: sigv4_presign(). */
void request_presign(const struct aws_request *request, const struct endpoint *endpoint,
                     const struct sigv4_keys *keys, int64_t wall_ms, int64_t seconds, struct strbuf *ret);

#endif
