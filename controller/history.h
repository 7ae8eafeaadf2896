/* SPDX-License-Identifier: Apache-2.0 */
/* Who did what, when: one entry a run, written when it begins and again when it ends. */
#ifndef BERTH_CONTROLLER_HISTORY_H
#define BERTH_CONTROLLER_HISTORY_H

#include "controller/apply.h"

int history_begin(const struct apply_args *args, const struct apply_result *result, int64_t wall_ms,
                  struct error *err) MUST_USE;
int history_end(const struct apply_args *args, const struct apply_result *result, int64_t wall_ms,
                struct error *err) MUST_USE;

#endif
