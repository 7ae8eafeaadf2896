/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a tar that may be compressed (gzip, zstd), once, from its beginning to its end, whatever somebody put into it:
 * by libarchive, which is used here alone and reads nothing but tar. Nothing is written here.
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

/* Texts are as they stand in the archive, any bytes but NUL, and live until the next call. */
struct tarball_entry {
        enum tarball_type type;
        const char *name;
        const char *target; /* of links of either kind, never NULL there */
        uint64_t bytes;     /* of a file, holes included */
        mode_t mode;        /* permission bits, with set-uid and the like */
        struct timespec written;
        bool capabilities; /* would give its program rights */
};

struct tarball;

/*
 * Reads `descriptor` from its offset on; it stays the caller's. More than `bytes_max` bytes, uncompressed, are an error,
 * whatever they are.
 */
int tarball_open(int descriptor, uint64_t bytes_max, struct tarball **ret, struct error *err) MUST_USE;
void tarball_close(struct tarball *tarball); /* NULL is fine */

/* 1 and the next entry, 0 at the end. What was not read of the last one is passed over. */
int tarball_next(struct tarball *tarball, struct tarball_entry *ret, struct error *err) MUST_USE;
/* 1 and a piece of the file, to stand at `offset` of it; 0 at its end. What no piece covers is zero. */
int tarball_block(struct tarball *tarball, const void **ret_bytes, size_t *ret_length, uint64_t *ret_offset,
                  struct error *err) MUST_USE;
/* How much was read until now, uncompressed. */
uint64_t tarball_bytes(const struct tarball *tarball);
/* Reads what stands behind the last entry. SHA-256 of all bytes, uncompressed. */
int tarball_finish(struct tarball *tarball, char hex[SHA256_HEX_SIZE], struct error *err) MUST_USE;

#endif
