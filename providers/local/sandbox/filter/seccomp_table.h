/* SPDX-License-Identifier: Apache-2.0 */
/* What the filter allows and denies, by name: data. Names that the library does not know here are left out. */
#ifndef BERTH_PROVIDERS_LOCAL_SANDBOX_FILTER_SECCOMP_TABLE_H
#define BERTH_PROVIDERS_LOCAL_SANDBOX_FILTER_SECCOMP_TABLE_H

#include <stdint.h>

/* Allowed whatever their arguments; ended by NULL. */
extern const char *const seccomp_allowed[];
/* Denied with EPERM; ended by NULL. */
extern const char *const seccomp_denied[];

/*
 * Answers that depend on arguments: a row holds where (argument & mask) == value for each of its
 * tests, and gives the answer. No two rows of a call hold for the same arguments; where none does,
 * the call answers as an unknown one, ENOSYS.
 */
#define SECCOMP_TESTS_MAX 3
#define SECCOMP_ALLOWED (-1)
struct seccomp_condition {
        const char *name; /* NULL ends the table */
        int answer;       /* SECCOMP_ALLOWED, or an errno; 0: as if it had been done */
        struct seccomp_test {
                unsigned argument;
                uint64_t mask; /* 0: no test, and none behind it */
                uint64_t value;
        } tests[SECCOMP_TESTS_MAX];
};
extern const struct seccomp_condition seccomp_conditions[];

/* The flags of clone(2) that make namespaces. */
#define SECCOMP_NAMESPACE_FLAGS 0x7e020000ULL

#endif
