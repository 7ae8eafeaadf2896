/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filter of system calls, made of the table by libseccomp: denied unless allowed. What programs
 * of the usual kind need (CPython, numpy, pandas, sh, coreutils) and nothing that reaches for
 * namespaces, mounts, keys, tracing, other address families or the terminal's input queue. A known,
 * denied call answers EPERM; what is unknown answers ENOSYS, so that a C library newer than this
 * table falls back. A call of another architecture (32 bit, x32) answers ENOSYS, too: killing would
 * put a line into the log of the machine for each.
 */
#ifndef BERTH_PROVIDERS_LOCAL_SANDBOX_FILTER_SECCOMP_BUILD_H
#define BERTH_PROVIDERS_LOCAL_SANDBOX_FILTER_SECCOMP_BUILD_H

#include "base/error.h"

/* The filter as a program for the kernel, in an anonymous file at offset 0, closed on exec: owned by the caller. */
int seccomp_build(int *ret_descriptor, struct error *err) MUST_USE;

#endif
