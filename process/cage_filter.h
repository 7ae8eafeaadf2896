/* SPDX-License-Identifier: Apache-2.0 */
/* The cages' filters of system calls, worked out when Berth is built: filter/cage_table.c. Of cage.c alone. */
#ifndef BERTH_PROCESS_CAGE_FILTER_H
#define BERTH_PROCESS_CAGE_FILTER_H

#include "process/cage.h"

#include <linux/filter.h>

struct cage_filter {
        const struct sock_filter *instructions;
        size_t count;
};
extern const struct cage_filter cage_filters[CAGE_CALLS_COUNT];

#endif
