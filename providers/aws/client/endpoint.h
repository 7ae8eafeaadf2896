/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a service is: region and partition to host, and the settings that put something else in its place. In the
 * SDKs' order (docs: "Service-specific endpoints" of the AWS SDKs and Tools Reference Guide):
 *
 *     the Stack's aws.endpointUrl
 *     AWS_ENDPOINT_URL_<SERVICE>, AWS_ENDPOINT_URL
 *     endpoint_url of the service in the profile's [services] section, endpoint_url of the profile
 *     the partition's host, with AWS_USE_FIPS_ENDPOINT and AWS_USE_DUALSTACK_ENDPOINT
 *
 * AWS_IGNORE_CONFIGURED_ENDPOINT_URLS (or ignore_configured_endpoint_urls) sets aside the second and third line.
 */
#ifndef BERTH_PROVIDERS_AWS_CLIENT_ENDPOINT_H
#define BERTH_PROVIDERS_AWS_CLIENT_ENDPOINT_H

#include "base/error.h"
#include "providers/aws/client/aws_client.h"
#include "providers/aws/client/partition.h"
#include "providers/aws/client/profiles.h"

#include <stdbool.h>

struct endpoint_settings {
        const char *region;
        const char *stack_url; /* aws.endpointUrl, or NULL */
        const struct profiles *profiles;
        const char *profile;
};

struct endpoint {
        char *scheme; /* "https" */
        char *host;   /* "lambda.eu-west-1.amazonaws.com", "127.0.0.1:4566" */
        char *prefix; /* "" or "/path", before every request's path */
        char *signing_region;
        char *configured_by; /* the setting that named it, for messages; NULL where the region did */
        bool path_style;     /* S3: the bucket in the path; S3 Control: no account before the host */
};

int endpoint_resolve(const struct endpoint_settings *settings, enum aws_service service, struct endpoint *ret,
                     struct error *err) MUST_USE;
void endpoint_release(struct endpoint *endpoint);
#define ENDPOINT_CLEANUP __attribute__((cleanup(endpoint_release)))

/* Whether a bucket can be part of a host name under a TLS wildcard certificate: a DNS label, no dots. */
bool endpoint_bucket_fits_host(const char *bucket);

#endif
