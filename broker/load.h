/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many requests each client and each owner has under way, streams among them: whoever opens as many as he can leaves room for
 * others. Any thread's.
 */
#ifndef BERTH_BROKER_LOAD_H
#define BERTH_BROKER_LOAD_H

#include "broker/config.h"

#include <stdbool.h>
#include <stddef.h>

struct load;
struct load *load_new(void);
void load_free(struct load *load); /* NULL is fine */

/* False where one of the two has as many as `limits` let it have; then nothing is to be left. `owner` may be NULL. */
bool load_enter(struct load *load, const struct broker_limits *limits, const char *client,
                const char *owner) MUST_USE;
void load_leave(struct load *load, const char *client, const char *owner);

#endif
