/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into berth by hurry.py: the monotonic clock goes HURRY times as fast, and whatever waits by it waits so much
 * shorter. So deadlines of minutes are met with in seconds. The wall clock, by which requests are signed, stays true.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)

typedef int timedwait(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

static int64_t pace = 1, began;
static timedwait *real_timedwait;

static int64_t number_of(const struct timespec *time) {
        return time->tv_sec * SECOND + time->tv_nsec;
}

static struct timespec time_of(int64_t number) {
        return (struct timespec){ .tv_sec = number / SECOND, .tv_nsec = number % SECOND };
}

__attribute__((constructor)) static void start(void) {
        const char *text = getenv("HURRY");
        struct timespec now;

        syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
        began = number_of(&now);
        pace = text && atol(text) > 0 ? atol(text) : 1;
        /* ThreadSanitizer's has no version, and has to know that who waits has let go of the mutex. */
        if (!dlsym(RTLD_DEFAULT, "__tsan_init"))
                real_timedwait = (timedwait *)dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
        if (!real_timedwait)
                real_timedwait = (timedwait *)dlsym(RTLD_NEXT, "pthread_cond_timedwait");
}

int clock_gettime(clockid_t id, struct timespec *ret) {
        int result = (int)syscall(SYS_clock_gettime, id, ret);

        if (result == 0 && id == CLOCK_MONOTONIC)
                *ret = time_of(began + (number_of(ret) - began) * pace);
        return result;
}

/* Every condition of Berth's that waits with a deadline waits by the monotonic clock. */
int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
        struct timespec real = time_of(began + (number_of(until) - began) / pace);

        return real_timedwait(condition, mutex, &real);
}

int nanosleep(const struct timespec *asked, struct timespec *left) {
        struct timespec real = time_of(number_of(asked) / pace);

        return (int)syscall(SYS_nanosleep, &real, left);
}

int poll(struct pollfd *wanted, nfds_t count, int ms) {
        struct timespec real = time_of((int64_t)ms * (SECOND / 1000) / pace);

        return (int)syscall(SYS_ppoll, wanted, count, ms < 0 ? NULL : &real, NULL, 0);
}

int __poll_chk(struct pollfd *wanted, nfds_t count, int ms, size_t size) {
        (void)size;
        return poll(wanted, count, ms);
}
