/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MCP on standard input and output, for a program that starts us: each line of the input is a message, which is posted to the server's
 * /mcp; what that answers becomes lines of the output. The server alone knows the protocol: here a message is read for what HTTP
 * says beside it (its method, its revision), and for what the two transports have of their own, cancelling and the end.
 */
#ifndef BERTH_CLIENT_BRIDGE_H
#define BERTH_CLIENT_BRIDGE_H

#include "base/interrupt.h"
#include "client/client.h"

struct bridge_config {
        struct client *client;
        int input, output;
        const struct interrupt *interrupt; /* at INTERRUPT_FINISH it ends */
        /*
         * Called while no server listens at the socket: 0 once one does. Any thread's, one at a
         * time.
         */
        int (*revive)(void *context, struct error *err);
        void *context;
};

/*
 * Until the input ends, the output's reader is gone, or it is interrupted. Messages under way then
 * have a second to be answered, and are cancelled. Ends the process if a thread cannot end, because
 * its output is not read.
 */
void bridge_run(const struct bridge_config *config);

#endif
