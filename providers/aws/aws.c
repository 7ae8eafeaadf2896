/* SPDX-License-Identifier: Apache-2.0 */
/* The AWS provider's table: opened from the Stack's spec, identified by one call. */
#include "providers/aws/aws.h"

#include "providers/aws/aws_examine.h"
#include "providers/aws/binding/binding.h"
#include "providers/aws/environment/environment.h"
#include "providers/aws/image/image.h"
#include "providers/aws/image/image_catalog.h"
#include "providers/aws/registry/image_use.h"
#include "providers/aws/shared/bound_records.h"
#include "providers/aws/shared/execution_role.h"
#include "providers/aws/shared/lineage.h"
#include "providers/aws/shared/names.h"
#include "providers/aws/stack/stack.h"
#include "providers/aws/workspace_policy/workspace_policy.h"

#include <string.h>

static int open_provider(const struct provider_config *config, struct provider **ret, struct error *err) {
        const struct value *aws = value_get(config->stack, "aws");
        struct aws_client_options options = {
                .stack_aws = aws,
                .clock = config->clock,
                .watch = config->watch,
        };
        struct arena *arena = arena_new();
        struct provider *provider = arena_alloc(arena, sizeof(*provider));

        *provider = (struct provider){
                .arena = arena,
                .stack = config->stack,
                .stack_name = config->stack_name,
                .stack_labels = config->stack_labels,
                .prefix = names_prefix(config->stack),
                .execution_role = value_get_text(aws, "executionRole"),
                .kms_key = value_get_text(aws, "kmsKey"),
                .manages_role = !value_get_text(aws, "executionRole"),
                .manages_bucket = value_get_boolean(aws, "createBucket", true),
        };
        if (aws_client_open_with(&options, &provider->client, err) < 0) {
                arena_free(arena);
                return -1;
        }
        provider->region = aws_client_region(provider->client);
        provider->partition = aws_client_partition(provider->client);
        pthread_mutex_init(&provider->lifecycle_lock, NULL);
        *ret = provider;
        return 0;
}

static void close_provider(struct provider *provider) {
        if (!provider)
                return;
        bindings_release(provider->bindings);
        stack_leftovers_release(provider->leftovers);
        aws_client_close(provider->client);
        pthread_mutex_destroy(&provider->lifecycle_lock);
        arena_free(provider->arena);
}

/* A plan begins: what the last one noted is not this one's, and names hold the account. */
static void begin_in(struct provider *provider, const char *account) {
        const struct value *aws = value_get(provider->stack, "aws");
        const char *role = value_get_text(aws, "executionRole"), *path = value_get_text(aws, "rolePath");

        image_uses_forget(provider);
        image_retains_forget(provider);
        provider->function_count = 0;
        provider->role_count = 0;
        bound_records_forget(provider);
        environment_sessions_forget(provider);
        lineage_orphans_forget(provider);
        provider->account = arena_strdup(provider->arena, account);
        provider->bucket = names_bucket(provider->prefix, account, provider->region, provider->arena);
        provider->execution_role =
                role ? role
                     : execution_role_arn(provider, path,
                                          execution_role_name(provider, (struct execution_role_of){ 0 },
                                                              provider->arena),
                                          provider->arena);
}

static int expect(struct provider *provider, const char *account, struct error *err) {
        int result = aws_client_expect(provider->client, account, err);

        if (result != 1)
                return result;
        begin_in(provider, account);
        provider->begun = true;
        return 1;
}

static int identify(struct provider *provider, struct arena *arena, struct caller_identity *ret,
                    struct error *err) {
        const char *account, *principal;
        bool begun = provider->begun;

        provider->begun = false;
        if (aws_client_account(provider->client, &account, &principal, err) < 0) {
                if (begun)
                        provider->account = provider->bucket = NULL;
                return -1;
        }
        if (!begun || strcmp(provider->account, account) != 0)
                begin_in(provider, account);
        *ret = (struct caller_identity){
                .account = arena_strdup(arena, account),
                .region = arena_strdup(arena, provider->region),
                .principal = arena_strdup(arena, principal),
        };
        return 0;
}

static void observed(struct provider *provider) {
        aws_ahead_end(provider->client);
        provider->begun = false;
}

/* AWS's quotas, in calls a second; services not named here have none that a plan comes near. */
static const struct {
        const char *service;
        int64_t per_second;
} quotas[] = {
        { "lambda", 15 },
        { "lambda GetFunction", 100 },
        { "logs CreateLogGroup", 10 },
        { "logs DeleteLogGroup", 10 },
        { "logs PutRetentionPolicy", 5 },
        { "logs ListTagsForResource", 5 },
        { "logs AssociateKmsKey", 5 },
        { "ssm GetParameters", 40 },
};

static int64_t floor_ms(const struct cost *cost) {
        int64_t longest = 0;

        for (size_t i = 0; i < cost->count; i++) {
                for (size_t k = 0; k < sizeof(quotas) / sizeof(*quotas); k++) {
                        int64_t ms = (int64_t)cost->calls[i].count * 1000 / quotas[k].per_second;

                        if (strcmp(cost->calls[i].service, quotas[k].service) == 0 && ms > longest)
                                longest = ms;
                }
        }
        return longest;
}

static const struct kind_ops *ops(const struct provider *provider, enum kind_id kind) {
        static const struct kind_ops *const tables[] = {
                &aws_stack_ops, &aws_image_ops, &aws_environment_ops, &aws_workspace_policy_ops,
                &aws_agent_ops, &aws_swarm_ops,
        };

        (void)provider;
        return kind_ops_find(tables, sizeof(tables) / sizeof(tables[0]), kind);
}

const struct provider_ops aws_provider_ops = {
        .name = "aws",
        .open = open_provider,
        .close = close_provider,
        .expect = expect,
        .identify = identify,
        .observed = observed,
        .floor_ms = floor_ms,
        .ops = ops,
        .images = &aws_image_registry,
        .lineage = &aws_lineage_ops,
        .examine = aws_examine,
};
