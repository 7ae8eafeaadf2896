/* SPDX-License-Identifier: Apache-2.0 */
/* AWS KMS (JSON 1.1, TrentService): looking at a key. What encrypts with it are the other services. */
#ifndef BERTH_PROVIDERS_AWS_SERVICES_KMS_H
#define BERTH_PROVIDERS_AWS_SERVICES_KMS_H

#include "providers/aws/client/aws_json.h"

/*
 * DescribeKey {KeyId} -> {"KeyMetadata": {KeyState, KeyUsage, KeySpec, KeyManager}}. NotFoundException;
 * AccessDeniedException, also where the key's own policy is silent.
 */
struct aws_request kms_describe_key(const char *key, struct arena *arena);

#endif
