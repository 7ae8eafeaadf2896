/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the Stack's kmsKey can encrypt anything: asked with each plan, by one call, since a key that cannot would make every
 * function, log group and object fail later, each with a message of its own.
 */
#include "base/json.h"
#include "providers/aws/client/aws_json.h"
#include "providers/aws/services/kms.h"
#include "providers/aws/stack/stack.h"

#include <string.h>

/* A key of KMS encrypts in its own region alone. Where the Stack names its region `validate` has said so already. */
static int check_region(const struct provider *provider, struct error *err) {
        const char *region = strstr(provider->kms_key, ":kms:") + strlen(":kms:");
        size_t length = strcspn(region, ":");

        if (strlen(provider->region) == length && strncmp(region, provider->region, length) == 0)
                return 0;
        return error_set(
                err,
                "aws.kmsKey %s is in the region %.*s, the stack in %s: a key encrypts in its own region "
                "alone",
                provider->kms_key, (int)length, region, provider->region);
}

static int check_metadata(const char *key, const json_t *metadata, struct error *err) {
        const char *state = json_text(metadata, "KeyState"), *usage = json_text(metadata, "KeyUsage"),
                   *spec = json_text(metadata, "KeySpec");

        if (!state)
                return error_set(err, "the answer to kms DescribeKey says nothing of the key %s", key);
        if (strcmp(state, "Enabled") != 0)
                return error_set(
                        err, "aws.kmsKey %s is of no use, its state is %s: enable it, or name another key",
                        key, state);
        if ((usage && strcmp(usage, "ENCRYPT_DECRYPT") != 0) ||
            (spec && strcmp(spec, "SYMMETRIC_DEFAULT") != 0))
                return error_set(
                        err,
                        "aws.kmsKey %s is a key for something else (%s, %s): name a symmetric one that "
                        "encrypts",
                        key, usage ? usage : "?", spec ? spec : "?");
        if (aws_json_says(metadata, "KeyManager", "AWS"))
                return error_set(
                        err,
                        "aws.kmsKey %s is managed by AWS, which uses it for one service only: name a key "
                        "that you manage",
                        key);
        return 0;
}

void stack_read_key_ahead(struct provider *provider, struct arena *arena) {
        struct aws_request request;

        if (!provider->kms_key)
                return;
        request = kms_describe_key(provider->kms_key, arena);
        aws_ahead(provider->client, &request);
}

int stack_check_key(struct provider *provider, struct arena *arena, struct error *err) {
        static const char *const missing[] = { "NotFoundException", NULL };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request;

        if (!provider->kms_key)
                return 0;
        if (check_region(provider, err) < 0)
                return -1;
        request = kms_describe_key(provider->kms_key, arena);
        if (aws_call_accepting(provider->client, &request, missing, &response, err) < 0)
                return error_context(err, "aws.kmsKey %s cannot be looked at", provider->kms_key);
        if (*response.error_code)
                return error_set(err, "aws.kmsKey %s: there is no such key", provider->kms_key);
        return check_metadata(provider->kms_key, json_object_get(response.json, "KeyMetadata"), err);
}
