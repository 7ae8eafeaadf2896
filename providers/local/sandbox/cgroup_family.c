/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/cgroup_family.h"

#include "base/clock.h"
#include "process/run.h"
#include "providers/local/sandbox/cgroup_files.h"
#include "providers/local/sandbox/cgroup_v2.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PERIOD_US 100000U
#define QUOTA_US(cpu_millis) ((long long)(cpu_millis) * (PERIOD_US / 1000))
#define NAME_MAX_LENGTH 64
#define OWN_QUOTA "-q" /* and microseconds of a period */
#define TRIES 3
#define SYSTEMCTL "/usr/bin/systemctl"
#define SYSTEMCTL_MS 10000

bool cgroup_family_is_name(const char *name) {
        size_t length = strlen(name);

        return length > 0 && length <= NAME_MAX_LENGTH &&
               strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == length;
}

const char *cgroup_family_folder(const char *base, const struct cgroup_family *family, struct arena *arena) {
        return arena_printf(arena, "%s/" CGROUP_FAMILY_PREFIX "%s", base, family->name);
}

/* --- version 1 --- */

/* No quota is -1 there. */
static long long quota_of(const char *folder) {
        char text[32];

        return cgroup_file_read(folder, "cpu.cfs_quota_us", text, sizeof(text)) ? strtoll(text, NULL, 10)
                                                                                : -1;
}

static int write_quota(const char *folder, long long quota_us) {
        char text[32];

        snprintf(text, sizeof(text), "%lld", quota_us);
        return cgroup_file_write(folder, "cpu.cfs_quota_us", text);
}

/*
 * What the run of that folder may use where its family has enough: the end of its name says so. The kernel keeps no such number, and what
 * was lowered with the family is raised with it. -1: it has none.
 */
static long long own_quota(const char *name) {
        const char *at = strrchr(name, '-');
        char *end;
        long long own;

        if (!at || strncmp(at, OWN_QUOTA, strlen(OWN_QUOTA)) != 0)
                return -1;
        at += strlen(OWN_QUOTA);
        own = strtoll(at, &end, 10);
        return end != at && !*end && own > 0 ? own : -1;
}

static bool exceeds(long long quota_us, long long most_us) {
        return most_us >= 0 && (quota_us < 0 || quota_us > most_us);
}

/*
 * Each has its own again, as far as that is not more than the family's. A group that cannot be
 * written is gone, or the family has changed since.
 */
static void hold_members(const char *folder, long long most_us) {
        DIR *list = opendir(folder);
        const struct dirent *entry;

        while (list && (entry = readdir(list))) {
                char path[4096];
                long long now, wanted;

                if (entry->d_type != DT_DIR || entry->d_name[0] == '.' ||
                    snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name) >= (int)sizeof(path))
                        continue;
                now = quota_of(path);
                wanted = own_quota(entry->d_name);
                wanted = wanted < 0 ? now : wanted;
                wanted = exceeds(wanted, most_us) && now >= 0 ? most_us : wanted;
                if (wanted != now)
                        (void)!write_quota(path, wanted);
        }
        if (list)
                closedir(list);
}

const char *cgroup_family_run(const char *folder, const char *run, unsigned cpu_millis, struct arena *arena) {
        const char *wanted = arena_printf(arena, "%s/%s" OWN_QUOTA "%lld", folder, run, QUOTA_US(cpu_millis)),
                   *found = NULL;
        DIR *list = opendir(folder);
        const struct dirent *entry;
        size_t length = strlen(run);

        while (list && !found && (entry = readdir(list))) {
                if (strncmp(entry->d_name, run, length) == 0 &&
                    (!entry->d_name[length] ||
                     strncmp(entry->d_name + length, OWN_QUOTA, strlen(OWN_QUOTA)) == 0))
                        found = arena_printf(arena, "%s/%s", folder, entry->d_name);
        }
        if (list)
                closedir(list);
        /* It is there, of an engine before: from now on it may use what is said now. */
        return !found || strcmp(found, wanted) == 0 || rename(found, wanted) == 0 ? wanted : found;
}

int cgroup_family_hold_v1(const char *folder, const struct cgroup_family *family) {
        long long wanted = family->cpu_millis == CGROUP_CPU_UNBOUND ? -1 : QUOTA_US(family->cpu_millis);
        int held = -1;

        if (family->cpu_millis == CGROUP_CPU_AS_IT_IS)
                return 0;
        if (quota_of(folder) == wanted)
                held = 0;
        else if (cgroup_file_write_number(folder, "cpu.cfs_period_us", PERIOD_US) < 0)
                return -1;
        /* While they are lowered another one may be made. */
        for (int tries = 0; held < 0 && tries < TRIES; tries++) {
                held = write_quota(folder, wanted);
                if (held < 0 && (errno != EINVAL || wanted < 0))
                        return -1;
                if (held < 0)
                        hold_members(folder, wanted);
        }
        if (held == 0)
                hold_members(folder, wanted);
        return held;
}

int cgroup_family_hold_run_v1(const char *folder, const char *run, unsigned cpu_millis) {
        if (cgroup_file_write_number(run, "cpu.cfs_period_us", PERIOD_US) < 0)
                return -1;
        /* In between the family may be lowered. */
        for (int tries = 0; tries < TRIES; tries++) {
                long long most = folder ? quota_of(folder) : -1, own = QUOTA_US(cpu_millis);

                if (write_quota(run, exceeds(own, most) ? most : own) == 0)
                        return 0;
                if (errno != EINVAL)
                        return -1;
        }
        return -1;
}

/* --- version 2 --- */

static void quota_text(const struct cgroup_family *family, char *buffer, size_t size) {
        if (family->cpu_millis == CGROUP_CPU_UNBOUND)
                snprintf(buffer, size, "max %u", PERIOD_US);
        else
                snprintf(buffer, size, "%lld %u", QUOTA_US(family->cpu_millis), PERIOD_US);
}

int cgroup_family_hold_v2(const char *folder, const struct cgroup_family *family) {
        char wanted[64], now[64];

        if (family->cpu_millis == CGROUP_CPU_AS_IT_IS)
                return 0;
        quota_text(family, wanted, sizeof(wanted));
        if (cgroup_file_read(folder, "cpu.max", now, sizeof(now)) && strcmp(now, wanted) == 0)
                return 0;
        return cgroup_file_write(folder, "cpu.max", wanted);
}

/* --- a user's systemd --- */

/* A dash in a slice's name says that it is in another one. */
const char *cgroup_family_slice(const struct cgroup_family *family, struct arena *arena) {
        char *name = arena_strdup(arena, family->name);

        for (char *dash = name; (dash = strchr(dash, '-')); dash++)
                *dash = '_';
        return arena_printf(arena, CGROUP_SLICE_PREFIX "-%s.slice", name);
}

static bool ask_systemd(const char *const *words) {
        static const char *const names[] = { "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS" };
        const char *variables[3] = { NULL };
        char texts[2][512];
        struct run_args args = {
                .process = { .program = SYSTEMCTL, .arguments = words, .environment = variables },
                .output_max = 4096,
                .keep_end = true,
                .deadline_ms = clock_now_ms() + SYSTEMCTL_MS
        };
        struct run_result result RUN_RESULT_CLEANUP = RUN_RESULT_INIT;
        struct error ignored;
        size_t count = 0;

        for (size_t i = 0; i < 2; i++) {
                const char *text = getenv(names[i]);

                if (text && snprintf(texts[count], sizeof(texts[count]), "%s=%s", names[i], text) <
                                    (int)sizeof(texts[count])) {
                        variables[count] = texts[count];
                        count++;
                }
        }
        return run_to_end(&args, &result, &ignored) == 0 && run_check(&result, "systemctl", &ignored) == 0;
}

/* systemd is asked, not the kernel: what others wrote into the files of its slices it writes over. */
bool cgroup_family_hold_slice(const char *manager, const struct cgroup_family *family, struct arena *arena) {
        const char *slice = cgroup_family_slice(family, arena),
                   *folder = arena_printf(arena, "%s/" CGROUP_SLICE "/%s", manager, slice),
                   *quota = family->cpu_millis == CGROUP_CPU_UNBOUND
                                    ? "CPUQuota="
                                    : arena_printf(arena, "CPUQuota=%u%%", family->cpu_millis / 10);
        const char *words[] = { SYSTEMCTL, "--user", "set-property", "--runtime", slice, quota, NULL };
        char wanted[64], now[64];
        bool there = cgroup_file_read(folder, "cpu.max", now, sizeof(now));

        if (family->cpu_millis == CGROUP_CPU_AS_IT_IS || (!there && family->cpu_millis == CGROUP_CPU_UNBOUND))
                return true;
        quota_text(family, wanted, sizeof(wanted));
        return (there && strcmp(now, wanted) == 0) || ask_systemd(words);
}
