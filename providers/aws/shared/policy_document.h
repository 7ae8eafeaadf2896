/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policy documents: those that Berth writes, and what two of them have in common. Pure.
 *
 * AWS keeps documents as they were written: one action as a text or as a list of one, lists and
 * statements in any order. policy_document_normalise() brings all of these to one form, so that
 * only a difference in meaning is one.
 */
#ifndef BERTH_PROVIDERS_AWS_SHARED_POLICY_DOCUMENT_H
#define BERTH_PROVIDERS_AWS_SHARED_POLICY_DOCUMENT_H

#include "base/arena.h"

#include <jansson.h>
#include <stdbool.h>

/* Lambda may assume the role. A new reference, here and below. */
json_t *policy_document_trust(void);

struct policy_place {
        const char *partition, *region, *account, *prefix;
        const char *environment; /* the one that the role is for; NULL: all of the prefix */
        bool attaches;           /* functions may be in networks of VPCs */
};
/*
 * What a function needs and no more: to write its logs, for one environment those of its own log group. No object of the bucket
 * and no key: files of sessions come and go by presigned requests, whose rights are those of the server that signed them. With
 * `attaches` also what Lambda itself needs to put functions into a VPC, which the functions may not use.
 */
#define POLICY_NETWORK_SID "JoinNetworks"
json_t *policy_document_execution(const struct policy_place *place);
/* The Deny that comes with `attaches`, whatever `place` says of it. */
json_t *policy_document_network_deny(const struct policy_place *place);

/* The bucket's statement against unencrypted connections; its Sid marks it as Berth's. */
#define POLICY_TLS_SID "BerthTlsOnly"
json_t *policy_document_tls_statement(const char *partition, const char *bucket);

/* What goes by the endpoint of S3 of an isolated network: requests about this bucket alone. */
json_t *policy_document_endpoint(const char *partition, const char *bucket);

/* A copy in normal form; a document or a single statement. */
json_t *policy_document_normalise(const json_t *document);
/* NULL where the text is no JSON object. */
json_t *policy_document_parse(const char *text);

/* Whether the bucket policy's text has `statement` under its Sid, in any form. A NULL text has nothing. */
bool policy_document_has(const char *text, const json_t *statement);
/*
 * The bucket policy's text with `statement` under its Sid, other statements as they were, and a Deny that stood under that
 * Sid without it; compact, to be released with free(). A NULL text gives a document with that one alone; NULL is returned
 * where the text is no policy.
 */
char *policy_document_with(const char *text, const json_t *statement);

#endif
