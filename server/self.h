/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says of this process, by /proc. */
#ifndef BERTH_SERVER_SELF_H
#define BERTH_SERVER_SELF_H

/* Negative where it could not be found out. */
struct self_facts {
        double cpu_seconds;
        double resident_bytes;
        double start_seconds; /* since 1970 */
        double open_fds, max_fds;
};

void self_measure(struct self_facts *ret);

#endif
