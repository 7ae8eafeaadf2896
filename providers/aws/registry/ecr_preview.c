/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/registry/ecr_preview.h"

#include "base/array.h"
#include "base/json.h"
#include "providers/aws/client/texts.h"
#include "providers/aws/services/ecr.h"

#include <string.h>

#define PATIENCE_MS (60 * 1000)

static int wait_until(const struct provider *provider, int64_t ms, struct error *err) {
        const struct clock *clock = aws_client_clock(provider->client);

        if (clock->sleep_until(clock, ms) < 0)
                return error_set_kind(err, ERROR_INTERRUPTED,
                                      "interrupted while ECR prepared a lifecycle preview");
        return 0;
}

static int64_t now_ms(const struct provider *provider) {
        const struct clock *clock = aws_client_clock(provider->client);

        return clock->monotonic_ms(clock);
}

/* Somebody else's preview of the same repository is let finish. Returns 1 where there will be none. */
static int start(struct provider *provider, const char *repository, const char *policy, int64_t deadline,
                 struct arena *arena, struct ecr_preview *ret, struct error *err) {
        for (;;) {
                struct aws_request request = ecr_start_preview(repository, policy, arena);
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                struct error failure;

                if (aws_call(provider->client, &request, &response, &failure) == 0)
                        return 0;
                if (failure.kind == ERROR_INTERRUPTED) {
                        *err = failure;
                        return -1;
                }
                if (!aws_failed_with(&response, "LifecyclePolicyPreviewInProgressException") ||
                    now_ms(provider) >= deadline) {
                        ret->missing = arena_strdup(arena, response.error_code[0] ? response.error_code
                                                                                  : "no answer");
                        return 1;
                }
                if (wait_until(provider, now_ms(provider) + 2000, err) < 0)
                        return -1;
        }
}

static void take_page(const json_t *results, struct arena *arena, struct ecr_preview *ret) {
        const json_t *result;
        size_t i;

        json_array_foreach (results, i, result) {
                const char *digest = json_text(result, "imageDigest"),
                           *action = json_text(json_object_get(result, "action"), "type");

                if (!digest || !texts_same(action, "EXPIRE"))
                        continue;
                ret->digests = array_grow(arena, ret->digests, ret->count, sizeof(*ret->digests));
                ret->digests[ret->count++] = arena_strdup(arena, digest);
        }
}

/* One page, or one look at whether there are any yet. *token NULL: that was all. Returns 1 where it is too early. */
static int look(struct provider *provider, const char *repository, const char **token, struct arena *arena,
                struct ecr_preview *ret, struct error *err) {
        struct aws_request request = ecr_get_preview(repository, *token, arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct error failure;
        const char *status;

        if (aws_call(provider->client, &request, &response, &failure) < 0) {
                if (failure.kind == ERROR_INTERRUPTED) {
                        *err = failure;
                        return -1;
                }
                if (aws_failed_with(&response, "LifecyclePolicyPreviewNotFoundException"))
                        return 1;
                ret->missing =
                        arena_strdup(arena, response.error_code[0] ? response.error_code : "no answer");
                return 0;
        }
        status = json_text(response.json, "status");
        if (texts_same(status, "IN_PROGRESS"))
                return 1;
        if (!texts_same(status, "COMPLETE")) {
                ret->missing = arena_printf(arena, "its preview ended as %s", status ? status : "nothing");
                return 0;
        }
        take_page(json_object_get(response.json, "previewResults"), arena, ret);
        *token = arena_strdup(arena, json_text(response.json, "nextToken"));
        return 0;
}

int ecr_preview(struct provider *provider, const char *repository, const char *policy, struct arena *arena,
                struct ecr_preview *ret, struct error *err) {
        int64_t deadline = now_ms(provider) + PATIENCE_MS, gap = 200;
        const char *token = NULL;
        int result;

        *ret = (struct ecr_preview){ 0 };
        result = start(provider, repository, policy, deadline, arena, ret, err);
        if (result != 0)
                return result < 0 ? -1 : 0;
        for (;;) {
                result = look(provider, repository, &token, arena, ret, err);
                if (result < 0)
                        return -1;
                if (result == 0 && (ret->missing || !token || !*token))
                        return 0;
                if (now_ms(provider) >= deadline) {
                        ret->missing = "its preview is not ready after a minute";
                        return 0;
                }
                if (result == 0)
                        continue;
                if (wait_until(provider, now_ms(provider) + gap, err) < 0)
                        return -1;
                gap = gap < 2000 ? gap * 2 : gap;
        }
}

bool ecr_preview_deletes(const struct ecr_preview *preview, const char *digest) {
        for (size_t i = 0; i < preview->count; i++) {
                if (strcmp(preview->digests[i], digest) == 0)
                        return true;
        }
        return false;
}
