/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/sandbox_files.h"

#include "base/arena.h"
#include "base/beneath.h"
#include "base/files.h"
#include "providers/local/sandbox/sandbox_messages.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <unistd.h>

#define SILENCE_S 60
#define PIECE ((size_t)1 << 18)
/* The kernel takes no longer path, with its end. */
#define PATH_AT_ONCE ((size_t)4000)

/* Part by part where the path is long. */
static int open_deep(int folder, const char *path, int flags) {
        int at DESCRIPTOR_CLEANUP = -1, next;

        while (strlen(path) > PATH_AT_ONCE) {
                char part[PATH_AT_ONCE + 1];
                size_t length = PATH_AT_ONCE;

                while (length > 0 && path[length] != '/')
                        length--;
                memcpy(part, path, length);
                part[length] = '\0';
                next = beneath_open(at < 0 ? folder : at, part, O_PATH | O_DIRECTORY);
                if (next < 0)
                        return -1;
                close_descriptor(&at);
                at = next;
                path += length + 1;
        }
        return beneath_open(at < 0 ? folder : at, path, flags);
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

/* Each in the folder that was opened before it: a program that runs may put a link where a folder was. */
static int make_parents(int workspace, const char *name, uid_t uid, gid_t gid) {
        char *path TEXT_CLEANUP = strdup(name), *part = path;
        int at DESCRIPTOR_CLEANUP = -1;

        if (!path)
                abort();
        for (char *slash = strchr(path, '/'); slash; slash = strchr(part, '/')) {
                int above = at < 0 ? workspace : at, folder;

                *slash = '\0';
                if (mkdirat(above, part, 0755) < 0 && errno != EEXIST)
                        return -1;
                folder = beneath_open(above, part, O_RDONLY | O_DIRECTORY);
                if (folder < 0)
                        return -1;
                close_descriptor(&at);
                at = folder;
                if (fchown(folder, uid, gid) < 0)
                        return -1;
                part = slash + 1;
        }
        return 0;
}

int sandbox_files_create(int folder, const char *name, bool executable, uid_t uid, gid_t gid,
                         struct error *err) {
        int to;

        if (!is_inside(name))
                return error_set(err, "\"%s\" is no name within the workspace", name);
        if (make_parents(folder, name, uid, gid) < 0 ||
            (to = beneath_create(folder, name, O_WRONLY | O_EXCL, executable ? 0755 : 0644)) < 0)
                return error_set(err, "cannot make \"%s\" in the workspace: %s", name, strerror(errno));
        if (fchown(to, uid, gid) == 0)
                return to;
        close(to);
        return error_set(err, "cannot make \"%s\" in the workspace: %s", name, strerror(errno));
}

int sandbox_files_explain(const char *name, struct error *err) {
        return error_set(err, "cannot write \"%s\" in the workspace: %s", name,
                         errno == ENOSPC ? "more than workspaceStorageMB" : strerror(errno));
}

/* Holes take no room, but all of a file is read: one of a terabyte would keep the worker busy for minutes. */
static bool is_too_large(int folder, const struct stat *status) {
        struct statvfs disk;

        return fstatvfs(folder, &disk) == 0 &&
               (uint64_t)status->st_size / disk.f_frsize > (uint64_t)disk.f_blocks;
}

int sandbox_files_put(int folder, const char *name, bool executable, int from, uid_t uid, gid_t gid,
                      struct error *err) {
        int to DESCRIPTOR_CLEANUP = -1;
        struct error ignored;
        struct stat status;

        if (!is_inside(name))
                return error_set(err, "\"%s\" is no name within the workspace", name);
        if (fstat(from, &status) < 0 || !S_ISREG(status.st_mode))
                return error_set(err, "what should become \"%s\" in the workspace is no regular file", name);
        if (is_too_large(folder, &status)) {
                errno = ENOSPC;
                return sandbox_files_explain(name, err);
        }
        to = sandbox_files_create(folder, name, executable, uid, gid, err);
        if (to < 0)
                return -1;
        /* Its date is the file's: what make and the like go by. */
        if (descriptor_copy(from, to, (uint64_t)status.st_size) == 0 &&
            futimens(to, (const struct timespec[]){ { .tv_nsec = UTIME_OMIT }, status.st_mtim }) == 0)
                return 0;
        (void)!sandbox_files_explain(name, err);
        /* A half-written file would look like a complete one. */
        (void)!sandbox_files_remove(folder, name, &ignored);
        return -1;
}

/* The folder that a name is in, opened beneath, and the last part of the name. */
static int open_parent(int folder, const char *name, const char **ret_last) {
        const char *slash = strrchr(name, '/');
        char *above TEXT_CLEANUP = slash ? strndup(name, (size_t)(slash - name)) : NULL;

        if (slash && !above)
                abort();
        *ret_last = slash ? slash + 1 : name;
        return slash ? beneath_open(folder, above, O_RDONLY | O_DIRECTORY)
                     : openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

int sandbox_files_remove(int folder, const char *name, struct error *err) {
        int parent DESCRIPTOR_CLEANUP = -1;
        const char *last;

        if (!is_inside(name))
                return error_set(err, "\"%s\" is no name within the workspace", name);
        parent = open_parent(folder, name, &last);
        if (parent < 0)
                return errno == ENOENT ? 0
                                       : error_set(err, "cannot remove \"%s\": %s", name, strerror(errno));
        if (unlinkat(parent, last, 0) == 0 || errno == ENOENT ||
            (errno == EISDIR && unlinkat(parent, last, AT_REMOVEDIR) == 0))
                return 0;
        return error_set(err, "cannot remove \"%s\": %s", name, strerror(errno));
}

int sandbox_files_replace(int folder, const char *name, bool executable, int from, uid_t uid, gid_t gid,
                          struct error *err) {
        if (sandbox_files_remove(folder, name, err) < 0)
                return -1;
        return sandbox_files_put(folder, name, executable, from, uid, gid, err);
}

int sandbox_files_make_folder(int folder, const char *name, uid_t uid, gid_t gid, struct error *err) {
        char *inside TEXT_CLEANUP = path_join(name, "x");

        if (!is_inside(name))
                return error_set(err, "\"%s\" is no name within the workspace", name);
        if (make_parents(folder, inside, uid, gid) < 0)
                return error_set(err, "cannot make \"%s\" in the workspace: %s", name, strerror(errno));
        return 0;
}

int sandbox_files_receive(int folder, int client, struct frame *frame, struct error *err) {
        struct arena *arena = arena_new();
        int from DESCRIPTOR_CLEANUP = frame_take(frame, 0);
        const char *const *words;
        size_t count;
        int result = -1;

        if (sandbox_words_read(frame->payload.data, frame->payload.length, arena, &words, &count, err) < 0) {
                arena_free(arena);
                return -1;
        }
        if (count != 2 || frame->count != 1 || (strcmp(words[0], "x") != 0 && strcmp(words[0], "-") != 0))
                (void)error_set(err, "a message puts no file");
        else
                result = sandbox_files_put(folder, words[1], words[0][0] == 'x', from, geteuid(), getegid(),
                                           err);
        arena_free(arena);
        return result < 0 ? -1 : frame_send_now(client, MESSAGE_DONE, NULL, 0, NULL, 0, err);
}

/* --- out --- */

int sandbox_files_list(int folder, const char *path, size_t bytes_max, struct strbuf *ret, bool *ret_cut) {
        int opened = *path ? open_deep(folder, path, O_RDONLY | O_DIRECTORY)
                           : openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *names = opened < 0 ? NULL : fdopendir(opened);
        const struct dirent *entry;
        struct stat status;

        *ret_cut = false;
        if (!names) {
                close_descriptor(&opened);
                return -1;
        }
        while (!*ret_cut && (entry = readdir(names))) {
                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
                    fstatat(dirfd(names), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0)
                        continue;
                strbuf_printf(ret, "%o %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 " %s",
                              (unsigned)(status.st_mode & (S_IFMT | S_IXUSR)), (uint64_t)status.st_size,
                              (uint64_t)status.st_ino, nanoseconds_of(status.st_mtim),
                              nanoseconds_of(status.st_ctim), entry->d_name);
                strbuf_append_bytes(ret, "", 1);
                *ret_cut = ret->length > bytes_max;
        }
        closedir(names);
        return 0;
}

size_t sandbox_files_piece(const struct strbuf *words, size_t at) {
        size_t length = words->length - at;

        if (length <= PIECE)
                return length;
        for (length = PIECE; words->data[at + length - 1];)
                length--;
        return length;
}

int sandbox_entry_read(const char *word, struct sandbox_entry *ret) {
        char *end;

        ret->mode = (mode_t)strtoul(word, &end, 8);
        if (end == word || *end != ' ')
                return -1;
        word = end + 1;
        ret->bytes = strtoull(word, &end, 10);
        if (end == word || *end != ' ')
                return -1;
        word = end + 1;
        ret->inode = strtoull(word, &end, 10);
        if (end == word || *end != ' ')
                return -1;
        word = end + 1;
        ret->written_ns = strtoll(word, &end, 10);
        if (end == word || *end != ' ')
                return -1;
        word = end + 1;
        ret->changed_ns = strtoll(word, &end, 10);
        if (end == word || *end != ' ' || !end[1] || strchr(end + 1, '/'))
                return -1;
        ret->name = end + 1;
        return strcmp(ret->name, ".") == 0 || strcmp(ret->name, "..") == 0 ? -1 : 0;
}

int sandbox_files_open(int folder, const char *path) {
        int file DESCRIPTOR_CLEANUP = open_deep(folder, path, O_RDONLY), opened;
        struct stat status;

        if (file < 0 || fstat(file, &status) < 0 || !S_ISREG(status.st_mode))
                return -1;
        opened = file;
        file = -1;
        return opened;
}

/* In pieces of whole words. */
static int send_list(int folder, const char *path, int client, struct error *err) {
        struct strbuf words STRBUF_CLEANUP = STRBUF_INIT;
        bool cut;

        if (sandbox_files_list(folder, path, SANDBOX_LIST_MAX, &words, &cut) < 0)
                return frame_send(client, MESSAGE_ABSENT, NULL, 0, NULL, 0, err);
        for (size_t at = 0; at < words.length;) {
                size_t length = sandbox_files_piece(&words, at);

                if (frame_send(client, MESSAGE_ENTRIES, words.data + at, length, NULL, 0, err) < 0)
                        return -1;
                at += length;
        }
        return frame_send(client, MESSAGE_ENTRIES, NULL, 0, NULL, 0, err);
}

static int send_file(int folder, const char *path, char *piece, int client, struct error *err) {
        int file DESCRIPTOR_CLEANUP = sandbox_files_open(folder, path);
        ssize_t count;

        if (file < 0)
                return frame_send(client, MESSAGE_ABSENT, NULL, 0, NULL, 0, err);
        while ((count = read(file, piece, PIECE)) > 0) {
                if (frame_send(client, MESSAGE_CONTENT, piece, (size_t)count, NULL, 0, err) < 0)
                        return -1;
        }
        return count < 0 ? error_set(err, "cannot read: %s", strerror(errno))
                         : frame_send(client, MESSAGE_CONTENT, NULL, 0, NULL, 0, err);
}

/* From here on the socket blocks, but for SILENCE_S only, each way. */
bool sandbox_files_serve(int folder, struct frame_reader *client) {
        struct timeval silence = { .tv_sec = SILENCE_S };
        char *piece TEXT_CLEANUP = malloc(PIECE);
        struct error ignored;
        int result = 0;

        if (!piece)
                abort();
        fcntl(client->socket, F_SETFL, 0);
        setsockopt(client->socket, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof(silence));
        setsockopt(client->socket, SOL_SOCKET, SO_SNDTIMEO, &silence, sizeof(silence));
        while (result == 0) {
                struct frame frame FRAME_CLEANUP = { 0 };

                if (frame_receive(client, &frame, &ignored) != FRAME_WHOLE || frame.count > 0 ||
                    memchr(strbuf_text(&frame.payload), '\0', frame.payload.length))
                        return false;
                if (frame.type == MESSAGE_LIST)
                        result = send_list(folder, strbuf_text(&frame.payload), client->socket, &ignored);
                else if (frame.type == MESSAGE_READ)
                        result = send_file(folder, strbuf_text(&frame.payload), piece, client->socket,
                                           &ignored);
                /* A client that cancels what has ended just now did not know. */
                else if (frame.type != MESSAGE_CANCEL)
                        return frame.type == MESSAGE_TAKEN;
        }
        return false;
}
