/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/sandbox_network.h"

#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Bytes: least, at first, most. The loopback device's packets are of 64 KiB: with less at first, connections stall. Several of the others
 * came to namespaces by and by (Linux 4.6 to 6.8): where a kernel lacks one, the others do most of it.
 *
 * With SYN cookies the kernel would take connections beyond the queue's room: their first bytes are
 * thrown away, and what comes then breaks them, or is taken for their beginning. Without, a
 * connecting client waits, and tries again each second, for two minutes.
 */
static const struct {
        const char *name, *value;
} settings[] = {
        { "/proc/sys/net/ipv4/tcp_rmem", "4096 65536 262144" },
        { "/proc/sys/net/ipv4/tcp_wmem", "4096 16384 262144" },
        { "/proc/sys/net/ipv4/tcp_max_syn_backlog", "128" },
        { "/proc/sys/net/ipv4/tcp_max_tw_buckets", "4096" },
        { "/proc/sys/net/core/somaxconn", "128" },
        { "/proc/sys/net/ipv4/tcp_syncookies", "0" },
        { "/proc/sys/net/ipv4/tcp_syn_linear_timeouts", "127" },
        { "/proc/sys/net/ipv4/tcp_syn_retries", "127" },
        { "/proc/sys/net/core/optmem_max", "20480" },
};

static int raise_loopback(void) {
        int end DESCRIPTOR_CLEANUP = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        struct ifreq request = { .ifr_name = "lo" };

        if (end < 0 || ioctl(end, SIOCGIFFLAGS, &request) < 0)
                return -1;
        request.ifr_flags = (short)(request.ifr_flags | IFF_UP);
        return ioctl(end, SIOCSIFFLAGS, &request);
}

static int open_count(int *ret, struct error *err) {
        *ret = open("/proc/self/net/sockstat", O_RDONLY | O_CLOEXEC);
        return *ret < 0 ? error_set(err, "cannot count the sockets of a network namespace: %s",
                                    strerror(errno))
                        : 0;
}

/*
 * In it: a sandbox's network has no way out. A client that may ask a launcher for it may open other
 * networks of the machine too (those that have a name, in /run/netns, can be opened by all users).
 * Devices that modules put into each new namespace are down there.
 */
static int check_alone(struct error *err) {
        int end DESCRIPTOR_CLEANUP = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        struct if_nameindex *devices = end < 0 ? NULL : if_nameindex();
        bool alone = devices != NULL;

        for (size_t i = 0; devices && devices[i].if_index && alone; i++) {
                struct ifreq request = { 0 };

                if (strcmp(devices[i].if_name, "lo") == 0)
                        continue;
                snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", devices[i].if_name);
                alone = ioctl(end, SIOCGIFFLAGS, &request) == 0 && !(request.ifr_flags & IFF_UP);
        }
        if (devices)
                if_freenameindex(devices);
        return alone ? 0
                     : error_set_kind(err, ERROR_REFUSED,
                                      "what was given is no network of a sandbox: it has a way out");
}

int sandbox_network_join(int network, int *ret_sockets, struct error *err) {
        struct stat given, own;

        if (ioctl(network, NS_GET_NSTYPE) != CLONE_NEWNET || fstat(network, &given) < 0 ||
            stat("/proc/self/ns/net", &own) < 0 || (given.st_dev == own.st_dev && given.st_ino == own.st_ino))
                return error_set_kind(err, ERROR_REFUSED, "what was given is no network of a sandbox");
        if (setns(network, CLONE_NEWNET) < 0)
                return error_set(err, "cannot enter the network of another sandbox: %s", strerror(errno));
        if (check_alone(err) < 0)
                return -1;
        return open_count(ret_sockets, err);
}

int sandbox_network_make(int *ret_sockets, struct error *err) {
        if (unshare(CLONE_NEWNET) < 0)
                return error_set(err, "no network namespace can be made: %s", strerror(errno));
        if (raise_loopback() < 0)
                return error_set(err, "the loopback device of a new network namespace cannot be raised: %s",
                                 strerror(errno));
        for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
                int file DESCRIPTOR_CLEANUP = open(settings[i].name, O_WRONLY | O_CLOEXEC);

                if (file >= 0)
                        (void)!write(file, settings[i].value, strlen(settings[i].value));
        }
        return open_count(ret_sockets, err);
}

unsigned sandbox_network_sockets(int sockets) {
        char text[64] = "";
        unsigned count;

        return pread(sockets, text, sizeof(text) - 1, 0) > 0 && sscanf(text, "sockets: used %u", &count) == 1
                       ? count
                       : 0;
}
