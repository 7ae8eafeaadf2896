/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that holds a lock, as the lock's text names it. Apart from lock.c, so that a lock can be judged without S3.
 */
#ifndef BERTH_PROVIDERS_AWS_SHARED_LOCK_HOLDER_H
#define BERTH_PROVIDERS_AWS_SHARED_LOCK_HOLDER_H

#include <stdbool.h>

#define LOCK_HOLDER_SIZE 80

/* This very process: "PID-START-BOOT-NAMESPACE". */
void lock_holder_self(char text[LOCK_HOLDER_SIZE]);
/* Whether it was a process of this machine and PID namespace, and is no more; false where that cannot be known. */
bool lock_holder_is_gone(const char *text);

#endif
