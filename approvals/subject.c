/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links are followed once, by realpath(3), and what they led to is what is shown. From then on a path with a link in it is another one:
 * O_NOFOLLOW sees only the last part, so the descriptor is asked by /proc where it has come to.
 */
#include "approvals/subject.h"

#include "base/files.h"
#include "process/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK ((size_t)65536)

static const char *real_path(const char *path, struct arena *arena) {
        char *found TEXT_CLEANUP = realpath(path, NULL);

        return found ? arena_strdup(arena, found) : NULL;
}

/* -1 where the descriptor leads elsewhere than the path says. */
static int check_place(int descriptor, const char *path, struct error *err) {
        char link[64], found[PATH_MAX];
        ssize_t length;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
        length = readlink(link, found, sizeof(found) - 1);
        if (length < 0)
                return error_set(err, "cannot see where %s leads: %s", path, strerror(errno));
        found[length] = '\0';
        return strcmp(found, path) == 0 ? 0 : error_set(err, "%s leads elsewhere now: to %s", path, found);
}

static int open_at(const char *path, int flags, struct error *err) {
        int descriptor = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

        if (descriptor < 0)
                return error_set(err, "cannot open %s: %s", path, strerror(errno));
        if (check_place(descriptor, path, err) < 0) {
                close_descriptor(&descriptor);
                return -1;
        }
        return descriptor;
}

static int check_program(int descriptor, const char *path, const struct subject_rules *rules,
                         struct error *err) {
        struct stat status;

        if (fstat(descriptor, &status) < 0)
                return error_set(err, "cannot look at %s: %s", path, strerror(errno));
        if (!S_ISREG(status.st_mode) || !(status.st_mode & 0111))
                return error_set(err, "%s is no program", path);
        if ((uint64_t)status.st_size > SUBJECT_PROGRAM_MAX)
                return error_set(err, "%s is larger than a program may be", path);
        if ((status.st_mode & (S_IWGRP | S_IWOTH)) ||
            (status.st_uid != 0 && status.st_uid != geteuid() && status.st_uid != rules->user))
                return error_set(
                        err,
                        "other users can write to %s and could put another program there: it must "
                        "belong to root or to the user that it runs as, and be writable by its owner "
                        "only",
                        path);
        return 0;
}

static int hash_program(int descriptor, const char *path, char ret[SHA256_HEX_SIZE], bool *ret_is_script,
                        struct error *err) {
        struct digest_stream *digest = digest_stream_new();
        char *chunk = malloc(CHUNK);
        uint64_t at = 0;
        ssize_t got;

        if (!chunk)
                abort();
        while ((got = pread(descriptor, chunk, CHUNK, (off_t)at)) > 0 && at <= SUBJECT_PROGRAM_MAX) {
                if (at == 0)
                        *ret_is_script = got > 1 && memcmp(chunk, "#!", 2) == 0;
                digest_stream_add(digest, chunk, (size_t)got);
                at += (uint64_t)got;
        }
        free(chunk);
        digest_stream_end(digest, ret);
        return got < 0 ? error_set(err, "cannot read %s: %s", path, strerror(errno)) : 0;
}

static int open_program(const char *path, const struct subject_rules *rules, char ret[SHA256_HEX_SIZE],
                        bool *ret_is_script, struct error *err) {
        int program = open_at(path, O_RDONLY, err);

        if (program >= 0 && (check_program(program, path, rules, err) < 0 ||
                             hash_program(program, path, ret, ret_is_script, err) < 0))
                close_descriptor(&program);
        return program;
}

static int open_working_folder(const char *path, struct stat *ret, struct error *err) {
        int folder = open_at(path, O_PATH | O_DIRECTORY, err);

        if (folder >= 0 && fstat(folder, ret) < 0) {
                (void)error_set(err, "cannot look at %s: %s", path, strerror(errno));
                close_descriptor(&folder);
        }
        return folder;
}

/* What others' agents wrote lies there, and what is there is nothing to be told by a refusal. */
static bool is_hidden(const char *path, const struct subject_rules *rules) {
        return rules->state && subject_is_beneath(path, rules->state);
}

static const char *find_program(const char *name, const char *folder, const struct subject_rules *rules,
                                struct arena *arena, struct error *err) {
        const char *path = name;

        if (!strchr(name, '/'))
                path = process_find_program(name, SUBJECT_PATH, arena);
        else if (*name != '/')
                path = arena_printf(arena, "%s/%s", folder, name);
        if (path)
                path = real_path(path, arena);
        if (path && is_hidden(path, rules))
                path = NULL;
        if (!path)
                (void)error_set(err, "there is no program %s%s", name,
                                strchr(name, '/') ? "" : " in " SUBJECT_PATH);
        return path;
}

int subject_find(const char *name, const char *folder, const struct subject_rules *rules, struct arena *arena,
                 struct subject *ret, struct error *err) {
        struct subject found = { 0 };
        struct stat status;
        int opened;
        bool is_script = false;

        if (*folder != '/')
                return error_set(err, "the folder must be a path from the root, found %s", folder);
        found.folder = real_path(folder, arena);
        if (!found.folder || is_hidden(found.folder, rules))
                return error_set(err, "there is no folder %s that can be entered", folder);
        opened = open_working_folder(found.folder, &status, err);
        if (opened < 0)
                return -1;
        close_descriptor(&opened);
        found.folder_device = (uint64_t)status.st_dev;
        found.folder_inode = (uint64_t)status.st_ino;
        found.program = find_program(name, found.folder, rules, arena, err);
        opened = found.program ? open_program(found.program, rules, found.sha256, &is_script, err) : -1;
        if (opened < 0)
                return -1;
        close_descriptor(&opened);
        *ret = found;
        return 0;
}

int subject_open(const struct subject *subject, const struct subject_rules *rules, int *ret_program,
                 bool *ret_is_script, int *ret_folder, struct error *err) {
        char sha256[SHA256_HEX_SIZE];
        struct stat status;
        bool is_script = false;
        int program DESCRIPTOR_CLEANUP = -1, folder DESCRIPTOR_CLEANUP = -1;

        folder = open_working_folder(subject->folder, &status, err);
        if (folder < 0)
                return -1;
        if ((uint64_t)status.st_dev != subject->folder_device ||
            (uint64_t)status.st_ino != subject->folder_inode)
                return error_set(err, "%s is another folder than the one that was shown", subject->folder);
        program = open_program(subject->program, rules, sha256, &is_script, err);
        if (program < 0)
                return -1;
        if (strcmp(sha256, subject->sha256) != 0)
                return error_set(err, "%s is another program than the one that was shown", subject->program);
        *ret_program = program;
        *ret_folder = folder;
        *ret_is_script = is_script;
        program = folder = -1;
        return 0;
}

bool subject_is_beneath(const char *path, const char *folder) {
        size_t length = strlen(folder);

        if (length == 1 && *folder == '/')
                return true;
        return strncmp(path, folder, length) == 0 && (path[length] == '\0' || path[length] == '/');
}
