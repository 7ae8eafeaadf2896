/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signs requests to S3 for others, for a test that recomputes and uses them, by lines of JSON:
 *
 *     {"bucket", "key", "seconds"} -> {"url", "error"}
 *     {"bucket", "key", "seconds", "isPrefix", "bytesMax", "tagging"?, "more": {name: value}} -> {"url", "fields": {name: value}, "error"}
 *
 * Argument: the Stack's `aws` map as JSON, "{}" where absent.
 */
#include "cli_support.h"
#include "providers/aws/client/aws_presign.h"

static void get(struct aws_client *client, const json_t *input, struct arena *arena, json_t *output) {
        const char *url = NULL;
        struct error err = { 0 };

        if (aws_presign_get(client, json_text(input, "bucket"), json_text(input, "key"),
                            json_integer_or(input, "seconds", 0), arena, &url, &err) < 0)
                json_set_text(output, "error", err.message);
        json_set_text(output, "url", url);
}

static void post(struct aws_client *client, const json_t *input, struct arena *arena, json_t *output) {
        struct aws_query more[32] = { { 0 } };
        struct aws_post_policy policy = { .bucket = json_text(input, "bucket"),
                                          .key = json_text(input, "key"),
                                          .is_prefix = json_is_true(json_object_get(input, "isPrefix")),
                                          .bytes_max = (uint64_t)json_integer_or(input, "bytesMax", 0),
                                          .tagging = json_text(input, "tagging"),
                                          .more = more,
                                          .seconds = json_integer_or(input, "seconds", 0) };
        struct aws_post_form form = { 0 };
        json_t *fields = json_object(), *value;
        struct error err = { 0 };
        const char *name;
        size_t count = 0;

        json_object_foreach (json_object_get(input, "more"), name, value) {
                if (count < 31)
                        more[count++] = (struct aws_query){ name, json_string_value(value) };
        }
        if (aws_presign_post(client, &policy, arena, &form, &err) < 0)
                json_set_text(output, "error", err.message);
        for (size_t i = 0; i < form.count; i++)
                json_set_text(fields, form.fields[i].name, form.fields[i].value);
        json_set_text(output, "url", form.url);
        json_put(output, "fields", fields);
}

static void presign(struct aws_client *client, const json_t *input, struct arena *arena, json_t *output) {
        if (json_object_get(input, "bytesMax"))
                post(client, input, arena, output);
        else
                get(client, input, arena, output);
}

int main(int argc, char **argv) {
        return client_answer_lines(argc, argv, presign);
}
