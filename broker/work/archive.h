/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A workspace as a zip: written by a thread of its own while its client takes it, and ended if the
 * client leaves.
 */
#ifndef BERTH_BROKER_WORK_ARCHIVE_H
#define BERTH_BROKER_WORK_ARCHIVE_H

#include "server/server.h"

void archive_answer(struct server_request *request);

#endif
