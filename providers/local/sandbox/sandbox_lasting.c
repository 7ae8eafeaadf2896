/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/sandbox_lasting.h"

#include "base/files.h"
#include "base/libc.h"
#include "process/frame.h"
#include "process/identity.h"
#include "providers/local/sandbox/sandbox_disk.h"
#include "providers/local/sandbox/sandbox_keeper.h"
#include "providers/local/sandbox/sandbox_kept.h"
#include "providers/local/sandbox/sandbox_launched.h"
#include "providers/local/sandbox/sandbox_parts.h"
#include "providers/local/sandbox/sandbox_users.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define PATIENCE_MS 60000
#define RECORD_SIZE (IDENTITY_TEXT_SIZE + SANDBOX_FAMILY_NAME_MAX + 2)
#define ENDING_MS 2000
#define DYING_MS 10000

static int address_of(const char *path, struct sockaddr_un *ret, struct error *err) {
        *ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
        if (strlen(path) >= sizeof(ret->sun_path))
                return error_set(err, "%s: the path of a socket has at most %zu bytes", path,
                                 sizeof(ret->sun_path) - 1);
        memcpy(ret->sun_path, path, strlen(path) + 1);
        return 0;
}

/* In a folder that is ours alone: what has the name was a dead worker's. */
static int listen_at(const char *path, int *ret, struct error *err) {
        int made DESCRIPTOR_CLEANUP = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        struct sockaddr_un address;

        if (address_of(path, &address, err) < 0)
                return -1;
        if ((unlink(path) < 0 && errno != ENOENT) || made < 0 || fchmod(made, 0600) < 0 ||
            bind(made, (const struct sockaddr *)&address, sizeof(address)) < 0 || listen(made, 8) < 0)
                return error_set(err, "cannot listen at %s: %s", path, strerror(errno));
        *ret = made;
        made = -1;
        return 0;
}

static char *record_of(const char *path) {
        struct strbuf name = STRBUF_INIT;

        strbuf_printf(&name, "%s.worker", path);
        return strbuf_take(&name);
}

/* The family's name behind a space, where it is of one. */
static int write_worker_record(const char *path, pid_t pid, const char *family, struct error *err) {
        char *record TEXT_CLEANUP = record_of(path), text[RECORD_SIZE], state;
        struct process_identity identity = identity_of_self();

        identity.pid = pid;
        if (!identity_look(pid, &state, &identity.start))
                return errno == EMFILE || errno == ENFILE
                               ? error_set(err, "cannot look at the sandbox's worker: %s", strerror(errno))
                               : error_set(err, "the sandbox's worker has died");
        identity_write(&identity, text);
        if (family)
                snprintf(text + strlen(text), sizeof(text) - strlen(text), " %s", family);
        return file_write_atomic(record, text, strlen(text), 0600, err);
}

/*
 * 0 where it is not known which process it is, or that one is dead. *ret_family is "" if it has
 * none; NULL: not wanted.
 */
static pid_t read_worker_record(const char *path, char ret_family[SANDBOX_FAMILY_NAME_MAX + 1]) {
        char *record TEXT_CLEANUP = record_of(path);
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct process_identity identity;
        struct error ignored;
        const char *end;

        if (file_read(record, RECORD_SIZE, &text, &ignored) < 0 ||
            !identity_read(strbuf_text(&text), &identity, &end) || identity_life(&identity) != IDENTITY_ALIVE)
                return 0;
        if (ret_family)
                snprintf(ret_family, SANDBOX_FAMILY_NAME_MAX + 1, "%s", *end == ' ' ? end + 1 : "");
        return identity.pid;
}

static int place_lasting(const struct sandbox_spec *spec, int image, int listener,
                         struct sandbox_keeper *keeper, struct sandbox_lasting *ret, struct arena *arena,
                         struct error *err) {
        const struct cgroup_limits of_group = sandbox_keeper_limits(&spec->limits, &spec->family, arena);
        static const struct sandbox_users users = SANDBOX_USERS_DEFAULT;
        static const char *const no_words[] = { NULL };
        struct sandbox_placing placing = { .limits = spec->limits,
                                           .for_another = true,
                                           .patience_ms = PATIENCE_MS,
                                           .owner = geteuid(),
                                           .network = spec->network };
        struct sandbox_user user = SANDBOX_USER_NONE;
        int lock DESCRIPTOR_CLEANUP = -1, disk DESCRIPTOR_CLEANUP = -1, held[2];
        struct error why = { 0 };
        bool root = geteuid() == 0;
        size_t count = 0;

        if (sandbox_user_take(&users, &user, err) < 0)
                return -1;
        lock = user.lock;
        placing.uid = user.uid;
        placing.gid = user.gid;
        /* Root's groups are named after the worker, as whose they stay; another user's worker may need systemd to be started. */
        if (root && sandbox_keeper_start(keeper, no_words, err) < 0)
                return -1;
        ret->group = cgroup_make_for_service(&of_group, root ? keeper->worker.pid : 0, arena);
        if (sandbox_keeper_missing(ret->group) && !spec->accept_degraded)
                return error_set(err, "limits cannot be enforced: %s", cgroup_problem(ret->group));
        if (!root && sandbox_keeper_start(keeper, cgroup_launcher(ret->group), err) < 0)
                return -1;
        placing.limit_address_space = cgroup_missing(ret->group) & CGROUP_MEMORY;
        if (lock >= 0)
                held[count++] = lock;
        if (image >= 0)
                held[count++] = image;
        placing.kept = spec->kept;
        if (spec->kept && sandbox_kept_open(spec->kept, false, user.uid, user.gid, &disk, err) < 0)
                return -1;
        if (!spec->kept && spec->disk &&
            sandbox_disk_make(spec->disk, spec->limits.workspace_bytes, spec->limits.workspace_files, &disk,
                              &why) < 0 &&
            why.kind != ERROR_NOT_FOUND) {
                *err = why;
                return -1;
        }
        if (sandbox_keeper_place(keeper, ret->group, &placing, image, listener, disk,
                                 spec->shared ? spec->shared->network : -1, held, count, err) < 0)
                return -1;
        return write_worker_record(ret->path, keeper->worker.pid, spec->family.name, err);
}

int sandbox_lasting_start(const struct sandbox_spec *spec, int image, const char *path, struct arena *arena,
                          struct sandbox_lasting *ret, struct error *err) {
        struct sandbox_keeper keeper = SANDBOX_KEEPER_NONE;
        struct sandbox_lasting made = SANDBOX_LASTING_NONE;
        int listener DESCRIPTOR_CLEANUP = -1;

        if (spec->launcher) {
                if (sandbox_launched_last(spec, path, arena, &made.socket, err) < 0)
                        return -1;
                made.launcher = spec->launcher;
                made.path = strdup(path);
                if (!made.path)
                        abort();
                *ret = made;
                return 0;
        }
        if (listen_at(path, &listener, err) < 0)
                return -1;
        made.path = strdup(path);
        if (!made.path)
                abort();
        if (place_lasting(spec, image, listener, &keeper, &made, arena, err) < 0 ||
            sandbox_tell_run(keeper.socket, spec, true, err) < 0) {
                if (keeper.socket >= 0)
                        (void)!sandbox_keeper_heed(keeper.socket, err);
                made.socket = keeper.socket;
                made.worker = keeper.worker;
                sandbox_lasting_end(&made);
                return -1;
        }
        made.socket = keeper.socket;
        made.worker = keeper.worker;
        fcntl(made.socket, F_SETFL, O_NONBLOCK);
        *ret = made;
        return 0;
}

int sandbox_lasting_find(const char *path, const struct sandbox_limits *limits,
                         const struct sandbox_family *family, struct arena *arena,
                         struct sandbox_lasting *ret, struct error *err) {
        char of_family[SANDBOX_FAMILY_NAME_MAX + 1] = "";
        int connected DESCRIPTOR_CLEANUP = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        struct sandbox_lasting found = SANDBOX_LASTING_NONE;
        struct sockaddr_un address;
        struct ucred peer;
        socklen_t length = sizeof(peer);

        if (address_of(path, &address, err) < 0)
                return -1;
        if (connected < 0)
                return error_set(err, "cannot make a socket: %s", strerror(errno));
        if (connect(connected, (const struct sockaddr *)&address, sizeof(address)) < 0)
                return errno == ENOENT || errno == ECONNREFUSED
                               ? error_set_kind(err, ERROR_NOT_FOUND, "no sandbox lives at %s", path)
                               : error_set(err, "cannot reach the sandbox at %s: %s", path, strerror(errno));
        /* The socket must be root's or our own user's: no other user may get code and secrets. */
        if (getsockopt(connected, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0 ||
            (peer.uid != 0 && peer.uid != geteuid()))
                return error_set(err, "%s is listened at by user %u, who is neither root nor this user", path,
                                 (unsigned)peer.uid);
        found.path = strdup(path);
        if (!found.path)
                abort();
        found.pid = read_worker_record(path, of_family);
        /* The same name and the same limits: it is there already, and nothing of it changes but what its family may use. */
        if (limits && found.pid > 0 && geteuid() == 0) {
                struct sandbox_family own = family ? *family : (struct sandbox_family){ .owner = geteuid() };
                struct cgroup_limits of_group;

                own.name = of_family[0] ? of_family : NULL;
                of_group = sandbox_keeper_limits(limits, &own, arena);
                if (!family)
                        of_group.family.cpu_millis = CGROUP_CPU_AS_IT_IS;

                found.group = cgroup_make_for_service(&of_group, found.pid, arena);
        }
        found.socket = connected;
        connected = -1;
        *ret = found;
        return 0;
}

int sandbox_lasting_hold(const struct sandbox_lasting *lasting, int lock, struct error *err) {
        return frame_send_now(lasting->socket, MESSAGE_HOLD, NULL, 0, &lock, 1, err);
}

/*
 * What listens is the file, whatever its name. The record first: a finder of the socket finds it,
 * too.
 */
int sandbox_lasting_rename(struct sandbox_lasting *lasting, const char *path, struct error *err) {
        char *from TEXT_CLEANUP = record_of(lasting->path), *to TEXT_CLEANUP = record_of(path);
        char *name = strdup(path);

        if (!name)
                abort();
        if (lasting->launcher) {
                if (sandbox_launched_rename(lasting->launcher, lasting->path, path, err) < 0) {
                        free(name);
                        return -1;
                }
        } else if (rename(from, to) < 0 || rename(lasting->path, path) < 0) {
                (void)error_set(err, "cannot rename %s to %s: %s", lasting->path, path, strerror(errno));
                (void)unlink(to);
                free(name);
                return -1;
        }
        free_text(&lasting->path);
        lasting->path = name;
        return 0;
}

void sandbox_lasting_measure(struct sandbox_lasting *lasting, struct cgroup_usage *ret) {
        *ret = (struct cgroup_usage){ 0 };
        /* Before and behind each execution: the files stay open. */
        if (lasting->group && lasting->gauges.kills < 0)
                cgroup_gauges_open(lasting->group, &lasting->gauges);
        if (lasting->group && lasting->gauges.kills < 0)
                cgroup_measure(lasting->group, ret);
        else
                cgroup_gauges_measure(&lasting->gauges, ret);
}

/* A child of this process that has ended is reaped here; otherwise by init, after this process. */
void sandbox_lasting_leave(struct sandbox_lasting *lasting) {
        close_descriptor(&lasting->socket);
        close_descriptor(&lasting->worker.pidfd);
        lasting->worker = (struct process)PROCESS_NONE;
        lasting->group = NULL;
        cgroup_gauges_close(&lasting->gauges);
        free_text(&lasting->path);
        lasting->path = NULL;
        lasting->launcher = NULL;
}

/*
 * A worker that was found is not a child of this process: it is waited for, and killed, by its
 * descriptor.
 */
static void end_stranger(pid_t pid) {
        int process DESCRIPTOR_CLEANUP = pid > 0 ? pidfd_open(pid, 0) : -1;
        struct pollfd polled = { .fd = process, .events = POLLIN };

        /* Without a descriptor to wait with, it gets no time: it must not stay. */
        if (process < 0 && pid > 0 && errno != ESRCH)
                (void)kill(pid, SIGKILL);
        if (process < 0 || poll(&polled, 1, ENDING_MS) == 1)
                return;
        (void)pidfd_send_signal(process, SIGKILL, NULL, 0);
        (void)poll(&polled, 1, DYING_MS);
}

void sandbox_lasting_end(struct sandbox_lasting *lasting) {
        struct sandbox_keeper keeper = { .worker = lasting->worker, .socket = lasting->socket };
        char *record TEXT_CLEANUP = lasting->path ? record_of(lasting->path) : NULL;

        if (lasting->launcher) {
                sandbox_launched_clear(lasting->launcher, lasting->path, lasting->socket);
                close_descriptor(&lasting->socket);
                sandbox_lasting_leave(lasting);
                return;
        }
        /* It was read again: between then and now no other process can have become it. */
        if (lasting->pid > 0) {
                close_descriptor(&keeper.socket);
                end_stranger(read_worker_record(lasting->path, NULL));
        }
        sandbox_keeper_end(&keeper, ENDING_MS);
        cgroup_close(lasting->group);
        if (lasting->path) {
                (void)unlink(lasting->path);
                (void)unlink(record);
        }
        lasting->socket = -1;
        lasting->worker = (struct process)PROCESS_NONE;
        sandbox_lasting_leave(lasting);
}
