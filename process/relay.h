/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Standard error for programs that outlive this one: a pipe, whose text a thread writes to our own. A program that had ours itself would
 * keep it open after our end, and whatever reads it (`| tee log`) would wait for that program.
 */
#ifndef BERTH_PROCESS_RELAY_H
#define BERTH_PROCESS_RELAY_H

#include "base/error.h"

#include <pthread.h>

struct relay {
        int output; /* for process_descriptor.ours */
        int input, stop;
        pthread_t thread;
};
#define RELAY_NONE \
        { .output = -1, .input = -1, .stop = -1 }

int relay_start(struct relay *relay, struct error *err) MUST_USE;
/*
 * Bytes written until now are passed on; what is written later is lost, and its writer gets EPIPE.
 * Also of RELAY_NONE.
 */
void relay_end(struct relay *relay);

#endif
