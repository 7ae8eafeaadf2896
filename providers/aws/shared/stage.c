/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A change's place is progress->stage, and whatever a later stage needs stands in `data`: a turn
 * keeps nothing else. A run that died is not carried on from there. The next run reads the real
 * state and plans again, so that every first stage must accept what an earlier run has left.
 * Deadlines count by the monotonic clock from when a stage was entered.
 */
#include "providers/aws/shared/stage.h"

#include <string.h>

static int64_t turn_now_ms(const struct stage_turn *turn) {
        const struct clock *clock = aws_client_clock(turn->provider->client);

        return clock->monotonic_ms(clock);
}

static void enter_stage(struct stage_turn *turn, const struct stage *stages, int stage) {
        struct progress *progress = turn->progress;

        progress->stage = stage;
        progress->stage_since_ms = turn_now_ms(turn);
        progress->not_before_ms = 0;
        progress->attempts = 0;
        progress->waiting_for = stages ? stages[stage].waiting_for : NULL;
}

int stage_next(const struct stage *stages, int count, const struct change *change, int stage) {
        for (stage++; stage < count; stage++) {
                if (stages[stage].needed && stages[stage].needed(change))
                        return stage;
        }
        return count;
}

int stage_step(const struct stage *stages, int count, struct stage_turn *turn) {
        struct progress *progress = turn->progress;
        int result, next;

        if (progress->stage == 0) {
                int first = stage_next(stages, count, turn->change, 0);

                if (first == count) {
                        /* Nothing that the provider could be told: only the record changes. */
                        *turn->observed = *turn->change->observed;
                        return STEP_DONE;
                }
                enter_stage(turn, stages, first);
        } else if (progress->stage_since_ms == 0) {
                progress->stage_since_ms = turn_now_ms(turn);
        }
        progress->waiting_for = stages[progress->stage].waiting_for;
        result = stages[progress->stage].run(turn);
        if (result != STAGE_OVER)
                return result;
        next = stage_next(stages, count, turn->change, progress->stage);
        if (next == count)
                return STEP_DONE;
        enter_stage(turn, stages, next);
        return STEP_AGAIN;
}

void stage_cost(const struct stage *stages, int count, const struct change *change, struct cost *ret) {
        for (int stage = stage_next(stages, count, change, 0); stage < count;
             stage = stage_next(stages, count, change, stage)) {
                if (stages[stage].service)
                        cost_add(ret, stages[stage].service, 1);
        }
}

int stage_enter(struct stage_turn *turn, int stage) {
        enter_stage(turn, NULL, stage);
        return STEP_AGAIN;
}

int stage_wait(struct stage_turn *turn, int64_t ms) {
        turn->progress->not_before_ms = turn_now_ms(turn) + ms;
        return STEP_AGAIN;
}

int stage_start_over(struct stage_turn *turn, int stage, const char *counter, int64_t most) {
        int64_t times = value_get_integer(turn->progress->data, counter, 0);

        if (times >= most)
                return STAGE_OVER;
        value_set_integer(turn->progress->arena, stage_data(turn), counter, times + 1);
        stage_enter(turn, stage);
        return stage_wait(turn, 1000);
}

struct value *stage_data(const struct stage_turn *turn) {
        struct progress *progress = turn->progress;

        if (!progress->data)
                progress->data = value_new_map(progress->arena);
        return progress->data;
}

int64_t stage_elapsed_ms(const struct stage_turn *turn) {
        return turn_now_ms(turn) - turn->progress->stage_since_ms;
}

int64_t stage_retry_gap_ms(int64_t elapsed_ms) {
        int64_t gap = elapsed_ms / 2;

        return gap < 500 ? 500 : gap > 5000 ? 5000 : gap;
}

/* "image" is above "image.digest" and is itself. */
static bool is_at_or_above(const char *above, const char *path) {
        size_t length = strlen(above);

        return strncmp(above, path, length) == 0 && (path[length] == '\0' || path[length] == '.');
}

bool change_touches(const struct change *change, const char *path) {
        for (size_t i = 0; i < change->field_count; i++) {
                if (is_at_or_above(path, change->fields[i].path) ||
                    is_at_or_above(change->fields[i].path, path))
                        return true;
        }
        return false;
}
