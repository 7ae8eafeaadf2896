/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The AWS provider driven as a plan and an apply drive it, for some kinds: identify, observe, desire, ask, step to the
 * end, and all of it once more with what was seen and recorded then. All answers come from cloud.h.
 */
#ifndef BERTH_TESTS_FUZZ_DRIVE_H
#define BERTH_TESTS_FUZZ_DRIVE_H

#include "providers/provider.h"

#include <stddef.h>

/*
 * Letters of `options`: f a full refresh, m earlier runs died (must_read), d delete everything, r replace what exists,
 * i the questions about the registry too.
 */
void drive(const enum kind_id *kinds, size_t count, const char *options);

#endif
