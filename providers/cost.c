/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/provider.h"

#include <string.h>

void cost_add(struct cost *cost, const char *service, unsigned count) {
        for (size_t i = 0; i < cost->count; i++) {
                if (strcmp(cost->calls[i].service, service) == 0) {
                        cost->calls[i].count += count;
                        return;
                }
        }
        if (cost->count < CALL_COUNTS_MAX)
                cost->calls[cost->count++] = (struct call_count){ service, count };
}
