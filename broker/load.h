/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many requests each client and each owner has under way, streams among them: whoever opens as many as he can leaves room for
 * others. Any thread's.
 */
#ifndef BERTH_BROKER_LOAD_H
#define BERTH_BROKER_LOAD_H

#include <stdbool.h>
#include <stddef.h>

#define LOAD_PER_OWNER 64
#define LOAD_PER_CLIENT 160

struct load;
struct load *load_new(void);
void load_free(struct load *load); /* NULL is fine */

/* False where one of the two has as many as it may; then nothing is to be left. `owner` may be NULL. */
bool load_enter(struct load *load, const char *client, const char *owner);
void load_leave(struct load *load, const char *client, const char *owner);

#endif
