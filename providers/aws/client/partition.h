/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AWS's partitions: which one a region is in, and what it calls itself. Data of botocore's partitions.json and endpoint rules.
 * Credentials, ARNs and calls of one mean nothing in another.
 */
#ifndef BERTH_PROVIDERS_AWS_CLIENT_PARTITION_H
#define BERTH_PROVIDERS_AWS_CLIENT_PARTITION_H

#include "base/error.h"

#include <stdbool.h>

/* IAM is one for all regions, and where it is follows no rule: %f is "-fips" or nothing, %s and %d the domains. */
struct partition {
        const char *name;        /* "aws" */
        const char *prefix;      /* of its regions' names; "" for aws, which has all others */
        const char *domain;      /* "amazonaws.com" */
        const char *domain_dual; /* "api.aws" */
        const char *iam_region;  /* which IAM's calls are signed for */
        const char *iam_host;
        const char *iam_host_dual;                      /* for IPv6 too */
        const char *iam_host_fips, *iam_host_dual_fips; /* NULL: as above */
        const char *signin_domain; /* of `aws login`'s hosts, beside those for IPv6: "aws.amazon.com" */
        bool fips;
};

/* By its name's beginning, as the SDKs do for regions that are newer than they are. NULL and err on what names no region. */
const struct partition *partition_of_region(const char *region, struct error *err) MUST_USE;

/* A DNS label: lower-case letters, digits and hyphens inside. */
bool partition_is_label(const char *text);

#endif
