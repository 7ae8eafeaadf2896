/* SPDX-License-Identifier: Apache-2.0 */
/* Between what providers see (struct observation) and what the state keeps of it (struct sighting). */
#ifndef BERTH_CONTROLLER_SIGHTING_H
#define BERTH_CONTROLLER_SIGHTING_H

#include "providers/provider.h"
#include "state/state.h"

/* Borrows everything from `observation`. */
void sighting_of(const struct observation *observation, const char *address, int64_t wall_ms,
                 struct sighting *ret);
/* Decodes; the texts live where the sighting's do. */
int sighting_recall(struct sighting *sighting, const char *name, struct arena *arena, struct observation *ret,
                    struct error *err) MUST_USE;

#endif
