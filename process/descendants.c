/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process group or a session does not hold a process that wants to leave it, and a cgroup is not
 * ours to make in here. No process can leave the tree: one that loses its parent becomes ours. So
 * the tree is read from /proc, and a process is known by its id and the time of its birth.
 *
 * A signal goes by pidfd: opened, then looked at again, so that an id that has become another process's meanwhile gets none. Where
 * there is no descriptor for it, it goes by the id: a process that must end is not left.
 */
#include "process/descendants.h"

#include "base/array.h"
#include "base/files.h"
#include "base/libc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Rounds of stopping and looking again. A fork bomb meets the limit of processes long before. */
#define ROUNDS 200

void descendants_release(struct descendants *descendants) {
        array_free_alone(descendants->items);
        *descendants = (struct descendants){ 0 };
}

/* Fields of proc(5), of which the third is the first behind the name. */
enum {
        FIELD_STATE = 3,
        FIELD_PARENT,
        FIELD_GROUP,
        FIELD_USER = 14,
        FIELD_ENDED_SYSTEM = 17,
        FIELD_BORN = 22
};

/*
 * The fields are counted from behind the name, which may hold anything, ')' and newlines too. Read step by step: sscanf(3) is a tenth of
 * this program.
 */
static bool read_process(pid_t pid, struct descendant *ret) {
        char path[64], text[1024], *at;
        ssize_t length;
        int file DESCRIPTOR_CLEANUP = -1;

        snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
        file = open(path, O_RDONLY | O_CLOEXEC);
        length = file < 0 ? -1 : read(file, text, sizeof(text) - 1);
        if (length <= 0)
                return false;
        text[length] = '\0';
        at = strrchr(text, ')');
        if (!at || at[1] != ' ' || !at[2] || at[2] == 'Z' || at[2] == 'X')
                return false;
        at += 3;
        *ret = (struct descendant){ .pid = pid };
        for (int field = FIELD_PARENT; field <= FIELD_BORN; field++) {
                char *end;
                long long value = strtoll(at, &end, 10);

                if (end == at)
                        return false;
                at = end;
                if (field == FIELD_PARENT)
                        ret->parent = (pid_t)value;
                else if (field == FIELD_GROUP)
                        ret->group = (pid_t)value;
                else if (field >= FIELD_USER && field <= FIELD_ENDED_SYSTEM)
                        ret->ticks += value;
                else if (field == FIELD_BORN)
                        ret->born = (unsigned long long)value;
        }
        return true;
}

static const struct descendant *find_descendant(const struct descendants *all, pid_t pid) {
        for (size_t i = 0; i < all->count; i++) {
                if (all->items[i].pid == pid)
                        return &all->items[i];
        }
        return NULL;
}

static bool has_descendant(const struct descendants *all, const struct descendant *one) {
        const struct descendant *found = find_descendant(all, one->pid);

        return found && found->born == one->born;
}

/* Whether the way up from it leads here. Bounded, since the tree changes as it is read. */
static bool is_below(const struct descendants *all, const struct descendant *one, pid_t self) {
        for (size_t steps = 0; one && steps <= all->count; steps++) {
                if (one->parent == self)
                        return true;
                one = find_descendant(all, one->parent);
        }
        return false;
}

void descendants_find(struct descendants *ret) {
        struct descendants all DESCENDANTS_CLEANUP = { 0 };
        DIR *folder = opendir("/proc");
        const struct dirent *entry;
        pid_t self = getpid();

        *ret = (struct descendants){ 0 };
        while (folder && (entry = readdir(folder))) {
                long pid = strtol(entry->d_name, NULL, 10);
                struct descendant one;

                if (pid <= 0 || pid == self || !read_process((pid_t)pid, &one))
                        continue;
                all.items = array_grow_alone(all.items, all.count, sizeof(*all.items));
                all.items[all.count++] = one;
        }
        if (folder)
                closedir(folder);
        for (size_t i = 0; i < all.count; i++) {
                if (!is_below(&all, &all.items[i], self))
                        continue;
                ret->items = array_grow_alone(ret->items, ret->count, sizeof(*ret->items));
                ret->items[ret->count++] = all.items[i];
        }
}

int64_t descendants_cpu_ms(void) {
        struct descendants all DESCENDANTS_CLEANUP = { 0 };
        struct descendant self = { 0 };
        int64_t ticks, second = sysconf(_SC_CLK_TCK);

        (void)read_process(getpid(), &self);
        descendants_find(&all);
        ticks = self.ticks;
        for (size_t i = 0; i < all.count; i++)
                ticks += all.items[i].ticks;
        return second > 0 ? ticks * 1000 / second : 0;
}

static int open_of(pid_t pid, const char *name, int flags) {
        char path[64];

        snprintf(path, sizeof(path), "/proc/%ld/%s", (long)pid, name);
        return open(path, flags | O_CLOEXEC);
}

void descendants_count_peaks_anew(void) {
        struct descendants all DESCENDANTS_CLEANUP = { 0 };

        descendants_find(&all);
        for (size_t i = 0; i < all.count; i++) {
                int file = open_of(all.items[i].pid, "clear_refs", O_WRONLY);

                if (file < 0)
                        continue;
                (void)!write(file, "5", 1);
                close(file);
        }
}

/* "VmHWM:    1234 kB", within the first kilobytes; 0: it has gone, or has no memory. */
static int64_t peak_bytes(pid_t pid) {
        char text[4096], *at;
        int file = open_of(pid, "status", O_RDONLY);
        ssize_t length = file < 0 ? -1 : read(file, text, sizeof(text) - 1);
        long long kilobytes;

        if (file >= 0)
                close(file);
        if (length <= 0)
                return 0;
        text[length] = '\0';
        at = strstr(text, "\nVmHWM:");
        kilobytes = at ? strtoll(at + strlen("\nVmHWM:"), NULL, 10) : 0;
        return kilobytes > 0 && kilobytes < (1LL << 32) ? kilobytes * 1024 : 0;
}

int64_t descendants_peak_bytes(void) {
        struct descendants all DESCENDANTS_CLEANUP = { 0 };
        int64_t bytes = 0;

        descendants_find(&all);
        for (size_t i = 0; i < all.count; i++)
                bytes += peak_bytes(all.items[i].pid);
        return bytes;
}

pid_t descendants_newest(int file) {
        char text[256], *last;
        ssize_t length = file < 0 ? -1 : pread(file, text, sizeof(text) - 1, 0);

        if (length <= 0)
                return 0;
        text[length] = '\0';
        last = strrchr(text, ' ');
        return last ? (pid_t)strtol(last + 1, NULL, 10) : 0;
}

void descendants_forget_dead(struct descendants *descendants, bool (*is_held)(void *context, pid_t pid),
                             void *context) {
        size_t kept = 0;

        for (size_t i = 0; i < descendants->count; i++) {
                struct descendant now = descendants->items[i];

                if (is_held(context, now.pid) ||
                    (read_process(now.pid, &now) && now.born == descendants->items[i].born))
                        descendants->items[kept++] = now;
        }
        descendants->count = kept;
}

void descendants_add(struct descendants *descendants, pid_t pid) {
        struct descendant one;

        if (!read_process(pid, &one) || has_descendant(descendants, &one))
                return;
        descendants->items =
                array_grow_alone(descendants->items, descendants->count, sizeof(*descendants->items));
        descendants->items[descendants->count++] = one;
}

static void signal_one(const struct descendant *one, int number) {
        struct descendant now;
        int pidfd DESCRIPTOR_CLEANUP = pidfd_open(one->pid, 0);

        /* Without a descriptor to spare, the id must do: it was read a moment ago. */
        if (pidfd < 0 && errno != ESRCH)
                (void)kill(one->pid, number);
        else if (pidfd >= 0 && read_process(one->pid, &now) && now.born == one->born)
                (void)pidfd_send_signal(pidfd, number, NULL, 0);
}

/* Neither old nor below one that is: the leader's own old children are old, what it starts now is not. */
static bool is_new(const struct descendants *now, const struct descendants *old, pid_t leader,
                   const struct descendant *one) {
        for (size_t steps = 0; one && steps <= now->count; steps++) {
                if (one->pid == leader)
                        return true;
                if (has_descendant(old, one))
                        return false;
                one = find_descendant(now, one->parent);
        }
        return true;
}

size_t descendants_signal(const struct descendants *old, pid_t leader, pid_t group, int number) {
        struct descendants now DESCENDANTS_CLEANUP = { 0 };
        size_t count = 0;

        descendants_find(&now);
        for (size_t i = 0; i < now.count; i++) {
                const struct descendant *one = &now.items[i];

                if ((group > 0 && one->group != group) || !is_new(&now, old, leader, one))
                        continue;
                signal_one(one, number);
                count++;
        }
        return count;
}

/* All are stopped before any is killed: one that still ran could start another, whose parent would then be gone. */
void descendants_kill(const struct descendants *old, pid_t leader) {
        size_t before = 0;

        for (int round = 0; round < ROUNDS; round++) {
                size_t count = descendants_signal(old, leader, 0, SIGSTOP);

                if (count == before)
                        break;
                before = count;
        }
        for (int round = 0; round < ROUNDS; round++) {
                if (descendants_signal(old, leader, 0, SIGKILL) == 0)
                        break;
                /* On a busy machine they take a while to die, and count against the limit of processes until then. */
                nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
        }
}
