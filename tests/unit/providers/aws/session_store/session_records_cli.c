/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of sessions in DynamoDB, for tests against servers that speak AWS. Arguments: the Stack's `aws` map as JSON, the table,
 * the stack, and "contract" for the tests that every store must pass. Else lines of JSON are answered by one each:
 *
 *     {"get": [TABLE, KEY]}                                   -> {"found", "value", "version"}
 *     {"list": [TABLE, PREFIX, AFTER | null, BACKWARDS, LIMIT]} -> {"keys": []}
 *     {"write": [[TABLE, KEY, VALUE | null, EXPECT, VERSION]]} -> {"written": 0 | 1}
 *
 * each with "error" where it failed. TABLE and EXPECT are the numbers of sessions/store.h.
 */
#include "sessions/store_contract.h"

#include "providers/aws/client/cli_support.h"
#include "providers/aws/session_store/session_records.h"

static struct session_records_config config;
static unsigned stores;

/* Each test's records are those of a stack of its own. */
static int setup(void **state) {
        struct fixture *fixture = calloc(1, sizeof(*fixture));
        struct session_records_config own = config;
        struct error err;

        fixture->arena = arena_new();
        own.stack = arena_printf(fixture->arena, "%s-%u", config.stack, stores++);
        if (session_records_open(&own, &fixture->store, &err) < 0)
                return -1;
        *state = fixture;
        return 0;
}

static int teardown(void **state) {
        struct fixture *fixture = *state;

        session_store_close(fixture->store);
        arena_free(fixture->arena);
        free(fixture);
        return 0;
}

static void get(struct session_store *store, const json_t *arguments, struct arena *arena, json_t *output) {
        struct session_item item = { 0 };
        struct error err;
        int found =
                session_store_get(store, (enum session_table)json_integer_value(json_array_get(arguments, 0)),
                                  json_string_value(json_array_get(arguments, 1)), arena, &item, &err);

        if (found < 0)
                json_set_text(output, "error", err.message);
        json_put(output, "found", json_boolean(found > 0));
        json_set_text(output, "value", item.value);
        json_put(output, "version", json_integer((json_int_t)item.version));
}

static void list(struct session_store *store, const json_t *arguments, struct arena *arena, json_t *output) {
        json_t *keys = json_array();
        struct session_item *items;
        struct error err;
        size_t count = 0;

        if (session_store_list(store, (enum session_table)json_integer_value(json_array_get(arguments, 0)),
                               json_string_value(json_array_get(arguments, 1)),
                               json_string_value(json_array_get(arguments, 2)),
                               json_is_true(json_array_get(arguments, 3)),
                               (size_t)json_integer_value(json_array_get(arguments, 4)), arena, &items,
                               &count, &err) < 0)
                json_set_text(output, "error", err.message);
        for (size_t i = 0; i < count; i++)
                json_add(keys, json_string(items[i].key));
        json_put(output, "keys", keys);
}

static void write_changes(struct session_store *store, const json_t *arguments, struct arena *arena,
                          json_t *output) {
        size_t count = json_array_size(arguments), i;
        struct session_change *changes = arena_array(arena, count + 1, sizeof(*changes));
        const json_t *change;
        struct error err;
        int written;

        json_array_foreach (arguments, i, change)
                changes[i] = (struct session_change){
                        .table = (enum session_table)json_integer_value(json_array_get(change, 0)),
                        .key = json_string_value(json_array_get(change, 1)),
                        .value = json_string_value(json_array_get(change, 2)),
                        .expect = (enum session_expect)json_integer_value(json_array_get(change, 3)),
                        .version = (uint64_t)json_integer_value(json_array_get(change, 4)),
                };
        written = session_store_write(store, changes, count, &err);
        if (written < 0)
                json_set_text(output, "error", err.message);
        else
                json_put(output, "written", json_integer(written));
}

static void answer_lines(struct session_store *store) {
        char *line = NULL;
        size_t size = 0;
        ssize_t length;

        while ((length = getline(&line, &size, stdin)) > 0) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                json_t *input JSON_CLEANUP = json_loadb(line, (size_t)length, 0, NULL);
                json_t *output JSON_CLEANUP = json_object();

                if (json_object_get(input, "get"))
                        get(store, json_object_get(input, "get"), arena, output);
                else if (json_object_get(input, "list"))
                        list(store, json_object_get(input, "list"), arena, output);
                else
                        write_changes(store, json_object_get(input, "write"), arena, output);
                put_line(output);
        }
        free(line);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = { STORE_CONTRACT(setup, teardown) };
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct session_store *store;
        struct error err;
        int result = 0;

        if (argc < 4)
                return 2;
        config = (struct session_records_config){ client_of_arguments(argc, argv, arena), argv[2], argv[3] };
        if (argc > 4) {
                result = cmocka_run_group_tests(tests, NULL, NULL);
        } else if (session_records_open(&config, &store, &err) == 0) {
                answer_lines(store);
                session_store_close(store);
        } else {
                fprintf(stderr, "error: %s\n", err.message);
                result = 1;
        }
        aws_client_close(config.client);
        return result;
}
