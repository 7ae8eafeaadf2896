/* SPDX-License-Identifier: Apache-2.0 */
#include "server/systemd.h"

#include "base/files.h"
#include "base/log.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A path, or with "@" in front a name in Linux's abstract space. */
static bool make_address(const char *name, struct sockaddr_un *ret, socklen_t *ret_length) {
        size_t length = strlen(name);

        if ((name[0] != '/' && name[0] != '@') || length < 2 || length >= sizeof(ret->sun_path))
                return false;
        *ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
        memcpy(ret->sun_path, name, length);
        if (name[0] == '@')
                ret->sun_path[0] = '\0';
        *ret_length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + (name[0] == '/'));
        return true;
}

void systemd_tell(const char *state) {
        const char *name = getenv("NOTIFY_SOCKET");
        int descriptor DESCRIPTOR_CLEANUP = -1;
        struct sockaddr_un address;
        socklen_t length;

        if (!name || !*name)
                return;
        if (!make_address(name, &address, &length)) {
                log_debug("systemd: NOTIFY_SOCKET is no socket's name: %s", name);
                return;
        }
        descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (descriptor < 0 || sendto(descriptor, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT,
                                     (const struct sockaddr *)&address, length) < 0)
                log_debug("systemd: %s: %s", name, strerror(errno));
}

int64_t systemd_watchdog_ms(void) {
        const char *text = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
        long long microseconds = text ? strtoll(text, NULL, 10) : 0;

        if (pid && *pid && strtol(pid, NULL, 10) != (long)getpid())
                return 0;
        return microseconds > 0 ? microseconds / 2000 : 0;
}
