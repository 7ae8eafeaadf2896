/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/launcher_disk.h"

#include "base/files.h"
#include "base/folder_names.h"
#include "base/guarded.h"
#include "providers/local/sandbox/sandbox_disk.h"
#include "providers/local/sandbox/sandbox_kept.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* --- workspaces that stay --- */

/* Of each client in a folder of its own. */
static struct sandbox_kept kept_of(const struct launcher_config *config, uid_t client, const char *name,
                                   uint64_t bytes, uint64_t files, struct arena *arena) {
        return (struct sandbox_kept){ .folder = arena_printf(arena, "%s/kept/%u/%s",
                                                             config->disk ? config->disk : "",
                                                             (unsigned)client, name),
                                      .bytes = bytes,
                                      .files = files,
                                      .remedy = "Give the machine loop devices and room on the launcher's "
                                                "disk" };
}

static bool is_kept_name(const char *name, const void *none) {
        (void)none;
        return sandbox_is_kept_name(name);
}

/*
 * The names of all that the client has, in order. Other entries, such as a disk's lost+found, are
 * left out.
 */
static int kept_names(const struct launcher_config *config, uid_t client, struct arena *arena,
                      const char ***ret, size_t *ret_count, struct error *err) {
        const char *path = arena_printf(arena, "%s/kept/%u", config->disk, (unsigned)client);
        int folder DESCRIPTOR_CLEANUP = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        *ret = NULL;
        *ret_count = 0;
        if (folder < 0 && errno == ENOENT)
                return 0;
        return folder >= 0 && folder_names(folder, is_kept_name, NULL, arena, ret, ret_count) == 0
                       ? 0
                       : error_set(err, "%s: %s", path, strerror(errno));
}

/*
 * For an existing one nothing is made. A folder that is made here is counted from then on,
 * whichever thread makes another now.
 */
static int claim_name(const struct launcher_config *config, uid_t client, const struct sandbox_kept *kept,
                      struct error *err) {
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        struct arena *arena ARENA_CLEANUP = arena_new();
        int folder DESCRIPTOR_CLEANUP = -1, result = 0;
        const char **names;
        size_t count = 0;

        pthread_mutex_lock(&lock);
        if (access(kept->folder, F_OK) < 0 && errno != ENOENT) {
                result = error_set(err, "%s: %s", kept->folder, strerror(errno));
        } else if (access(kept->folder, F_OK) < 0) {
                result = kept_names(config, client, arena, &names, &count, err);
                if (result == 0 && count >= config->kept_each)
                        result = error_set_kind(
                                err, ERROR_REFUSED,
                                "user %u has %zu workspaces that containers share, as many as this "
                                "launcher keeps for one (--kept-each): remove some",
                                (unsigned)client, count);
                if (result == 0)
                        result = guarded_folder_make(kept->folder, &folder, err);
        }
        pthread_mutex_unlock(&lock);
        return result;
}

static int may_keep(const struct launcher_config *config, const char *lasting, struct error *err) {
        if (config->disk && geteuid() == 0 && lasting)
                return 0;
        return error_set_kind(err, ERROR_REFUSED,
                              "the workspace that containers of an agent share is kept on the disk of a "
                              "launcher that is root: start it with --disk FOLDER");
}

/* --- what is asked of it --- */

void launcher_disk_keep(struct launcher_work *given) {
        struct launcher_disk *work = (struct launcher_disk *)given;
        const struct sandbox_keeping *keeping = &work->keeping;
        const struct sandbox_limits *most = &work->config->most;
        const struct sandbox_kept kept = kept_of(work->config, given->client, keeping->name, keeping->bytes,
                                                 keeping->files, work->arena);

        work->result = may_keep(work->config, keeping->name, &work->err);
        if (work->result == 0 &&
            (keeping->bytes > most->workspace_bytes || keeping->files > most->workspace_files))
                work->result = error_set(&work->err, "a limit is larger than this launcher gives");
        if (work->result == 0 && keeping->make && !keeping->remove)
                work->result = claim_name(work->config, given->client, &kept, &work->err);
        if (work->result == 0)
                work->result = keeping->remove ? sandbox_kept_remove(&kept, &work->err)
                                               : sandbox_kept_open(&kept, keeping->make, given->client,
                                                                   work->group, &work->opened, &work->err);
}

/* A launcher without a disk has none. */
void launcher_disk_names(struct launcher_work *given) {
        struct launcher_disk *work = (struct launcher_disk *)given;
        size_t count = 0, first = 0;

        if (work->config->disk &&
            kept_names(work->config, given->client, work->arena, &work->names, &count, &work->err) < 0) {
                work->result = -1;
                return;
        }
        while (first < count && strcmp(work->names[first], work->after) <= 0)
                first++;
        work->names = count > 0 ? work->names + first : NULL;
        work->name_count = count - first < SANDBOX_NAMES_MAX ? count - first : SANDBOX_NAMES_MAX;
}

/* Where this host cannot, the workspace is in memory; where the disk is full, that is said. */
void launcher_disk_start(struct launcher_work *given) {
        struct launcher_disk *work = (struct launcher_disk *)given;
        const struct sandbox_limits *limits = &work->starting.limits;
        struct error why = { 0 };

        if (work->starting.kept) {
                const struct sandbox_kept kept =
                        kept_of(work->config, given->client, work->starting.kept, limits->workspace_bytes,
                                limits->workspace_files, work->arena);

                work->result = may_keep(work->config, work->starting.name, &work->err) < 0 ||
                                               sandbox_kept_open(&kept, false, work->user.uid, work->user.gid,
                                                                 &work->opened, &work->err) < 0
                                       ? -1
                                       : 0;
        } else if (sandbox_disk_make(work->config->disk, limits->workspace_bytes, limits->workspace_files,
                                     &work->opened, &why) < 0 &&
                   why.kind != ERROR_NOT_FOUND) {
                work->err = why;
                work->result = -1;
        }
}

void launcher_disk_release(struct launcher_disk *disk) {
        arena_free(disk->arena);
        close_descriptor(&disk->user.lock);
        close_descriptor(&disk->opened);
}
