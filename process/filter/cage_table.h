/* SPDX-License-Identifier: Apache-2.0 */
/* What the filters of the cages allow, by name: data. All else answers ENOSYS, so that libraries fall back. */
#ifndef BERTH_PROCESS_FILTER_CAGE_TABLE_H
#define BERTH_PROCESS_FILTER_CAGE_TABLE_H

#include <stdint.h>

/* Bits: a row is for the cages that its bits name, in the order of enum cage_calls. */
enum cage_table_bits {
        ROW_OFFLINE = 1 << 0,
        ROW_ONLINE = 1 << 1,
        ROW_JUDGES = 1 << 2,
        ROW_JUDGES_NAMES = 1 << 3,
        ROW_PROXY = 1 << 4,
        /* all that read files */
        ROW_ALL = ROW_OFFLINE | ROW_ONLINE | ROW_JUDGES | ROW_JUDGES_NAMES,
        ROW_STARTING = ROW_JUDGES | ROW_JUDGES_NAMES
};

/* Names, allowed whatever their arguments. Those that the library does not know here are left out. */
struct cage_row {
        unsigned cages;
        const char *const *names; /* ended by NULL */
};
extern const struct cage_row cage_rows[]; /* ended by no cages */

/* Allowed where (argument & mask) == value for one of its rows. */
struct cage_condition {
        unsigned cages;
        const char *name;
        unsigned argument;
        uint64_t mask, value;
};
extern const struct cage_condition cage_conditions[]; /* ended by no cages */

#endif
