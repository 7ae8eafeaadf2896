/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/exec_slots.h"

#include "base/digest.h"
#include "base/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define ASK_AGAIN_MS 50

void exec_slot_release(struct exec_slot *slot) {
        if (slot->file >= 0)
                unlink(slot->path);
        close_descriptor(&slot->file);
        free(slot->path);
        slot->path = NULL;
}

/* Adds what a living run uses; the file of a dead one is removed. Under the folder's lock. */
static void add_run(int folder, const char *name, struct exec_use *sum) {
        int file DESCRIPTOR_CLEANUP = openat(folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        char text[64] = "";
        int64_t memory_mb, cpu_millis;

        if (file < 0)
                return;
        if (flock(file, LOCK_EX | LOCK_NB) == 0) {
                unlinkat(folder, name, 0);
                return;
        }
        sum->runs++;
        if (read(file, text, sizeof(text) - 1) > 0 &&
            sscanf(text, "%" SCNd64 " %" SCNd64, &memory_mb, &cpu_millis) == 2) {
                sum->memory_mb += memory_mb;
                sum->cpu_millis += cpu_millis;
        }
}

static int add_runs(const char *path, struct exec_use *sum, struct error *err) {
        DIR *folder = opendir(path);
        struct dirent *entry;

        if (!folder)
                return error_set(err, "cannot read %s: %s", path, strerror(errno));
        while ((entry = readdir(folder))) {
                if (strncmp(entry->d_name, "run-", 4) == 0)
                        add_run(dirfd(folder), entry->d_name, sum);
        }
        closedir(folder);
        return 0;
}

static bool exceeds(int64_t sum, int64_t more, int64_t limit) {
        return limit >= 0 && sum + more > limit;
}

static const char *what_exceeds(const struct exec_use *sum, const struct exec_use *use,
                                const struct exec_use *limits) {
        if (exceeds(sum->runs, use->runs, limits->runs))
                return "containers";
        if (exceeds(sum->memory_mb, use->memory_mb, limits->memory_mb))
                return "memory";
        if (exceeds(sum->cpu_millis, use->cpu_millis, limits->cpu_millis))
                return "CPU";
        return NULL;
}

/* Our own file, locked before anybody else may look. */
static int add_own(const char *folder, const struct exec_use *use, struct exec_slot *ret, struct error *err) {
        char name[64], text[64];
        uint64_t random;

        random_bytes(&random, sizeof(random));
        snprintf(name, sizeof(name), "run-%ld-%" PRIx64, (long)getpid(), random);
        ret->path = path_join(folder, name);
        ret->file = open(ret->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        snprintf(text, sizeof(text), "%" PRId64 " %" PRId64 "\n", use->memory_mb, use->cpu_millis);
        if (ret->file < 0 || flock(ret->file, LOCK_EX | LOCK_NB) < 0 ||
            write(ret->file, text, strlen(text)) != (ssize_t)strlen(text)) {
                error_set(err, "cannot write %s: %s", ret->path, strerror(errno));
                exec_slot_release(ret);
                return -1;
        }
        return 0;
}

/* 1: taken; 0: *ret_what is exhausted; -1: err. */
static int try_once(const char *folder, const struct exec_use *use, const struct exec_use *limits,
                    struct exec_slot *ret, const char **ret_what, struct error *err) {
        char *path TEXT_CLEANUP = path_join(folder, "lock");
        int lock DESCRIPTOR_CLEANUP = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        struct exec_use sum = { 0 };

        if (lock < 0 || flock(lock, LOCK_EX) < 0)
                return error_set(err, "cannot lock %s: %s", path, strerror(errno));
        if (add_runs(folder, &sum, err) < 0)
                return -1;
        *ret_what = what_exceeds(&sum, use, limits);
        if (*ret_what)
                return 0;
        return add_own(folder, use, ret, err) < 0 ? -1 : 1;
}

int exec_slot_take(const char *folder, const char *whose, const struct exec_use *use,
                   const struct exec_use *limits, bool reject, const struct clock *clock,
                   struct exec_slot *ret, struct error *err) {
        const char *what;
        int taken;

        if (folder_make(folder, err) < 0)
                return -1;
        while ((taken = try_once(folder, use, limits, ret, &what, err)) == 0) {
                if (reject)
                        return error_set_kind(err, ERROR_REFUSED,
                                              "%s has reached its limit of %s with what runs now", whose,
                                              what);
                if (clock->sleep_until(clock, clock->monotonic_ms(clock) + ASK_AGAIN_MS) < 0)
                        return error_set_kind(
                                err, ERROR_INTERRUPTED,
                                "interrupted while waiting for a free slot: %s has reached its limit "
                                "of %s",
                                whose, what);
        }
        return taken < 0 ? -1 : 0;
}
