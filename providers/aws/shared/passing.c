/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first row that fits counts. A caller that takes a code for an answer (stage_call()'s `codes`) is asked before this table.
 *
 * Sources: the errors that botocore's service models list for each operation, and for Lambda's messages, which no model has,
 * reports of users. An IAM role reaches Lambda, KMS and EC2 at different times, within seconds; a minute is what other tools wait.
 * A role that truly lacks a right gives the same answers, so `cause` says that in the end.
 */
#include "providers/aws/shared/passing.h"

#include <fnmatch.h>
#include <string.h>

#define SECONDS 1000LL
#define MINUTES (60 * SECONDS)

#define NO_INTERFACES                                                                             \
        "the function's execution role must be allowed ec2:CreateNetworkInterface, "              \
        "ec2:DescribeNetworkInterfaces and ec2:DeleteNetworkInterface, as in the managed policy " \
        "AWSLambdaVPCAccessExecutionRole; Lambda has refused it for a minute"
#define NOT_ASSUMED                                                                                    \
        "the function's execution role must exist and trust lambda.amazonaws.com; Lambda has refused " \
        "it for a minute"

static const struct passing table[] = {
        { AWS_LAMBDA,
          "*",
          "InvalidParameterValueException",
          { "cannot be assumed by Lambda" },
          NULL,
          MINUTES,
          NOT_ASSUMED },
        { AWS_LAMBDA,
          "*",
          "InvalidParameterValueException",
          { "CreateGrant", "valid principal" },
          NULL,
          MINUTES,
          NOT_ASSUMED },
        { AWS_LAMBDA,
          "*",
          "InvalidParameterValueException",
          { "role does not have permissions" },
          NULL,
          MINUTES,
          NO_INTERFACES },
        { AWS_LAMBDA,
          "*",
          "InvalidParameterValueException",
          { "throttled by EC2" },
          NULL,
          5 * MINUTES,
          NULL },
        /* "... make sure your function execution role have permission"; with "your request credentials" the caller lacks it. */
        { AWS_LAMBDA,
          "*",
          "AccessDeniedException",
          { "denied by EC2" },
          "request credentials",
          MINUTES,
          NO_INTERFACES },
        { AWS_LAMBDA, "*", "ResourceConflictException", { NULL }, NULL, 5 * MINUTES, NULL },
        { AWS_LAMBDA, "GetFunction", "ResourceNotFoundException", { NULL }, NULL, 10 * SECONDS, NULL },
        { AWS_LAMBDA,
          "*FunctionConcurrency",
          "ResourceNotFoundException",
          { NULL },
          NULL,
          10 * SECONDS,
          NULL },
        { AWS_LAMBDA, "*agResource", "ResourceNotFoundException", { NULL }, NULL, 10 * SECONDS, NULL },
        { AWS_LOGS, "*", "OperationAbortedException", { NULL }, NULL, MINUTES, NULL },
        { AWS_LOGS, "AssociateKmsKey", "ResourceNotFoundException", { NULL }, NULL, 10 * SECONDS, NULL },
        { AWS_ECR, "*", "RepositoryNotFoundException", { NULL }, NULL, MINUTES, NULL },
        { AWS_IAM, "*", "NoSuchEntity", { NULL }, NULL, MINUTES, NULL },
        { AWS_IAM, "*", "ConcurrentModification", { NULL }, NULL, MINUTES, NULL },
        { AWS_IAM, "*", "UnmodifiableEntity", { NULL }, NULL, MINUTES, NULL },
        { AWS_IAM, "DeleteRole", "DeleteConflict", { NULL }, NULL, MINUTES, NULL },
        { AWS_S3, "*", "NoSuchBucket", { NULL }, NULL, MINUTES, NULL },
        { AWS_S3, "*", "OperationAborted", { NULL }, NULL, MINUTES, NULL },
        { AWS_S3, "*", "ConditionalRequestConflict", { NULL }, NULL, MINUTES, NULL },
        { AWS_S3_CONTROL, "*", "NoSuchBucket", { NULL }, NULL, MINUTES, NULL },
        { AWS_S3_CONTROL, "*", "NoSuchResource", { NULL }, NULL, MINUTES, NULL },
        { AWS_S3_CONTROL, "*", "OperationAborted", { NULL }, NULL, MINUTES, NULL },
        { AWS_DYNAMODB, "*", "ResourceInUseException", { NULL }, NULL, MINUTES, NULL },
        { AWS_DYNAMODB, "*", "ResourceNotFoundException", { NULL }, NULL, MINUTES, NULL },
        { AWS_EC2, "*", "Invalid*.NotFound", { NULL }, NULL, MINUTES, NULL },
        { AWS_EC2, "*", "InvalidID", { NULL }, NULL, MINUTES, NULL },
        /* Lambda lets go of its network interfaces up to 40 minutes after the last function. */
        { AWS_EC2, "Delete*", "DependencyViolation", { NULL }, NULL, 45 * MINUTES, NULL },
};

static bool is_said(const struct passing *row, const char *message) {
        for (size_t i = 0; i < sizeof(row->words) / sizeof(row->words[0]); i++) {
                if (row->words[i] && !strstr(message, row->words[i]))
                        return false;
        }
        return !row->unless || !strstr(message, row->unless);
}

const struct passing *passing_find(const struct aws_request *request, const struct aws_response *response) {
        for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
                const struct passing *row = &table[i];

                if (row->service == request->service && fnmatch(row->operation, request->operation, 0) == 0 &&
                    fnmatch(row->code, response->error_code, 0) == 0 && is_said(row, response->error_message))
                        return row;
        }
        return NULL;
}
