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

int image_rows_newest_first(const void *a, const void *b) {
        const struct image_row *left = a, *right = b;
        int order = strcmp(left->repository, right->repository);

        if (order == 0 && left->pushed_ms != right->pushed_ms)
                order = left->pushed_ms > right->pushed_ms ? -1 : 1;
        return order ? order : strcmp(left->digest, right->digest);
}
