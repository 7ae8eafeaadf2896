/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/sandbox_parts.h"

#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* --disable-userns came with 0.8. */
#define MINOR_VERSION_MIN 8

/*
 * Above what distributions give to people, services (to 65535), containers (to 1879048191) and below what systemd keeps
 * for foreign images (from 2147352576): nobody else's. A process id is at most 2^22.
 */
#define USER_BASE 1900000000U
#define USER_OTHERWISE 65534U

static const char *const places[] = { "/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap" };

/* Asks the program itself; false where it says nothing of use. */
static bool ask_version(const char *path, char *buffer, size_t size) {
        char *const argv[] = { (char *)"bwrap", (char *)"--version", NULL }, *const envp[] = { NULL };
        posix_spawn_file_actions_t actions;
        int pipes[2], status = 0;
        ssize_t length = -1;
        pid_t pid;

        if (pipe2(pipes, O_CLOEXEC) < 0)
                return false;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, pipes[1], STDOUT_FILENO);
        if (posix_spawn(&pid, path, &actions, NULL, argv, envp) == 0) {
                close(pipes[1]);
                pipes[1] = -1;
                length = read(pipes[0], buffer, size - 1);
                waitpid(pid, &status, 0);
        }
        posix_spawn_file_actions_destroy(&actions);
        close(pipes[0]);
        close_descriptor(&pipes[1]);
        if (length <= 0 || status != 0)
                return false;
        buffer[length] = '\0';
        buffer[strcspn(buffer, "\n")] = '\0';
        return true;
}

int sandbox_find_bubblewrap(struct arena *arena, const char **ret_path, const char **ret_version,
                            struct error *err) {
        char text[128];
        int major, minor;

        for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
                if (access(places[i], X_OK) < 0)
                        continue;
                if (!ret_version) {
                        *ret_path = places[i];
                        return 0;
                }
                if (!ask_version(places[i], text, sizeof(text)) ||
                    sscanf(text, "bubblewrap %d.%d", &major, &minor) != 2)
                        return error_set(err, "%s does not tell its version", places[i]);
                if (major == 0 && minor < MINOR_VERSION_MIN)
                        return error_set(err, "%s is %s; 0.%d or newer is needed", places[i], text,
                                         MINOR_VERSION_MIN);
                *ret_path = places[i];
                *ret_version = arena_strdup(arena, text);
                return 0;
        }
        return error_set_kind(
                err, ERROR_NOT_FOUND,
                "bubblewrap is not installed: apt-get install bubblewrap, dnf install bubblewrap "
                "or the like");
}

/* Whether this user namespace has such a user: that of a container may have few. */
static bool is_mapped(const char *map, unsigned long user) {
        FILE *file = fopen(map, "re");
        unsigned long first, outside, count;
        bool found = false;

        while (file && !found && fscanf(file, "%lu %lu %lu", &first, &outside, &count) == 3)
                found = user >= first && user - first < count;
        if (file)
                fclose(file);
        return found;
}

void sandbox_choose_user(uid_t *ret_uid, gid_t *ret_gid) {
        unsigned own = USER_BASE + (unsigned)getpid();

        *ret_uid = geteuid();
        *ret_gid = getegid();
        if (*ret_uid != 0)
                return;
        *ret_uid = is_mapped("/proc/self/uid_map", own) ? own : USER_OTHERWISE;
        *ret_gid = is_mapped("/proc/self/gid_map", own) ? own : USER_OTHERWISE;
}

int sandbox_choose_stage(const char *bubblewrap, const char **ret_stage, struct error *err) {
        static const char *const stages[] = { "/mnt", "/media", "/srv", "/opt", "/home" };

        for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++) {
                struct stat status;

                if (lstat(stages[i], &status) < 0 || !S_ISDIR(status.st_mode) ||
                    strncmp(bubblewrap, stages[i], strlen(stages[i])) == 0)
                        continue;
                *ret_stage = stages[i];
                return 0;
        }
        return error_set(err, "there is no folder /mnt, /media, /srv, /opt or /home to mount over");
}
