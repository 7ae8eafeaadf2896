/* SPDX-License-Identifier: Apache-2.0 */
/* Where a container's credentials may be asked for. */
#ifndef BERTH_PROVIDERS_AWS_CLIENT_CREDENTIALS_CONTAINER_H
#define BERTH_PROVIDERS_AWS_CLIENT_CREDENTIALS_CONTAINER_H

#include "base/error.h"

/* https to any host; http to loopback and to the addresses where AWS puts such servers. `what` names the setting. */
int credentials_container_check_url(const char *url, const char *what, struct error *err) MUST_USE;

#endif
