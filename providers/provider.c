/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/provider.h"

#include "base/array.h"

#include <stdio.h>
#include <string.h>

void cost_add(struct cost *cost, const char *service, unsigned count) {
        struct call_count *row = cost->calls;

        while (row < cost->calls + cost->count && strcmp(row->service, service) != 0)
                row++;
        if (row == cost->calls + cost->count) {
                cost->calls = array_grow(cost->arena, cost->calls, cost->count, sizeof(*cost->calls));
                row = &cost->calls[cost->count++];
                snprintf(row->service, sizeof(row->service), "%s", service);
        }
        row->count += count;
}

const struct kind_ops *kind_ops_find(const struct kind_ops *const *tables, size_t count, enum kind_id kind) {
        for (size_t i = 0; i < count; i++) {
                if (tables[i]->kind == kind)
                        return tables[i];
        }
        return NULL;
}
