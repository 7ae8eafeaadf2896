/* SPDX-License-Identifier: Apache-2.0 */
/* The store's files before LMDB opens them: one store a file in this process, the data file's head, the lock file. */
#ifndef BERTH_STATE_STORE_FILE_H
#define BERTH_STATE_STORE_FILE_H

#include "base/error.h"

#include <stddef.h>
#include <sys/types.h>

/* A data file that a store of this process has open; all zeroes before it is entered. */
struct store_file {
        dev_t device;
        ino_t inode;
        struct store_file *next;
};

/*
 * Fails where another store of this process has the file open: LMDB's locks belong to the process, and closing any
 * descriptor of the file drops them. ERROR_NOT_FOUND where there is no such file. `file` stays where it is until it leaves.
 */
int store_file_enter(struct store_file *file, const char *path, struct error *err) MUST_USE;
void store_file_leave(struct store_file *file); /* one that did not enter is fine */

/* Whether the data file begins as one; *ret_size is how large it says it is. Not before the file was entered. */
int store_file_check_head(const char *path, size_t *ret_size, struct error *err) MUST_USE;

/* Makes the lock file with all of its pages. 0, or an errno. */
int store_file_make_lock(const char *path) MUST_USE;

#endif
