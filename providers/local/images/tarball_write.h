/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a tar, gzip or plain, by libarchive. Its bytes depend only on what is put in: everything belongs to root, there
 * are no user names and no dates but those given.
 *
 *     tarball_writer_open -> { tarball_writer_add -> { tarball_writer_bytes } } -> tarball_writer_finish -> _close
 */
#ifndef BERTH_PROVIDERS_LOCAL_IMAGES_TARBALL_WRITE_H
#define BERTH_PROVIDERS_LOCAL_IMAGES_TARBALL_WRITE_H

#include "base/digest.h"
#include "base/error.h"
#include "providers/local/images/tarball.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tarball_writer;

/* Digests (SHA-256, hex) and sizes of the result. */
struct tarball_written {
        char plain[SHA256_HEX_SIZE];  /* of the tar */
        char stored[SHA256_HEX_SIZE]; /* of the file: the same where it is not compressed */
        uint64_t plain_bytes, stored_bytes;
};

/* Writes to `descriptor` from its offset on; it stays the caller's. */
int tarball_writer_open(int descriptor, bool compress, struct tarball_writer **ret,
                        struct error *err) MUST_USE;
void tarball_writer_close(struct tarball_writer *writer); /* NULL is fine */

/* Devices and the like are an error. All `bytes` of a file must follow before the next entry. */
int tarball_writer_add(struct tarball_writer *writer, const struct tarball_entry *entry,
                       struct error *err) MUST_USE;
int tarball_writer_bytes(struct tarball_writer *writer, const void *bytes, size_t length,
                         struct error *err) MUST_USE;
int tarball_writer_finish(struct tarball_writer *writer, struct tarball_written *ret,
                          struct error *err) MUST_USE;

#endif
