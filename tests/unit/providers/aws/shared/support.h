/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of kinds share besides: a provider as identify() leaves it. */
#ifndef BERTH_TESTS_PROVIDERS_AWS_SHARED_SUPPORT_H
#define BERTH_TESTS_PROVIDERS_AWS_SHARED_SUPPORT_H

#include "providers/aws/client/support.h"
#include "providers/aws/shared/aws_provider.h"

#define REGISTRY ACCOUNT ".dkr.ecr.eu-west-1.amazonaws.com"

/* The stack "team" with the prefix "lab", as identify() leaves it; it manages its bucket and its role. No client. */
static struct provider team __attribute__((unused)) = {
        .stack_name = "team",
        .prefix = "lab",
        .region = "eu-west-1",
        .partition = "aws",
        .account = ACCOUNT,
        .bucket = "lab-workspaces-" ACCOUNT "-eu-west-1",
        .execution_role = "arn:aws:iam::" ACCOUNT ":role/lab-execution-eu-west-1",
        .manages_role = true,
        .manages_bucket = true,
};

#endif
