/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filter of system calls that every sandbox gets. It is worked out when Berth is built (filter/seccomp_build.h says
 * what it allows): libseccomp would take as long at each start as all of Berth's other work.
 */
#ifndef BERTH_PROVIDERS_LOCAL_SANDBOX_SECCOMP_FILTER_H
#define BERTH_PROVIDERS_LOCAL_SANDBOX_SECCOMP_FILTER_H

#include "base/error.h"

#include <stddef.h>

/* Generated: the instructions as the kernel takes them. */
extern const unsigned char seccomp_program[];
extern const size_t seccomp_program_size;

/* The filter in an anonymous file at offset 0, closed on exec: owned by the caller. */
int seccomp_filter_open(int *ret_descriptor, struct error *err) MUST_USE;

#endif
