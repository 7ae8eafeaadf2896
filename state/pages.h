/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pages of a data file, looked at without LMDB.
 *
 * LMDB trusts its file: a page beyond the file's end kills the process by SIGBUS, a flipped bit in a page's header by
 * an assertion or worse. So the file is read here first, by pread(), which can only fail. Layout: LMDB 0.9's mdb.c,
 * structures MDB_meta, MDB_db, MDB_page, MDB_node (data version 1, 64-bit, the machine's own byte order).
 */
#ifndef BERTH_STATE_PAGES_H
#define BERTH_STATE_PAGES_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Before the file is opened: whether it begins with the two meta pages of an LMDB file, and they belong together.
 * *ret_size is what the file must be mapped with at the least.
 */
int pages_check_head(int descriptor, const char *path, size_t *ret_size, struct error *err) MUST_USE;

/*
 * While a read transaction of that number is open, so that no writer reuses its pages: every page that can be reached
 * is inside the file, is what its parent says, holds its keys in order and its nodes inside itself, and is used once;
 * no free page is in use. 60,000 records take some 10 ms. Returns 1 where writers have already overwritten that
 * transaction's meta page: take a new transaction and call again.
 */
int pages_check_trees(int descriptor, const char *path, uint64_t transaction, struct error *err) MUST_USE;

/*
 * The meta page of that transaction as bytes, and back: what was committed after it is gone then, whatever of it the file holds.
 * The pages of that transaction must be in the file as they were. 1 where writers have overwritten the meta page.
 */
#define PAGES_META_SIZE 152
int pages_save_meta(int descriptor, const char *path, uint64_t transaction, uint8_t ret[PAGES_META_SIZE],
                    struct error *err) MUST_USE;
int pages_restore_meta(int descriptor, const char *path, const uint8_t saved[PAGES_META_SIZE],
                       struct error *err) MUST_USE;

#endif
