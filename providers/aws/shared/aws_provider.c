/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/shared/aws_provider.h"

#include "base/array.h"
#include "providers/aws/client/texts.h"

struct s3_bucket aws_bucket(const struct provider *provider) {
        return (struct s3_bucket){ .name = provider->bucket, .account = provider->account };
}

const char *aws_desired_key(const struct provider *provider, const char *recorded) {
        return provider->kms_key ? provider->kms_key : recorded;
}

const char *aws_observed_key(const struct provider *provider, const char *there, const char *recorded) {
        if (!provider->kms_key)
                return recorded;
        return there && *there ? there : NULL;
}

int aws_need_account(const struct provider *provider, struct error *err) {
        return provider->account ? 0 : error_set(err, "the account is not known: plan with --refresh sweep");
}

void aws_copy_members(struct value *to, const struct value *from, const char *const *names,
                      struct arena *arena) {
        for (; *names; names++) {
                const struct value *member = value_get(from, *names);

                if (member)
                        value_set(arena, to, *names, *member);
        }
}

bool aws_list_has(const struct value *list, const char *text) {
        for (uint32_t i = 0; list && list->type == VALUE_LIST && i < list->count; i++) {
                if (texts_same(value_text_of(&list->items[i]), text))
                        return true;
        }
        return false;
}

void aws_leave(struct left_drift_list *list, const struct value *accepted, const char *word,
               struct left_drift left, struct arena *arena) {
        if (aws_list_has(accepted, word))
                return;
        list->items = array_grow(arena, list->items, list->count, sizeof(*list->items));
        list->items[list->count++] = left;
}

int aws_ask_fact(struct provider *provider, const struct aws_request *request, const char *const *codes,
                 struct aws_response *response, const char **ret_unknown, struct arena *arena,
                 struct error *err) {
        struct error failure = { 0 };

        *ret_unknown = NULL;
        if (aws_call_accepting(provider->client, request, codes, response, &failure) == 0)
                return 0;
        if (failure.kind == ERROR_INTERRUPTED) {
                *err = failure;
                return -1;
        }
        *ret_unknown = arena_strdup(arena, failure.message);
        return 0;
}

void aws_warn(struct observation *observation, const char *warning, struct arena *arena) {
        observation->warnings = array_grow(arena, observation->warnings, observation->warning_count,
                                           sizeof(*observation->warnings));
        observation->warnings[observation->warning_count++] = warning;
}

void aws_refuse(struct change *change, struct refusal refusal, struct arena *arena) {
        change->refusals =
                array_grow(arena, change->refusals, change->refusal_count, sizeof(*change->refusals));
        change->refusals[change->refusal_count++] = refusal;
}

const char *aws_readable_bytes(uint64_t bytes, struct arena *arena) {
        static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB" };
        double amount = (double)bytes / 1024;
        size_t unit = 0;

        if (bytes < 1024)
                return "";
        while (amount >= 1024 && unit + 1 < sizeof(units) / sizeof(*units)) {
                amount /= 1024;
                unit++;
        }
        return arena_printf(arena, " (%.1f %s)", amount, units[unit]);
}
