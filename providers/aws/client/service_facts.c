/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/client/service_facts.h"

#include <string.h>

/* Hosts as botocore's endpoint rules give them; IAM's, being global, are in endpoint.c. */
static const struct service services[AWS_SERVICE_COUNT] = {
        [AWS_LAMBDA] = { .name = "lambda",
                         .signing_name = "lambda",
                         .action = "lambda",
                         .variable = "LAMBDA",
                         .setting = "lambda",
                         .host = "lambda%f.%r.%s",
                         .host_dual = "lambda%f.%r.%d",
                         .protocol = PROTOCOL_REST_JSON },
        [AWS_ECR] = { .name = "ecr",
                      .signing_name = "ecr",
                      .action = "ecr",
                      .variable = "ECR",
                      .setting = "ecr",
                      .target = "AmazonEC2ContainerRegistry_V20150921",
                      .host = "api.ecr%f.%r.%s",
                      .host_dual = "ecr%f.%r.%d",
                      .protocol = PROTOCOL_JSON },
        [AWS_S3] = { .name = "s3",
                     .signing_name = "s3",
                     .action = "s3",
                     .variable = "S3",
                     .setting = "s3",
                     .host = "s3%f.%r.%s",
                     .host_dual = "s3%f.dualstack.%r.%s",
                     .protocol = PROTOCOL_REST_XML },
        [AWS_S3_CONTROL] = { .name = "s3-control",
                             .signing_name = "s3",
                             .action = "s3",
                             .variable = "S3_CONTROL",
                             .setting = "s3_control",
                             .host = "s3-control%f.%r.%s",
                             .host_dual = "s3-control%f.dualstack.%r.%s",
                             .protocol = PROTOCOL_REST_XML },
        [AWS_IAM] = { .name = "iam",
                      .signing_name = "iam",
                      .action = "iam",
                      .variable = "IAM",
                      .setting = "iam",
                      .version = "2010-05-08",
                      .protocol = PROTOCOL_QUERY },
        [AWS_STS] = { .name = "sts",
                      .signing_name = "sts",
                      .action = "sts",
                      .variable = "STS",
                      .setting = "sts",
                      .version = "2011-06-15",
                      .host = "sts%f.%r.%s",
                      .host_dual = "sts%f.%r.%d",
                      .protocol = PROTOCOL_QUERY },
        [AWS_LOGS] = { .name = "logs",
                       .signing_name = "logs",
                       .action = "logs",
                       .variable = "CLOUDWATCH_LOGS",
                       .setting = "cloudwatch_logs",
                       .target = "Logs_20140328",
                       .host = "logs%f.%r.%s",
                       .host_dual = "logs%f.%r.%d",
                       .protocol = PROTOCOL_JSON },
        [AWS_TAGGING] = { .name = "tagging",
                          .signing_name = "tagging",
                          .action = "tag",
                          .variable = "RESOURCE_GROUPS_TAGGING_API",
                          .setting = "resource_groups_tagging_api",
                          .target = "ResourceGroupsTaggingAPI_20170126",
                          .host = "tagging%f.%r.%s",
                          .host_dual = "tagging%f.%r.%d",
                          .protocol = PROTOCOL_JSON },
        [AWS_KMS] = { .name = "kms",
                      .signing_name = "kms",
                      .action = "kms",
                      .variable = "KMS",
                      .setting = "kms",
                      .target = "TrentService",
                      .host = "kms%f.%r.%s",
                      .host_dual = "kms%f.%r.%d",
                      .protocol = PROTOCOL_JSON },
        [AWS_SECRETS] = { .name = "secretsmanager",
                          .signing_name = "secretsmanager",
                          .action = "secretsmanager",
                          .variable = "SECRETS_MANAGER",
                          .setting = "secrets_manager",
                          .target = "secretsmanager",
                          .host = "secretsmanager%f.%r.%s",
                          .host_dual = "secretsmanager%f.%r.%d",
                          .protocol = PROTOCOL_JSON },
        [AWS_SSM] = { .name = "ssm",
                      .signing_name = "ssm",
                      .action = "ssm",
                      .variable = "SSM",
                      .setting = "ssm",
                      .target = "AmazonSSM",
                      .host = "ssm%f.%r.%s",
                      .host_dual = "ssm%f.%r.%d",
                      .protocol = PROTOCOL_JSON },
        [AWS_EC2] = { .name = "ec2",
                      .signing_name = "ec2",
                      .action = "ec2",
                      .variable = "EC2",
                      .setting = "ec2",
                      .version = "2016-11-15",
                      .host = "ec2%f.%r.%s",
                      .host_dual = "ec2%f.%r.%d",
                      .protocol = PROTOCOL_QUERY },
        [AWS_DYNAMODB] = { .name = "dynamodb",
                           .signing_name = "dynamodb",
                           .action = "dynamodb",
                           .variable = "DYNAMODB",
                           .setting = "dynamodb",
                           .target = "DynamoDB_20120810",
                           .content_type = "application/x-amz-json-1.0",
                           .host = "dynamodb%f.%r.%s",
                           .host_dual = "dynamodb%f.%r.%d",
                           .protocol = PROTOCOL_JSON },
        /* These two are asked for credentials only, unsigned: credentials_sso.c. */
        [AWS_SSO] = { .name = "sso",
                      .signing_name = "awsssoportal",
                      .action = "sso",
                      .variable = "SSO",
                      .setting = "sso",
                      .host = "portal.sso%f.%r.%s",
                      .host_dual = "portal.sso%f.%r.%d",
                      .protocol = PROTOCOL_REST_JSON },
        [AWS_SSO_OIDC] = { .name = "sso-oidc",
                           .signing_name = "sso-oauth",
                           .action = "sso-oauth",
                           .variable = "SSO_OIDC",
                           .setting = "sso_oidc",
                           .host = "oidc%f.%r.%s",
                           .host_dual = "oidc%f.%r.%d",
                           .protocol = PROTOCOL_REST_JSON },
};

const struct service *service_facts(enum aws_service service) {
        return &services[service];
}

const char *aws_service_name(enum aws_service service) {
        return services[service].name;
}

/* Where the action is not named like the operation ("Actions, resources, and condition keys" of each service). */
static const struct {
        enum aws_service service;
        const char *operation;
        const char *action;
} actions[] = {
        { AWS_LAMBDA, "Invoke", "InvokeFunction" },
        { AWS_LAMBDA, "InvokeWithResponseStream", "InvokeFunction" },
        /* Each item of a transaction needs the right to what is done to it; that to delete goes along in every policy of ours. */
        { AWS_DYNAMODB, "TransactWriteItems", "UpdateItem" },
        { AWS_S3, "HeadBucket", "ListBucket" },
        { AWS_S3, "ListObjects", "ListBucket" },
        { AWS_S3, "ListObjectsV2", "ListBucket" },
        { AWS_S3, "ListObjectVersions", "ListBucketVersions" },
        { AWS_S3, "ListMultipartUploads", "ListBucketMultipartUploads" },
        { AWS_S3, "ListBuckets", "ListAllMyBuckets" },
        { AWS_S3, "HeadObject", "GetObject" },
        { AWS_S3, "DeleteObjects", "DeleteObject" },
        { AWS_S3, "GetBucketLifecycleConfiguration", "GetLifecycleConfiguration" },
        { AWS_S3, "PutBucketLifecycleConfiguration", "PutLifecycleConfiguration" },
        { AWS_S3, "DeleteBucketLifecycle", "PutLifecycleConfiguration" },
        { AWS_S3, "GetBucketEncryption", "GetEncryptionConfiguration" },
        { AWS_S3, "PutBucketEncryption", "PutEncryptionConfiguration" },
        { AWS_S3, "DeleteBucketEncryption", "PutEncryptionConfiguration" },
        { AWS_S3, "GetPublicAccessBlock", "GetBucketPublicAccessBlock" },
        { AWS_S3, "PutPublicAccessBlock", "PutBucketPublicAccessBlock" },
        { AWS_S3, "DeletePublicAccessBlock", "PutBucketPublicAccessBlock" },
        { AWS_S3, "DeleteBucketTagging", "PutBucketTagging" },
};

/* For "not allowed" messages: the IAM action that the policy lacks. */
void service_action(enum aws_service service, const char *operation, struct strbuf *ret) {
        const char *name = operation;

        for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
                if (actions[i].service == service && strcmp(actions[i].operation, operation) == 0)
                        name = actions[i].action;
        }
        strbuf_printf(ret, "%s:%s", services[service].action, name);
}
