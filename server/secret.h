/* SPDX-License-Identifier: Apache-2.0 */
/* Files that hold a secret shared with another party: of webhooks, of notifications. */
#ifndef BERTH_SERVER_SECRET_H
#define BERTH_SERVER_SECRET_H

#include "base/error.h"
#include "base/strbuf.h"

/*
 * The first line, without its end: as editors and `echo` leave a file. -1 if the file cannot be
 * read, has more than 4 KiB, or its first line is empty, by which anyone could sign, or holds a
 * NUL; or if all users may read or write it. The caller must wipe `ret`, whatever is returned.
 */
int secret_read(const char *path, struct strbuf *ret, struct error *err) MUST_USE;

#endif
