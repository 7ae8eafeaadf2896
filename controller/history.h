/* SPDX-License-Identifier: Apache-2.0 */
/* One entry a run, with its user and time: written when it begins and again when it ends. */
#ifndef BERTH_CONTROLLER_HISTORY_H
#define BERTH_CONTROLLER_HISTORY_H

#include "controller/apply.h"

/* The user of this process, "user@host": in the arena. */
const char *history_who(struct arena *arena);

int history_begin(const struct apply_args *args, const struct apply_result *result, int64_t wall_ms,
                  struct error *err) MUST_USE;
int history_end(const struct apply_args *args, const struct apply_result *result, int64_t wall_ms,
                struct error *err) MUST_USE;

/*
 * The entry of a command that changes the state alone ("state rm"), over at once, with a run's number taken for it; to be committed
 * with its changes, which raise the serial. Lives in the arena.
 */
int history_of_edit(struct state *state, const char *command, const char *address, int64_t wall_ms,
                    struct arena *arena, struct history_entry *ret, struct error *err) MUST_USE;

#endif
