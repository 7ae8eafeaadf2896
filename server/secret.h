/* SPDX-License-Identifier: Apache-2.0 */
/* Files that hold a secret shared with somebody else: of webhooks, of notifications. */
#ifndef BERTH_SERVER_SECRET_H
#define BERTH_SERVER_SECRET_H

#include "base/error.h"
#include "base/strbuf.h"

/*
 * The first line, without its end: as editors and `echo` leave a file. -1 where the file cannot be read, has more than 4 KiB, or
 * its first line is empty, by which anybody could sign, or holds a NUL; or where everybody may read or write it. `ret` is to be
 * wiped, whatever is returned.
 */
int secret_read(const char *path, struct strbuf *ret, struct error *err) MUST_USE;

#endif
