/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AWS Secrets Manager (JSON 1.1). Quota: these two 10,000 a second together. The region is that of the secret's ARN, which
 * may be of another account.
 */
#ifndef BERTH_PROVIDERS_AWS_SERVICES_SECRETSMANAGER_H
#define BERTH_PROVIDERS_AWS_SERVICES_SECRETSMANAGER_H

#include "providers/aws/client/aws_json.h"

/*
 * DescribeSecret {SecretId} -> {ARN, VersionIdsToStages {ID: [STAGE]}, DeletedDate?}: no value. DeletedDate: it is on its way
 * out, and cannot be read any more. 400 ResourceNotFoundException.
 */
struct aws_request secretsmanager_describe(const char *arn, const char *region, struct arena *arena);

/*
 * GetSecretValue {SecretId, VersionId?, VersionStage?} -> {VersionId, SecretString | SecretBinary}. Without either the version
 * AWSCURRENT. 400 ResourceNotFoundException, InvalidRequestException where it is being deleted, DecryptionFailure.
 */
struct aws_request secretsmanager_get_value(const char *arn, const char *region, const char *version_id,
                                            const char *stage, struct arena *arena);

#endif
