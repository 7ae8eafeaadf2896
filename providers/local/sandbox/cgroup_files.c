/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/cgroup_files.h"

#include "base/files.h"
#include "process/identity.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int open_in(const char *folder, const char *name, int flags) {
        char path[4096];

        if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path)) {
                errno = ENAMETOOLONG;
                return -1;
        }
        return open(path, flags | O_CLOEXEC | O_NOCTTY);
}

bool cgroup_file_read(const char *folder, const char *name, char *buffer, size_t size) {
        int file DESCRIPTOR_CLEANUP = open_in(folder, name, O_RDONLY);
        ssize_t length = file < 0 ? -1 : read(file, buffer, size - 1);

        if (length < 0)
                return false;
        while (length > 0 && buffer[length - 1] == '\n')
                length--;
        buffer[length] = '\0';
        return true;
}

int cgroup_file_open(const char *folder, const char *name) {
        return open_in(folder, name, O_RDONLY);
}

static bool read_descriptor(int file, char *ret, size_t size) {
        ssize_t count = file < 0 ? -1 : pread(file, ret, size - 1, 0);

        ret[count < 0 ? 0 : count] = '\0';
        return count >= 0;
}

/* The text is taken apart. */
static bool find_number(char *text, const char *key, uint64_t *ret) {
        size_t length = key ? strlen(key) : 0;
        char *line, *rest = text;

        if (!key) {
                *ret = strtoull(text, NULL, 10);
                return text[0] >= '0' && text[0] <= '9';
        }
        while ((line = strsep(&rest, "\n"))) {
                if (strncmp(line, key, length) != 0 || line[length] != ' ')
                        continue;
                *ret = strtoull(line + length + 1, NULL, 10);
                return true;
        }
        return false;
}

bool cgroup_descriptor_number(int file, const char *key, uint64_t *ret) {
        char text[4096];

        return read_descriptor(file, text, sizeof(text)) && find_number(text, key, ret);
}

bool cgroup_descriptor_cpu_us(int file, uint64_t *ret) {
        char text[4096];
        uint64_t nanoseconds;

        if (!read_descriptor(file, text, sizeof(text)))
                return false;
        if (!find_number(text, NULL, &nanoseconds))
                return find_number(text, "usage_usec", ret);
        *ret = nanoseconds / 1000;
        return true;
}

uint64_t cgroup_file_number(const char *folder, const char *name, const char *key) {
        int file DESCRIPTOR_CLEANUP = open_in(folder, name, O_RDONLY);
        uint64_t number;

        return cgroup_descriptor_number(file, key, &number) ? number : 0;
}

int cgroup_file_write(const char *folder, const char *name, const char *text) {
        int file DESCRIPTOR_CLEANUP = open_in(folder, name, O_WRONLY);
        size_t length = strlen(text);

        return file >= 0 && write(file, text, length) == (ssize_t)length ? 0 : -1;
}

int cgroup_file_write_number(const char *folder, const char *name, uint64_t number) {
        char text[24];

        snprintf(text, sizeof(text), "%" PRIu64, number);
        return cgroup_file_write(folder, name, text);
}

/* Whether there were any. */
static bool kill_listed(const char *folder) {
        char text[65536], *line, *rest = text;
        bool any = false;

        if (!cgroup_file_read(folder, "cgroup.procs", text, sizeof(text)))
                return false;
        while ((line = strsep(&rest, "\n"))) {
                pid_t pid = (pid_t)strtol(line, NULL, 10);

                /* 0 stands for a process outside of what we can see. */
                if (pid > 1) {
                        kill(pid, SIGKILL);
                        any = true;
                }
        }
        return any;
}

static void nap(void) {
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

void cgroup_folder_kill(const char *folder) {
        cgroup_file_write(folder, "cgroup.kill", "1");
        for (int tries = 0; tries < 2000 && kill_listed(folder); tries++)
                nap();
}

int cgroup_folder_drop(const char *folder) {
        char first[16];

        if (cgroup_file_read(folder, "cgroup.procs", first, sizeof(first)) && !first[0])
                (void)!cgroup_file_write(folder, "cpu.cfs_quota_us", "-1");
        return rmdir(folder);
}

void cgroup_folder_remove(const char *folder) {
        for (int tries = 0; tries < 2000 && cgroup_folder_drop(folder) < 0 && errno == EBUSY; tries++)
                nap();
}

void cgroup_folder_name(unsigned number, char *buffer, size_t size) {
        /* Looked up once: a process starts once. Several threads may make groups. */
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        static char text[IDENTITY_TEXT_SIZE];
        static pid_t pid;

        pthread_mutex_lock(&lock);
        if (pid != getpid()) {
                struct process_identity own = identity_of_self();

                pid = own.pid;
                identity_write(&own, text);
        }
        snprintf(buffer, size, "run-%s-%u", text, number);
        pthread_mutex_unlock(&lock);
}

/*
 * Containers may share one tree of cgroups and see each other's groups, not each other's processes:
 * a group whose maker this process could not see, alive or not, is left alone.
 */
static bool is_of_the_dead(const char *name) {
        struct process_identity identity;
        const char *end;

        return strncmp(name, "run-", 4) == 0 && identity_read(name + 4, &identity, &end) && *end == '-' &&
               identity_life(&identity) == IDENTITY_DEAD;
}

/* A folder that still has processes is of a run that is being ended: it goes next time. */
static void sweep_base(const char *base) {
        DIR *folder = opendir(base);
        struct dirent *entry;

        while (folder && (entry = readdir(folder))) {
                char path[4096];

                if (snprintf(path, sizeof(path), "%s/%s", base, entry->d_name) >= (int)sizeof(path))
                        continue;
                if (strncmp(entry->d_name, CGROUP_SERVICE_PREFIX, strlen(CGROUP_SERVICE_PREFIX)) == 0)
                        sweep_base(path);
                if (strncmp(entry->d_name, CGROUP_FAMILY_PREFIX, strlen(CGROUP_FAMILY_PREFIX)) == 0) {
                        sweep_base(path);
                        (void)rmdir(path);
                }
                if (!is_of_the_dead(entry->d_name))
                        continue;
                cgroup_folder_kill(path);
                (void)!cgroup_folder_drop(path);
        }
        if (folder)
                closedir(folder);
}

/* Each by itself: one hierarchy's folder may stay, or come back, when another's has gone. */
void cgroup_folder_sweep(char *const *bases, size_t count) {
        for (size_t i = count; i-- > 0;)
                sweep_base(bases[i]);
}

bool cgroup_folder_name_of(pid_t child, char *buffer, size_t size) {
        struct process_identity identity = identity_of_self();
        char text[IDENTITY_TEXT_SIZE], state;

        identity.pid = child;
        if (!identity_look(child, &state, &identity.start))
                return false;
        identity_write(&identity, text);
        snprintf(buffer, size, "run-%s-0", text);
        return true;
}
