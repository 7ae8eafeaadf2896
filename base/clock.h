/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time behind a seam, so that tests decide what it is and waits can be interrupted.
 *
 * Wall time is for stamps and signatures; monotonic time is for waiting. Both in milliseconds.
 */
#ifndef BERTH_BASE_CLOCK_H
#define BERTH_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct interrupt;

struct clock {
        int64_t (*wall_ms)(const struct clock *clock);      /* since 1970-01-01T00:00:00Z */
        int64_t (*monotonic_ms)(const struct clock *clock); /* since some fixed point */
        /* Returns 0 when monotonic_ms() has reached `until_ms`, -1 when the wait was interrupted. */
        int (*sleep_until)(const struct clock *clock, int64_t until_ms);
        /*
         * The interrupt that ends waits by this clock; NULL: nothing. A copy of a clock may have
         * another.
         */
        const struct interrupt *interrupt;
};

/* The system's clocks; the interrupt is the user's (base/interrupt.h). */
extern const struct clock clock_system;
/* clock_system's monotonic_ms() and wall_ms(). */
int64_t clock_now_ms(void);
int64_t clock_wall_ms(void);

/*
 * A time in ms as the system takes it. pthread_cond_timedwait() on a condition variable of CLOCK_MONOTONIC: give it a time of
 * clock_now_ms(), or clock_after_ms().
 */
struct timespec clock_timespec(int64_t ms);
/* So long from now on CLOCK_MONOTONIC. */
struct timespec clock_after_ms(int64_t ms);

/* "2026-01-31T12:00:00Z"; the buffer takes 21 bytes and more. */
void clock_format(int64_t wall_ms, char *buffer, size_t size);
/* Milliseconds since 1970 from such a text; -1 if it is invalid, or NULL. */
int64_t clock_parse(const char *text);
/* "12 s", "3 min", "5 h", "9 d", in the largest unit that fits; a negative time counts as "0 s". */
void clock_format_span(int64_t span_ms, char *buffer, size_t size);

#endif
