/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time behind a seam, so that tests decide what it is and waits can be interrupted.
 *
 * Wall time is for stamps and signatures; monotonic time is for waiting. Both in milliseconds.
 */
#ifndef BERTH_BASE_CLOCK_H
#define BERTH_BASE_CLOCK_H

#include "base/interrupt.h"

#include <stddef.h>
#include <stdint.h>

struct clock {
        int64_t (*wall_ms)(const struct clock *clock);      /* since 1970-01-01T00:00:00Z */
        int64_t (*monotonic_ms)(const struct clock *clock); /* since some fixed point */
        /* Returns 0 when monotonic_ms() has reached `until_ms`, -1 when the wait was interrupted. */
        int (*sleep_until)(const struct clock *clock, int64_t until_ms);
};

/* The system's clocks. Its sleeps end early once the user wants to stop (base/interrupt.h). */
extern const struct clock clock_system;

/* "2026-01-31T12:00:00Z"; the buffer takes 21 bytes and more. */
void clock_format(int64_t wall_ms, char *buffer, size_t size);

#endif
