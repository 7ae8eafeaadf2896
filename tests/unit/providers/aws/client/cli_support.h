/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs share that put a client behind a pipe: it is opened by the argument, answers are lines of JSON. */
#ifndef BERTH_TESTS_PROVIDERS_AWS_CLI_SUPPORT_H
#define BERTH_TESTS_PROVIDERS_AWS_CLI_SUPPORT_H

#include "base/json.h"
#include "providers/aws/client/aws_client.h"

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

/* Each line of standard input is a question in JSON, and each gets an answer: `answer` fills `output`, an object. */
static inline int client_answer_lines(int argc, char **argv,
                                      void (*answer)(struct aws_client *client, const json_t *input,
                                                     struct arena *arena, json_t *output)) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct aws_client *client = client_of_arguments(argc, argv, arena);
        char *line = NULL;
        size_t size = 0;
        ssize_t length;

        while ((length = getline(&line, &size, stdin)) > 0) {
                json_t *input JSON_CLEANUP = json_loadb(line, (size_t)length, 0, NULL);
                json_t *output JSON_CLEANUP = json_object();

                answer(client, input, arena, output);
                put_line(output);
        }
        free(line);
        aws_client_close(client);
        return 0;
}

#endif
