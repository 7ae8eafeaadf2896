/* SPDX-License-Identifier: Apache-2.0 */
#include "server/instance.h"

#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NAME_SIZE 64
#define BACKLOG 64

struct sockaddr_un instance_address(int folder, const char *name) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };

        snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s.sock", folder, name);
        return address;
}

static int locked_by_another(const struct instance *instance, const char *folder, struct error *err) {
        char holder[32] = "";
        ssize_t length = pread(instance->lock, holder, sizeof(holder) - 1, 0);

        holder[length > 0 ? strspn(holder, "0123456789") : 0] = '\0';
        return error_set_kind(
                err, ERROR_LOCKED,
                "berth %s runs in %s already: process %s. One folder is one's: stop that one, or "
                "give this one another --state",
                instance->name, folder, *holder ? holder : "(starting)");
}

/* The lock of one that was killed is held for a moment more by the worker that it was just starting. */
static int wait_for_lock(int descriptor) {
        const struct timespec pause = { .tv_nsec = 50 * 1000000 };

        for (int tries = 0; flock(descriptor, LOCK_EX | LOCK_NB) < 0; tries++) {
                if (errno != EWOULDBLOCK || tries == 40)
                        return -1;
                nanosleep(&pause, NULL);
        }
        return 0;
}

int instance_open(const char *folder, const char *name, struct instance *ret, struct error *err) {
        char text[32], lock_name[NAME_SIZE];
        int length = snprintf(text, sizeof(text), "%ld\n", (long)getpid());

        snprintf(lock_name, sizeof(lock_name), "%s.lock", name);
        *ret = (struct instance){ .name = name,
                                  .lock_path = path_join(folder, lock_name),
                                  .folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC),
                                  .lock = -1 };
        if (ret->folder < 0)
                return error_set(err, "cannot open the folder %s: %s", folder, strerror(errno));
        ret->lock = openat(ret->folder, lock_name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (ret->lock < 0)
                return error_set(err, "cannot open %s: %s", ret->lock_path, strerror(errno));
        if (wait_for_lock(ret->lock) < 0)
                return errno == EWOULDBLOCK
                               ? locked_by_another(ret, folder, err)
                               : error_set(err, "cannot lock %s: %s", ret->lock_path, strerror(errno));
        if (ftruncate(ret->lock, 0) < 0 || pwrite(ret->lock, text, (size_t)length, 0) != length)
                return error_set(err, "cannot write %s: %s", ret->lock_path, strerror(errno));
        return 0;
}

int instance_listen(struct instance *instance, int *ret_socket, struct error *err) {
        struct sockaddr_un address = instance_address(instance->folder, instance->name);
        const char *name = strrchr(address.sun_path, '/') + 1;
        int descriptor DESCRIPTOR_CLEANUP = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (descriptor < 0)
                return error_set(err, "cannot make a socket: %s", strerror(errno));
        if (unlinkat(instance->folder, name, 0) < 0 && errno != ENOENT)
                return error_set(err, "cannot remove %s beside %s: %s", name, instance->lock_path,
                                 strerror(errno));
        /*
         * The mode of the descriptor becomes that of the name: no other user can open it, not for
         * an instant.
         */
        if (fchmod(descriptor, 0600) < 0 ||
            bind(descriptor, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
            listen(descriptor, BACKLOG) < 0)
                return error_set(err, "cannot listen on %s beside %s: %s", name, instance->lock_path,
                                 strerror(errno));
        instance->has_socket = true;
        *ret_socket = descriptor;
        descriptor = -1;
        return 0;
}

bool instance_is_in_place(const struct instance *instance) {
        return descriptor_is_at(instance->lock, instance->lock_path) != 0;
}

void instance_close(struct instance *instance) {
        if (instance->has_socket) {
                struct sockaddr_un address = instance_address(instance->folder, instance->name);

                (void)unlinkat(instance->folder, strrchr(address.sun_path, '/') + 1, 0);
        }
        close_descriptor(&instance->lock);
        close_descriptor(&instance->folder);
        free(instance->lock_path);
        *instance = (struct instance)INSTANCE_NONE;
}
