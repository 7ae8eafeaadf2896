/* SPDX-License-Identifier: Apache-2.0 */
/* `berth launcher`: started by a machine's unit for a server, and never typed, so it is no verb of the table. */
#ifndef BERTH_CLI_LAUNCHER_H
#define BERTH_CLI_LAUNCHER_H

/* `argv[0]` is "launcher". The exit code. */
int launcher_main(int argc, char **argv);

/*
 * The launcher's socket as examples/launcher sets it up: every process that may open it may use it.
 * NULL for root, which needs no launcher, and where there is no such socket.
 */
const char *launcher_usual(void);

#endif
