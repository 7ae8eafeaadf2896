/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of it: what a death left goes first, then each thing is tried, then all that was made goes. The function is made before anything
 * else, since its name can be had once: of two who try at the same time the second is told of the first.
 */
#include "base/interrupt.h"
#include "base/json.h"
#include "providers/aws/checklist/checklist_parts.h"
#include "providers/aws/services/lambda.h"
#include "providers/tenancy.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void append_finding(struct checklist *list, struct finding finding) {
        if (list->count < list->max)
                list->findings[list->count++] = finding;
}

void checklist_found(struct checklist *list, const char *name, const struct error *err, const char *format,
                     ...) {
        char text[1024];
        va_list values;

        if (err) {
                append_finding(list, (struct finding){ .name = name,
                                                       .detail = arena_strdup(list->arena, err->message) });
                return;
        }
        va_start(values, format);
        vsnprintf(text, sizeof(text), format, values);
        va_end(values);
        append_finding(
                list,
                (struct finding){ .name = name, .works = true, .detail = arena_strdup(list->arena, text) });
}

void checklist_skipped(struct checklist *list, const char *name, const char *why) {
        append_finding(list, (struct finding){ .name = name,
                                               .optional = true,
                                               .detail = arena_printf(list->arena, "not tried: %s", why) });
}

bool checklist_is_over(const struct checklist *list) {
        return interrupt_level(aws_client_clock(list->client)->interrupt) != INTERRUPT_NONE;
}

static void check_concurrency(struct checklist *list) {
        struct aws_request request = lambda_get_account_settings();
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        const json_t *account;
        struct error err;
        int64_t limit, free;

        if (aws_call(list->client, &request, &response, &err) < 0) {
                checklist_found(list, "concurrency", &err, " ");
                return;
        }
        account = json_object_get(response.json, "AccountLimit");
        limit = json_integer_or(account, "ConcurrentExecutions", -1);
        free = json_integer_or(account, "UnreservedConcurrentExecutions", limit);
        if (limit > 0) {
                checklist_found(
                        list, "concurrency", NULL,
                        "%lld executions at once in the account, %lld of them not reserved: at most %lld sessions "
                        "with an environment",
                        (long long)limit, (long long)free, (long long)tenancy_environments(limit));
                return;
        }
        (void)error_set(&err, "Lambda tells no limit of the account");
        checklist_found(list, "concurrency", &err, " ");
}

/* -1: something of ours may still be there; err says what was the first. */
static int remove_all(struct checklist *list, struct error *err) {
        struct error others[3];
        int result = checklist_remove_function(list, false, err);

        if (checklist_remove_objects(list, result < 0 ? &others[0] : err) < 0)
                result = -1;
        if (checklist_remove_records(list, result < 0 ? &others[1] : err) < 0)
                result = -1;
        if (checklist_remove_repository(list, result < 0 ? &others[2] : err) < 0)
                result = -1;
        return result;
}

static void try_function(struct checklist *list) {
        static const char *const names[] = { "function", "streams", "transfer", "tenants", "freeze" };
        struct error err;

        if (checklist_make_function(list, &err) == 0) {
                checklist_found(list, "function", NULL, "%s, with tenant isolation, became active",
                                list->name);
                checklist_invocations(list);
                return;
        }
        if (err.kind != ERROR_NOT_FOUND) {
                checklist_found(list, "function", &err, " ");
                return;
        }
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                checklist_skipped(list, names[i], err.message);
}

static void try_all(struct checklist *list) {
        struct error err;

        checklist_found(list, "identity", NULL, "account %s, region %s", list->provider->account,
                        list->provider->region);
        check_concurrency(list);
        if (checklist_remove_function(list, true, &err) < 0) {
                checklist_found(list, "function", &err, " ");
                return;
        }
        if (!checklist_is_over(list))
                try_function(list);
        if (!checklist_is_over(list))
                checklist_presigned(list);
        if (!checklist_is_over(list))
                checklist_records(list);
        if (!checklist_is_over(list))
                checklist_registry(list);
        if (checklist_is_over(list)) {
                (void)error_set(&err, "it was interrupted: what is not listed was not tried");
                checklist_found(list, "interrupted", &err, " ");
        }
        if (remove_all(list, &err) < 0)
                checklist_found(list, "cleanup", &err, " ");
        else
                checklist_found(list, "cleanup", NULL, "all that was made for this is gone again");
}

void aws_checklist_run(const struct aws_checklist *asked, struct arena *arena, struct finding *ret,
                       size_t max, size_t *ret_count) {
        struct provider *provider = asked->provider;
        struct clock unhurried = *aws_client_clock(provider->client);
        struct checklist list = { .asked = asked,
                                  .provider = provider,
                                  .client = provider->client,
                                  .arena = arena,
                                  .findings = ret,
                                  .max = max };
        struct error err;

        unhurried.interrupt = NULL;
        *ret_count = 0;
        if (!provider->account || !provider->bucket) {
                checklist_skipped(&list, "checklist", "the account is not known");
                *ret_count = list.count;
                return;
        }
        list.bucket = aws_bucket(provider);
        list.owner = provider->stack_name;
        list.name = arena_printf(arena, "%s-doctor", provider->prefix);
        /*
         * No stack's name has an underscore. An environment that Lambda still has of an earlier
         * check does not count for this one.
         */
        list.objects = arena_printf(arena, "doctor_%s_", provider->stack_name);
        list.table = value_get_text(value_get(provider->stack, "sessions"), "table");
        for (size_t i = 0; i < CHECKLIST_TENANTS; i++)
                list.sessions[i] = arena_printf(arena, "%s%zu_%llx", list.objects, i + 1,
                                                (unsigned long long)unhurried.wall_ms(&unhurried));
        if (aws_client_open(value_get(provider->stack, "aws"), &unhurried, &list.cleaner, &err) < 0)
                checklist_found(&list, "cleanup", &err, " ");
        else
                try_all(&list);
        aws_client_close(list.cleaner);
        *ret_count = list.count;
}
