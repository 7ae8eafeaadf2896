/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/client/partition.h"

#include "base/text.h"

#include <string.h>

/* The last one has all regions that no other has. */
static const struct partition partitions[] = {
        {
                .name = "aws-cn",
                .prefix = "cn-",
                .domain = "amazonaws.com.cn",
                .domain_dual = "api.amazonwebservices.com.cn",
                .signin_domain = "amazonaws.cn",
                .iam_region = "cn-north-1",
                .iam_host = "iam.cn-north-1.%s",
                .iam_host_dual = "iam.global.%d",
        },
        {
                .name = "aws-us-gov",
                .prefix = "us-gov-",
                .domain = "amazonaws.com",
                .domain_dual = "api.aws",
                .signin_domain = "amazonaws-us-gov.com",
                .iam_region = "us-gov-west-1",
                .iam_host = "iam.us-gov.%s",
                .iam_host_dual = "iam.us-gov.%d",
                .fips = true,
        },
        {
                .name = "aws-eusc",
                .prefix = "eusc-",
                .domain = "amazonaws.eu",
                .domain_dual = "api.amazonwebservices.eu",
                .signin_domain = "amazonaws-eusc.eu",
                .iam_region = "eusc-de-east-1",
                .iam_host = "iam.eusc-de-east-1.%s",
                .iam_host_dual = "iam.global.%d",
                .iam_host_fips = "iam-fips.%s",
                .iam_host_dual_fips = "iam-fips.%d",
                .fips = true,
        },
        {
                .name = "aws-iso",
                .prefix = "us-iso-",
                .domain = "c2s.ic.gov",
                .domain_dual = "api.aws.ic.gov",
                .signin_domain = "c2shome.ic.gov",
                .iam_region = "us-iso-east-1",
                .iam_host = "iam%f.us-iso-east-1.%s",
                .iam_host_dual = "iam%f.%d",
                .fips = true,
        },
        {
                .name = "aws-iso-b",
                .prefix = "us-isob-",
                .domain = "sc2s.sgov.gov",
                .domain_dual = "api.aws.scloud",
                .signin_domain = "sc2shome.sgov.gov",
                .iam_region = "us-isob-east-1",
                .iam_host = "iam%f.us-isob-east-1.%s",
                .iam_host_dual = "iam%f.%d",
                .fips = true,
        },
        {
                .name = "aws-iso-e",
                .prefix = "eu-isoe-",
                .domain = "cloud.adc-e.uk",
                .domain_dual = "api.cloud-aws.adc-e.uk",
                .signin_domain = "csphome.adc-e.uk",
                .iam_region = "eu-isoe-west-1",
                .iam_host = "iam.eu-isoe-west-1.%s",
                .iam_host_dual = "iam%f.%d",
                .iam_host_fips = "iam-fips.%s",
                .fips = true,
        },
        {
                .name = "aws-iso-f",
                .prefix = "us-isof-",
                .domain = "csp.hci.ic.gov",
                .domain_dual = "api.aws.hci.ic.gov",
                .signin_domain = "csphome.hci.ic.gov",
                .iam_region = "us-isof-south-1",
                .iam_host = "iam.us-isof-south-1.%s",
                .iam_host_dual = "iam%f.%d",
                .iam_host_fips = "iam-fips.%s",
                .fips = true,
        },
        {
                .name = "aws",
                .prefix = "",
                .domain = "amazonaws.com",
                .domain_dual = "api.aws",
                .signin_domain = "aws.amazon.com",
                .iam_region = "us-east-1",
                .iam_host = "iam%f.%s",
                .iam_host_dual = "iam%f.global.%d",
                .fips = true,
        },
};

bool partition_is_label(const char *text) {
        size_t length = strlen(text);

        if (length == 0 || length > 63 || text[0] == '-' || text[length - 1] == '-')
                return false;
        for (; *text; text++) {
                if (!(*text >= 'a' && *text <= 'z') && !(*text >= '0' && *text <= '9') && *text != '-')
                        return false;
        }
        return true;
}

const struct partition *partition_of_region(const char *region, struct error *err) {
        const struct partition *partition = partitions;

        if (!partition_is_label(region)) {
                error_set(err, "\"%.100s\" is not the name of an AWS region (one looks like eu-west-1)",
                          region);
                return NULL;
        }
        while (!text_begins_with(region, partition->prefix))
                partition++;
        return partition;
}
