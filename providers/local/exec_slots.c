/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a folder, and who wrote what:
 *
 *     lock             held by a process that looks or adds, for a moment
 *     run-PID-RANDOM   "MEMORY CPU" of one run, locked as long as it lives
 *     wait-NUMBER-PID  empty, one of those that wait, locked likewise
 *
 * A file without a lock is of a dead process, and its finder removes it. So no process need clean up for
 * another one, and a killed one holds nothing. Process ids in names are for people: they are never read back.
 */
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

/* A free slot sends no event: a process that waits looks again. */
#define ASK_AGAIN_MS 50
/*
 * The holder of the folder's lock has it for a moment; a holder that was stopped then must not
 * block all others forever.
 */
#define LOCK_MS 10000
#define LOCK_AGAIN_MS 5

int exec_slot_pass(struct exec_slot *slot) {
        int file = slot->file;

        slot->file = -1;
        slot->passed = true;
        return file;
}

void exec_slot_release(struct exec_slot *slot) {
        if (slot->passed) {
                slot->file = open(slot->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
                /*
                 * A process of the run that still lives keeps it; the next that looks removes it.
                 */
                if (slot->file >= 0 && flock(slot->file, LOCK_EX | LOCK_NB) < 0)
                        close_descriptor(&slot->file);
        }
        if (slot->file >= 0)
                unlink(slot->path);
        close_descriptor(&slot->file);
        free(slot->path);
        slot->path = NULL;
}

/* --- what is in the folder, under its lock --- */

/* Opens the file of one that lives; -1 where it is dead, and its file is removed then. */
static int open_living(int folder, const char *name) {
        int file DESCRIPTOR_CLEANUP = openat(folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        int living = file;

        if (file < 0)
                return -1;
        if (flock(file, LOCK_EX | LOCK_NB) == 0) {
                unlinkat(folder, name, 0);
                return -1;
        }
        file = -1;
        return living;
}

/* A run whose text cannot be read uses nothing that could be added up, but counts as a run. */
static void add_run(int folder, const char *name, struct exec_use *sum) {
        int file DESCRIPTOR_CLEANUP = open_living(folder, name);
        char text[64] = "";
        int64_t memory_mb, cpu_millis;

        if (file < 0)
                return;
        sum->runs++;
        if (read(file, text, sizeof(text) - 1) > 0 &&
            sscanf(text, "%" SCNd64 " %" SCNd64, &memory_mb, &cpu_millis) == 2) {
                sum->memory_mb += memory_mb;
                sum->cpu_millis += cpu_millis;
        }
}

/* The folder's own lock is held, so that nothing is added meanwhile. Runs may end, which only leaves more room. */
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

struct line {
        bool behind;   /* a living process has a smaller number than ours */
        uint64_t last; /* the largest number there is */
};

/* `own` is the number that we wait with; 0: none yet, so that all that wait are before us. */
static int read_line_of_waiting(const char *path, uint64_t own, struct line *ret, struct error *err) {
        DIR *folder = opendir(path);
        struct line line = { 0 };
        struct dirent *entry;

        if (!folder)
                return error_set(err, "cannot read %s: %s", path, strerror(errno));
        while ((entry = readdir(folder))) {
                int file DESCRIPTOR_CLEANUP = -1;
                uint64_t number;

                if (sscanf(entry->d_name, "wait-%" SCNu64 "-", &number) != 1)
                        continue;
                line.last = number > line.last ? number : line.last;
                if (line.behind || (own && number >= own))
                        continue;
                file = open_living(dirfd(folder), entry->d_name);
                line.behind = file >= 0;
        }
        closedir(folder);
        *ret = line;
        return 0;
}

static bool exceeds(int64_t sum, int64_t more, int64_t limit) {
        return limit >= 0 && sum + more > limit;
}

/* As the message names it. */
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

/* --- our own files, locked before another process may look --- */

/*
 * Locked while the folder's lock is held: no process can find it unlocked and take it for a dead
 * one's.
 */
static int make_file(const char *folder, const char *name, const char *text, struct exec_slot *ret,
                     struct error *err) {
        ret->path = path_join(folder, name);
        ret->file = open(ret->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (ret->file < 0 || flock(ret->file, LOCK_EX | LOCK_NB) < 0 ||
            descriptor_write(ret->file, text, strlen(text)) < 0) {
                (void)error_set(err, "cannot write %s: %s", ret->path, strerror(errno));
                exec_slot_release(ret);
                return -1;
        }
        return 0;
}

static int add_own(const char *folder, const struct exec_use *use, struct exec_slot *ret, struct error *err) {
        char name[64], text[64];
        uint64_t random;

        random_bytes(&random, sizeof(random));
        snprintf(name, sizeof(name), "run-%ld-%" PRIx64, (long)getpid(), random);
        snprintf(text, sizeof(text), "%" PRId64 " %" PRId64 "\n", use->memory_mb, use->cpu_millis);
        return make_file(folder, name, text, ret, err);
}

/* A place in the line, given up as a slot is. */
struct place {
        struct exec_slot file;
        uint64_t number; /* 0: none */
};

/* Behind the last number, even if that process is dead already: numbers only have to rise. */
static int join_queue(const char *folder, uint64_t last, struct place *place, struct error *err) {
        char name[64];

        snprintf(name, sizeof(name), "wait-%" PRIu64 "-%ld", last + 1, (long)getpid());
        if (make_file(folder, name, "", &place->file, err) < 0)
                return -1;
        place->number = last + 1;
        return 0;
}

static void leave_line(struct place *place) {
        exec_slot_release(&place->file);
        place->number = 0;
}

/* --- taking a slot --- */

static int lock_until(int lock, const char *path, const struct clock *clock, struct error *err) {
        int64_t until_ms = clock->monotonic_ms(clock) + LOCK_MS;

        while (flock(lock, LOCK_EX | LOCK_NB) < 0) {
                int64_t now_ms = clock->monotonic_ms(clock);

                if (errno != EWOULDBLOCK && errno != EINTR)
                        return error_set(err, "cannot lock %s: %s", path, strerror(errno));
                if (now_ms >= until_ms)
                        return error_set(
                                err,
                                "cannot lock %s: another process has it for %d s, and may have been stopped",
                                path, LOCK_MS / 1000);
                if (clock->sleep_until(clock, now_ms + LOCK_AGAIN_MS) < 0)
                        return error_set_kind(err, ERROR_INTERRUPTED, "interrupted while waiting for %s",
                                              path);
        }
        return 0;
}

/*
 * 1: taken; 0: not now, *ret_why is the limit that was reached, NULL where others are before us,
 * and with `wait` we are in the line; -1: err. A newcomer is served after all that wait, even if it
 * would fit and they do not: small runs must not keep a large one waiting forever.
 */
static int try_once(const char *folder, const struct exec_use *use, const struct exec_use *limits, bool wait,
                    const struct clock *clock, struct place *place, struct exec_slot *ret,
                    const char **ret_why, struct error *err) {
        char *path TEXT_CLEANUP = path_join(folder, "lock");
        int lock DESCRIPTOR_CLEANUP = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        struct exec_use sum = { 0 };
        struct line line;

        if (lock < 0)
                return error_set(err, "cannot lock %s: %s", path, strerror(errno));
        if (lock_until(lock, path, clock, err) < 0)
                return -1;
        if (read_line_of_waiting(folder, place->number, &line, err) < 0)
                return -1;
        *ret_why = NULL;
        if (!line.behind) {
                if (add_runs(folder, &sum, err) < 0)
                        return -1;
                *ret_why = what_exceeds(&sum, use, limits);
                if (!*ret_why)
                        return add_own(folder, use, ret, err) < 0 ? -1 : 1;
        }
        return wait && !place->number ? join_queue(folder, line.last, place, err) : 0;
}

/* `why` is the limit that was reached; NULL where there would be room, but others were first. */
static int say_full(const char *whose, const char *why, bool interrupted, struct error *err) {
        const char *interruption = interrupted ? "interrupted while waiting for a free slot: " : "";
        enum error_kind kind = interrupted ? ERROR_INTERRUPTED : ERROR_REFUSED;

        if (!why)
                return error_set_kind(err, kind, "%sothers wait already for %s's limits", interruption,
                                      whose);
        return error_set_kind(err, kind, "%s%s has reached its limit of %s with what runs now", interruption,
                              whose, why);
}

int exec_slot_take(const char *folder, const char *whose, const struct exec_use *use,
                   const struct exec_use *limits, bool reject, const struct clock *clock,
                   struct exec_slot *ret, struct error *err) {
        struct place place __attribute__((cleanup(leave_line))) = { .file = EXEC_SLOT_NONE };
        const char *why;
        int taken;

        if (folder_make(folder, err) < 0)
                return -1;
        while ((taken = try_once(folder, use, limits, !reject, clock, &place, ret, &why, err)) == 0) {
                if (reject)
                        return say_full(whose, why, false, err);
                if (clock->sleep_until(clock, clock->monotonic_ms(clock) + ASK_AGAIN_MS) < 0)
                        return say_full(whose, why, true, err);
        }
        return taken < 0 ? -1 : 0;
}
