/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each change is made under the workspace's lock: the conditions are judged, the file is renamed from incoming/ to its place, the
 * folder is synced, and the number of files and bytes is written anew.
 */
#include "sessions/workspace_local.h"

#include "base/array.h"
#include "base/beneath.h"
#include "base/files.h"
#include "base/sorted.h"
#include "base/text.h"
#include "sessions/workspace_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PIECE ((size_t)256 << 10)
/* Names between two looks at the interrupt. */
#define LOOK_EVERY 1024
#define ETAG_BYTES 16

#define NS_PER_S INT64_C(1000000000)

static int stopped(struct problem *problem) {
        return problem_set(problem, PROBLEM_STOPPING, "interrupted");
}

void workspace_etag(const struct stat *status, char etag[ETAG_SIZE]) {
        const int64_t facts[] = { (int64_t)status->st_ino,         (int64_t)status->st_size,
                                  (int64_t)status->st_mtim.tv_sec, (int64_t)status->st_mtim.tv_nsec,
                                  (int64_t)status->st_ctim.tv_sec, (int64_t)status->st_ctim.tv_nsec };
        uint8_t digest[SHA256_SIZE];

        digest_sha256(facts, sizeof(facts), digest);
        etag[0] = '"';
        digest_hex(digest, ETAG_BYTES, etag + 1);
        etag[1 + 2 * ETAG_BYTES] = '"';
        etag[2 + 2 * ETAG_BYTES] = '\0';
}

static struct workspace_file file_of(const struct stat *status) {
        struct workspace_file file = {
                .bytes = (uint64_t)status->st_size,
                .written_ms = (int64_t)status->st_mtim.tv_sec * 1000 + status->st_mtim.tv_nsec / 1000000,
                .executable = status->st_mode & 0100,
        };

        workspace_etag(status, file.etag);
        return file;
}

/* ---- listing ---- */

/*
 * Paths are in order if a folder's names are visited in order, a folder as its name with a slash. Of a folder only the first
 * names that the page can still use are kept while all are read; if that was not enough, since folders among them hold no
 * file, it is read again for those behind them.
 */
struct listing {
        struct workspace *workspace;
        const char *prefix, *after;
        size_t room; /* files that are still wanted: a page and one more */
        size_t seen;
        const struct interrupt *interrupt;
        struct arena *arena;
        struct workspace_file *files;
        size_t count;
        struct problem *problem;
};

/* Whether a page can have something of this key: a file's path, or a folder's with its slash. */
static bool is_wanted(const struct listing *listing, const char *key, bool folder) {
        if (!text_begins_with(key, listing->prefix) && !(folder && text_begins_with(listing->prefix, key)))
                return false;
        return strcmp(key, listing->after) > 0 || (folder && text_begins_with(listing->after, key));
}

/* What it is: 1 a folder, 0 a regular file, -1 neither. */
static int type_of(int folder, const struct dirent *entry) {
        struct stat status;

        if (entry->d_type == DT_DIR || entry->d_type == DT_REG)
                return entry->d_type == DT_DIR;
        if (entry->d_type != DT_UNKNOWN || fstatat(folder, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0)
                return -1;
        return S_ISDIR(status.st_mode) ? 1 : S_ISREG(status.st_mode) ? 0 : -1;
}

/* The first `room` keys in the folder that come behind `last` ("" for all), in order. */
static int first_keys(struct listing *listing, int folder, const char *path, const char *last,
                      struct arena *arena, const char **keys, size_t *ret_count) {
        int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *stream = again < 0 ? NULL : fdopendir(again);
        const struct dirent *entry;
        size_t count = 0;

        if (!stream) {
                close_descriptor(&again);
                return problem_from_errno(listing->problem, "read a folder of the workspace");
        }
        while ((entry = readdir(stream))) {
                char key[WORKSPACE_PATH_MAX + NAME_MAX + 3];
                const char *sought = key;
                size_t at;
                int type;

                if (++listing->seen % LOOK_EVERY == 0 &&
                    interrupt_level(listing->interrupt) > INTERRUPT_NONE) {
                        closedir(stream);
                        return stopped(listing->problem);
                }
                if (workspace_name_problem(entry->d_name) || (type = type_of(again, entry)) < 0)
                        continue;
                snprintf(key, sizeof(key), "%s%s%s%s", path, path[0] ? "/" : "", entry->d_name,
                         type ? "/" : "");
                if (strlen(key) > WORKSPACE_PATH_MAX || !is_wanted(listing, key, type) ||
                    strcmp(key, last) <= 0)
                        continue;
                at = sorted_first(keys, count, sizeof(*keys), &sought, sorted_compare_texts);
                if (at == listing->room)
                        continue;
                count -= count == listing->room;
                memmove(keys + at + 1, keys + at, (count - at) * sizeof(*keys));
                keys[at] = arena_strdup(arena, key);
                count++;
        }
        closedir(stream);
        *ret_count = count;
        return 0;
}

static void add_file(struct listing *listing, int folder, const char *path, const char *name) {
        struct stat status;

        /* One that was deleted meanwhile is not there. */
        if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(status.st_mode))
                return;
        listing->files = array_grow(listing->arena, listing->files, listing->count, sizeof(*listing->files));
        listing->files[listing->count] = file_of(&status);
        listing->files[listing->count++].path = arena_strdup(listing->arena, path);
        listing->room--;
}

static int list_folder(struct listing *listing, const char *path, int depth) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        int folder DESCRIPTOR_CLEANUP =
                beneath_open(listing->workspace->files, path[0] ? path : ".", O_RDONLY | O_DIRECTORY);
        const char **keys = arena_array(arena, listing->room + 1, sizeof(*keys));
        char last[WORKSPACE_PATH_MAX + NAME_MAX + 3] = "";

        /* Not there, no folder, a link: nothing of it is in the list. */
        if (folder < 0 || depth > WORKSPACE_DEPTH_MAX)
                return 0;
        while (listing->room > 0) {
                struct arena *own ARENA_CLEANUP = arena_new();
                const size_t most = listing->room;
                size_t count = 0;

                if (first_keys(listing, folder, path, last, own, keys, &count) < 0)
                        return -1;
                for (size_t i = 0; i < count && listing->room > 0; i++) {
                        size_t length = strlen(keys[i]);

                        if (keys[i][length - 1] == '/') {
                                const char *inner = arena_strndup(own, keys[i], length - 1);

                                if (list_folder(listing, inner, depth + 1) < 0)
                                        return -1;
                        } else {
                                add_file(listing, folder, keys[i],
                                         keys[i] + (path[0] ? strlen(path) + 1 : 0));
                        }
                }
                if (count < most)
                        break;
                snprintf(last, sizeof(last), "%s", keys[count - 1]);
        }
        return 0;
}

int workspace_local_files_list(struct workspace *workspace, const struct workspace_page *page,
                               const struct interrupt *interrupt, struct arena *arena,
                               struct workspace_file **ret, size_t *ret_count, bool *ret_more,
                               struct problem *problem) {
        struct listing listing = { .workspace = workspace,
                                   .prefix = page->prefix ? page->prefix : "",
                                   .after = page->after ? page->after : "",
                                   .room = page->limit + 1,
                                   .interrupt = interrupt,
                                   .arena = arena,
                                   .problem = problem };
        const char *slash = strrchr(listing.prefix, '/');
        const char *from =
                slash ? arena_strndup(arena, listing.prefix, (size_t)(slash - listing.prefix)) : "";

        if (list_folder(&listing, from, 0) < 0)
                return -1;
        *ret_more = listing.count > page->limit;
        *ret_count = *ret_more ? page->limit : listing.count;
        *ret = listing.files;
        return 0;
}

/* ---- reading ---- */

int workspace_local_file_look(struct workspace *workspace, const char *path, int *ret_descriptor,
                              struct workspace_file *ret, struct problem *problem) {
        struct stat status;
        int descriptor;

        descriptor = workspace_open_regular(workspace->files, path, &status);
        if (descriptor < 0) {
                /* A folder, a link, a device: for callers there is no file. */
                if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EXDEV ||
                    errno == EINVAL)
                        return workspace_no_file(problem);
                return problem_from_errno(problem, "open the file");
        }
        *ret = file_of(&status);
        *ret_descriptor = descriptor;
        return 0;
}

/* ---- writing ---- */

/* *ret_exists: whether a regular file has the path; *ret is its state then. */
static int find_file(struct workspace *workspace, const char *path, bool *ret_exists, struct stat *ret,
                     struct problem *problem) {
        int handle DESCRIPTOR_CLEANUP = beneath_open(workspace->files, path, O_PATH | O_NOFOLLOW);

        *ret_exists = false;
        if (handle < 0)
                return errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EXDEV
                               ? 0
                               : problem_from_errno(problem, "look at the file");
        if (fstat(handle, ret) < 0)
                return problem_from_errno(problem, "look at the file");
        *ret_exists = S_ISREG(ret->st_mode);
        return 0;
}

static int judge(const struct conditions *conditions, bool exists, const struct stat *status,
                 struct problem *problem) {
        char etag[ETAG_SIZE];

        if (exists)
                workspace_etag(status, etag);
        return workspace_judge(conditions, exists ? etag : NULL, problem);
}

int workspace_local_put_begin(struct workspace_put *put, struct problem *problem) {
        struct stat status;
        bool exists;

        if (find_file(put->workspace, put->path, &exists, &status, problem) < 0 ||
            judge(&put->conditions, exists, &status, problem) < 0 ||
            workspace_check_free(put->workspace, &put->limits, 0, problem) < 0 ||
            workspace_incoming_make(put->workspace, put->name, &put->descriptor, problem) < 0)
                return -1;
        /* A script that is replaced stays one. */
        put->executable = exists && (status.st_mode & 0100);
        return 0;
}

void workspace_local_put_close(struct workspace_put *put) {
        if (put->name[0])
                (void)unlinkat(put->workspace->folder, put->name, 0);
        put->name[0] = '\0';
}

int workspace_date_read(int64_t written_ns, struct timespec *ret) {
        /* Code sets any date: none before 1970, and none that people would not read. */
        if (written_ns <= 0 || written_ns == INT64_MAX)
                return clock_gettime(CLOCK_REALTIME, ret);
        *ret = (struct timespec){ .tv_sec = written_ns / NS_PER_S, .tv_nsec = written_ns % NS_PER_S };
        return 0;
}

int workspace_put_settle(struct workspace_put *put, bool sync, struct problem *problem) {
        struct timespec times[2] = { { .tv_nsec = UTIME_OMIT } };

        /* The kernel's own date of a file is that of its last tick: two versions within one would have the same. */
        if ((put->written_ns ? workspace_date_read(put->written_ns, &times[1])
                             : clock_gettime(CLOCK_REALTIME, &times[1])) < 0 ||
            futimens(put->descriptor, times) < 0 ||
            fchmod(put->descriptor, put->executable ? 0700 : 0600) < 0 ||
            (sync && fsync(put->descriptor) < 0))
                return problem_from_errno(problem, "write the file");
        digest_stream_end(put->digest, put->sha256);
        put->digest = NULL;
        return 0;
}

static int open_folder_of(struct workspace *workspace, const char *path, const char **ret_name) {
        const char *slash = strrchr(path, '/');
        char folder[WORKSPACE_PATH_MAX + 1];

        *ret_name = slash ? slash + 1 : path;
        snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
        return beneath_open(workspace->files, folder, O_RDONLY | O_DIRECTORY);
}

static bool may_make_folder(const struct workspace_limits *limits, const struct workspace_usage *usage,
                            int folder, const char *name) {
        return !limits->folders_max || usage->folders < limits->folders_max ||
               faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int workspace_folder_make(struct workspace *workspace, const char *path, bool sync,
                          const struct workspace_limits *limits, struct workspace_usage *usage,
                          struct problem *problem) {
        char part[WORKSPACE_PATH_MAX + 1];

        for (const char *end = path; *end;) {
                int folder DESCRIPTOR_CLEANUP = -1;
                const char *name;

                end += strspn(end, "/");
                end += strcspn(end, "/");
                snprintf(part, sizeof(part), "%.*s", (int)(end - path), path);
                folder = open_folder_of(workspace, part, &name);
                if (folder >= 0 && !may_make_folder(limits, usage, folder, name))
                        return problem_set(problem, PROBLEM_WORKSPACE_FULL,
                                           "the workspace may hold %llu folders",
                                           (unsigned long long)limits->folders_max);
                if (folder >= 0 && mkdirat(folder, name, 0700) == 0) {
                        usage->files++;
                        usage->folders++;
                        if (sync && fsync(folder) < 0)
                                return problem_from_errno(problem, "make a folder");
                        continue;
                }
                if (folder < 0 || errno != EEXIST)
                        return errno == ENOTDIR || errno == ELOOP
                                       ? problem_set(problem, PROBLEM_CONFLICT,
                                                     "a file is where a folder should be")
                                       : problem_from_errno(problem, "make a folder");
        }
        return 0;
}

int workspace_put_place(struct workspace_put *put, bool sync, struct workspace_usage *usage, struct stat *ret,
                        bool *ret_replaced, struct problem *problem) {
        const struct workspace_limits *limits = &put->limits;
        struct workspace *workspace = put->workspace;
        const char *slash = strrchr(put->path, '/'), *name;
        int folder DESCRIPTOR_CLEANUP = -1;
        struct stat old, status;
        uint64_t without;
        bool exists;

        if (find_file(workspace, put->path, &exists, &old, problem) < 0)
                return -1;
        without = exists && usage->bytes >= (uint64_t)old.st_size ? usage->bytes - (uint64_t)old.st_size
                                                                  : usage->bytes;
        if (limits->bytes_max && (without > limits->bytes_max || put->bytes > limits->bytes_max - without))
                return workspace_is_full(limits, usage->bytes, problem);
        if (!exists && limits->files_max && usage->files >= limits->files_max)
                return problem_set(problem, PROBLEM_WORKSPACE_FULL,
                                   "the workspace may hold %llu files and folders",
                                   (unsigned long long)limits->files_max);
        if (slash) {
                char above[WORKSPACE_PATH_MAX + 1];

                snprintf(above, sizeof(above), "%.*s", (int)(slash - put->path), put->path);
                if (workspace_folder_make(workspace, above, sync, limits, usage, problem) < 0)
                        return -1;
        }
        folder = open_folder_of(workspace, put->path, &name);
        if (folder < 0)
                return errno == ENOTDIR || errno == ELOOP
                               ? problem_set(problem, PROBLEM_CONFLICT, "a file is where a folder should be")
                               : problem_from_errno(problem, "write the file");
        if (renameat(workspace->folder, put->name, folder, name) < 0)
                return errno == EISDIR ? problem_set(problem, PROBLEM_CONFLICT, "a folder has this path")
                                       : problem_from_errno(problem, "write the file");
        put->name[0] = '\0';
        usage->bytes = without + put->bytes;
        usage->files += !exists;
        if ((sync && fsync(folder) < 0) || fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
                return problem_from_errno(problem, "write the file");
        *ret = status;
        *ret_replaced = exists;
        return 0;
}

int workspace_local_put_finish(struct workspace_put *put, struct workspace_file *ret, bool *ret_made,
                               struct problem *problem) {
        struct workspace *workspace = put->workspace;
        struct workspace_usage usage;
        struct stat status, placed = { 0 };
        bool exists, replaced = false;
        int result = -1;

        if (workspace_put_settle(put, true, problem) < 0 ||
            workspace_lock(workspace, put->interrupt, problem) < 0)
                return -1;
        if (find_file(workspace, put->path, &exists, &status, problem) == 0 &&
            judge(&put->conditions, exists, &status, problem) == 0 &&
            workspace_usage_begin(workspace, put->interrupt, &usage, problem) == 0) {
                result = workspace_put_place(put, true, &usage, &placed, &replaced, problem);
                workspace_usage_end(workspace, &usage);
        }
        workspace_unlock(workspace);
        if (result < 0)
                return -1;
        *ret = file_of(&placed);
        *ret_made = !replaced;
        return 0;
}

/* ---- deleting ---- */

int workspace_path_remove(struct workspace *workspace, const char *path, bool upwards, bool sync,
                          struct workspace_usage *usage) {
        const char *name;
        int folder DESCRIPTOR_CLEANUP = open_folder_of(workspace, path, &name);
        struct stat status;

        if (folder < 0 || fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) < 0 ||
            unlinkat(folder, name, S_ISDIR(status.st_mode) ? AT_REMOVEDIR : 0) < 0 ||
            (sync && fsync(folder) < 0))
                return -1;
        if (S_ISDIR(status.st_mode) || S_ISREG(status.st_mode))
                usage->files -= usage->files > 0;
        if (S_ISDIR(status.st_mode))
                usage->folders -= usage->folders > 0;
        if (S_ISREG(status.st_mode))
                usage->bytes -=
                        usage->bytes > (uint64_t)status.st_size ? (uint64_t)status.st_size : usage->bytes;
        if (upwards && name != path) {
                char above[WORKSPACE_PATH_MAX + 1];

                snprintf(above, sizeof(above), "%.*s", (int)(name - 1 - path), path);
                (void)!workspace_path_remove(workspace, above, true, sync, usage);
        }
        return 0;
}

int workspace_local_file_delete(struct workspace *workspace, const char *path,
                                const struct conditions *conditions, const struct interrupt *interrupt,
                                struct problem *problem) {
        struct workspace_usage usage;
        struct stat status;
        bool exists;
        int result = -1;

        if (workspace_lock(workspace, interrupt, problem) < 0)
                return -1;
        if (find_file(workspace, path, &exists, &status, problem) == 0 &&
            judge(conditions, exists, &status, problem) == 0) {
                if (!exists) {
                        (void)workspace_no_file(problem);
                } else if (workspace_usage_begin(workspace, interrupt, &usage, problem) == 0) {
                        result = workspace_path_remove(workspace, path, true, true, &usage);
                        if (result < 0)
                                (void)problem_from_errno(problem, "delete the file");
                        workspace_usage_end(workspace, &usage);
                }
        }
        workspace_unlock(workspace);
        return result;
}
