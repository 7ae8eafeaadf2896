/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Invokes functions given as lines of JSON, for tests against servers that speak Lambda:
 *
 *     {"function", "tenant"?, "payload", "timeoutMs", "throttledMs", "buffered"?, "takes"? (bytes; then no more is read)}
 *     -> {"end", "code", "details", "answer", "requestId", "streamsMissing", "tenantUnexpected"}
 *
 * Argument: the Stack's `aws` map as JSON, "{}" where absent.
 */
#include "../client/cli_support.h"
#include "base/strbuf.h"
#include "providers/aws/session/invoke.h"

#include <string.h>

struct answer {
        struct strbuf text;
        size_t takes; /* 0: all */
};

static bool take(void *context, const void *bytes, size_t length) {
        struct answer *answer = context;

        strbuf_append_bytes(&answer->text, bytes, length);
        return answer->takes == 0 || answer->text.length < answer->takes;
}

static void run(struct aws_client *client, const json_t *input, struct arena *arena, json_t *output) {
        static const char *const ends[] = { [INVOKE_DONE] = "done",
                                            [INVOKE_FAILED] = "failed",
                                            [INVOKE_THROTTLED] = "throttled",
                                            [INVOKE_REFUSED] = "refused",
                                            [INVOKE_UNKNOWN] = "unknown" };
        struct answer answer = { .takes = (size_t)json_integer_or(input, "takes", 0) };
        struct invoke_call invocation = { .function = json_text(input, "function"),
                                          .tenant = json_text(input, "tenant"),
                                          .payload = json_text(input, "payload"),
                                          .length = strlen(json_text(input, "payload")),
                                          .timeout_ms = json_integer_or(input, "timeoutMs", 3000),
                                          .throttled_ms = json_integer_or(input, "throttledMs", 0),
                                          .buffered = json_is_true(json_object_get(input, "buffered")),
                                          .sink = take,
                                          .context = &answer };
        struct invoke_result result;

        (void)arena;
        invoke(client, &invocation, &result);
        json_set_text(output, "end", ends[result.end]);
        json_set_text(output, "code", result.code);
        json_set_text(output, "details", result.details);
        json_set_text(output, "requestId", result.request_id);
        json_put(output, "answer", json_from_text(strbuf_text(&answer.text)));
        json_put(output, "streamsMissing", json_boolean(result.streams_missing));
        json_put(output, "tenantUnexpected", json_boolean(result.tenant_unexpected));
        strbuf_release(&answer.text);
}

int main(int argc, char **argv) {
        return client_answer_lines(argc, argv, run);
}
