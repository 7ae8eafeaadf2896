/* SPDX-License-Identifier: Apache-2.0 */
/* `berth launcher`: started by a machine's unit for a server, and never typed, so it is no verb of the table. */
#ifndef BERTH_CLI_LAUNCHER_H
#define BERTH_CLI_LAUNCHER_H

/* `argv[0]` is "launcher". The exit code. */
int launcher_main(int argc, char **argv);

/* The socket of one, where examples/launcher has it: whoever may open it is meant to. NULL for root, who needs none, and elsewhere. */
const char *launcher_usual(void);

#endif
