/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/provider.h"

#include <stdio.h>
#include <string.h>

void cost_add(struct cost *cost, const char *service, unsigned count) {
        struct call_count *row = cost->calls;

        while (row < cost->calls + cost->count && strcmp(row->service, service) != 0)
                row++;
        if (row == cost->calls + CALL_COUNTS_MAX)
                return;
        if (row == cost->calls + cost->count) {
                snprintf(row->service, sizeof(row->service), "%s", service);
                cost->count++;
        }
        row->count += count;
}
