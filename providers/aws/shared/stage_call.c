/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of a failed call, three kinds are told apart: what the caller takes for an answer, what passes by itself (passing.h) and is
 * tried again, and the rest, which ends the change. How long a call has failed counts from its first such answer, since a call
 * may wait for minutes for its turn within the quota before. That time stands in the change's data, by operation and code, and
 * ends with the next call that succeeds.
 */
#include "providers/aws/shared/stage_call.h"

#include "providers/aws/shared/passing.h"

#define PASSING "passing"

static int64_t failing_for_ms(struct stage_turn *turn, const struct aws_request *request, const char *code) {
        const struct clock *clock = aws_client_clock(turn->provider->client);
        struct arena *arena = turn->progress->arena;
        const char *call = arena_printf(arena, "%s %s", request->operation, code);
        int64_t now = clock->monotonic_ms(clock);
        struct value *data = stage_data(turn);

        if (!value_get(data, PASSING))
                value_set(arena, data, PASSING, *value_new_map(arena));
        if (!value_get(value_get(data, PASSING), call))
                value_set_integer(arena, (struct value *)value_get(data, PASSING), call, now);
        return now - value_get_integer(value_get(data, PASSING), call, now);
}

int stage_call(struct stage_turn *turn, const struct aws_request *request, const char *const *codes,
               struct aws_response *response) {
        struct error failure = { 0 };
        int result = aws_step_call(turn->provider->client, request, turn->progress, response, &failure);
        const struct passing *row;
        int64_t failing_ms;

        if (result == 0 && turn->progress->data)
                value_unset(turn->progress->data, PASSING);
        if (result >= 0)
                return result;
        if (aws_failed_with_any(response, codes))
                return 0;
        row = passing_find(request, response);
        failing_ms = row ? failing_for_ms(turn, request, response->error_code) : 0;
        if (row && failing_ms < row->limit_ms)
                return stage_wait(turn, stage_retry_gap_ms(failing_ms));
        *turn->err = failure;
        return row && row->cause ? error_context(turn->err, "%s", row->cause) : -1;
}

int stage_call_over(struct stage_turn *turn, struct aws_request request, const char *const *codes) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = stage_call(turn, &request, codes, &response);

        return result == 0 ? STAGE_OVER : result;
}
