/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies into and out of a workspace. Files that come back are counted three times: their bytes,
 * the depth of their folders and the bytes of their names, for a program may choose all three. A
 * file that does not come back is listed with its reason, and is no failure: the run is over and
 * its other files are wanted.
 */
#include "providers/local/exec_files.h"

#include "base/array.h"
#include "base/beneath.h"
#include "base/files.h"
#include "base/strbuf.h"
#include "base/text_utf8.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- in --- */

static int put_file(const struct sandbox_workspace *workspace, const struct exec_file *file,
                    struct error *err) {
        int from DESCRIPTOR_CLEANUP = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        struct stat status;

        if (from < 0 || fstat(from, &status) < 0)
                return error_set(err, "cannot read %s: %s", file->path, strerror(errno));
        if (!S_ISREG(status.st_mode))
                return error_set(err, "%s is no regular file", file->path);
        if (sandbox_workspace_put(workspace, file->name, status.st_mode & 0100, from, err) < 0)
                return error_context(err, "%s", file->path);
        return 0;
}

int exec_files_put(const struct sandbox_workspace *workspace, const struct exec_file *files, size_t count,
                   struct error *err) {
        for (size_t i = 0; i < count; i++) {
                if (put_file(workspace, &files[i], err) < 0)
                        return -1;
        }
        return 0;
}

/* --- out --- */

struct harvest {
        const struct sandbox_workspace *workspace;
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

static void list_left(struct harvest *harvest, const char *path, uint64_t bytes, const char *reason) {
        harvest->list = array_grow(harvest->arena, harvest->list, harvest->count, sizeof(*harvest->list));
        path = printable(harvest->arena, path);
        harvest->names_left -= strlen(path) < harvest->names_left ? strlen(path) : harvest->names_left;
        harvest->list[harvest->count++] = (struct exec_left){ path, bytes, reason };
}

static void say_full(struct harvest *harvest) {
        if (!harvest->full)
                list_left(harvest, ".", 0,
                          "the names in it are too many and too long: what is not listed stays out");
        harvest->full = true;
}

/* The list is in Berth's memory and in none of the run's limits, and the program chose the names: in text 4 times as long. */
static bool has_room_for_name(struct harvest *harvest, const char *path) {
        if (4 * strlen(path) > harvest->names_left)
                say_full(harvest);
        return !harvest->full;
}

static const char *file_type_name(mode_t mode) {
        if (S_ISLNK(mode))
                return "a symbolic link";
        if (S_ISFIFO(mode))
                return "a FIFO";
        if (S_ISSOCK(mode))
                return "a socket";
        return "a device";
}

static int get_file(struct harvest *harvest, int to_folder, const struct sandbox_entry *entry,
                    const char *path) {
        struct sandbox_content content SANDBOX_CONTENT_CLEANUP = SANDBOX_CONTENT_NONE;
        int to DESCRIPTOR_CLEANUP = -1, opened;

        if (entry->bytes > harvest->bytes_left) {
                list_left(
                        harvest, path, entry->bytes,
                        "with it there would be more bytes than a workspace holds: the file has holes, or several names");
                return 0;
        }
        opened = sandbox_workspace_open(harvest->workspace, path, &content, harvest->err);
        if (opened < 0)
                return -1;
        if (opened > 0) {
                list_left(harvest, path, 0, "not readable");
                return 0;
        }
        /* Whatever stands there, a link for instance, is replaced and not written through. */
        if (unlinkat(to_folder, entry->name, 0) < 0 && errno != ENOENT)
                return error_set(harvest->err, "cannot replace %s: %s", path, strerror(errno));
        to = beneath_create(to_folder, entry->name, O_WRONLY | O_EXCL,
                            harvest->request->out_exec && entry->mode & 0100 ? 0755 : 0644);
        if (to < 0)
                return error_set(harvest->err, "cannot write %s: %s", path, strerror(errno));
        if (sandbox_workspace_copy(harvest->workspace, &content, to, entry->bytes, harvest->err) < 0) {
                /* The beginning of a file could be taken for the file. */
                unlinkat(to_folder, entry->name, 0);
                return error_context(harvest->err, "cannot write %s", path);
        }
        harvest->bytes_left -= entry->bytes;
        list_left(harvest, path, entry->bytes, NULL);
        return 0;
}

static int get_folder(struct harvest *harvest, int to, const char *path, int depth);

static int get_subfolder(struct harvest *harvest, int to, const char *name, const char *path, int depth) {
        int made DESCRIPTOR_CLEANUP = -1;

        if (depth == EXEC_FILES_DEPTH_MAX) {
                list_left(harvest, path, 0, "too many folders within each other");
                return 0;
        }
        if (mkdirat(to, name, 0755) < 0 && errno != EEXIST)
                return error_set(harvest->err, "cannot make %s: %s", path, strerror(errno));
        /* It may be another file system, as the user likes. */
        made = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (made < 0)
                return error_set(harvest->err, "cannot write into %s: %s", path, strerror(errno));
        return get_folder(harvest, made, path, depth + 1);
}

static int get_entry(struct harvest *harvest, int to, const struct sandbox_entry *entry, const char *path,
                     int depth) {
        const char *name = entry->name;

        if (!has_room_for_name(harvest, path))
                return 0;
        /* On some file systems Git finds its HEAD whatever the letters. */
        if (!harvest->request->out_dot && (name[0] == '.' || strcasecmp(name, "HEAD") == 0)) {
                list_left(harvest, path, 0,
                          name[0] == '.' ? "its name begins with a dot: --out-dot"
                                         : "Git takes a folder with a HEAD for a repository: --out-dot");
                return 0;
        }
        if (S_ISDIR(entry->mode))
                return get_subfolder(harvest, to, name, path, depth);
        if (S_ISREG(entry->mode))
                return get_file(harvest, to, entry, path);
        list_left(harvest, path, 0, file_type_name(entry->mode));
        return 0;
}

static int get_folder(struct harvest *harvest, int to, const char *path, int depth) {
        struct strbuf entries STRBUF_CLEANUP = STRBUF_INIT;
        bool cut = false;
        int result = sandbox_workspace_list(harvest->workspace, path, &entries, &cut, harvest->err);

        if (result < 0)
                return -1;
        if (result > 0) {
                list_left(harvest, path[0] ? path : ".", 0, "not readable");
                return 0;
        }
        result = 0;
        for (size_t at = 0; result == 0 && !harvest->full && at < entries.length;
             at += strlen(entries.data + at) + 1) {
                char *inner TEXT_CLEANUP = NULL;
                struct sandbox_entry entry;

                if (sandbox_entry_read(entries.data + at, &entry) < 0)
                        return error_set(harvest->err, "a list of the workspace is invalid");
                inner = path_join(path, entry.name);
                result = get_entry(harvest, to, &entry, inner, depth);
        }
        if (result == 0 && cut)
                say_full(harvest);
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

int exec_files_get(const struct sandbox_workspace *workspace, const struct exec_request *request,
                   uint64_t bytes_max, struct arena *arena, const struct exec_left **ret, size_t *ret_count,
                   struct error *err) {
        struct harvest harvest = { .workspace = workspace,
                                   .request = request,
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
        if (get_folder(&harvest, to, "", 0) < 0)
                return error_context(err, "%s", request->out);
        if (harvest.count)
                qsort(harvest.list, harvest.count, sizeof(*harvest.list), by_name);
        *ret = harvest.list;
        *ret_count = harvest.count;
        return 0;
}
