/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a tar, plain or compressed (gzip, zstd), once from its beginning to its end. The tar is hostile input. libarchive
 * reads it, and is allowed no format but tar. Nothing is written here.
 *
 *     tarball_open -> { tarball_next -> { tarball_block } } -> tarball_finish -> tarball_close
 */
#ifndef BERTH_PROVIDERS_LOCAL_IMAGES_TARBALL_H
#define BERTH_PROVIDERS_LOCAL_IMAGES_TARBALL_H

#include "base/digest.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

enum tarball_type {
        TARBALL_FILE,
        TARBALL_FOLDER,
        TARBALL_LINK,      /* symbolic */
        TARBALL_HARD_LINK, /* to an entry before it */
        TARBALL_DEVICE,
        TARBALL_SPECIAL /* a FIFO, a socket, and whatever else there is */
};

/* Texts are the archive's own bytes, without NUL, and live until the next call. */
struct tarball_entry {
        enum tarball_type type;
        const char *name;
        const char *target; /* of both kinds of links, never NULL there */
        uint64_t bytes;     /* of a file, holes included */
        mode_t mode;        /* permission bits, with set-uid and the like */
        struct timespec written;
        bool capabilities; /* has file capabilities, which give a program rights */
};

struct tarball;

/*
 * Reads `descriptor` from its offset on; it stays the caller's. More than `bytes_max` uncompressed bytes are an error.
 */
int tarball_open(int descriptor, uint64_t bytes_max, struct tarball **ret, struct error *err) MUST_USE;
void tarball_close(struct tarball *tarball); /* NULL is fine */

/* 1 and the next entry, 0 at the end. Unread bytes of the last entry are skipped. */
int tarball_next(struct tarball *tarball, struct tarball_entry *ret, struct error *err) MUST_USE;
/* 1 and a piece of the file, which belongs at `offset`; 0 at the file's end. Gaps between pieces are zeros. */
int tarball_block(struct tarball *tarball, const void **ret_bytes, size_t *ret_length, uint64_t *ret_offset,
                  struct error *err) MUST_USE;
/* How many uncompressed bytes were read so far. */
uint64_t tarball_bytes(const struct tarball *tarball);
/* Reads the bytes after the last entry. Gives the SHA-256 of all uncompressed bytes. */
int tarball_finish(struct tarball *tarball, char hex[SHA256_HEX_SIZE], struct error *err) MUST_USE;

#endif
