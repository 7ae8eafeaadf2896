/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A change as a list of stages, in the order of a table: each is entered where `needed` says so, and makes one call or
 * one poll a turn. What a change costs is read off the same table, so that prediction and deed cannot part.
 */
#ifndef BERTH_PROVIDERS_AWS_SHARED_STAGE_H
#define BERTH_PROVIDERS_AWS_SHARED_STAGE_H

#include "providers/aws/shared/aws_provider.h"

/* What one call of step() has at hand. */
struct stage_turn {
        struct provider *provider;
        const struct change *change;
        struct progress *progress;
        struct observation *observed; /* what the last read showed; what step() returns once it is done */
        struct error *err;
};

/* Besides STEP_AGAIN and -1: this stage is over, go to the next that is needed. */
#define STAGE_OVER 2

struct stage {
        const char *service;     /* of its call, for the cost; NULL where it is not counted */
        const char *waiting_for; /* as in struct progress */
        /* NULL: entered only by stage_enter(). */
        bool (*needed)(const struct change *change);
        int (*run)(struct stage_turn *turn);
};

/* Rows 1 to count - 1 are the stages; row 0 stands for "not begun". Returns what step() returns. */
int stage_step(const struct stage *stages, int count, struct stage_turn *turn);
void stage_cost(const struct stage *stages, int count, const struct change *change, struct cost *ret);
/* The first stage after `stage` that is needed, or `count`. */
int stage_next(const struct stage *stages, int count, const struct change *change, int stage);

/* Goes to a stage out of turn, with its clock and attempts at zero; returns STEP_AGAIN. */
int stage_enter(struct stage_turn *turn, int stage);
/* Stays in this stage and comes back after `ms`; returns STEP_AGAIN. */
int stage_wait(struct stage_turn *turn, int64_t ms);
/*
 * Goes to a stage out of turn, a second later: STEP_AGAIN; STAGE_OVER where that was done `most` times already, which
 * stage_data() counts as `counter`. For answers at odds with one another, as while something is being deleted.
 */
int stage_start_over(struct stage_turn *turn, int stage, const char *counter, int64_t most) MUST_USE;
/* Data for later stages (progress->data): made if absent, never NULL. */
struct value *stage_data(const struct stage_turn *turn);
/* Milliseconds since the stage was entered. */
int64_t stage_elapsed_ms(const struct stage_turn *turn);
/* How long to wait before trying again what was refused for now: half of what has passed, 0.5 to 5 s. */
int64_t stage_retry_gap_ms(int64_t elapsed_ms);

/* Whether one of the change's fields is `path`, lies below it or above it. */
bool change_touches(const struct change *change, const char *path);

#endif
