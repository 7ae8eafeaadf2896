/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <signal.h>
#include <stdatomic.h>
#include <time.h>

static atomic_int interrupts;
static atomic_int first_signal;

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
        /* In slices: a signal may arrive between the check and the sleep, and may hit another thread. */
        for (;;) {
                int64_t left = until_ms - system_monotonic_ms(clock);
                struct timespec slice;

                if (interrupt_count() > 0)
                        return -1;
                if (left <= 0)
                        return 0;
                if (left > 100)
                        left = 100;
                slice = (struct timespec){ .tv_nsec = left * 1000000 };
                nanosleep(&slice, NULL);
        }
}

const struct clock clock_system = {
        .wall_ms = system_wall_ms,
        .monotonic_ms = system_monotonic_ms,
        .sleep_until = system_sleep_until,
};

void clock_format(int64_t wall_ms, char *buffer, size_t size) {
        time_t seconds = (time_t)(wall_ms / 1000);
        struct tm parts;

        gmtime_r(&seconds, &parts);
        if (strftime(buffer, size, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0 && size > 0)
                buffer[0] = '\0';
}

int interrupt_count(void) {
        return atomic_load(&interrupts);
}

void interrupt_raise(void) {
        atomic_fetch_add(&interrupts, 1);
}

int interrupt_signal(void) {
        return atomic_load(&first_signal);
}

static void note_signal(int number) {
        int none = 0;

        atomic_compare_exchange_strong(&first_signal, &none, number);
}

static void on_signal(int number) {
        note_signal(number);
        interrupt_raise();
}

static void on_signal_at_once(int number) {
        on_signal(number);
        interrupt_raise();
}

static void install(void (*handler)(int)) {
        struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };

        sigemptyset(&action.sa_mask);
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
}

void interrupt_install(void) {
        install(on_signal);
}

void interrupt_install_at_once(void) {
        install(on_signal_at_once);
}

/* A terminal that goes away says so more than once, by the kernel and by the shell: that is no impatience. */
static void on_hangup(int number) {
        int none = 0;

        note_signal(number);
        atomic_compare_exchange_strong(&interrupts, &none, 1);
}

void interrupt_on_hangup(void) {
        struct sigaction action = { .sa_handler = on_hangup, .sa_flags = SA_RESTART }, before;

        /* nohup is to go on without a terminal. */
        if (sigaction(SIGHUP, NULL, &before) < 0 || before.sa_handler == SIG_IGN)
                return;
        sigemptyset(&action.sa_mask);
        sigaction(SIGHUP, &action, NULL);
}
