/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that come as base64, given on piece by piece. */
#ifndef BERTH_BROKER_REQUEST_BASE64_H
#define BERTH_BROKER_REQUEST_BASE64_H

#include "sessions/problem.h"

#include <stddef.h>

/* -1 where `write` says so, or the text is no base64: PROBLEM_INVALID. By then some may have been written. */
int base64_write(const char *text, size_t length,
                 int (*write)(void *context, const void *bytes, size_t length, struct problem *problem),
                 void *context, struct problem *problem) MUST_USE;

#endif
