/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says of this process, by /proc. */
#ifndef BERTH_GITOPS_PROCESS_H
#define BERTH_GITOPS_PROCESS_H

/* Negative where it could not be found out. */
struct process_facts {
        double cpu_seconds;
        double resident_bytes;
        double start_seconds; /* since 1970 */
        double open_fds, max_fds;
};

void process_look(struct process_facts *ret);

#endif
