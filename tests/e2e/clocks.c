/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into berth by clocks.py: its clocks are ahead of this machine's by what a file says, two numbers of milliseconds that
 * may change at any time: of the monotonic clocks, and of the wall clock.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef int timedwait(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

struct ahead {
        int64_t monotonic_ms, wall_ms;
};

static const volatile struct ahead *ahead;
static timedwait *real_timedwait;

__attribute__((constructor)) static void start(void) {
        const char *path = getenv("CLOCKS");
        int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*ahead), PROT_READ, MAP_SHARED, fd, 0);

        if (at == MAP_FAILED)
                abort();
        close(fd);
        ahead = at;
        /* ThreadSanitizer's has no version, and has to know that who waits has let go of the mutex. */
        if (!dlsym(RTLD_DEFAULT, "__tsan_init"))
                real_timedwait = (timedwait *)dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
        if (!real_timedwait)
                real_timedwait = (timedwait *)dlsym(RTLD_NEXT, "pthread_cond_timedwait");
}

static void add(struct timespec *time, int64_t ms) {
        int64_t all = time->tv_sec * INT64_C(1000) + ms;

        time->tv_sec = all / 1000;
        time->tv_nsec += all % 1000 * 1000000;
        for (; time->tv_nsec >= 1000000000; time->tv_nsec -= 1000000000)
                time->tv_sec++;
        for (; time->tv_nsec < 0; time->tv_nsec += 1000000000)
                time->tv_sec--;
}

int clock_gettime(clockid_t id, struct timespec *ret) {
        int result = (int)syscall(SYS_clock_gettime, id, ret);

        if (result == 0 && ahead && id == CLOCK_REALTIME)
                add(ret, ahead->wall_ms);
        if (result == 0 && ahead && (id == CLOCK_MONOTONIC || id == CLOCK_BOOTTIME))
                add(ret, ahead->monotonic_ms);
        return result;
}

time_t time(time_t *ret) {
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        if (ret)
                *ret = now.tv_sec;
        return now.tv_sec;
}

/* Every condition of Berth's that waits with a deadline waits by the monotonic clock. */
int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
        struct timespec real = *until;

        if (ahead)
                add(&real, -ahead->monotonic_ms);
        return real_timedwait(condition, mutex, &real);
}
