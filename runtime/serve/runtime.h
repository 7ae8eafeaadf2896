/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime as a whole: serves one caller over two descriptors until the caller closes. README.md tells the protocol. */
#ifndef BERTH_RUNTIME_SERVE_RUNTIME_H
#define BERTH_RUNTIME_SERVE_RUNTIME_H

#include "base/error.h"

#include <stddef.h>

#define RUNTIME_CONTEXTS_MAX 8

struct runtime_options {
        int input, output; /* may be one socket; owned, and closed at the end */
        size_t memory_max; /* bytes of data that each process may have; 0: any */
};
/* 0: the caller has closed. -1: it spoke in no protocol of ours. All processes below this one are dead then. */
int runtime_serve(const struct runtime_options *options, struct error *err) MUST_USE;

#endif
