/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/launcher_listen.h"

#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 64
#define FIRST_INHERITED 3

static int lock_socket(const char *path, int *ret_lock, struct error *err) {
        char name[sizeof(((struct sockaddr_un *)0)->sun_path) + sizeof(".lock")];
        int lock DESCRIPTOR_CLEANUP = -1;

        snprintf(name, sizeof(name), "%s.lock", path);
        lock = open(name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (lock < 0)
                return error_set(err, "cannot make %s: %s", name, strerror(errno));
        if (flock(lock, LOCK_EX | LOCK_NB) < 0)
                return errno == EWOULDBLOCK
                               ? error_set_kind(
                                         err, ERROR_LOCKED,
                                         "another launcher listens at %s: one socket is one launcher's", path)
                               : error_set(err, "cannot lock %s: %s", name, strerror(errno));
        *ret_lock = lock;
        lock = -1;
        return 0;
}

/*
 * Under the lock no launcher lives here but this one. A socket that refuses a connection is a dead
 * one's; a socket that takes one, or has no room for it just now, belongs to a process that knows
 * nothing of our lock.
 */
static int remove_stale(const struct sockaddr_un *address, struct error *err) {
        const char *path = address->sun_path;
        int probe DESCRIPTOR_CLEANUP = -1;
        struct stat status;

        if (lstat(path, &status) < 0)
                return errno == ENOENT ? 0 : error_set(err, "cannot look at %s: %s", path, strerror(errno));
        if (!S_ISSOCK(status.st_mode))
                return error_set(err, "%s is there, and is no socket: it is left as it is", path);
        probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (probe < 0)
                return error_set(err, "cannot make a socket: %s", strerror(errno));
        if (connect(probe, (const struct sockaddr *)address, sizeof(*address)) == 0 || errno != ECONNREFUSED)
                return error_set_kind(err, ERROR_LOCKED, "another program listens at %s", path);
        if (unlink(path) < 0 && errno != ENOENT)
                return error_set(err, "cannot remove %s: %s", path, strerror(errno));
        return 0;
}

/* The mode of the descriptor becomes that of the name, less the umask: it is never wider than asked for, not for an instant. */
int launcher_listen(const char *path, uid_t owner, gid_t group, struct launcher_listener *ret,
                    struct error *err) {
        mode_t mode = group == (gid_t)-1 ? 0600 : 0660;
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        struct launcher_listener made = LAUNCHER_LISTENER_NONE;
        struct stat status;

        if (strlen(path) >= sizeof(address.sun_path))
                return error_set(err, "%s: the path of a socket has at most %zu bytes", path,
                                 sizeof(address.sun_path) - 1);
        memcpy(address.sun_path, path, strlen(path) + 1);
        if (lock_socket(path, &made.lock, err) < 0 || remove_stale(&address, err) < 0)
                goto failed;
        made.socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (made.socket < 0 || fchmod(made.socket, mode) < 0 ||
            bind(made.socket, (const struct sockaddr *)&address, sizeof(address)) < 0) {
                (void)error_set(err, "cannot make the socket %s: %s", path, strerror(errno));
                goto failed;
        }
        made.path = path;
        if (lstat(path, &status) < 0 || (made.device = status.st_dev, made.inode = status.st_ino, false) ||
            lchown(path, owner, group) < 0 || chmod(path, mode) < 0 || listen(made.socket, BACKLOG) < 0) {
                (void)error_set(err, "cannot listen at %s: %s", path, strerror(errno));
                goto failed;
        }
        *ret = made;
        return 0;
failed:
        launcher_listener_close(&made);
        return -1;
}

int launcher_listen_for_worker(const char *path, uid_t owner, int *ret_socket, struct error *err) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int made DESCRIPTOR_CLEANUP = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (strlen(path) >= sizeof(address.sun_path))
                return error_set(err, "%s: the path of a socket has at most %zu bytes", path,
                                 sizeof(address.sun_path) - 1);
        memcpy(address.sun_path, path, strlen(path) + 1);
        if (remove_stale(&address, err) < 0)
                return -1;
        if (made < 0 || fchmod(made, 0600) < 0 ||
            bind(made, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
            lchown(path, owner, (gid_t)-1) < 0 || listen(made, BACKLOG) < 0)
                return error_set(err, "cannot listen at %s: %s", path, strerror(errno));
        *ret_socket = made;
        made = -1;
        return 0;
}

int launcher_listen_clear(const char *path, struct error *err) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };

        if (strlen(path) >= sizeof(address.sun_path))
                return error_set(err, "%s: the path of a socket has at most %zu bytes", path,
                                 sizeof(address.sun_path) - 1);
        memcpy(address.sun_path, path, strlen(path) + 1);
        return remove_stale(&address, err);
}

int launcher_listen_inherited(struct launcher_listener *ret, struct error *err) {
        const char *process = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
        int listens = 0, domain = 0, type = 0;
        socklen_t length = sizeof(int);

        if (!process || !count || strtol(process, NULL, 10) != getpid())
                return error_set_kind(err, ERROR_NOT_FOUND, "systemd passed no socket");
        if (strcmp(count, "1") != 0)
                return error_set(err, "systemd passed %s sockets, and one is needed", count);
        if (getsockopt(FIRST_INHERITED, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) < 0 ||
            getsockopt(FIRST_INHERITED, SOL_SOCKET, SO_DOMAIN, &domain, &length) < 0 ||
            getsockopt(FIRST_INHERITED, SOL_SOCKET, SO_TYPE, &type, &length) < 0 || !listens ||
            domain != AF_UNIX || type != SOCK_STREAM)
                return error_set(err,
                                 "what systemd passed is no Unix socket that listens (ListenStream=/...)");
        if (fcntl(FIRST_INHERITED, F_SETFD, FD_CLOEXEC) < 0 ||
            fcntl(FIRST_INHERITED, F_SETFL, O_NONBLOCK) < 0)
                return error_set(err, "cannot use the socket of systemd's: %s", strerror(errno));
        *ret = (struct launcher_listener){ .socket = FIRST_INHERITED, .lock = -1 };
        return 0;
}

void launcher_listener_close(struct launcher_listener *listener) {
        struct stat status;

        if (listener->path && lstat(listener->path, &status) == 0 && status.st_dev == listener->device &&
            status.st_ino == listener->inode)
                (void)unlink(listener->path);
        listener->path = NULL;
        close_descriptor(&listener->socket);
        close_descriptor(&listener->lock);
}
