/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Raising must work in a signal handler: an atomic level, and write(2) to eventfds that were made
 * before any handler was installed. These are never read, so a level that was reached stays
 * readable for all who wait.
 */
#include "base/interrupt.h"

#include "base/files.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* For the last words of a process that was told to end. */
#define PRINTING_S 1

struct interrupt interrupt_user = { .reached = { -1, -1 } };
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_int first_signal;

int interrupt_init(struct interrupt *ret, struct error *err) {
        int first = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), second = -1;

        if (first < 0 || (second = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0) {
                int reason = errno;

                close_descriptor(&first);
                return error_set(err, "cannot make a descriptor to be stopped by: %s", strerror(reason));
        }
        atomic_init(&ret->level, INTERRUPT_NONE);
        ret->reached[0] = first;
        ret->reached[1] = second;
        return 0;
}

void interrupt_dispose(struct interrupt *interrupt) {
        close_descriptor(&interrupt->reached[0]);
        close_descriptor(&interrupt->reached[1]);
}

/*
 * The level is set before this, so that a thread woken by a descriptor finds it. Each descriptor is
 * written once, by the call that took the level past its number. That may be in a signal handler,
 * where errno belongs to the code it interrupted.
 */
static void write_reached(const struct interrupt *interrupt, int before, int after) {
        const uint64_t one = 1;
        int saved = errno;

        for (int level = before; level < after; level++) {
                if (write(interrupt->reached[level], &one, sizeof(one)) < 0)
                        abort(); /* it is written once only: an eventfd takes that always */
        }
        errno = saved;
}

void interrupt_raise_to(struct interrupt *interrupt, int level) {
        int before = atomic_load(&interrupt->level);

        do {
                if (before >= level)
                        return;
        } while (!atomic_compare_exchange_weak(&interrupt->level, &before, level));
        write_reached(interrupt, before, level);
}

void interrupt_raise(struct interrupt *interrupt) {
        int before = atomic_load(&interrupt->level);

        do {
                if (before >= INTERRUPT_NOW)
                        return;
        } while (!atomic_compare_exchange_weak(&interrupt->level, &before, before + 1));
        write_reached(interrupt, before, before + 1);
}

static void make_of_user(void) {
        struct error err;

        if (interrupt_init(&interrupt_user, &err) < 0)
                abort(); /* without it the program could not be stopped in order */
}

struct interrupt *interrupt_of_user(void) {
        pthread_once(&once, make_of_user);
        return &interrupt_user;
}

int interrupt_level(const struct interrupt *interrupt) {
        return interrupt ? atomic_load(&interrupt->level) : INTERRUPT_NONE;
}

int interrupt_descriptor(const struct interrupt *interrupt, int level) {
        if (interrupt == &interrupt_user)
                interrupt_of_user();
        return interrupt ? interrupt->reached[level - 1] : -1;
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
        interrupt_raise(&interrupt_user);
}

static void on_signal_at_once(int number) {
        note_signal(number);
        interrupt_raise_to(&interrupt_user, INTERRUPT_NOW);
}

/* When a terminal goes away, kernel and shell may both send SIGHUP: the second one must not mean "stop now". */
static void on_hangup(int number) {
        note_signal(number);
        interrupt_raise_to(&interrupt_user, INTERRUPT_FINISH);
}

static void install_handler(int number, void (*handler)(int)) {
        struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };

        interrupt_of_user(); /* made before a handler can want it */
        sigemptyset(&action.sa_mask);
        sigaction(number, &action, NULL);
}

void interrupt_install(void) {
        install_handler(SIGINT, on_signal);
        install_handler(SIGTERM, on_signal);
}

void interrupt_install_at_once(void) {
        install_handler(SIGINT, on_signal_at_once);
        install_handler(SIGTERM, on_signal_at_once);
}

void interrupt_on_hangup(void) {
        struct sigaction before;

        /* nohup is to go on without a terminal. */
        if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
                install_handler(SIGHUP, on_hangup);
}

static void exit_on_signal(int number) {
        int first = interrupt_signal();

        _exit(128 + (first ? first : number));
}

static void leave_soon(int number) {
        if (interrupt_signal())
                exit_on_signal(number);
        note_signal(number);
        alarm(PRINTING_S);
}

void interrupt_only_printing_left(void) {
        struct sigaction before;

        install_handler(SIGALRM, exit_on_signal);
        install_handler(SIGINT, leave_soon);
        install_handler(SIGTERM, leave_soon);
        if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
                install_handler(SIGHUP, leave_soon);
        if (interrupt_signal())
                alarm(PRINTING_S);
}
