/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/launcher_workers.h"

#include "base/array.h"
#include "base/files.h"
#include "base/libc.h"
#include "process/identity.h"
#include "providers/local/launcher_listen.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUFFIX ".worker"
#define RECORD_MAX 8192

static int check_owned_folder(const char *folder, struct error *err) {
        struct stat status;

        if (lstat(folder, &status) < 0)
                return error_set_kind(err, errno == ENOENT ? ERROR_NOT_FOUND : ERROR_FAILED, "%s: %s", folder,
                                      strerror(errno));
        if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() || status.st_mode & 022)
                return error_set(err, "%s must be a folder of root's that only root can write to", folder);
        return 0;
}

/* Whose name it is stands in the path, which is otherwise the configuration's. */
int launcher_workers_listen(const char *folder, uid_t client, const char *name, struct arena *arena,
                            const char **ret_path, int *ret_listener, struct error *err) {
        const char *path = arena_printf(arena, "%s/%u.%s", folder, (unsigned)client, name);

        if (mkdir(folder, 0711) == 0 && chmod(folder, 0711) < 0)
                return error_set(err, "cannot make %s: %s", folder, strerror(errno));
        if (check_owned_folder(folder, err) < 0 ||
            launcher_listen_for_worker(path, client, ret_listener, err) < 0)
                return -1;
        *ret_path = path;
        return 0;
}

static char *record_of(const char *path) {
        struct strbuf name = STRBUF_INIT;

        strbuf_printf(&name, "%s" SUFFIX, path);
        return strbuf_take(&name);
}

int launcher_workers_record(const char *path, pid_t worker, const struct sandbox_starting *starting,
                            struct error *err) {
        char *record TEXT_CLEANUP = record_of(path), identified[IDENTITY_TEXT_SIZE], state;
        struct process_identity identity = identity_of_self();
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct sandbox_starting kept = *starting;

        /* Of use at the start alone, and long. */
        kept.network = (struct allow_list){ 0 };
        identity.pid = worker;
        if (!identity_look(worker, &state, &identity.start))
                return errno == EMFILE || errno == ENFILE
                               ? error_set(err, "cannot look at the sandbox's worker: %s", strerror(errno))
                               : error_set(err, "the sandbox's worker has died");
        identity_write(&identity, identified);
        strbuf_printf(&text, "%s\n", identified);
        sandbox_starting_write(&kept, &text);
        return file_write_atomic(record, text.data, text.length, 0600, err);
}

int launcher_workers_rename(const char *folder, uid_t client, const char *path, pid_t worker,
                            const struct sandbox_starting *as, struct arena *arena, const char **ret_path,
                            struct error *err) {
        const char *to = arena_printf(arena, "%s/%u.%s", folder, (unsigned)client, as->name);
        char *before TEXT_CLEANUP = record_of(path), *after TEXT_CLEANUP = record_of(to);

        if (check_owned_folder(folder, err) < 0 || launcher_listen_clear(to, err) < 0 ||
            launcher_workers_record(to, worker, as, err) < 0)
                return -1;
        if (rename(path, to) < 0) {
                (void)error_set(err, "cannot rename %s to %s: %s", path, to, strerror(errno));
                (void)unlink(after);
                return -1;
        }
        (void)unlink(before);
        *ret_path = to;
        return 0;
}

void launcher_workers_remove(const char *path) {
        char *record TEXT_CLEANUP = record_of(path);

        (void)unlink(path);
        (void)unlink(record);
}

/* 1: it lives, and *ret is it; 0: it does not, or its record is wrong. -1: this process cannot find out, for want of descriptors, say. */
static int read_worker(const char *folder, const char *file, struct arena *arena, struct launcher_worker *ret,
                       struct error *err) {
        const char *record = arena_printf(arena, "%s/%s", folder, file), *end;
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct launcher_worker worker = { .process = PROCESS_NONE };
        struct process_identity identity;
        struct error failure = { 0 }, ignored;
        enum identity_life life;

        worker.path = arena_strndup(arena, record, strlen(record) - strlen(SUFFIX));
        worker.client = (uid_t)strtoul(file, NULL, 10);
        if (file_read(record, RECORD_MAX, &text, &failure) < 0) {
                if (failure.kind == ERROR_NOT_FOUND || text.length > 0)
                        return 0;
                *err = failure;
                return -1;
        }
        if (!identity_read(strbuf_text(&text), &identity, &end) || *end != '\n' ||
            sandbox_starting_read(end + 1, strlen(end + 1), arena, &worker.starting, &ignored) < 0 ||
            !worker.starting.name ||
            strcmp(worker.path, arena_printf(arena, "%s/%u.%s", folder, (unsigned)worker.client,
                                             worker.starting.name)) != 0 ||
            access(worker.path, F_OK) < 0)
                return 0;
        /* By the time that it is asked again, no other process can have become it. */
        worker.process.pidfd = pidfd_open(identity.pid, 0);
        if (worker.process.pidfd < 0 && errno != ESRCH && errno != EINVAL)
                return error_set(err, "cannot watch the worker of %s: %s", record, strerror(errno));
        worker.process.pid = identity.pid;
        errno = 0; /* left as it is where /proc could be read */
        life = worker.process.pidfd < 0 ? IDENTITY_DEAD : identity_life(&identity);
        if (life == IDENTITY_UNKNOWN && (errno == EMFILE || errno == ENFILE)) {
                (void)error_set(err, "cannot find out whether the worker of %s lives: %s", record,
                                strerror(errno));
                close_descriptor(&worker.process.pidfd);
                return -1;
        }
        if (life != IDENTITY_ALIVE) {
                close_descriptor(&worker.process.pidfd);
                return 0;
        }
        *ret = worker;
        return 1;
}

/*
 * A socket that its launcher had made, and died before it had a worker for it. A socket at which a
 * process listens stays.
 */
static void remove_socket(const char *folder, const char *name, struct arena *arena) {
        char *path = arena_printf(arena, "%s/%s", folder, name),
             *record = arena_printf(arena, "%s" SUFFIX, path);
        struct error ignored;

        if (access(record, F_OK) < 0)
                (void)!launcher_listen_clear(path, &ignored);
}

int launcher_workers_find(const char *folder, struct arena *arena, struct launcher_worker **ret,
                          size_t *ret_count, bool *ret_dead, struct error *err) {
        struct launcher_worker *workers = NULL;
        const struct dirent *entry;
        struct error absent = { 0 };
        size_t count = 0;
        DIR *names;

        *ret_count = 0;
        *ret_dead = false;
        if (check_owned_folder(folder, &absent) < 0) {
                if (absent.kind == ERROR_NOT_FOUND)
                        return 0;
                *err = absent;
                return -1;
        }
        names = opendir(folder);
        if (!names)
                return error_set(err, "cannot read %s: %s", folder, strerror(errno));
        while ((entry = readdir(names))) {
                const char *dot = strrchr(entry->d_name, '.');
                struct launcher_worker worker;
                int lives;

                if (!dot || dot == entry->d_name || entry->d_name[0] < '0' || entry->d_name[0] > '9')
                        continue;
                if (file_is_leftover(
                            entry->d_name)) { /* a record that the launcher before us did not come to write */
                        (void)unlinkat(dirfd(names), entry->d_name, 0);
                        continue;
                }
                if (strcmp(dot, SUFFIX) != 0) {
                        remove_socket(folder, entry->d_name, arena);
                        continue;
                }
                lives = read_worker(folder, entry->d_name, arena, &worker, err);
                if (lives < 0) {
                        for (size_t i = 0; i < count; i++)
                                close_descriptor(&workers[i].process.pidfd);
                        closedir(names);
                        return -1;
                }
                if (lives == 0) {
                        launcher_workers_remove(arena_printf(arena, "%s/%.*s", folder,
                                                             (int)(dot - entry->d_name), entry->d_name));
                        *ret_dead = true;
                        continue;
                }
                workers = array_grow(arena, workers, count, sizeof(*workers));
                workers[count++] = worker;
        }
        closedir(names);
        *ret = workers;
        *ret_count = count;
        return 0;
}
