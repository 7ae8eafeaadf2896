/* SPDX-License-Identifier: Apache-2.0 */
/* What tells the services apart, as data: protocol, names, hosts, and the IAM actions behind operations. */
#ifndef BERTH_PROVIDERS_AWS_CLIENT_SERVICE_FACTS_H
#define BERTH_PROVIDERS_AWS_CLIENT_SERVICE_FACTS_H

#include "base/strbuf.h"
#include "providers/aws/client/aws_client.h"

enum service_protocol {
        PROTOCOL_REST_JSON, /* Lambda */
        PROTOCOL_REST_XML,  /* S3 */
        PROTOCOL_JSON,      /* JSON 1.1: ECR, Logs, tagging; 1.0: DynamoDB: POST / with X-Amz-Target */
        PROTOCOL_QUERY      /* IAM, STS, EC2: POST / of a form, XML comes back */
};

struct service {
        const char *name;         /* for costs and messages */
        const char *signing_name; /* in the credential scope */
        const char *action;       /* prefix of IAM actions: "tag" of "tag:GetResources" */
        const char *variable;     /* AWS_ENDPOINT_URL_<this> */
        const char *setting;      /* the service's key in a [services] section */
        const char *target;       /* JSON: what stands before the operation in X-Amz-Target */
        const char *content_type; /* JSON: where it is not that of 1.1; else NULL */
        const char *version;      /* query: the API version */
        const char *host;         /* %f "-fips" or "", %r region, %s the partition's domain */
        const char *host_dual;    /* for IPv6 too; %d the partition's dual-stack domain */
        enum service_protocol protocol;
};

const struct service *service_facts(enum aws_service service);

/* The IAM action that allows an operation: "s3:ListBucket" for HeadBucket. */
void service_action(enum aws_service service, const char *operation, struct strbuf *ret);

#endif
