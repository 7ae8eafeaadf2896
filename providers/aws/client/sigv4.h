/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AWS Signature Version 4: a pure function from a request, credentials, a time, a region and a service to the headers
 * that prove who sent it. Source: "Signature Version 4 signing process" in the IAM User Guide; where it leaves room,
 * botocore's signers are the judge (tests compare with them).
 *
 * S3 differs from all others in two things: its path is encoded once and taken as it is (no "." or ".." resolved, no
 * slashes merged), and the payload's hash must travel as x-amz-content-sha256.
 */
#ifndef BERTH_PROVIDERS_AWS_CLIENT_SIGV4_H
#define BERTH_PROVIDERS_AWS_CLIENT_SIGV4_H

#include "base/digest.h"
#include "base/strbuf.h"

#include <stddef.h>
#include <stdint.h>

#define SIGV4_DATE_SIZE 17 /* "20260131T120000Z" with the NUL */

struct sigv4_header {
        const char *name; /* any case */
        const char *value;
};

struct sigv4_request {
        const char *method;
        const char *path;  /* as it goes over the wire, encoded; "" means "/" */
        const char *query; /* as it goes over the wire, encoded, without "?"; "" for none */
        /* All headers to be signed: `host` must be there; no authorization, x-amz-date, -security-token or
           -content-sha256: those are ours to add. The same name may stand twice. */
        const struct sigv4_header *headers;
        size_t header_count;
        const void *body;
        size_t body_length;
        const char
                *payload_hash; /* of a body that is not at hand: its SHA-256 in hex; NULL: that of `body` */
        const char *service;   /* the signing name: "lambda", "s3" */
        const char *region;    /* the signing region */
};

struct sigv4_keys {
        const char *access_key;
        const char *secret_key;
        const char *token; /* NULL: none */
};

/* What signing gives: three or four headers to send, and the steps that lead there, for tests and debugging. */
struct sigv4_result {
        char date[SIGV4_DATE_SIZE];         /* x-amz-date */
        char payload_hash[SHA256_HEX_SIZE]; /* x-amz-content-sha256, to be sent for S3 */
        struct strbuf authorization;        /* authorization */
        struct strbuf canonical_request;    /* holds the session token */
        struct strbuf string_to_sign;
};
#define SIGV4_RESULT_INIT                                                           \
        {                                                                           \
                .authorization = STRBUF_SECRET, .canonical_request = STRBUF_SECRET, \
                .string_to_sign = STRBUF_SECRET,                                    \
        }
void sigv4_result_release(struct sigv4_result *result); /* wipes */
#define SIGV4_RESULT_CLEANUP __attribute__((cleanup(sigv4_result_release)))

/* "20260131T120000Z" from milliseconds since the epoch. */
void sigv4_date(int64_t wall_ms, char date[SIGV4_DATE_SIZE]);

/* `date` as sigv4_date() gives it. `ret` must be as SIGV4_RESULT_INIT. Cannot fail. */
void sigv4_sign(const struct sigv4_request *request, const struct sigv4_keys *keys, const char *date,
                struct sigv4_result *ret);

/*
 * The query of a presigned request, with the signature, encoded, without "?": request->query first.
 * It is good for `seconds` from `date` on. Only `host` should be among the headers: the sender must
 * send the same. A body is not signed.
 */
void sigv4_presign(const struct sigv4_request *request, const struct sigv4_keys *keys, const char *date,
                   int64_t seconds, struct strbuf *ret_query);

/* The signature of a text as it is: of the policy of a form, in base64. */
void sigv4_sign_text(const struct sigv4_keys *keys, const char *date, const char *region, const char *service,
                     const char *text, char hex[SHA256_HEX_SIZE]);

#endif
