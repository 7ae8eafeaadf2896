/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtime as a Lambda function: takes invocations from the Runtime API, and has each done by a runtime that serves, a process
 * below this one. README.md, "The door on Lambda".
 */
#ifndef BERTH_RUNTIME_LAMBDA_LAMBDA_H
#define BERTH_RUNTIME_LAMBDA_LAMBDA_H

#include "base/error.h"

/* Never returns 0: Lambda ends it. -1: it cannot go on, and `err` is for the function's log. */
int lambda_serve(struct error *err) MUST_USE;

#endif
