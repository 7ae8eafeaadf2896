/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts as botocore's clients call them for these regions and settings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "providers/aws/client/endpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const variables[] = {
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_LAMBDA",
        "AWS_ENDPOINT_URL_S3",
        "AWS_ENDPOINT_URL_S3_CONTROL",
        "AWS_ENDPOINT_URL_CLOUDWATCH_LOGS",
        "AWS_ENDPOINT_URL_RESOURCE_GROUPS_TAGGING_API",
        "AWS_ENDPOINT_URL_SSO_OIDC",
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
        "AWS_USE_FIPS_ENDPOINT",
        "AWS_USE_DUALSTACK_ENDPOINT",
        "AWS_SHARED_CREDENTIALS_FILE",
};
static char config_path[] = "/tmp/berth-endpoint-XXXXXX";

static const char config[] = "[default]\n"
                             "[profile custom]\nendpoint_url = http://profile.example:1\nservices = mine\n"
                             "[profile ignoring]\nendpoint_url = http://profile.example:1\n"
                             "ignore_configured_endpoint_urls = true\n"
                             "[profile virtual]\ns3 =\n  addressing_style = virtual\n"
                             "[profile path]\ns3 =\n  addressing_style = path\n"
                             "[profile fips]\nuse_fips_endpoint = true\n"
                             "[services mine]\ns3 =\n  endpoint_url = http://s3.example:2/base/\n"
                             "cloudwatch_logs =\n  endpoint_url = https://logs.example\n";

static int write_config(void **state) {
        int descriptor = mkstemp(config_path);

        (void)state;
        if (descriptor < 0 || write(descriptor, config, strlen(config)) != (ssize_t)strlen(config))
                return -1;
        return close(descriptor);
}

static int remove_config(void **state) {
        (void)state;
        return unlink(config_path);
}

static void clear(void) {
        for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
                unsetenv(variables[i]);
        setenv("AWS_CONFIG_FILE", config_path, 1);
        setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent", 1);
}

struct resolved {
        const char *region;
        enum aws_service service;
        const char *profile;
        const char *stack_url;
        const char *environment; /* "NAME=value NAME=value" */
        const char *url;         /* what comes of it */
        const char *signing_region;
        bool path_style;
};

static const struct resolved cases[] = {
        { "eu-west-1", AWS_LAMBDA, "default", NULL, "", "https://lambda.eu-west-1.amazonaws.com", "eu-west-1",
          false },
        { "eu-west-1", AWS_ECR, "default", NULL, "", "https://api.ecr.eu-west-1.amazonaws.com", "eu-west-1",
          false },
        { "eu-west-1", AWS_S3, "default", NULL, "", "https://s3.eu-west-1.amazonaws.com", "eu-west-1",
          false },
        { "eu-west-1", AWS_IAM, "default", NULL, "", "https://iam.amazonaws.com", "us-east-1", false },
        { "eu-west-1", AWS_STS, "default", NULL, "", "https://sts.eu-west-1.amazonaws.com", "eu-west-1",
          false },
        { "eu-west-1", AWS_LOGS, "default", NULL, "", "https://logs.eu-west-1.amazonaws.com", "eu-west-1",
          false },
        { "eu-west-1", AWS_TAGGING, "default", NULL, "", "https://tagging.eu-west-1.amazonaws.com",
          "eu-west-1", false },
        { "eu-west-1", AWS_KMS, "default", NULL, "", "https://kms.eu-west-1.amazonaws.com", "eu-west-1",
          false },
        { "eu-west-1", AWS_EC2, "default", NULL, "", "https://ec2.eu-west-1.amazonaws.com", "eu-west-1",
          false },
        { "us-gov-west-1", AWS_EC2, "default", NULL, "AWS_USE_FIPS_ENDPOINT=true",
          "https://ec2.us-gov-west-1.amazonaws.com", "us-gov-west-1", false },
        { "us-gov-west-1", AWS_KMS, "default", NULL, "AWS_USE_FIPS_ENDPOINT=true",
          "https://kms-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1", false },
        { "eu-west-1", AWS_SSO, "default", NULL, "", "https://portal.sso.eu-west-1.amazonaws.com",
          "eu-west-1", false },
        { "eu-west-1", AWS_SSO_OIDC, "default", NULL, "", "https://oidc.eu-west-1.amazonaws.com", "eu-west-1",
          false },
        { "cn-north-1", AWS_SSO, "default", NULL, "", "https://portal.sso.cn-north-1.amazonaws.com.cn",
          "cn-north-1", false },
        { "us-east-1", AWS_SSO, "default", NULL, "AWS_USE_FIPS_ENDPOINT=true",
          "https://portal.sso-fips.us-east-1.amazonaws.com", "us-east-1", false },
        { "us-east-1", AWS_SSO_OIDC, "default", NULL,
          "AWS_USE_FIPS_ENDPOINT=true AWS_USE_DUALSTACK_ENDPOINT=true", "https://oidc-fips.us-east-1.api.aws",
          "us-east-1", false },
        { "us-gov-west-1", AWS_SSO, "default", NULL, "AWS_USE_FIPS_ENDPOINT=true",
          "https://portal.sso.us-gov-west-1.amazonaws.com", "us-gov-west-1", false },
        { "us-gov-west-1", AWS_SSO_OIDC, "default", NULL, "AWS_USE_FIPS_ENDPOINT=true",
          "https://oidc.us-gov-west-1.amazonaws.com", "us-gov-west-1", false },
        { "eu-west-1", AWS_SSO_OIDC, "default", NULL, "AWS_ENDPOINT_URL_SSO_OIDC=http://o.example:1",
          "http://o.example:1", "eu-west-1", false },
        { "eu-west-1", AWS_SIGNIN, "default", NULL, "", "https://eu-west-1.signin.aws.amazon.com",
          "eu-west-1", false },
        { "us-gov-west-1", AWS_SIGNIN, "default", NULL, "AWS_USE_FIPS_ENDPOINT=true",
          "https://signin-fips.amazonaws-us-gov.com", "us-gov-west-1", false },
        { "cn-north-1", AWS_LAMBDA, "default", NULL, "", "https://lambda.cn-north-1.amazonaws.com.cn",
          "cn-north-1", false },
        { "cn-northwest-1", AWS_IAM, "default", NULL, "", "https://iam.cn-north-1.amazonaws.com.cn",
          "cn-north-1", false },
        { "us-gov-east-1", AWS_IAM, "default", NULL, "", "https://iam.us-gov.amazonaws.com", "us-gov-west-1",
          false },
        { "us-gov-west-1", AWS_S3, "default", NULL, "", "https://s3.us-gov-west-1.amazonaws.com",
          "us-gov-west-1", false },

        { "us-iso-west-1", AWS_LAMBDA, "default", NULL, "", "https://lambda.us-iso-west-1.c2s.ic.gov",
          "us-iso-west-1", false },
        { "us-iso-west-1", AWS_IAM, "default", NULL, "", "https://iam.us-iso-east-1.c2s.ic.gov",
          "us-iso-east-1", false },
        { "us-isob-east-1", AWS_ECR, "default", NULL, "", "https://api.ecr.us-isob-east-1.sc2s.sgov.gov",
          "us-isob-east-1", false },
        { "eu-isoe-west-1", AWS_S3, "default", NULL, "AWS_USE_FIPS_ENDPOINT=true",
          "https://s3-fips.eu-isoe-west-1.cloud.adc-e.uk", "eu-isoe-west-1", false },
        { "us-isof-east-1", AWS_IAM, "default", NULL, "AWS_USE_FIPS_ENDPOINT=true",
          "https://iam-fips.csp.hci.ic.gov", "us-isof-south-1", false },
        { "eusc-de-east-1", AWS_SECRETS, "default", NULL, "AWS_USE_DUALSTACK_ENDPOINT=true",
          "https://secretsmanager.eusc-de-east-1.api.amazonwebservices.eu", "eusc-de-east-1", false },

        { "us-east-1", AWS_LAMBDA, "default", NULL, "AWS_USE_FIPS_ENDPOINT=true",
          "https://lambda-fips.us-east-1.amazonaws.com", "us-east-1", false },
        { "us-east-1", AWS_ECR, "default", NULL, "AWS_USE_FIPS_ENDPOINT=true",
          "https://api.ecr-fips.us-east-1.amazonaws.com", "us-east-1", false },
        { "us-east-1", AWS_S3, "fips", NULL, "", "https://s3-fips.us-east-1.amazonaws.com", "us-east-1",
          false },
        { "us-east-1", AWS_S3, "fips", NULL, "AWS_USE_FIPS_ENDPOINT=false",
          "https://s3.us-east-1.amazonaws.com", "us-east-1", false },
        { "us-east-1", AWS_IAM, "default", NULL, "AWS_USE_FIPS_ENDPOINT=true",
          "https://iam-fips.amazonaws.com", "us-east-1", false },
        { "us-gov-west-1", AWS_STS, "default", NULL, "AWS_USE_FIPS_ENDPOINT=true",
          "https://sts.us-gov-west-1.amazonaws.com", "us-gov-west-1", false },
        { "us-gov-west-1", AWS_LAMBDA, "default", NULL, "AWS_USE_FIPS_ENDPOINT=true",
          "https://lambda-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1", false },
        { "us-east-1", AWS_ECR, "default", NULL, "AWS_USE_DUALSTACK_ENDPOINT=true",
          "https://ecr.us-east-1.api.aws", "us-east-1", false },
        { "us-east-1", AWS_S3, "default", NULL, "AWS_USE_DUALSTACK_ENDPOINT=true",
          "https://s3.dualstack.us-east-1.amazonaws.com", "us-east-1", false },
        { "us-east-1", AWS_IAM, "default", NULL, "AWS_USE_DUALSTACK_ENDPOINT=true",
          "https://iam.global.api.aws", "us-east-1", false },
        { "cn-north-1", AWS_LOGS, "default", NULL, "AWS_USE_DUALSTACK_ENDPOINT=true",
          "https://logs.cn-north-1.api.amazonwebservices.com.cn", "cn-north-1", false },
        { "eu-west-1", AWS_S3, "default", NULL, "AWS_USE_DUALSTACK_ENDPOINT=true AWS_USE_FIPS_ENDPOINT=true",
          "https://s3-fips.dualstack.eu-west-1.amazonaws.com", "eu-west-1", false },

        { "eu-west-1", AWS_LAMBDA, "default", NULL, "AWS_ENDPOINT_URL=http://127.0.0.1:4566",
          "http://127.0.0.1:4566", "eu-west-1", false },
        { "eu-west-1", AWS_S3, "default", NULL, "AWS_ENDPOINT_URL=http://127.0.0.1:4566",
          "http://127.0.0.1:4566", "eu-west-1", true },
        { "eu-west-1", AWS_S3_CONTROL, "default", NULL, "", "https://s3-control.eu-west-1.amazonaws.com",
          "eu-west-1", false },
        { "eu-west-1", AWS_S3_CONTROL, "default", NULL, "AWS_ENDPOINT_URL=http://127.0.0.1:4566",
          "http://127.0.0.1:4566", "eu-west-1", true },
        { "eu-west-1", AWS_S3_CONTROL, "default", NULL, "AWS_ENDPOINT_URL=http://[::1]:4566",
          "http://[::1]:4566", "eu-west-1", true },
        { "eu-west-1", AWS_S3_CONTROL, "default", NULL, "AWS_ENDPOINT_URL=http://standin:4566",
          "http://standin:4566", "eu-west-1", true },
        { "eu-west-1", AWS_S3_CONTROL, "default", NULL,
          "AWS_ENDPOINT_URL_S3_CONTROL=https://control.vpce-1.s3.eu-west-1.vpce.amazonaws.com",
          "https://control.vpce-1.s3.eu-west-1.vpce.amazonaws.com", "eu-west-1", false },
        { "eu-west-1", AWS_IAM, "default", NULL, "AWS_ENDPOINT_URL=http://127.0.0.1:4566",
          "http://127.0.0.1:4566", "us-east-1", false },
        { "eu-west-1", AWS_LAMBDA, "default", NULL,
          "AWS_ENDPOINT_URL=http://a.example AWS_ENDPOINT_URL_LAMBDA=https://B.example:443/x/",
          "https://b.example/x", "eu-west-1", false },
        { "eu-west-1", AWS_LOGS, "default", NULL, "AWS_ENDPOINT_URL_CLOUDWATCH_LOGS=http://l.example:80",
          "http://l.example", "eu-west-1", false },
        { "eu-west-1", AWS_TAGGING, "default", NULL,
          "AWS_ENDPOINT_URL_RESOURCE_GROUPS_TAGGING_API=http://[::1]:4566", "http://[::1]:4566", "eu-west-1",
          false },
        { "eu-west-1", AWS_LAMBDA, "default", "http://stack.example",
          "AWS_ENDPOINT_URL_LAMBDA=http://a.example", "http://stack.example", "eu-west-1", false },
        { "eu-west-1", AWS_LAMBDA, "default", "http://stack.example",
          "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=TRUE", "http://stack.example", "eu-west-1", false },
        { "eu-west-1", AWS_LAMBDA, "custom", NULL,
          "AWS_ENDPOINT_URL=http://a.example AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=true",
          "https://lambda.eu-west-1.amazonaws.com", "eu-west-1", false },
        { "eu-west-1", AWS_LAMBDA, "custom", NULL, "", "http://profile.example:1", "eu-west-1", false },
        { "eu-west-1", AWS_S3, "custom", NULL, "", "http://s3.example:2/base", "eu-west-1", true },
        { "eu-west-1", AWS_LOGS, "custom", NULL, "", "https://logs.example", "eu-west-1", false },
        { "eu-west-1", AWS_S3, "custom", NULL, "AWS_ENDPOINT_URL=http://a.example", "http://a.example",
          "eu-west-1", true },
        { "eu-west-1", AWS_LAMBDA, "ignoring", NULL, "", "https://lambda.eu-west-1.amazonaws.com",
          "eu-west-1", false },
        { "eu-west-1", AWS_S3, "path", NULL, "", "https://s3.eu-west-1.amazonaws.com", "eu-west-1", true },
        { "eu-west-1", AWS_S3, "virtual", NULL, "AWS_ENDPOINT_URL=http://a.example", "http://a.example",
          "eu-west-1", false },
};

static void set_all(const char *environment) {
        char copy[512], *save = NULL;

        snprintf(copy, sizeof(copy), "%s", environment);
        for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
                char *equals = strchr(word, '=');

                *equals = '\0';
                setenv(word, equals + 1, 1);
        }
}

static int resolve(const struct resolved *wanted, struct endpoint *ret, struct error *err) {
        struct endpoint_settings settings = { .region = wanted->region,
                                              .stack_url = wanted->stack_url,
                                              .profile = wanted->profile };
        struct profiles *profiles = NULL;
        int result;

        clear();
        set_all(wanted->environment);
        assert_int_equal(profiles_load(&profiles, err), 0);
        settings.profiles = profiles;
        result = endpoint_resolve(&settings, wanted->service, ret, err);
        profiles_free(profiles);
        return result;
}

static void services_are_where_the_sdks_find_them(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct endpoint endpoint = { 0 };
                struct error err = { 0 };
                char url[512];

                print_message("  %s %s %s\n", aws_service_name(cases[i].service), cases[i].region,
                              cases[i].url);
                assert_int_equal(resolve(&cases[i], &endpoint, &err), 0);
                snprintf(url, sizeof(url), "%s://%s%s", endpoint.scheme, endpoint.host, endpoint.prefix);
                assert_string_equal(url, cases[i].url);
                assert_string_equal(endpoint.signing_region, cases[i].signing_region);
                assert_int_equal(endpoint.path_style, cases[i].path_style);
                endpoint_release(&endpoint);
        }
}

static const struct {
        struct resolved wanted;
        const char *message;
} refusals[] = {
        { { .region = "eu west 1", .environment = "" }, "is not the name of an AWS region" },
        { { .region = "EU-WEST-1", .environment = "" }, "is not the name of an AWS region" },
        { { .region = "evil.example/", .environment = "" }, "is not the name of an AWS region" },
        { { .region = "cn-north-1", .environment = "AWS_USE_FIPS_ENDPOINT=true" }, "no FIPS endpoints" },
        { { .region = "eu-west-1", .environment = "AWS_ENDPOINT_URL=localhost:4566" },
          "AWS_ENDPOINT_URL \"localhost" },
        { { .region = "eu-west-1", .environment = "AWS_ENDPOINT_URL=ftp://x" }, "must begin with http" },
        { { .region = "eu-west-1", .environment = "AWS_ENDPOINT_URL=http://u:p@x" },
          "must not hold a user name" },
        { { .region = "eu-west-1", .environment = "AWS_ENDPOINT_URL=http://x?a=b" },
          "must not hold a query" },
        { { .region = "eu-west-1", .environment = "AWS_ENDPOINT_URL=http://x#f" },
          "must not hold a fragment" },
        { { .region = "eu-west-1", .environment = "", .stack_url = "nonsense" },
          "the Stack's aws.endpointUrl" },
};

static void nonsense_is_refused_by_name(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
                struct resolved wanted = refusals[i].wanted;
                struct endpoint endpoint = { 0 };
                struct error err = { 0 };

                wanted.profile = "default";
                wanted.service = AWS_LAMBDA;
                assert_int_equal(resolve(&wanted, &endpoint, &err), -1);
                print_message("  %s\n", err.message);
                assert_non_null(strstr(err.message, refusals[i].message));
                endpoint_release(&endpoint);
        }
}

static void buckets_in_hosts(void **state) {
        (void)state;
        assert_true(endpoint_bucket_fits_host("alphaagent-workspaces-123456789012-eu-west-1"));
        assert_false(endpoint_bucket_fits_host("with.dots"));
        assert_false(endpoint_bucket_fits_host("Upper"));
        assert_false(endpoint_bucket_fits_host("ab"));
        assert_false(endpoint_bucket_fits_host("-ab"));
        assert_false(endpoint_bucket_fits_host("a/b/c"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(services_are_where_the_sdks_find_them),
                cmocka_unit_test(nonsense_is_refused_by_name),
                cmocka_unit_test(buckets_in_hosts),
        };

        return cmocka_run_group_tests(tests, write_config, remove_config);
}
