/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says what keys the credentials' chain comes to, for comparison with botocore's: one line of JSON for each line read,
 *
 *     {"access_key", "secret_key", "token", "origin"} or {"error"}
 *
 * Argument: the Stack's `aws` map as JSON, "{}" where absent. A line "forget" drops the keys first, as expired ones are.
 */
#include "base/log.h"
#include "cli_support.h"
#include "providers/aws/client/aws_client_state.h"

#include <string.h>

static void forget(struct aws_client *client) {
        struct credentials *current CREDENTIALS_CLEANUP = NULL;
        struct error err = { 0 };
        enum retry_reason reason;
        int64_t asked_ms;

        if (credentials_chain_get(client->chain, &current, &reason, &asked_ms, &err) == 0)
                (void)credentials_chain_expired(client->chain, current);
}

static void answer(struct aws_client *client) {
        struct credentials *found CREDENTIALS_CLEANUP = NULL;
        json_t *output JSON_CLEANUP = json_object();
        struct error err = { 0 };
        enum retry_reason reason;
        int64_t asked_ms;

        if (credentials_chain_get(client->chain, &found, &reason, &asked_ms, &err) < 0) {
                json_set_text(output, "error", err.message);
        } else {
                struct sigv4_keys keys = credentials_keys(found);

                json_set_text(output, "access_key", keys.access_key);
                json_set_text(output, "secret_key", keys.secret_key);
                json_set_text(output, "token", keys.token);
                json_set_text(output, "origin", credentials_origin(found));
        }
        put_line(output);
}

int main(int argc, char **argv) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct aws_client *client;
        char line[64];

        log_set_level(LOG_LEVEL_DEBUG);
        client = client_of_arguments(argc, argv, arena);
        while (fgets(line, sizeof(line), stdin)) {
                if (strcmp(line, "forget\n") == 0)
                        forget(client);
                answer(client);
        }
        aws_client_close(client);
        return 0;
}
