/* SPDX-License-Identifier: Apache-2.0 */
#include "server/self.h"

#include "base/files.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static double seconds_of(clockid_t id) {
        struct timespec now;

        clock_gettime(id, &now);
        return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* proc_pid_stat(5): fields 14 and 15 are the processor's time, 22 the start, 24 resident pages. */
static void look_at_stat(struct self_facts *ret) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        double ticks = (double)sysconf(_SC_CLK_TCK);
        uint64_t user, system, start;
        int64_t pages;
        struct error err;
        const char *after;

        /* The second field is the program's name in parentheses, which may hold anything. */
        if (file_read("/proc/self/stat", 4096, &text, &err) < 0 ||
            !(after = strrchr(strbuf_text(&text), ')')) ||
            sscanf(after + 1,
                   " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %" SCNu64 " %" SCNu64
                   " %*s %*s %*s %*s %*s %*s %" SCNu64 " %*s %" SCNd64,
                   &user, &system, &start, &pages) != 4)
                return;
        ret->cpu_seconds = (double)(user + system) / ticks;
        ret->resident_bytes = (double)pages * (double)sysconf(_SC_PAGESIZE);
        /* Counted from the machine's start, whose time is where the two clocks part. */
        ret->start_seconds = seconds_of(CLOCK_REALTIME) - seconds_of(CLOCK_BOOTTIME) + (double)start / ticks;
}

static double count_descriptors(void) {
        DIR *folder = opendir("/proc/self/fd");
        int count = 0;

        if (!folder)
                return -1;
        for (const struct dirent *entry; (entry = readdir(folder));)
                count += entry->d_name[0] != '.';
        closedir(folder);
        return count - 1; /* without the folder's own */
}

void self_measure(struct self_facts *ret) {
        struct rlimit limit;

        *ret = (struct self_facts){ -1, -1, -1, -1, -1 };
        look_at_stat(ret);
        ret->open_fds = count_descriptors();
        if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
                ret->max_fds = (double)limit.rlim_cur;
}
