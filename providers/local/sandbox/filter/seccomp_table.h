/* SPDX-License-Identifier: Apache-2.0 */
/* What the filter allows and denies, by name: data. Names that the library does not know here are left out. */
#ifndef BERTH_PROVIDERS_LOCAL_SANDBOX_FILTER_SECCOMP_TABLE_H
#define BERTH_PROVIDERS_LOCAL_SANDBOX_FILTER_SECCOMP_TABLE_H

#include <stdint.h>

/* Allowed whatever their arguments; ended by NULL. */
extern const char *const seccomp_allowed[];
/* Denied with EPERM; ended by NULL. */
extern const char *const seccomp_denied[];

/* Allowed where (argument & mask) == value for one of its rows; otherwise as an unknown call. */
struct seccomp_condition {
        const char *name; /* NULL ends the table */
        unsigned argument;
        uint64_t mask;
        uint64_t value;
};
extern const struct seccomp_condition seccomp_conditions[];

/* The flags of clone(2) that make namespaces. */
#define SECCOMP_NAMESPACE_FLAGS 0x7e020000ULL

#endif
