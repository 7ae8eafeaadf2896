/* SPDX-License-Identifier: Apache-2.0 */
/* Which errors pass by themselves, for how long, and what is said where they do not. */
#include "providers/aws/shared/passing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

struct row {
        enum aws_service service;
        const char *operation, *code, *message;
        int64_t limit_ms; /* 0: final */
        const char *cause;
};

/* The messages are AWS's own. */
static const struct row rows[] = {
        { AWS_LAMBDA, "CreateFunction", "InvalidParameterValueException",
          "The role defined for the function cannot be assumed by Lambda.", 60000,
          "trust lambda.amazonaws.com" },
        { AWS_LAMBDA, "CreateFunction", "InvalidParameterValueException",
          "Lambda was unable to configure access to your environment variables because the KMS key is invalid for "
          "CreateGrant. Please check your KMS key. KMS Exception: InvalidArnException KMS Message: ARN does not refer "
          "to a valid principal",
          60000, "trust lambda.amazonaws.com" },
        { AWS_LAMBDA, "CreateFunction", "InvalidParameterValueException",
          "The provided execution role does not have permissions to call CreateNetworkInterface on EC2",
          60000, "ec2:CreateNetworkInterface" },
        { AWS_LAMBDA, "UpdateFunctionConfiguration", "InvalidParameterValueException",
          "The provided execution role does not have permissions to call CreateNetworkInterface on EC2",
          60000, "ec2:CreateNetworkInterface" },
        { AWS_LAMBDA, "CreateFunction", "AccessDeniedException",
          "Your access has been denied by EC2, please make sure your function execution role have permission to "
          "CreateNetworkInterface. EC2 Error Code: UnauthorizedOperation. EC2 Error Message: You are not authorized to "
          "perform this operation.",
          60000, "ec2:CreateNetworkInterface" },
        { AWS_LAMBDA, "CreateFunction", "AccessDeniedException",
          "Your access has been denied by EC2, please make sure your request credentials have permission to "
          "DescribeSecurityGroups for sg-0123456789abcdef0. EC2 Error Code: UnauthorizedOperation.",
          0, NULL },
        { AWS_LAMBDA, "CreateFunction", "AccessDeniedException", "User is not authorized", 0, NULL },
        { AWS_LAMBDA, "CreateFunction", "InvalidParameterValueException", "Source image does not exist", 0,
          NULL },
        { AWS_LAMBDA, "UpdateFunctionConfiguration", "InvalidParameterValueException",
          "Your request has been throttled by EC2, please make sure you have enough API rate limit.", 300000,
          NULL },
        { AWS_LAMBDA, "UpdateFunctionCode", "ResourceConflictException", "", 300000, NULL },
        { AWS_LAMBDA, "TagResource", "ResourceConflictException", "", 300000, NULL },
        { AWS_LAMBDA, "UntagResource", "ResourceConflictException", "", 300000, NULL },
        { AWS_LAMBDA, "TagResource", "ResourceNotFoundException", "", 10000, NULL },
        { AWS_LAMBDA, "PutFunctionConcurrency", "ResourceNotFoundException", "", 10000, NULL },
        { AWS_LAMBDA, "GetFunction", "ResourceNotFoundException", "", 10000, NULL },
        { AWS_LAMBDA, "CreateFunction", "ResourceNotFoundException", "", 0, NULL },
        { AWS_LAMBDA, "CreateFunction", "CodeStorageExceededException", "", 0, NULL },
        { AWS_LOGS, "CreateLogGroup", "OperationAbortedException", "", 60000, NULL },
        { AWS_LOGS, "PutRetentionPolicy", "OperationAbortedException", "", 60000, NULL },
        { AWS_LOGS, "DeleteLogGroup", "OperationAbortedException", "", 60000, NULL },
        { AWS_LOGS, "AssociateKmsKey", "ResourceNotFoundException", "", 10000, NULL },
        { AWS_LOGS, "CreateLogGroup", "InvalidParameterException", "", 0, NULL },
        { AWS_ECR, "PutLifecyclePolicy", "RepositoryNotFoundException", "", 60000, NULL },
        { AWS_ECR, "ListTagsForResource", "RepositoryNotFoundException", "", 60000, NULL },
        { AWS_ECR, "DeleteRepository", "RepositoryNotEmptyException", "", 0, NULL },
        { AWS_IAM, "PutRolePolicy", "NoSuchEntity", "", 60000, NULL },
        { AWS_IAM, "CreateRole", "ConcurrentModification", "", 60000, NULL },
        { AWS_IAM, "UpdateAssumeRolePolicy", "UnmodifiableEntity", "", 60000, NULL },
        { AWS_IAM, "DeleteRole", "DeleteConflict", "", 60000, NULL },
        { AWS_IAM, "PutRolePolicy", "MalformedPolicyDocument", "", 0, NULL },
        { AWS_S3, "PutBucketLifecycleConfiguration", "NoSuchBucket", "", 60000, NULL },
        { AWS_S3, "CreateBucket", "OperationAborted", "", 60000, NULL },
        { AWS_S3, "PutObject", "ConditionalRequestConflict", "", 60000, NULL },
        { AWS_S3, "PutObject", "NoSuchKey", "", 0, NULL },
        { AWS_S3, "CreateBucket", "BucketAlreadyExists", "", 0, NULL },
        { AWS_DYNAMODB, "TagResource", "ResourceInUseException", "", 60000, NULL },
        { AWS_DYNAMODB, "UpdateTimeToLive", "ResourceNotFoundException", "", 60000, NULL },
        { AWS_EC2, "CreateSubnet", "InvalidVpcID.NotFound", "", 60000, NULL },
        { AWS_EC2, "AuthorizeSecurityGroupEgress", "InvalidGroup.NotFound", "", 60000, NULL },
        { AWS_EC2, "AuthorizeSecurityGroupEgress", "InvalidPrefixListId.NotFound", "", 60000, NULL },
        { AWS_EC2, "CreateTags", "InvalidID", "", 60000, NULL },
        { AWS_EC2, "CreateVpcEndpoint", "InvalidParameter", "", 0, NULL },
        { AWS_EC2, "DeleteVpc", "DependencyViolation", "", 45 * 60000, NULL },
        { AWS_EC2, "CreateVpc", "VpcLimitExceeded", "", 0, NULL },
};

static void each_error_passes_or_is_final(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                const struct row *row = &rows[i];
                struct aws_request request = { .service = row->service, .operation = row->operation };
                struct aws_response response = AWS_RESPONSE_INIT;
                const struct passing *found;

                snprintf(response.error_code, sizeof(response.error_code), "%s", row->code);
                snprintf(response.error_message, sizeof(response.error_message), "%s", row->message);
                found = passing_find(&request, &response);
                print_message("%s %s %s\n", row->operation, row->code, row->message);
                assert_int_equal(found ? found->limit_ms : 0, row->limit_ms);
                assert_int_equal(found && found->cause, row->cause != NULL);
                if (row->cause)
                        assert_non_null(strstr(found->cause, row->cause));
        }
}

int main(void) {
        static const struct CMUnitTest tests[] = { cmocka_unit_test(each_error_passes_or_is_final) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
