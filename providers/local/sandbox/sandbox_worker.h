/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that a sandbox runs in: one run, one worker. It is started with an empty environment
 * and one socket (SANDBOX_WORKER_SOCKET), is a session of its own, so that no terminal stops it,
 * holds the run's clock, and never writes to a reader that might not read. sandbox_messages.h says
 * what is spoken.
 */
#ifndef BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_WORKER_H
#define BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_WORKER_H

#define SANDBOX_WORKER_SOCKET 3
#define SANDBOX_WORKER_VERB "sandbox-worker"

/* `berth sandbox-worker`; the exit code. */
int sandbox_worker_main(void);

#endif
