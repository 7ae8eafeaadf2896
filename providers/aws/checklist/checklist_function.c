/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A function of our own, like one that serves sessions: its image, role, network and key. Its tags say since when it is there: one that is
 * younger than a run can be belongs to a run that is under way.
 */
#include "base/clock.h"
#include "base/digest.h"
#include "base/json.h"
#include "base/text.h"
#include "providers/aws/checklist/checklist_parts.h"
#include "providers/aws/services/lambda.h"
#include "providers/aws/services/logs.h"
#include "providers/aws/shared/names.h"
#include "providers/aws/workspace/layout.h"

#include <stdio.h>
#include <string.h>

#define RUN_MS (INT64_C(15) * 60 * 1000) /* no run takes longer */
#define ACTIVE_MS (INT64_C(5) * 60 * 1000)
#define LOOK_MS 1000
#define REMOVE_MS 60000
#define UNKNOWN_MS 10000 /* the time for which a new function may be unknown to the next call */
#define FUNCTION_S 60
#define MEMORY_MB 512
#define EXECUTION_MS 30000
#define STREAMED_MS 1000 /* the code prints, and waits twice as long */
#define IDLE_MS 4000     /* Lambda freezes at once; the runtime sees what is longer than two seconds */
#define THROTTLED_MS 60000
#define FREEZES_MAX 3

static const char *const absent[] = { "ResourceNotFoundException", NULL };

static int pause_ms(const struct checklist *list, int64_t ms, struct error *err) {
        const struct clock *clock = aws_client_clock(list->client);

        if (clock->sleep_until(clock, clock->monotonic_ms(clock) + ms) < 0 || checklist_is_over(list))
                return error_set_kind(err, ERROR_INTERRUPTED, "it was interrupted");
        return 0;
}

/* --- the function --- */

/* Finds one that the runtime is in. */
static int find_model(struct checklist *list, json_t **ret, struct error *err) {
        for (size_t i = 0; i < list->asked->environment_count; i++) {
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                struct aws_request request = lambda_get_function(
                        names_function(list->provider->prefix, list->asked->environments[i], list->arena),
                        list->arena);
                const json_t *config, *entry;
                const char *program;

                if (aws_call_accepting(list->client, &request, absent, &response, err) < 0)
                        return -1;
                config = json_object_get(json_object_get(response.json, "Configuration"),
                                         "ImageConfigResponse");
                entry = json_object_get(json_object_get(config, "ImageConfig"), "EntryPoint");
                program = json_string_value(json_array_get(entry, 0));
                if (program && text_begins_with(program, "/opt/berth/")) {
                        *ret = json_incref(response.json);
                        return 0;
                }
        }
        return error_set_kind(
                err, ERROR_NOT_FOUND,
                "no environment is applied whose image has the runtime: `berth image runtime`, and apply "
                "an Environment of that image");
}

static void copy_unless_empty(json_t *to, const char *name, json_t *value) {
        if (value && (json_is_string(value) ? json_string_length(value) > 0 : json_object_size(value) > 0))
                json_put(to, name, json_incref(value));
}

static json_t *tags_of(const struct checklist *list) {
        const struct clock *clock = aws_client_clock(list->client);
        char now[32];

        clock_format(clock->wall_ms(clock), now, sizeof(now));
        return json_checked(json_pack("{s:s, s:s}", CHECKLIST_TAG, list->owner, CHECKLIST_TAG_AT, now));
}

static json_t *create_body(struct checklist *list, const json_t *model) {
        json_t *config = json_object_get(model, "Configuration");
        const json_t *code = json_object_get(model, "Code"), *vpc = json_object_get(config, "VpcConfig");
        const char *image = json_text(code, "ResolvedImageUri");
        json_t *body = json_checked(
                json_pack("{s:s, s:s, s:s, s:{s:s}, s:s, s:i, s:i, s:{s:s}, s:o}", "FunctionName", list->name,
                          "Description", "of `berth doctor --aws`, for a few minutes", "PackageType", "Image",
                          "Code", "ImageUri", image ? image : json_text(code, "ImageUri"), "Role",
                          json_text(config, "Role"), "Timeout", FUNCTION_S, "MemorySize", MEMORY_MB,
                          "TenancyConfig", "TenantIsolationMode", "PER_TENANT", "Tags", tags_of(list)));

        copy_unless_empty(body, "ImageConfig",
                          json_object_get(json_object_get(config, "ImageConfigResponse"), "ImageConfig"));
        copy_unless_empty(body, "KMSKeyArn", json_object_get(config, "KMSKeyArn"));
        if (json_object_get(config, "Architectures"))
                json_put(body, "Architectures", json_incref(json_object_get(config, "Architectures")));
        if (json_array_size(json_object_get(vpc, "SubnetIds")) > 0)
                json_put(body, "VpcConfig",
                         json_pack("{s:O, s:O}", "SubnetIds", json_object_get(vpc, "SubnetIds"),
                                   "SecurityGroupIds", json_object_get(vpc, "SecurityGroupIds")));
        return body;
}

static int wait_active(struct checklist *list, struct error *err) {
        const struct clock *clock = aws_client_clock(list->client);
        int64_t until_ms = clock->monotonic_ms(clock) + ACTIVE_MS;

        for (;;) {
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                struct aws_request request = lambda_get_function(list->name, list->arena);
                const json_t *config;
                const char *state;

                if (aws_call_accepting(list->client, &request, absent, &response, err) < 0)
                        return -1;
                config = json_object_get(response.json, "Configuration");
                state = json_text(config, "State");
                if (state && strcmp(state, "Active") == 0) {
                        const char *mode =
                                json_text(json_object_get(config, "TenancyConfig"), "TenantIsolationMode");

                        return mode && strcmp(mode, "PER_TENANT") == 0
                                       ? 0
                                       : error_set(err, "Lambda made the function without tenant isolation");
                }
                if (state && strcmp(state, "Failed") == 0)
                        return error_set(err, "Lambda cannot use its image: %s",
                                         json_text(config, "StateReason") ? json_text(config, "StateReason")
                                                                          : "it does not say why");
                if (clock->monotonic_ms(clock) >= until_ms)
                        return error_set(err, "it is not active after %d minutes", (int)(ACTIVE_MS / 60000));
                if (pause_ms(list, LOOK_MS, err) < 0)
                        return -1;
        }
}

int checklist_make_function(struct checklist *list, struct error *err) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        json_t *model JSON_CLEANUP = NULL;
        struct aws_request request;

        if (find_model(list, &model, err) < 0)
                return -1;
        request = lambda_create_function(create_body(list, model), list->arena);
        if (aws_call(list->client, &request, &response, err) == 0) {
                list->has_function = true;
                return wait_active(list, err);
        }
        /* One whose answer is lost may be there, and goes with the rest. */
        list->has_function = response.status == 0 || response.status >= 500;
        return -1;
}

/* Whether it is ours to delete: 1; 0: it is not there. `before`: left by a run that is over. */
static int is_own_function(struct checklist *list, bool before, struct error *err) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request = lambda_get_function(list->name, list->arena);
        const struct clock *clock = aws_client_clock(list->client);
        const char *owner;
        int64_t age_ms;

        if (aws_call_accepting(list->cleaner, &request, absent, &response, err) < 0)
                return -1;
        if (*response.error_code)
                return 0;
        owner = json_text(json_object_get(response.json, "Tags"), CHECKLIST_TAG);
        if (!owner || strcmp(owner, list->owner) != 0)
                return error_set(
                        err,
                        "there is a function %s that is not this check's (it lacks the tag %s): it stays, "
                        "and its name is needed",
                        list->name, CHECKLIST_TAG);
        age_ms = clock->wall_ms(clock) -
                 clock_parse(json_text(json_object_get(response.json, "Tags"), CHECKLIST_TAG_AT));
        if (before && age_ms >= 0 && age_ms < RUN_MS)
                return error_set(
                        err,
                        "another `berth doctor --aws` of this stack runs, or died less than %d minutes ago: "
                        "try again then, or delete the function %s",
                        (int)(RUN_MS / 60000), list->name);
        return 1;
}

/* 1: it is gone; 0: Lambda is busy with it still, or, where it is absent, has not heard of it yet. */
static int try_to_remove(struct checklist *list, bool before, bool *ret_absent, struct error *err) {
        static const char *const told[] = { "ResourceNotFoundException", "ResourceConflictException", NULL };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request = lambda_delete_function(list->name, list->arena);
        int ours = is_own_function(list, before, err);

        if (ours < 0)
                return -1;
        *ret_absent = ours == 0;
        if (ours == 0)
                return before;
        if (aws_call_accepting(list->cleaner, &request, told, &response, err) < 0)
                return -1;
        return !aws_failed_with(&response, "ResourceConflictException");
}

int checklist_remove_function(struct checklist *list, bool before, struct error *err) {
        const struct clock *clock = aws_client_clock(list->cleaner);
        int64_t began_ms = clock->monotonic_ms(clock);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request;
        bool is_absent;
        int gone;

        if (!before && !list->has_function)
                return 0;
        while ((gone = try_to_remove(list, before, &is_absent, err)) == 0) {
                if (is_absent && clock->monotonic_ms(clock) - began_ms > UNKNOWN_MS)
                        break;
                if (clock->monotonic_ms(clock) - began_ms > REMOVE_MS)
                        return error_set(
                                err,
                                "the function %s could not be deleted within a minute: `berth doctor --aws` "
                                "does it when it is run in a quarter of an hour",
                                list->name);
                (void)clock->sleep_until(clock, clock->monotonic_ms(clock) + LOOK_MS);
        }
        if (gone < 0)
                return -1;
        /* Berth's own role may not make one; another role may. */
        request = logs_delete_group(arena_printf(list->arena, "/aws/lambda/%s", list->name), list->arena);
        return before ? 0 : aws_call_accepting(list->cleaner, &request, absent, &response, err);
}

/* --- what it answers --- */

struct heard {
        const struct clock *clock;
        struct message_reader reader;
        struct error lie;
        bool lied, has_done, has_end, left_result;
        int64_t first_ms, end_ms; /* of output; of the last byte */
        enum report_status status;
        char value[256], boot[INVOCATION_BOOT_SIZE], reason[512];
        int64_t frozen_ms;
        enum invocation_refusal refusal;
        enum invocation_was was;
};

static int hear_message(struct heard *heard, const struct message *message, struct error *err) {
        struct invocation_file file;
        struct invocation_end end;
        struct report report;

        switch (invocation_said(message)) {
        case INVOCATION_FILE:
                return invocation_file_read(message, &file, err);
        case INVOCATION_END:
                if (invocation_end_read(message, &end, err) < 0)
                        return -1;
                heard->has_end = true;
                heard->left_result = end.left_result;
                heard->frozen_ms = end.frozen_ms;
                heard->refusal = end.refusal;
                heard->was = end.was;
                memcpy(heard->boot, end.boot, sizeof(heard->boot));
                snprintf(heard->reason, sizeof(heard->reason), "%s", end.reason ? end.reason : "");
                return 0;
        case INVOCATION_REPORT:
        default:
                if (report_read(message, &report, err) < 0)
                        return -1;
                if (report.type == REPORT_OUTPUT && heard->first_ms == 0)
                        heard->first_ms = heard->clock->monotonic_ms(heard->clock);
                if (report.type == REPORT_DONE) {
                        heard->has_done = true;
                        heard->status = report.status;
                        snprintf(heard->value, sizeof(heard->value), "%s",
                                 report.value.text    ? report.value.text
                                 : report.error.value ? report.error.value
                                                      : "");
                }
                return 0;
        }
}

static bool sink_answer(void *context, const void *bytes, size_t length) {
        struct heard *heard = context;
        const char *at = bytes;

        while (length > 0 && !heard->lied) {
                struct message message MESSAGE_CLEANUP = MESSAGE_INIT;
                size_t used;
                int whole = message_read(&heard->reader, at, length, &used, &message, &heard->lie);

                heard->lied = whole < 0 ||
                              (whole == MESSAGE_WHOLE && hear_message(heard, &message, &heard->lie) < 0);
                at += used;
                length -= used;
        }
        heard->end_ms = heard->clock->monotonic_ms(heard->clock);
        return !heard->lied;
}

static int check_answer(const struct heard *heard, const struct invoke_result *result, struct error *err) {
        if (result->end != INVOKE_DONE)
                return error_set(err, "the function did not answer: %s%s%s", result->code,
                                 result->code[0] && result->details[0] ? ": " : "", result->details);
        if (heard->lied)
                return error_set(err, "the function's answer is not the runtime's: %s", heard->lie.message);
        if (!heard->has_end)
                return error_set(err, "its answer has no end");
        if (heard->refusal != INVOCATION_TAKEN)
                return error_set(err, "the runtime refused it: %s", heard->reason);
        if (!heard->has_done || heard->status != REPORT_OK)
                return error_set(err, "its code did not end well: %s", heard->value);
        return 0;
}

/* One execution, whose code comes by a presigned request and whose result goes out by one. */
static int run_execution(struct checklist *list, size_t who, const char *code, struct heard *ret,
                         struct error *err) {
        struct aws_client *client = list->client;
        struct strbuf event STRBUF_CLEANUP = STRBUF_SECRET;
        json_t *transfer JSON_CLEANUP = NULL, *body JSON_CLEANUP = NULL;
        char sha256[SHA256_HEX_SIZE];
        struct invoke_result result;
        struct invocation invocation = {
                .session = list->sessions[who],
                .n = list->n[who] + 1,
                .started_ms = aws_client_wall_ms(client),
                .timeout_ms = EXECUTION_MS,
                .previous_n = list->n[who],
                .previous_boot = list->boot[who][0] ? list->boot[who] : NULL,
                .body_input = -1,
                .request = { .type = REQUEST_EXECUTE, .n = list->n[who] + 1, .context = "main" },
        };
        struct invoke_call call = { .function = list->name,
                                    .tenant = list->sessions[who],
                                    .timeout_ms = (int64_t)FUNCTION_S * 1000,
                                    .throttled_ms = THROTTLED_MS,
                                    .sink = sink_answer,
                                    .context = ret };
        const char *key = checklist_key(list, who, "body"), *get;

        *ret = (struct heard){ .clock = aws_client_clock(client) };
        if (checklist_put(list, key, code, err) < 0 || checklist_sign(list, key, &get, err) < 0)
                return -1;
        transfer = checklist_policy(list, who, (uint64_t)INVOCATION_RESULT_MAX, err);
        if (!transfer)
                return -1;
        digest_sha256_hex(code, strlen(code), sha256);
        body = json_checked(json_pack("{s:s, s:I, s:s}", "get", get, "bytes", (json_int_t)strlen(code),
                                      "sha256", sha256));
        invocation.body = body;
        invocation.transfer = transfer;
        if (invocation_write(&invocation, &event, err) < 0)
                return -1;
        call.payload = strbuf_text(&event);
        call.length = event.length;
        invoke(client, &call, &result);
        message_reader_release(&ret->reader);
        strbuf_release(&event);
        if (result.streams_missing)
                return error_set(err, "there is no InvokeWithResponseStream here");
        list->n[who]++;
        memcpy(list->boot[who], ret->boot, sizeof(ret->boot));
        return check_answer(ret, &result, err);
}

/* --- what is tried --- */

static int try_stream(struct checklist *list, struct heard *heard, struct error *err) {
        if (run_execution(list, 0, "import time\nprint('first', flush=True)\ntime.sleep(2)\nx = 41\n'last'",
                          heard, err) < 0)
                return -1;
        if (heard->first_ms == 0 || heard->end_ms - heard->first_ms < STREAMED_MS)
                return error_set(err, "its output came in one piece, when all was over");
        return 0;
}

static int try_tenants(struct checklist *list, struct error *err) {
        static bool (*const nobody)(void *, const void *, size_t) = sink_answer;
        struct heard heard = { .clock = aws_client_clock(list->client) };
        const struct invoke_call call = { .function = list->name,
                                          .payload = "{}",
                                          .length = 2,
                                          .timeout_ms = (int64_t)FUNCTION_S * 1000,
                                          .throttled_ms = THROTTLED_MS,
                                          .sink = nobody,
                                          .context = &heard };
        struct invoke_result result;

        invoke(list->client, &call, &result);
        message_reader_release(&heard.reader);
        if (result.end != INVOKE_REFUSED || !result.tenant_unexpected)
                return error_set(err, "Lambda was to refuse an invocation that names no tenant: %s",
                                 result.end == INVOKE_DONE || result.end == INVOKE_FAILED
                                         ? "it ran the function"
                                         : result.details);
        if (run_execution(list, 1, "'x' in globals()", &heard, err) < 0)
                return -1;
        if (strcmp(heard.value, "False") != 0 || strcmp(list->boot[0], list->boot[1]) == 0)
                return error_set(err, "a second tenant was in the first one's environment");
        return 0;
}

/* 1: frozen; 0: Lambda has not kept the environment, so that nothing was seen. */
static int try_freeze(struct checklist *list, struct heard *heard, struct error *err) {
        for (int number = 0; number < FREEZES_MAX; number++) {
                char before[INVOCATION_BOOT_SIZE];

                memcpy(before, list->boot[0], sizeof(before));
                if (pause_ms(list, IDLE_MS, err) < 0 ||
                    run_execution(list, 0, "had, x = globals().get('x'), 41\nhad", heard, err) < 0)
                        return -1;
                if (strcmp(before, list->boot[0]) != 0)
                        continue;
                if (strcmp(heard->value, "41") != 0)
                        return error_set(err, "the environment was the same, and its variables were gone");
                if (heard->frozen_ms <= 0)
                        return error_set(
                                err,
                                "the environment ran on between two invocations, or the runtime has not seen that "
                                "it stood still");
                return 1;
        }
        return 0;
}

void checklist_invocations(struct checklist *list) {
        struct heard heard;
        struct error err;
        int frozen;

        if (try_stream(list, &heard, &err) < 0) {
                checklist_found(list, "streams", &err, " ");
                checklist_skipped(list, "tenants", "the function does not answer as it should");
                checklist_skipped(list, "freeze", "the function does not answer as it should");
                return;
        }
        checklist_found(list, "streams", NULL, "output came %lld ms before the end",
                        (long long)(heard.end_ms - heard.first_ms));
        if (heard.left_result) {
                checklist_found(list, "transfer", NULL,
                                "the function fetched its code and left its result by presigned requests");
        } else {
                (void)error_set(&err,
                                "the function could not leave its result in the bucket by a presigned POST");
                checklist_found(list, "transfer", &err, " ");
        }
        if (checklist_is_over(list))
                return;
        if (try_tenants(list, &err) < 0)
                checklist_found(list, "tenants", &err, " ");
        else
                checklist_found(list, "tenants", NULL,
                                "two of them have environments of their own, and who names none is refused");
        if (checklist_is_over(list))
                return;
        frozen = try_freeze(list, &heard, &err);
        if (frozen == 0)
                checklist_skipped(list, "freeze", "Lambda made a new environment each time");
        else if (frozen > 0)
                checklist_found(list, "freeze", NULL,
                                "its environment stood still for %lld ms, and its variables stayed",
                                (long long)heard.frozen_ms);
        else
                checklist_found(list, "freeze", &err, " ");
}
