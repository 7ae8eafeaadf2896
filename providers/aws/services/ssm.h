/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AWS Systems Manager's Parameter Store (JSON 1.1). Quota: GetParameters 40 a second, with GetParameter together; that of
 * DescribeParameters is not published.
 */
#ifndef BERTH_PROVIDERS_AWS_SERVICES_SSM_H
#define BERTH_PROVIDERS_AWS_SERVICES_SSM_H

#include "providers/aws/client/aws_json.h"

#define SSM_DESCRIBED_MAX 50 /* names that one DescribeParameters takes */
#define SSM_READ_MAX 10      /* that one GetParameters takes */

/*
 * DescribeParameters {ParameterFilters Name Equals, MaxResults 50} -> {Parameters [{Name, ARN?, Version}], NextToken?}: no
 * values. `names` (whose reference is taken) of the caller's own account; NULL: all that other accounts share with it. A page
 * may be empty and not the last.
 */
struct aws_request ssm_describe(json_t *names, const char *region, const char *token, struct arena *arena);

/*
 * GetParameters {Names, WithDecryption} -> {Parameters [{Name, ARN, Version, Value}], InvalidParameters [NAME]}; `arns`, whose
 * reference is taken, may be of several accounts.
 */
struct aws_request ssm_get(json_t *arns, const char *region, struct arena *arena);

#endif
