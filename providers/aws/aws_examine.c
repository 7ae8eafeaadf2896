/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/aws_examine.h"

#include "base/json.h"
#include "providers/aws/services/lambda.h"
#include "providers/aws/shared/aws_provider.h"
#include "providers/tenancy.h"

/*
 * How many sessions there can be, each in an environment of its own. Without the right to ask, the
 * finding says so: nothing else depends on it.
 */
void aws_examine(struct provider *provider, bool test, struct arena *arena, struct finding *ret, size_t max,
                 size_t *ret_count) {
        struct aws_request request = lambda_get_account_settings();
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct error err = { 0 };
        int64_t limit = -1, free;
        const json_t *account;

        (void)test;
        *ret_count = 0;
        if (max == 0 || !provider->account)
                return;
        *ret_count = 1;
        ret[0] = (struct finding){ .name = "tenants", .optional = true };
        if (aws_call(provider->client, &request, &response, &err) < 0) {
                ret[0].detail = arena_strdup(arena, err.message);
                return;
        }
        account = json_object_get(response.json, "AccountLimit");
        limit = json_integer_or(account, "ConcurrentExecutions", -1);
        free = json_integer_or(account, "UnreservedConcurrentExecutions", limit);
        ret[0].works = limit > 0;
        ret[0].detail =
                limit > 0 ? arena_printf(arena,
                                         "%lld concurrent executions in the account, %lld of them not "
                                         "reserved: at most %lld environments of tenants, active or idle",
                                         (long long)limit, (long long)free,
                                         (long long)tenancy_environments(limit))
                          : "Lambda tells no limit of the account";
}
