/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies into and out of a workspace. Files that come back are counted three times: their bytes, the depth of their
 * folders and the bytes of their names, for a program may choose all three. What does not come back is listed with
 * its reason, and is no failure: the run is over and its other files are wanted.
 */
#include "providers/local/exec_files.h"

#include "base/array.h"
#include "base/beneath.h"
#include "base/files.h"
#include "base/strbuf.h"
#include "base/terminal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE 65536

/* At most `limit` bytes, whatever the file grows to meanwhile. */
static int copy(int from, int to, uint64_t limit) {
        char piece[PIECE];

        while (limit > 0) {
                ssize_t count = read(from, piece, limit < PIECE ? (size_t)limit : PIECE);

                if (count < 0 && errno == EINTR)
                        continue;
                if (count <= 0)
                        return count < 0 ? -1 : 0;
                if (descriptor_write(to, piece, (size_t)count) < 0)
                        return -1;
                limit -= (uint64_t)count;
        }
        return 0;
}

/* --- in --- */

/* A relative path of plain names. */
static bool is_inside(const char *name) {
        const char *at = name;

        if (!*name || *name == '/')
                return false;
        for (;;) {
                size_t length = strcspn(at, "/");

                if (length == 0 || (length == 1 && at[0] == '.') ||
                    (length == 2 && at[0] == '.' && at[1] == '.') || length > 255)
                        return false;
                if (!at[length])
                        return true;
                at += length + 1;
        }
}

static int make_parents(const struct sandbox_workspace *workspace, const char *name) {
        char *path TEXT_CLEANUP = strdup(name);

        if (!path)
                abort();
        for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
                int folder DESCRIPTOR_CLEANUP = -1;

                *slash = '\0';
                if (mkdirat(workspace->folder, path, 0755) < 0 && errno != EEXIST)
                        return -1;
                folder = beneath_open(workspace->folder, path, O_RDONLY | O_DIRECTORY);
                if (folder < 0 || fchown(folder, workspace->uid, workspace->gid) < 0)
                        return -1;
                *slash = '/';
        }
        return 0;
}

static int put(const struct sandbox_workspace *workspace, const struct exec_file *file, struct error *err) {
        int from DESCRIPTOR_CLEANUP = -1, to DESCRIPTOR_CLEANUP = -1;
        struct stat status;

        if (!is_inside(file->name))
                return error_set(err, "\"%s\" is no name within the workspace", file->name);
        from = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (from < 0 || fstat(from, &status) < 0)
                return error_set(err, "cannot read %s: %s", file->path, strerror(errno));
        if (!S_ISREG(status.st_mode))
                return error_set(err, "%s is no regular file", file->path);
        if (make_parents(workspace, file->name) < 0 ||
            (to = beneath_create(workspace->folder, file->name, O_WRONLY | O_EXCL,
                                 status.st_mode & 0100 ? 0755 : 0644)) < 0 ||
            fchown(to, workspace->uid, workspace->gid) < 0)
                return error_set(err, "cannot make \"%s\" in the workspace: %s", file->name, strerror(errno));
        if (copy(from, to, (uint64_t)status.st_size) < 0)
                return error_set(err, "cannot copy %s to \"%s\" in the workspace: %s", file->path, file->name,
                                 errno == ENOSPC ? "more than workspaceStorageMB" : strerror(errno));
        return 0;
}

int exec_files_put(const struct sandbox_workspace *workspace, const struct exec_file *files, size_t count,
                   struct error *err) {
        for (size_t i = 0; i < count; i++) {
                if (put(workspace, &files[i], err) < 0)
                        return -1;
        }
        return 0;
}

/* --- out --- */

struct harvest {
        const struct exec_request *request;
        struct arena *arena;
        struct exec_left *list;
        size_t count;
        uint64_t bytes_left;
        size_t names_left;
        bool full;
        struct error *err;
};

/* Names stand in JSON and on terminals: bytes that are not UTF-8, control characters and backslashes as \xNN. */
static const char *printable(struct arena *arena, const char *name) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        size_t bad;
        bool utf8 = text_is_utf8(name, strlen(name), &bad);

        for (const char *at = name; *at; at++) {
                unsigned char byte = (unsigned char)*at;

                if ((byte >= 0x80 && !utf8) || byte < 0x20 || byte == 0x7f || byte == '\\')
                        strbuf_printf(&text, "\\x%02x", byte);
                else
                        strbuf_append_char(&text, *at);
        }
        return arena_strdup(arena, strbuf_text(&text));
}

static void list(struct harvest *harvest, const char *path, uint64_t bytes, const char *reason) {
        harvest->list = array_grow(harvest->arena, harvest->list, harvest->count, sizeof(*harvest->list));
        path = printable(harvest->arena, path);
        harvest->names_left -= strlen(path) < harvest->names_left ? strlen(path) : harvest->names_left;
        harvest->list[harvest->count++] = (struct exec_left){ path, bytes, reason };
}

/* The list is in Berth's memory and in none of the run's limits, and the program chose the names: in text 4 times as long. */
static bool has_room(struct harvest *harvest, const char *path) {
        if (!harvest->full && 4 * strlen(path) > harvest->names_left) {
                harvest->full = true;
                list(harvest, ".", 0,
                     "the names in it are too many and too long: what is not listed stays out");
        }
        return !harvest->full;
}

static const char *type_of(mode_t mode) {
        if (S_ISLNK(mode))
                return "a symbolic link";
        if (S_ISFIFO(mode))
                return "a FIFO";
        if (S_ISSOCK(mode))
                return "a socket";
        return "a device";
}

static int get_file(struct harvest *harvest, int from_folder, int to_folder, const char *name,
                    const char *path) {
        int from DESCRIPTOR_CLEANUP = beneath_open(from_folder, name, O_RDONLY), to DESCRIPTOR_CLEANUP = -1;
        struct stat status;

        if (from < 0 || fstat(from, &status) < 0 || !S_ISREG(status.st_mode)) {
                list(harvest, path, 0, from < 0 ? "not readable" : "not a regular file");
                return 0;
        }
        if ((uint64_t)status.st_size > harvest->bytes_left) {
                list(harvest, path, (uint64_t)status.st_size,
                     "with it there would be more bytes than a workspace holds: the file has holes, or several names");
                return 0;
        }
        /* Whatever stands there, a link for instance, is replaced and not written through. */
        if (unlinkat(to_folder, name, 0) < 0 && errno != ENOENT)
                return error_set(harvest->err, "cannot replace %s: %s", path, strerror(errno));
        to = beneath_create(to_folder, name, O_WRONLY | O_EXCL,
                            harvest->request->out_exec && status.st_mode & 0100 ? 0755 : 0644);
        if (to < 0 || copy(from, to, (uint64_t)status.st_size) < 0) {
                (void)error_set(harvest->err, "cannot write %s: %s", path, strerror(errno));
                /* The beginning of a file could be taken for the file. */
                if (to >= 0)
                        unlinkat(to_folder, name, 0);
                return -1;
        }
        harvest->bytes_left -= (uint64_t)status.st_size;
        list(harvest, path, (uint64_t)status.st_size, NULL);
        return 0;
}

static int get_folder(struct harvest *harvest, int from, int to, const char *path, int depth);

static int get_subfolder(struct harvest *harvest, int from, int to, const char *name, const char *path,
                         int depth) {
        int inner DESCRIPTOR_CLEANUP = -1, made DESCRIPTOR_CLEANUP = -1;

        if (depth == EXEC_FILES_DEPTH_MAX) {
                list(harvest, path, 0, "too many folders within each other");
                return 0;
        }
        inner = beneath_open(from, name, O_RDONLY | O_DIRECTORY);
        if (inner < 0) {
                list(harvest, path, 0, "not readable");
                return 0;
        }
        if (mkdirat(to, name, 0755) < 0 && errno != EEXIST)
                return error_set(harvest->err, "cannot make %s: %s", path, strerror(errno));
        /* It may be another file system, as the user likes. */
        made = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (made < 0)
                return error_set(harvest->err, "cannot write into %s: %s", path, strerror(errno));
        return get_folder(harvest, inner, made, path, depth + 1);
}

static int get_entry(struct harvest *harvest, int from, int to, const char *name, const char *path,
                     int depth) {
        struct stat status;

        if (!has_room(harvest, path) || fstatat(from, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
                return 0;
        /* On some file systems Git finds its HEAD whatever the letters. */
        if (!harvest->request->out_dot && (name[0] == '.' || strcasecmp(name, "HEAD") == 0)) {
                list(harvest, path, 0,
                     name[0] == '.' ? "its name begins with a dot: --out-dot"
                                    : "Git takes a folder with a HEAD for a repository: --out-dot");
                return 0;
        }
        if (S_ISDIR(status.st_mode))
                return get_subfolder(harvest, from, to, name, path, depth);
        if (S_ISREG(status.st_mode))
                return get_file(harvest, from, to, name, path);
        list(harvest, path, 0, type_of(status.st_mode));
        return 0;
}

static int get_folder(struct harvest *harvest, int from, int to, const char *path, int depth) {
        int again = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *folder = again < 0 ? NULL : fdopendir(again);
        struct dirent *entry;
        int result = 0;

        if (!folder) {
                close_descriptor(&again);
                list(harvest, path[0] ? path : ".", 0, "not readable");
                return 0;
        }
        while (result == 0 && !harvest->full && (entry = readdir(folder))) {
                char *inner TEXT_CLEANUP = NULL;

                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                        continue;
                inner = path_join(path, entry->d_name);
                result = get_entry(harvest, from, to, entry->d_name, inner, depth);
        }
        closedir(folder);
        return result;
}

static int by_name(const void *a, const void *b) {
        return strcmp(((const struct exec_left *)a)->name, ((const struct exec_left *)b)->name);
}

/* Open, and empty where it must be; -1 with errno where it cannot be opened, or is not empty (ENOTEMPTY). */
static int open_out(const struct exec_request *request) {
        int to DESCRIPTOR_CLEANUP = open(request->out, O_RDONLY | O_DIRECTORY | O_CLOEXEC), opened;
        int again = to < 0 ? -1 : openat(to, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *folder = again < 0 ? NULL : fdopendir(again);
        const struct dirent *entry;
        bool empty = true;

        if (!folder) {
                close_descriptor(&again);
                return -1;
        }
        while (empty && (entry = readdir(folder)))
                empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
        closedir(folder);
        if (!empty && !request->out_over) {
                errno = ENOTEMPTY;
                return -1;
        }
        opened = to;
        to = -1;
        return opened;
}

/* open_out()'s errno, in words. */
static int cannot_open(const struct exec_request *request, struct error *err) {
        if (errno == ENOTEMPTY)
                return error_set(err,
                                 "%s is not empty: name a new folder, or --out-over replaces what is there",
                                 request->out);
        return error_set(err, "cannot open %s: %s", request->out, strerror(errno));
}

int exec_files_check(const struct exec_request *request, struct error *err) {
        int to DESCRIPTOR_CLEANUP = open_out(request);

        return to >= 0 || errno == ENOENT ? 0 : cannot_open(request, err);
}

int exec_files_get(int folder, const struct exec_request *request, uint64_t bytes_max, struct arena *arena,
                   const struct exec_left **ret, size_t *ret_count, struct error *err) {
        struct harvest harvest = { .request = request,
                                   .arena = arena,
                                   .bytes_left = bytes_max,
                                   .names_left = EXEC_FILES_NAMES_MAX,
                                   .err = err };
        int to DESCRIPTOR_CLEANUP = -1;

        if (folder_make(request->out, err) < 0)
                return -1;
        to = open_out(request);
        if (to < 0)
                return cannot_open(request, err);
        if (get_folder(&harvest, folder, to, "", 0) < 0)
                return error_context(err, "%s", request->out);
        if (harvest.count)
                qsort(harvest.list, harvest.count, sizeof(*harvest.list), by_name);
        *ret = harvest.list;
        *ret_count = harvest.count;
        return 0;
}
