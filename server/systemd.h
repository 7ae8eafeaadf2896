/* SPDX-License-Identifier: Apache-2.0 */
/* What a service manager is told: the protocol of sd_notify(3), one datagram each to the socket that it names. */
#ifndef BERTH_SERVER_SYSTEMD_H
#define BERTH_SERVER_SYSTEMD_H

#include <stdbool.h>
#include <stdint.h>

/*
 * "READY=1", "STOPPING=1", "WATCHDOG=1", "STATUS=...": several joined by line ends. Without
 * NOTIFY_SOCKET nothing happens. A failure is not reported: the service manager will notice.
 */
void systemd_tell(const char *state);

/* How often WATCHDOG=1 is wanted, with time to spare; 0: never. */
int64_t systemd_watchdog_ms(void);

#endif
