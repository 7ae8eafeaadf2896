/* SPDX-License-Identifier: Apache-2.0 */
#include "sessions/checkpoint.h"

#include "base/digest.h"
#include "base/files.h"
#include "sessions/workspace_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "checkpoint-"
#define NAME_DIGITS 32
#define PIECE ((size_t)256 << 10)

static void name_of(const char *digest, char ret[sizeof(PREFIX) + NAME_DIGITS]) {
        snprintf(ret, sizeof(PREFIX) + NAME_DIGITS, PREFIX "%.*s", NAME_DIGITS, digest);
}

int checkpoint_make(const struct workspace *workspace, const char *name, int *ret_descriptor,
                    struct problem *problem) {
        int made;

        if (unlinkat(workspace->folder, name, 0) < 0 && errno != ENOENT)
                return problem_set(problem, PROBLEM_WORKSPACE_FAILED, "cannot remove an old checkpoint: %s",
                                   strerror(errno));
        made = openat(workspace->folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (made < 0)
                return problem_set(problem, PROBLEM_WORKSPACE_FAILED,
                                   "cannot make a file for a checkpoint: %s", strerror(errno));
        *ret_descriptor = made;
        return 0;
}

int checkpoint_open_name(const struct workspace *workspace, const char *name) {
        struct stat status;

        return workspace_open_regular(workspace->folder, name, &status);
}

/* Of the whole file, from its beginning. */
static int digest_of(int descriptor, const struct interrupt *interrupt, struct place_checkpoint *ret,
                     struct problem *problem) {
        struct digest_stream *stream = digest_stream_new();
        struct place_checkpoint found = { 0 };
        char *piece = malloc(PIECE);
        ssize_t count;

        if (!piece)
                abort();
        do {
                count = pread(descriptor, piece, PIECE, (off_t)found.bytes);
                if (count > 0) {
                        digest_stream_add(stream, piece, (size_t)count);
                        found.bytes += (uint64_t)count;
                }
        } while ((count > 0 || (count < 0 && errno == EINTR)) &&
                 !(interrupt && interrupt_level(interrupt) > INTERRUPT_NONE));
        free(piece);
        digest_stream_end(stream, found.digest);
        if (count > 0)
                return problem_set(problem, PROBLEM_STOPPING, "it was interrupted");
        if (count < 0)
                return problem_set(problem, PROBLEM_WORKSPACE_FAILED, "cannot read a checkpoint: %s",
                                   strerror(errno));
        *ret = found;
        return 0;
}

int checkpoint_keep(struct workspace *workspace, const char *name, int descriptor,
                    const struct place_checkpoint *other, const struct interrupt *interrupt,
                    struct place_checkpoint *ret, struct problem *problem) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        char own[sizeof(PREFIX) + NAME_DIGITS];
        struct place_checkpoint checkpoint = { 0 };
        struct workspace_row row;
        int result = 0;

        if (digest_of(descriptor, interrupt, &checkpoint, problem) < 0 ||
            workspace_lock(workspace, interrupt, problem) < 0)
                return -1;
        name_of(checkpoint.digest, own);
        /* Under the lock: whoever ends the session removes all that is there, and nothing may come after that. */
        if (workspace_describe(workspace, arena, &row, problem) < 0)
                result = -1;
        else if (row.lives_until_ms == 0)
                result = problem_set(problem, PROBLEM_NOT_FOUND, "the session has ended");
        else if (renameat(workspace->folder, name, workspace->folder, own) < 0 ||
                 fsync(workspace->folder) < 0)
                result = problem_set(problem, PROBLEM_WORKSPACE_FAILED, "cannot keep a checkpoint: %s",
                                     strerror(errno));
        workspace_unlock(workspace);
        if (result < 0)
                return -1;
        checkpoint_remove(workspace->folder, checkpoint.digest, other ? other->digest : NULL);
        *ret = checkpoint;
        return 0;
}

int checkpoint_open(const struct workspace *workspace, const struct place_checkpoint *checkpoint,
                    const struct interrupt *interrupt, int *ret_descriptor, struct problem *problem) {
        char name[sizeof(PREFIX) + NAME_DIGITS];
        int descriptor DESCRIPTOR_CLEANUP = -1;
        struct place_checkpoint found = { 0 };

        name_of(checkpoint->digest, name);
        descriptor = checkpoint_open_name(workspace, name);
        if (descriptor < 0)
                return problem_set(problem, PROBLEM_NOT_FOUND, "its checkpoint no longer exists");
        if (digest_of(descriptor, interrupt, &found, problem) < 0)
                return -1;
        if (found.bytes != checkpoint->bytes || strcmp(found.digest, checkpoint->digest) != 0)
                return problem_set(problem, PROBLEM_WORKSPACE_FAILED,
                                   "its checkpoint is damaged: it is not what was written");
        checkpoint_remove(workspace->folder, checkpoint->digest, NULL);
        *ret_descriptor = descriptor;
        descriptor = -1;
        return 0;
}

static bool is_named(const char *name, const char *digest) {
        char own[sizeof(PREFIX) + NAME_DIGITS];

        if (!digest)
                return false;
        name_of(digest, own);
        return strcmp(name, own) == 0;
}

/* Calls `each` with the name of each one: of those that are being made, too. */
static void walk(int folder, void (*each)(int folder, const char *name, void *context), void *context) {
        int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *stream = again < 0 ? NULL : fdopendir(again);
        const struct dirent *entry;

        if (!stream) {
                close_descriptor(&again);
                return;
        }
        while ((entry = readdir(stream))) {
                if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0 ||
                    strcmp(entry->d_name, CHECKPOINT_PARKING) == 0 ||
                    strcmp(entry->d_name, CHECKPOINT_PARKED) == 0)
                        each(folder, entry->d_name, context);
        }
        closedir(stream);
}

/* What is being made belongs to a living sandbox, unless the session has ended: then nobody is to be kept. */
static void remove_one(int folder, const char *name, void *context) {
        const char *const *kept = context;

        if (!is_named(name, kept[0]) && !is_named(name, kept[1]) &&
            (!kept[0] || strncmp(name, PREFIX, strlen(PREFIX)) == 0))
                (void)unlinkat(folder, name, 0);
}

void checkpoint_remove(int folder, const char *one, const char *other) {
        const char *kept[] = { one, other };

        walk(folder, remove_one, kept);
}

static void add_size(int folder, const char *name, void *context) {
        struct stat status;

        if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode))
                *(uint64_t *)context += (uint64_t)status.st_size;
}

uint64_t checkpoint_measure(const struct workspace *workspace) {
        uint64_t bytes = 0;

        walk(workspace->folder, add_size, &bytes);
        return bytes;
}
