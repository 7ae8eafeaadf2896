/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which addresses a name may lead to: those of the public internet, by the registries of IANA
 * (iana-ipv4-special-registry, iana-ipv6-special-registry). All others are another owner's network,
 * this machine, or a way around this list: an IPv4 address in the clothes of IPv6.
 * address_is_public() is pure.
 */
#ifndef BERTH_EGRESS_ADDRESS_H
#define BERTH_EGRESS_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

bool address_is_public(const struct sockaddr *address);
/* Whether what is sent there stays on this machine, be the address a public one: 1, 0, or -1 where that cannot be found out. Asks the kernel. */
int address_leads_here(const struct sockaddr *address, socklen_t length);

#endif
