/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An observation holds pointers of one pass, a sighting what the state keeps. `resolved`, `warnings` and `claim` are
 * left out: they hold for the pass that found them.
 */
#include "controller/sighting.h"

void sighting_of(const struct observation *observation, const char *address, int64_t wall_ms,
                 struct sighting *ret) {
        *ret = (struct sighting){
                .address = address,
                .exists = observation->exists,
                .id = observation->id,
                .fingerprint = observation->fingerprint,
                .owner = observation->owner,
                .health_reason = observation->health_reason,
                .ownership = (int)observation->ownership,
                .health = (int)observation->health,
                .spec = observation->spec,
                .extra = observation->extra,
                .seen_ms = wall_ms,
        };
}

int sighting_recall(struct sighting *sighting, const char *name, struct arena *arena, struct observation *ret,
                    struct error *err) {
        if (sighting_decode(sighting, arena, err) < 0)
                return -1;
        *ret = (struct observation){
                .name = name,
                .exists = sighting->exists,
                .id = sighting->id,
                .fingerprint = sighting->fingerprint,
                .ownership = (enum ownership)sighting->ownership,
                .owner = sighting->owner,
                .health = (enum health)sighting->health,
                .health_reason = sighting->health_reason,
                .spec = sighting->spec,
                .extra = sighting->extra,
        };
        return 0;
}
