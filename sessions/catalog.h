/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was applied, as far as a session needs to know: which environments there are, and which agents, in which of them. Read
 * anew for each question, so that an apply holds from the next request on.
 */
#ifndef BERTH_SESSIONS_CATALOG_H
#define BERTH_SESSIONS_CATALOG_H

#include "base/arena.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct catalog_environment {
        const char *name;
        const char *image_digest; /* NULL where it has no image of its own */
};

struct catalog_agent {
        const char *name;
        const char *environment; /* NULL where it has none */
        bool in_service;         /* active, and not taken from its environment by disassociate */
        int64_t containers;      /* so many may run for it at the same time; 0: no limit */
        bool reject;             /* work beyond that is turned away; else it waits */
};

/* 1 and what it is, in the arena; 0 where there is none of that name. Any thread's. */
struct catalog {
        int (*environment)(struct catalog *catalog, const char *name, struct arena *arena,
                           struct catalog_environment *ret, struct error *err);
        int (*agent)(struct catalog *catalog, const char *name, struct arena *arena,
                     struct catalog_agent *ret, struct error *err);
};

#endif
