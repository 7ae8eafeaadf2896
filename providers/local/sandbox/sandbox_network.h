/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network namespace with a loopback device and nothing else, made before root's rights are gone:
 * for the programs inside it belongs to another user, and its settings stay. Connections that were
 * not accepted yet are in no memory limit: the kernel counts them when they are accepted. So their
 * buffers and number are held small here; with the machine's own settings 161 of them kept 600 MB.
 */
#ifndef BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_NETWORK_H
#define BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_NETWORK_H

#include "base/error.h"

/*
 * For this process and its children. Where /proc/sys cannot be written, as in some containers, buffers stay the machine's.
 * *ret_sockets is the caller's, for sandbox_network_sockets().
 */
int sandbox_network_make(int *ret_sockets, struct error *err) MUST_USE;

/*
 * Instead, that of another sandbox, whose is the same owner's and agent's. ERROR_REFUSED of what is no network namespace, or this machine's
 * own. The rest as above.
 */
int sandbox_network_join(int network, int *ret_sockets, struct error *err) MUST_USE;

/*
 * How many sockets there are in the namespace, of any kind, those among them that wait to be
 * accepted. No limit of the kernel's holds their number: the worker has to count.
 */
#define SANDBOX_SOCKETS_MAX 4096
unsigned sandbox_network_sockets(int sockets);

#endif
