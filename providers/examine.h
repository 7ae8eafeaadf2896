/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the place where a provider works has and lacks, for `berth doctor`.
 *
 * struct provider_ops has the function: at most `max` findings into `ret`, *ret_count; with `test` what is said to work is
 * also proven by trying.
 */
#ifndef BERTH_PROVIDERS_EXAMINE_H
#define BERTH_PROVIDERS_EXAMINE_H

#include <stdbool.h>

struct finding {
        const char *name;
        bool works;
        bool optional;      /* nothing is wrong where it does not work */
        const char *detail; /* what was found, and where it does not work what to do */
};

#endif
