/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A log that is only ever added to: one entry a line, the SHA-256 of its text and the text, JSON, which has the SHA-256 of the entry before.
 *
 *      4f0c... {"at":"2026-01-31T12:00:00Z","event":"asked",...,"n":7,"previous":"9be1..."}
 *
 * So changing, removing or moving an entry breaks the chain behind it. The chain cannot tell that
 * entries were cut off its end; the file `head` can: it has the number and the hash of the last
 * entry. An entry is on the disk, and so is the head, before audit_append() returns: what was
 * answered is never lost. A server that died while it wrote may leave half a line, which was never
 * answered (AUDIT_TORN): the head does not count it, and so it differs from a log that was cut.
 *
 * A user with write access to the folder can forge all of it. Heads kept elsewhere (`berth audit
 * verify` prints them) reveal that too.
 */
#ifndef BERTH_APPROVALS_AUDIT_H
#define BERTH_APPROVALS_AUDIT_H

#include "base/digest.h"
#include "base/error.h"

#include <jansson.h>
#include <stdint.h>

#define AUDIT_FILE_MAX ((size_t)16 << 20) /* bytes: an entry beyond begins another file */
#define AUDIT_ENTRY_MAX ((size_t)2 << 20)

struct audit;

/* An entry that was found; borrowed. False ends the reading. */
typedef bool audit_take(void *context, const json_t *entry);

enum audit_state {
        AUDIT_WHOLE,
        AUDIT_TORN,   /* its end is half an entry, which was never answered */
        AUDIT_DAMAGED /* it was edited, cut or mixed up: `why` */
};
struct audit_found {
        enum audit_state state;
        uint64_t entries;           /* the last one's number */
        char head[SHA256_HEX_SIZE]; /* its hash; "" where there is no entry */
        uint64_t torn_bytes;
        char why[512]; /* where, and what was found */
};

/*
 * Opens the log for adding; makes the folder, 0700. Half an entry at its end goes, and an entry says so. -1 where the log is damaged: nothing
 * is added to such a one. The entries of files that were written since `since_ms` (wall clock) are given to `take` (or NULL). One at a time may have a log open.
 */
int audit_open(const char *folder, int64_t since_ms, audit_take *take, void *context, struct audit **ret,
               struct error *err) MUST_USE;
void audit_close(struct audit *audit); /* NULL is fine */

/*
 * Adds an entry, an object that is taken over: `n`, `at` and `previous` are put into it. On the disk when 0 is returned. Where that cannot be
 * known, nothing is added any more until the log is opened again. One thread's at a time.
 */
int audit_append(struct audit *audit, json_t *entry, struct error *err) MUST_USE;

/*
 * Reads a log that another process may be adding to, from the first entry on. ERROR_NOT_FOUND:
 * there is no log.
 */
int audit_read(const char *folder, audit_take *take, void *context, struct audit_found *ret,
               struct error *err) MUST_USE;

#endif
