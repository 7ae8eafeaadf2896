/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs share that put a client behind a pipe: it is opened by the argument, answers are lines of JSON. */
#ifndef BERTH_TESTS_PROVIDERS_AWS_CLI_SUPPORT_H
#define BERTH_TESTS_PROVIDERS_AWS_CLI_SUPPORT_H

#include "base/json.h"
#include "providers/aws/client/client.h"

#include <stdio.h>
#include <stdlib.h>

/* By the Stack's `aws` map in argv[1], JSON, which lives in the arena; ends the program where that fails. */
static inline struct aws_client *client_of_arguments(int argc, char **argv, struct arena *arena) {
        json_t *stack JSON_CLEANUP = json_loads(argc > 1 ? argv[1] : "{}", 0, NULL);
        struct value *aws = arena_alloc(arena, sizeof(*aws));
        struct aws_client *client;
        struct error err = { 0 };

        *aws = value_from_json(arena, stack);
        if (aws_client_open(aws, &clock_system, &client, &err) == 0)
                return client;
        fprintf(stderr, "error: %s\n", err.message);
        exit(1);
}

static inline void put_line(const json_t *output) {
        char *text = json_compact(output);

        puts(text);
        fflush(stdout);
        free(text);
}

#endif
