/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder's times change with each name that comes or goes in it, a file's with each write, and no program can set a ctime. So all
 * is as it was where each folder and file that was known has the times that it had. Names are looked up with RESOLVE_CACHED: what the
 * kernel does not have at hand counts as changed, and a folder that somebody else has locked is not waited for.
 */
#include "sessions/workspace_still.h"

#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Files' times may be as coarse as the kernel's tick, 10 ms at most. */
#define YOUNG_NS (INT64_C(50) * 1000 * 1000)
#define NS_PER_S INT64_C(1000000000)

struct workspace_still {
        struct workspace_entry folder;
        struct arena *arena;
        struct workspace_entry *entries;
        size_t count;
};

void workspace_still_look(int folder, struct workspace_still_look *ret) {
        struct timespec now;

        *ret = (struct workspace_still_look){ 0 };
        if (clock_gettime(CLOCK_REALTIME_COARSE, &now) == 0 && fstat(folder, &ret->status) == 0)
                ret->at_ns = now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* A time to come, by a clock that was set back, is young as well. */
static bool is_young(const struct workspace_entry *entry, int64_t at_ns) {
        return entry->changed_ns > at_ns - YOUNG_NS || entry->written_ns > at_ns - YOUNG_NS;
}

struct workspace_still *workspace_still_new(const struct workspace_still_look *look,
                                            const struct workspace_tree *tree) {
        struct workspace_entry folder = workspace_entry_of(".", &look->status);
        struct workspace_still *still;

        if (look->at_ns == 0 || is_young(&folder, look->at_ns) || tree->cut || tree->skipped_count > 0 ||
            tree->count > WORKSPACE_STILL_MAX)
                return NULL;
        for (size_t i = 0; i < tree->count; i++) {
                if (is_young(&tree->entries[i], look->at_ns))
                        return NULL;
        }
        still = calloc(1, sizeof(*still));
        if (!still)
                abort();
        *still = (struct workspace_still){ .folder = folder, .arena = arena_new(), .count = tree->count };
        still->entries = arena_array(still->arena, tree->count + 1, sizeof(*still->entries));
        for (size_t i = 0; i < tree->count; i++) {
                still->entries[i] = tree->entries[i];
                still->entries[i].path = arena_strdup(still->arena, tree->entries[i].path);
        }
        return still;
}

static bool is_same(const struct workspace_entry *before, const struct stat *status) {
        const struct workspace_entry now = workspace_entry_of(before->path, status);

        return status->st_nlink > 0 && before->folder == now.folder && before->inode == now.inode &&
               before->bytes == now.bytes && before->written_ns == now.written_ns &&
               before->changed_ns == now.changed_ns;
}

static bool entry_holds(const struct workspace_entry *entry, int folder) {
        const struct open_how how = { .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
                                      .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV |
                                                 RESOLVE_CACHED };
        int handle DESCRIPTOR_CLEANUP = (int)syscall(SYS_openat2, folder, entry->path, &how, sizeof(how));
        struct stat status;

        return handle >= 0 && fstat(handle, &status) == 0 && is_same(entry, &status);
}

bool workspace_still_holds(const struct workspace_still *still, int folder) {
        struct stat status;

        if (!still || fstat(folder, &status) < 0 || !is_same(&still->folder, &status))
                return false;
        for (size_t i = 0; i < still->count; i++) {
                if (!entry_holds(&still->entries[i], folder))
                        return false;
        }
        return true;
}

void workspace_still_free(struct workspace_still *still) {
        if (!still)
                return;
        arena_free(still->arena);
        free(still);
}
