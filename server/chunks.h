/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A body in chunks (RFC 9112, 7.1), taken apart as it comes, by the letter: lines end with CRLF, a size is digits alone, and what
 * stands behind a chunk's bytes is its line's end. Extensions and trailers are checked, bounded, and dropped. Pure.
 *
 *     struct chunks chunks = { 0 };
 *     while (!chunks_ended(&chunks)) {
 *             count = chunks_take(&chunks, bytes, length, &data, &data_length);
 *             if (count < 0) ...                         // no body in chunks
 *             // `data` is the body's next; `count` bytes are used up, and where that is 0 more must come
 *     }
 */
#ifndef BERTH_SERVER_CHUNKS_H
#define BERTH_SERVER_CHUNKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum chunks_state {
        CHUNKS_SIZE,
        CHUNKS_EXTENSION,
        CHUNKS_SIZE_LF,
        CHUNKS_DATA,
        CHUNKS_DATA_CR,
        CHUNKS_DATA_LF,
        CHUNKS_TRAILER,
        CHUNKS_TRAILER_NAME,
        CHUNKS_TRAILER_VALUE,
        CHUNKS_TRAILER_LF,
        CHUNKS_END_LF,
        CHUNKS_ENDED
};

struct chunks {
        enum chunks_state state;
        uint64_t left;  /* of the chunk */
        size_t digits;  /* of its size */
        size_t dropped; /* bytes of the extension or, at the end, of all trailers */
};

/* How many bytes are used up, -1 where this is no body in chunks. *ret_data points into `bytes`; often none of them are data. */
ssize_t chunks_take(struct chunks *chunks, const char *bytes, size_t length, const char **ret_data,
                    size_t *ret_length);

bool chunks_ended(const struct chunks *chunks);

#endif
