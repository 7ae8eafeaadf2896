/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP and programs whose answers come from the fuzzer's input. Linked with --wrap, so that the provider's own calls
 * of http_send() and command_run() end here.
 *
 * Each part of the input (parts.h) is one answer:
 *
 *     NEEDLE STATUS
 *     header: value        (any number)
 *                          (an empty line)
 *     body
 *
 * A request takes the first answer not taken yet whose needle occurs in its label, "METHOD URL
 * TARGET BODY-UP-TO-&", or else the last such answer again; where no needle occurs, 404 without a
 * body. Status 0 is a connection that breaks.
 */
#ifndef BERTH_TESTS_FUZZ_CLOUD_H
#define BERTH_TESTS_FUZZ_CLOUD_H

#include "base/clock.h"
#include "parts.h"

/* Takes all the parts that are left. Forgotten by the next one. */
void cloud_load(struct parts *parts);
void cloud_forget(void);

/* What command_run() gives: the body of the answer whose needle is "credential_process". */

/* Time that stands still but for sleeping, which takes none. */
extern const struct clock cloud_clock;
void cloud_advance(int64_t until_ms);

/* The environment of the process without what the machine says of AWS; a region, keys, no files. */
void cloud_environment(void);

#endif
