/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of a state that is a state itself: data.mdb and lineage in a folder of its own. */
#ifndef BERTH_STATE_BACKUP_H
#define BERTH_STATE_BACKUP_H

#include "base/error.h"
#include "state/store.h"

/* `path` must not exist, or be an empty folder. The copy is checked before it gets its name; a failure leaves nothing. */
int backup_store(struct store *store, const char *path, struct error *err) MUST_USE;

#endif
