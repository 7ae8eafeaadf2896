/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carrying an older state forward. The state's format is a number in "meta"; each step takes it from one number to the
 * next, all steps in one transaction, after a backup into "before-format-N" inside the state's folder. Nothing goes
 * back: a format newer than this program's is refused.
 */
#ifndef BERTH_STATE_MIGRATE_H
#define BERTH_STATE_MIGRATE_H

#include "base/error.h"
#include "state/store.h"

#include <stdint.h>

struct migration {
        uint64_t from;                                         /* the step leads to from + 1 */
        int (*step)(struct store_txn *txn, struct error *err); /* NULL ends the table */
};

extern const struct migration migrations[];

/* Brings the store from whatever it has to format `newest`. `may_write` false: an older format is an error too. */
int migrate(struct store *store, const char *folder, const struct migration *steps, uint64_t newest,
            bool may_write, struct error *err) MUST_USE;

#endif
