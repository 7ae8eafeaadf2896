/* SPDX-License-Identifier: Apache-2.0 */
/* Files of one workspace copied into another of the same owner, as a client asks for it. */
#ifndef BERTH_BROKER_WORK_COPY_H
#define BERTH_BROKER_WORK_COPY_H

#include "broker/work/opened.h"

#include <jansson.h>

/* `wish` is {from: {workspace, paths}, to, replace}, the types of its members checked. *ret is what was copied; a new reference. */
int copy_run(struct server_request *request, struct opened *target, const json_t *wish, json_t **ret,
             struct problem *problem) MUST_USE;

#endif
