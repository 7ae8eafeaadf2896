/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a client: profile, region, endpoints and the rest, as the Stack, the environment and the profile say.
 *
 * The Stack comes first, then variables, then the profile; among variables and profiles botocore's order holds, so that
 * Berth and the AWS CLI on the same machine mean the same account. Nothing is called: wrong credentials show at the first
 * call, and a mistyped setting here.
 */
#include "providers/aws/client/ahead.h"
#include "providers/aws/client/aws_client_state.h"

#include "base/digest.h"
#include "providers/aws/client/setting.h"

#include <stdlib.h>
#include <string.h>

const char *aws_client_region(const struct aws_client *client) {
        return client->region;
}

const char *aws_client_partition(const struct aws_client *client) {
        return client->partition->name;
}

const struct clock *aws_client_clock(const struct aws_client *client) {
        return client->clock;
}

int64_t aws_client_wall_ms(const struct aws_client *client) {
        return client->clock->wall_ms(client->clock) + (int64_t)atomic_load(&client->skew_ms);
}

static const char *stack_text(const struct value *stack_aws, const char *name) {
        const char *text = value_get_text(stack_aws, name);

        return text && *text ? text : NULL;
}

static void choose_profile(struct aws_client *client, const struct value *stack_aws) {
        /* In botocore's order. */
        static const char *const variables[] = { "AWS_DEFAULT_PROFILE", "AWS_PROFILE" };
        const char *name = stack_text(stack_aws, "profile");

        if (name) {
                client->profile_named_by = "the Stack's aws.profile";
                client->profile_in_stack = true;
        }
        for (size_t i = 0; !name && i < sizeof(variables) / sizeof(variables[0]); i++) {
                if ((name = setting_variable(variables[i])))
                        client->profile_named_by = variables[i];
        }
        client->profile = setting_copy(name ? name : "default");
}

static int choose_region(struct aws_client *client, const struct value *stack_aws, struct error *err) {
        const char *region = stack_text(stack_aws, "region");

        if (!region)
                region = setting_region(client->profiles, client->profile);
        /* A profile that does not exist has no region either. */
        if (!region && profiles_check(client->profiles, client->profile, client->profile_named_by, err) < 0)
                return -1;
        if (!region)
                return error_set(
                        err,
                        "no AWS region: set the Stack's aws.region, AWS_REGION, or region in the profile "
                        "%s of %s",
                        client->profile, profiles_config_path(client->profiles));
        client->region = setting_copy(region);
        client->partition = partition_of_region(region, err);
        return client->partition ? 0 : -1;
}

int client_endpoint(const struct aws_client *client, enum aws_service service, const char *region,
                    struct endpoint *ret, struct error *err) {
        struct endpoint_settings settings = {
                .region = region,
                .stack_url = client->stack_url,
                .profiles = client->profiles,
                .profile = client->profile,
        };

        return endpoint_resolve(&settings, service, ret, err);
}

static int choose_endpoints(struct aws_client *client, struct error *err) {
        for (int service = 0; service < AWS_SERVICE_COUNT; service++) {
                if (client_endpoint(client, (enum aws_service)service, client->region,
                                    &client->endpoints[service], err) < 0)
                        return -1;
        }
        return 0;
}

static int choose_attempts(struct aws_client *client, struct error *err) {
        const char *text = setting_variable("AWS_MAX_ATTEMPTS");
        char *end;
        long value;

        if (!text)
                text = profiles_get(client->profiles, client->profile, "max_attempts");
        client->max_attempts = RETRY_ATTEMPTS_DEFAULT;
        if (!text)
                return 0;
        value = strtol(text, &end, 10);
        if (end == text || *end || value < 1 || value > 100)
                return error_set(
                        err,
                        "AWS_MAX_ATTEMPTS (or max_attempts of the profile %s) is \"%.40s\": it must be 1 "
                        "to 100",
                        client->profile, text);
        client->max_attempts = (unsigned)value;
        return 0;
}

static void open_http(struct aws_client *client) {
        client->http =
                http_pool_new(setting_get("AWS_CA_BUNDLE", client->profiles, client->profile, "ca_bundle"));
}

static void open_credentials(struct aws_client *client) {
        struct credentials_settings settings = {
                .profiles = client->profiles,
                .profile = client->profile,
                .profile_named_by = client->profile_named_by,
                .no_environment = client->profile_in_stack,
                .session_profile = client->profile,
                .region = client->region,
                .assume_role = client->assume_role,
                .clock = client->clock,
                .http = client->http,
                .caller = &client->caller,
        };

        client->caller.sts = client_sts;
        client->chain = credentials_chain_new(&settings);
}

int aws_client_open_with(const struct aws_client_options *options, struct aws_client **ret,
                         struct error *err) {
        struct aws_client *client = calloc(1, sizeof(*client));
        double scale = options->rate_scale > 0 ? options->rate_scale : 1.0;

        if (!client || pthread_mutex_init(&client->account_lock, NULL) != 0)
                abort();
        client->clock = options->clock;
        client->random = options->random ? options->random : random_unit;
        client->watch = options->watch;
        client->assume_role = setting_copy(stack_text(options->stack_aws, "assumeRole"));
        client->stack_url = setting_copy(stack_text(options->stack_aws, "endpointUrl"));
        atomic_init(&client->skew_ms, 0);
        client->own_quotas = quota_set_new(scale);
        atomic_init(&client->quotas, client->own_quotas);
        retry_quota_init(&client->retries);
        client->ahead = ahead_new(client);
        if (profiles_load(&client->profiles, err) < 0)
                goto failed;
        choose_profile(client, options->stack_aws);
        if (choose_region(client, options->stack_aws, err) < 0 || choose_endpoints(client, err) < 0 ||
            choose_attempts(client, err) < 0)
                goto failed;
        open_http(client);
        open_credentials(client);
        *ret = client;
        return 0;
failed:
        aws_client_close(client);
        return -1;
}

int aws_client_open(const struct value *stack_aws, const struct clock *clock, struct aws_client **ret,
                    struct error *err) {
        struct aws_client_options options = { .stack_aws = stack_aws, .clock = clock };

        return aws_client_open_with(&options, ret, err);
}

void aws_client_close(struct aws_client *client) {
        if (!client)
                return;
        ahead_free(client->ahead);
        credentials_chain_free(client->chain);
        http_pool_free(client->http);
        for (int service = 0; service < AWS_SERVICE_COUNT; service++)
                endpoint_release(&client->endpoints[service]);
        quota_set_release(client->shared_quotas);
        quota_set_release(client->own_quotas);
        retry_quota_destroy(&client->retries);
        profiles_free(client->profiles);
        pthread_mutex_destroy(&client->account_lock);
        free(client->profile);
        free(client->region);
        free(client->assume_role);
        free(client->stack_url);
        free(client->expected);
        free(client->account);
        free(client->arn);
        free(client);
}
