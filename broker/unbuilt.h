/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a Server's manifest may say, and this version cannot do: refused at the start, so that its
 * owner need not discover it.
 */
#ifndef BERTH_BROKER_UNBUILT_H
#define BERTH_BROKER_UNBUILT_H

#include "broker/auth/config.h"

/* Logs it: a line for each. */
void unbuilt_tell(const struct broker_config *config);

#endif
