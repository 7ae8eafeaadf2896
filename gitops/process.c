/* SPDX-License-Identifier: Apache-2.0 */
#include "gitops/process.h"

#include "base/files.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* When the machine was started; proc_stat(5), "btime". */
static double boot_seconds(void) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct error err;
        const char *line;

        /* A line a processor stands before it, and "intr" has a number an interrupt. */
        if (file_read("/proc/stat", 4 << 20, &text, &err) < 0 ||
            !(line = strstr(strbuf_text(&text), "\nbtime ")))
                return -1;
        return strtod(line + strlen("\nbtime "), NULL);
}

/* proc_pid_stat(5): fields 14 and 15 are the processor's time, 22 the start, 24 resident pages. */
static void look_at_stat(struct process_facts *ret) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        double ticks = (double)sysconf(_SC_CLK_TCK), boot = boot_seconds();
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
        if (boot >= 0)
                ret->start_seconds = boot + (double)start / ticks;
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

void process_look(struct process_facts *ret) {
        struct rlimit limit;

        *ret = (struct process_facts){ -1, -1, -1, -1, -1 };
        look_at_stat(ret);
        ret->open_fds = count_descriptors();
        if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
                ret->max_fds = (double)limit.rlim_cur;
}
