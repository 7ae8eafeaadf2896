/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where services are, for a test that asks botocore the same. Lines "REGION SERVICE" -> {"host", "signing_region", "partition",
 * "domain"} or {"error"}; FIPS and dual stack by the variables, as ever.
 */
#include "cli_support.h"
#include "providers/aws/client/endpoint.h"

#include <string.h>

static int answer(const struct profiles *profiles, const char *region, const char *service, json_t *ret,
                  struct error *err) {
        struct endpoint_settings settings = { .region = region, .profiles = profiles, .profile = "default" };
        const struct partition *partition = partition_of_region(region, err);
        struct endpoint endpoint ENDPOINT_CLEANUP = { 0 };

        if (!partition)
                return -1;
        for (int i = 0; i < AWS_SERVICE_COUNT; i++) {
                if (strcmp(aws_service_name((enum aws_service)i), service) != 0)
                        continue;
                if (endpoint_resolve(&settings, (enum aws_service)i, &endpoint, err) < 0)
                        return -1;
                json_set_text(ret, "host", endpoint.host);
                json_set_text(ret, "signing_region", endpoint.signing_region);
                json_set_text(ret, "partition", partition->name);
                json_set_text(ret, "domain", partition->domain);
                return 0;
        }
        return error_set(err, "no such service: %s", service);
}

int main(void) {
        struct profiles *profiles = NULL;
        struct error err = { 0 };
        char region[100], service[100];

        if (profiles_load(&profiles, &err) < 0) {
                fprintf(stderr, "error: %s\n", err.message);
                return 1;
        }
        while (scanf("%99s %99s", region, service) == 2) {
                json_t *output JSON_CLEANUP = json_object();

                if (answer(profiles, region, service, output, &err) < 0)
                        json_set_text(output, "error", err.message);
                put_line(output);
        }
        profiles_free(profiles);
        return 0;
}
