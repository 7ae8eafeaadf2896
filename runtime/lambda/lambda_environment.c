/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders are emptied without going down into them: one that holds folders gives them to /tmp
 * itself, under new names, until none is left that is not there. However deep they are nested, it
 * takes two descriptors.
 */
#include "runtime/lambda/lambda_environment.h"

#include "base/clock.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"
#include "base/libc.h"
#include "base/text.h"
#include "process/descendants.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FOLDER LAMBDA_TEMPORARY "/.berth"
#define MARK FOLDER "/environment"
/* Written in place, and always as long: where code has filled the disk, it still can be. */
#define MARK_BYTES ((size_t)1024 + LAMBDA_BEGUN_MAX * (size_t)40)

/* --- what outlives the process --- */

/* Code may have put anything in its place: no link is followed, and no open waits. */
static int open_mark(int flags) {
        int file = open(MARK, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
        struct stat status;

        if (file >= 0 && (fstat(file, &status) < 0 || !S_ISREG(status.st_mode)))
                close_descriptor(&file);
        return file;
}

/* [hash in hex, n, hash, n ...], the oldest first. */
static bool read_begun(const json_t *list, struct lambda_environment *ret) {
        size_t count = json_array_size(list) / 2;

        if (!json_is_array(list) || json_array_size(list) % 2 != 0 || count > LAMBDA_BEGUN_MAX)
                return false;
        for (size_t i = 0; i < count; i++) {
                const char *hex = json_string_value(json_array_get(list, 2 * i));
                json_int_t n = json_integer_value(json_array_get(list, 2 * i + 1));

                if (!hex || strlen(hex) != 16 || strspn(hex, "0123456789abcdef") != 16 || n < 1 ||
                    n > CONTENT_GENERATION_MAX)
                        return false;
                ret->begun[i] = (struct lambda_begun){ strtoull(hex, NULL, 16), n };
        }
        ret->begun_count = count;
        return true;
}

static json_t *write_begun(const struct lambda_environment *environment) {
        json_t *list = json_checked(json_array());
        size_t count = environment->begun_count,
               from = count > LAMBDA_BEGUN_MAX ? count - LAMBDA_BEGUN_MAX : 0;

        for (size_t i = from; i < count; i++) {
                const struct lambda_begun *one = &environment->begun[i % LAMBDA_BEGUN_MAX];
                char hex[17];

                snprintf(hex, sizeof(hex), "%016llx", (unsigned long long)one->session);
                json_add(list, json_string(hex));
                json_add(list, json_integer(one->n));
        }
        return list;
}

static void remember_begun(struct lambda_environment *environment) {
        struct lambda_begun one = { text_hash(environment->session), environment->last_n };

        if (environment->last_n == 0)
                return;
        for (size_t i = 0; i < LAMBDA_BEGUN_MAX && i < environment->begun_count; i++) {
                if (environment->begun[i].session == one.session) {
                        environment->begun[i] = one;
                        return;
                }
        }
        environment->begun[environment->begun_count++ % LAMBDA_BEGUN_MAX] = one;
}

int64_t lambda_environment_last(const struct lambda_environment *environment, const char *session) {
        uint64_t wanted = text_hash(session);
        int64_t n = strcmp(session, environment->session) == 0 ? environment->last_n : 0;

        for (size_t i = 0; i < LAMBDA_BEGUN_MAX && i < environment->begun_count; i++) {
                if (environment->begun[i].session == wanted && environment->begun[i].n > n)
                        n = environment->begun[i].n;
        }
        return n;
}

static bool read_mark(struct lambda_environment *ret) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        int file DESCRIPTOR_CLEANUP = open_mark(O_RDONLY);
        json_t *mark JSON_CLEANUP = NULL, *begun;
        const char *boot, *session;
        json_int_t starts, last_n;

        if (file < 0 || descriptor_read(file, MARK_BYTES, &text) != 0 ||
            json_measure(strbuf_text(&text), text.length).depth > 2)
                return false;
        mark = json_loadb(strbuf_text(&text), text.length, JSON_REJECT_DUPLICATES, NULL);
        if (json_unpack(mark, "{s:s, s:I, s:s, s:I, s:o !}", "boot", &boot, "starts", &starts, "session",
                        &session, "n", &last_n, "begun", &begun) != 0 ||
            strlen(boot) != sizeof(ret->boot) - 1 ||
            strspn(boot, "0123456789abcdef") != sizeof(ret->boot) - 1 ||
            strlen(session) >= sizeof(ret->session) || starts < 1 || starts > INT32_MAX || last_n < 0 ||
            last_n > CONTENT_GENERATION_MAX || !read_begun(begun, ret))
                return false;
        memcpy(ret->boot, boot, sizeof(ret->boot));
        memcpy(ret->session, session, strlen(session) + 1);
        ret->starts = starts + 1;
        ret->last_n = last_n;
        return true;
}

void lambda_environment_open(struct lambda_environment *ret) {
        struct lambda_environment environment = { .starts = 1, .mark = -1 };
        uint8_t bytes[(INVOCATION_BOOT_SIZE - 1) / 2];

        if (!read_mark(&environment)) {
                environment = (struct lambda_environment){ .starts = 1, .mark = -1 };
                random_bytes(bytes, sizeof(bytes));
                digest_hex(bytes, sizeof(bytes), environment.boot);
        }
        *ret = environment;
}

int lambda_environment_mark(struct lambda_environment *environment, struct error *err) {
        json_t *mark JSON_CLEANUP =
                json_checked(json_pack("{s:s, s:I, s:s, s:I, s:o}", "boot", environment->boot, "starts",
                                       (json_int_t)environment->starts, "session", environment->session, "n",
                                       (json_int_t)environment->last_n, "begun", write_begun(environment)));
        char *text TEXT_CLEANUP = json_compact(mark), bytes[MARK_BYTES + 1];

        for (int tries = 0; tries < 2 && environment->mark < 0; tries++) {
                char aside[64];

                if (mkdir(FOLDER, 0700) < 0 && errno != EEXIST)
                        return error_set(err, "cannot make " FOLDER ": %s", strerror(errno));
                environment->mark = open_mark(O_WRONLY | O_CREAT);
                snprintf(aside, sizeof(aside), FOLDER "-%s", environment->boot);
                if (environment->mark < 0)
                        (void)!rename(FOLDER, aside);
        }
        if (snprintf(bytes, sizeof(bytes), "%-*s", (int)MARK_BYTES, text) != (int)MARK_BYTES)
                return error_set(err, "what should stand in " MARK " is too long");
        if (environment->mark < 0 || pwrite(environment->mark, bytes, MARK_BYTES, 0) != (ssize_t)MARK_BYTES)
                return error_set(err, "cannot write " MARK ": %s", strerror(errno));
        return 0;
}

int lambda_environment_make_workspace(struct error *err) {
        if (mkdir(LAMBDA_WORKSPACE, 0700) < 0 && errno != EEXIST)
                return error_set(err, "cannot make " LAMBDA_WORKSPACE ": %s", strerror(errno));
        return 0;
}

/* --- nothing is left --- */

static bool is_dots(const char *name) {
        return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* A folder that its owner may not write, or look into, gets those rights. */
static int open_writable_folder(int parent, const char *name) {
        struct stat seen;

        if (fstatat(parent, name, &seen, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(seen.st_mode))
                return -1;
        if ((seen.st_mode & 0700) != 0700)
                (void)!fchmodat(parent, name, 0700, 0);
        return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Removes what is no folder; folders go to `top`, where they are looked at by themselves. How many could not be. */
static size_t empty_folder(int top, int folder) {
        static unsigned long moved;
        int again = dup(folder);
        DIR *entries = again < 0 ? NULL : fdopendir(again);
        const struct dirent *entry;
        size_t failed = entries ? 0 : 1;

        while (entries && (entry = readdir(entries))) {
                char name[64];
                int below DESCRIPTOR_CLEANUP = -1;

                if (is_dots(entry->d_name) || unlinkat(folder, entry->d_name, 0) == 0)
                        continue;
                below = open_writable_folder(folder, entry->d_name);
                snprintf(name, sizeof(name), ".berth-gone-%d-%lu", (int)getpid(), moved++);
                if (unlinkat(folder, entry->d_name, AT_REMOVEDIR) < 0 &&
                    renameat2(folder, entry->d_name, top, name, RENAME_NOREPLACE) < 0)
                        failed++;
        }
        if (entries)
                closedir(entries);
        return failed;
}

static int empty_temporary(int64_t until_ms, struct error *err) {
        int top DESCRIPTOR_CLEANUP = open(LAMBDA_TEMPORARY, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        size_t left = 1;

        /* It is its user's, who may have shut it. */
        if (top < 0 && chmod(LAMBDA_TEMPORARY, 0700) == 0)
                top = open(LAMBDA_TEMPORARY, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        while (top >= 0 && left > 0 && clock_now_ms() < until_ms) {
                int again = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                DIR *entries = again < 0 ? NULL : fdopendir(again);
                const struct dirent *entry;

                left = entries ? 0 : 1;
                while (entries && (entry = readdir(entries))) {
                        int folder DESCRIPTOR_CLEANUP = -1;

                        if (is_dots(entry->d_name) || unlinkat(top, entry->d_name, 0) == 0)
                                continue;
                        folder = open_writable_folder(top, entry->d_name);
                        if (folder >= 0)
                                (void)empty_folder(top, folder);
                        /* Where it is gone, what it gave away may not be seen in this round. */
                        if (unlinkat(top, entry->d_name, AT_REMOVEDIR) < 0 || folder >= 0)
                                left++;
                }
                if (entries)
                        closedir(entries);
        }
        return top < 0 || left > 0
                       ? error_set(err, "files below " LAMBDA_TEMPORARY " could not all be removed")
                       : 0;
}

/* Indexes are small numbers, none above what the first call says; what is another user's is refused, and stays. */
static void remove_ipc(void) {
        struct shm_info shared;
        struct seminfo semaphores;
        struct msginfo queues;
        int most = shmctl(0, SHM_INFO, (struct shmid_ds *)(void *)&shared);

        for (int i = 0; i <= most; i++) {
                struct shmid_ds ignored;
                int id = shmctl(i, SHM_STAT, &ignored);

                if (id >= 0)
                        (void)shmctl(id, IPC_RMID, NULL);
        }
        most = semctl(0, 0, SEM_INFO, &semaphores);
        for (int i = 0; i <= most; i++) {
                struct semid_ds ignored;
                int id = semctl(i, 0, SEM_STAT, &ignored);

                if (id >= 0)
                        (void)semctl(id, 0, IPC_RMID);
        }
        most = msgctl(0, MSG_INFO, (struct msqid_ds *)(void *)&queues);
        for (int i = 0; i <= most; i++) {
                struct msqid_ds ignored;
                int id = msgctl(i, MSG_STAT, &ignored);

                if (id >= 0)
                        (void)msgctl(id, IPC_RMID, NULL);
        }
}

static int make_empty(struct lambda_environment *environment, int64_t until_ms, struct error *err) {
        static const struct descendants none = { 0 };
        struct descendants left DESCENDANTS_CLEANUP = { 0 };

        descendants_kill(&none, 0);
        while (waitpid(-1, NULL, WNOHANG) > 0)
                ;
        descendants_find(&left);
        if (left.count > 0)
                return error_set(err, "%zu processes of the session before could not be ended", left.count);
        remove_ipc();
        (void)syscall(SYS_keyctl, KEYCTL_CLEAR, KEY_SPEC_USER_KEYRING, 0, 0, 0);
        (void)syscall(SYS_keyctl, KEYCTL_CLEAR, KEY_SPEC_USER_SESSION_KEYRING, 0, 0, 0);
        close_descriptor(&environment->mark);
        return empty_temporary(until_ms, err);
}

int lambda_environment_give(struct lambda_environment *environment, const char *session, int64_t until_ms,
                            struct error *err) {
        remember_begun(environment);
        environment->session[0] = '\0';
        environment->last_n = 0;
        if (make_empty(environment, until_ms, err) < 0)
                return -1;
        snprintf(environment->session, sizeof(environment->session), "%s", session);
        environment->last_n = lambda_environment_last(environment, session);
        return lambda_environment_mark(environment, err);
}
