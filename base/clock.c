/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting is a poll() on the interrupt's descriptor, so that it ends at once on a request to stop.
 * A poll waits an hour at the most and is then begun again: its timeout is an int.
 */
#include "base/clock.h"

#include "base/interrupt.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>

#define LONGEST_POLL_MS 3600000

static int64_t read_clock(clockid_t id) {
        struct timespec now;

        clock_gettime(id, &now);
        return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t system_wall_ms(const struct clock *clock) {
        (void)clock;
        return read_clock(CLOCK_REALTIME);
}

static int64_t system_monotonic_ms(const struct clock *clock) {
        (void)clock;
        return read_clock(CLOCK_MONOTONIC);
}

static int system_sleep_until(const struct clock *clock, int64_t until_ms) {
        struct pollfd stop = { .fd = interrupt_descriptor(clock->interrupt, INTERRUPT_FINISH),
                               .events = POLLIN };

        for (;;) {
                int64_t left = until_ms - system_monotonic_ms(clock);

                if (interrupt_level(clock->interrupt) > INTERRUPT_NONE)
                        return -1;
                if (left <= 0)
                        return 0;
                poll(&stop, 1, left > LONGEST_POLL_MS ? LONGEST_POLL_MS : (int)left);
        }
}

const struct clock clock_system = {
        .wall_ms = system_wall_ms,
        .monotonic_ms = system_monotonic_ms,
        .sleep_until = system_sleep_until,
        .interrupt = &interrupt_user,
};

int64_t clock_now_ms(void) {
        return read_clock(CLOCK_MONOTONIC);
}

int64_t clock_wall_ms(void) {
        return read_clock(CLOCK_REALTIME);
}

struct timespec clock_timespec(int64_t ms) {
        return (struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
}

struct timespec clock_after_ms(int64_t ms) {
        return clock_timespec(read_clock(CLOCK_MONOTONIC) + ms);
}

void clock_format(int64_t wall_ms, char *buffer, size_t size) {
        time_t seconds = (time_t)(wall_ms / 1000);
        struct tm parts;

        gmtime_r(&seconds, &parts);
        if (strftime(buffer, size, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0 && size > 0)
                buffer[0] = '\0';
}

int64_t clock_parse(const char *text) {
        struct tm parts = { 0 };
        const char *end = text ? strptime(text, "%Y-%m-%dT%H:%M:%SZ", &parts) : NULL;

        return end && *end == '\0' ? (int64_t)timegm(&parts) * 1000 : -1;
}

void clock_format_span(int64_t span_ms, char *buffer, size_t size) {
        static const struct {
                int64_t seconds;
                const char *name;
        } units[] = { { 86400, "d" }, { 3600, "h" }, { 60, "min" }, { 1, "s" } };
        int64_t seconds = span_ms > 0 ? span_ms / 1000 : 0;
        size_t i = 0;

        while (units[i].seconds > 1 && seconds < units[i].seconds)
                i++;
        snprintf(buffer, size, "%" PRId64 " %s", seconds / units[i].seconds, units[i].name);
}
