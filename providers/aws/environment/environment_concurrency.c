/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reserved concurrency against the account's limit. Lambda takes a reservation only if that leaves
 * the account 100 unreserved executions, or all of a new account's ten ("Configuring reserved
 * concurrency" of its Developer Guide). What counts is the sum of all changes of a plan, so that it
 * is looked at where all of them are known. The same limit says how many tenants can have an
 * environment of their own: what a plan that makes the first of those is warned of, where it is
 * little.
 */
#include "base/json.h"
#include "providers/aws/environment/environment.h"
#include "providers/aws/services/lambda.h"
#include "providers/aws/shared/stage.h"
#include "providers/tenancy.h"

#define UNRESERVED_MIN 100
#define TENANTS_MANY 1000 /* concurrent executions, an account's usual limit */

static int64_t reserved(const struct value *spec) {
        return value_get_integer(spec, "reservedConcurrency", 0);
}

static bool raises(const struct wanted *wanted, const struct observation *observation) {
        return wanted->desired && reserved(wanted->desired->spec) > reserved(observation->spec);
}

/* The reservation that is added to today's; *ret_raised where any environment reserves more. */
static int64_t count_more(const struct observe_args *args, const struct observation *observations,
                          bool *ret_raised) {
        int64_t more = 0;

        *ret_raised = false;
        for (size_t i = 0; i < args->count; i++) {
                const struct resource *desired = args->wanted[i].desired;

                more += (desired ? reserved(desired->spec) : 0) - reserved(observations[i].spec);
                *ret_raised |= raises(&args->wanted[i], &observations[i]);
        }
        return more;
}

/* The plan makes a function with environments of tenants, and none exists yet. */
static bool first_of_tenants(const struct observe_args *args, const struct observation *observations) {
        bool makes = false;

        for (size_t i = 0; i < args->count; i++) {
                const struct wanted *wanted = &args->wanted[i];

                if (observations[i].exists && value_get_boolean(observations[i].spec, TENANCY_MEMBER, false))
                        return false;
                makes |= wanted->desired && !observations[i].exists &&
                         tenancy_desired(wanted->desired->spec, &observations[i], wanted->recorded);
        }
        return makes;
}

/* A new account's limit is ten. */
static void warn_of_few(const struct provider *provider, const struct observe_args *args, int64_t limit,
                        struct observation *observations) {
        for (size_t i = 0; i < args->count; i++) {
                if (!args->wanted[i].desired || observations[i].exists)
                        continue;
                aws_warn(
                        &observations[i],
                        arena_printf(
                                args->arena,
                                "account %s may run %lld executions at once, and so has at most %lld environments "
                                "of tenants, active or idle: sessions beyond that are throttled; Service Quotas, "
                                "Concurrent executions, raises it",
                                provider->account, (long long)limit, (long long)tenancy_environments(limit)),
                        args->arena);
                return;
        }
}

/* A caller that may not look at the account's settings plans without them, and needs no reminder each time. */
static void warn_of_unknown(const struct aws_response *response, const char *unknown,
                            const struct observe_args *args, struct observation *observations) {
        size_t i = 0;

        while (i < args->count && !args->wanted[i].desired)
                i++;
        if (i < args->count && !aws_code_is_denied(response->error_code))
                aws_warn(&observations[i],
                         arena_printf(args->arena,
                                      "how many executions the account may run at once is not known: %s",
                                      unknown),
                         args->arena);
}

int environment_check_concurrency(struct provider *provider, const struct observe_args *args,
                                  struct observation *observations, struct error *err) {
        struct aws_request request = lambda_get_account_settings();
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        bool raised, tenants = first_of_tenants(args, observations);
        int64_t more = count_more(args, observations, &raised), limit, unreserved, least;
        const json_t *account;
        const char *unknown;

        if ((!raised || more <= 0) && !tenants)
                return 0;
        if (aws_ask_fact(provider, &request, NULL, &response, &unknown, args->arena, err) < 0)
                return -1;
        if (unknown) {
                warn_of_unknown(&response, unknown, args, observations);
                return 0;
        }
        account = json_object_get(response.json, "AccountLimit");
        limit = json_integer_or(account, "ConcurrentExecutions", -1);
        unreserved = json_integer_or(account, "UnreservedConcurrentExecutions", -1);
        if (tenants && limit >= 0 && limit < TENANTS_MANY)
                warn_of_few(provider, args, limit, observations);
        if (!raised || more <= 0)
                return 0;
        least = limit < UNRESERVED_MIN ? limit : UNRESERVED_MIN;
        if (limit < 0 || unreserved < 0 || unreserved - more >= least)
                return 0;
        for (size_t i = 0; i < args->count; i++) {
                if (!raises(&args->wanted[i], &observations[i]))
                        continue;
                observations[i].over_quota = arena_printf(
                        args->arena,
                        "reservedConcurrency: this plan reserves %lld executions more, of %lld that "
                        "are not reserved in account %s, and Lambda requires that %lld of them are "
                        "left",
                        (long long)more, (long long)unreserved, provider->account, (long long)least);
                observations[i].over_quota_remedy =
                        "reserve less, or have the account's limit raised (Service Quotas, Concurrent executions)";
        }
        return 0;
}
