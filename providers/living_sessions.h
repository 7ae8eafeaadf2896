/* SPDX-License-Identifier: Apache-2.0 */
/* The guard has-sessions: an environment in which sessions live is neither deleted nor replaced. */
#ifndef BERTH_PROVIDERS_LIVING_SESSIONS_H
#define BERTH_PROVIDERS_LIVING_SESSIONS_H

#include "providers/provider.h"

#include <stdbool.h>
#include <stddef.h>

/* Whether this change takes an environment away from the sessions that live in it. */
bool living_sessions_matter(const struct change *change);

/*
 * The refusal, in the arena, by the owner of each session that lives there: at least one; put in
 * order here. Owners are texts of others' (a plan's printing escapes them).
 */
struct refusal living_sessions_refusal(const struct change *change, const char **owners, size_t count,
                                       struct arena *arena);

#endif
