/* SPDX-License-Identifier: Apache-2.0 */
#include "server/chunks.h"

#include "server/head.h"

#define DIGITS_MAX 15 /* of a size: less than 2^60 */
#define EXTENSION_MAX 256
#define TRAILERS_MAX 4096

static bool take_size(struct chunks *chunks, char byte) {
        int digit = head_hex_digit(byte);

        if (digit >= 0) {
                chunks->left = chunks->left << 4 | (unsigned)digit;
                return ++chunks->digits <= DIGITS_MAX;
        }
        chunks->dropped = 0;
        chunks->state = byte == ';' ? CHUNKS_EXTENSION : CHUNKS_SIZE_LF;
        return chunks->digits > 0 && (byte == ';' || byte == '\r');
}

/* Text up to a carriage return. */
static bool take_dropped(struct chunks *chunks, char byte, enum chunks_state after, size_t max) {
        if (byte == '\r')
                chunks->state = after;
        return ++chunks->dropped <= max && (byte == '\r' || head_is_text(byte));
}

static bool take_name(struct chunks *chunks, char byte) {
        if (byte == ':' && chunks->state == CHUNKS_TRAILER_NAME) {
                chunks->state = CHUNKS_TRAILER_VALUE;
                return true;
        }
        chunks->state = CHUNKS_TRAILER_NAME;
        return ++chunks->dropped <= TRAILERS_MAX && head_is_token(&byte, 1);
}

static bool take_exactly(struct chunks *chunks, char byte, char wanted, enum chunks_state next) {
        chunks->state = next;
        return byte == wanted;
}

/* One byte of what is not data; false where it cannot stand there. */
static bool take_byte(struct chunks *chunks, char byte) {
        switch (chunks->state) {
        case CHUNKS_SIZE:
                return take_size(chunks, byte);
        case CHUNKS_EXTENSION:
                return take_dropped(chunks, byte, CHUNKS_SIZE_LF, EXTENSION_MAX);
        case CHUNKS_SIZE_LF:
                chunks->dropped = 0;
                return take_exactly(chunks, byte, '\n', chunks->left ? CHUNKS_DATA : CHUNKS_TRAILER);
        case CHUNKS_DATA_CR:
                return take_exactly(chunks, byte, '\r', CHUNKS_DATA_LF);
        case CHUNKS_DATA_LF:
                chunks->digits = 0;
                return take_exactly(chunks, byte, '\n', CHUNKS_SIZE);
        case CHUNKS_TRAILER:
                return byte == '\r' ? take_exactly(chunks, byte, '\r', CHUNKS_END_LF)
                                    : take_name(chunks, byte);
        case CHUNKS_TRAILER_NAME:
                return take_name(chunks, byte);
        case CHUNKS_TRAILER_VALUE:
                return take_dropped(chunks, byte, CHUNKS_TRAILER_LF, TRAILERS_MAX);
        case CHUNKS_TRAILER_LF:
                return take_exactly(chunks, byte, '\n', CHUNKS_TRAILER);
        case CHUNKS_END_LF:
                return take_exactly(chunks, byte, '\n', CHUNKS_ENDED);
        case CHUNKS_DATA:
        case CHUNKS_ENDED:
        default:
                return false;
        }
}

ssize_t chunks_take(struct chunks *chunks, const char *bytes, size_t length, const char **ret_data,
                    size_t *ret_length) {
        size_t at = 0;

        *ret_data = bytes;
        *ret_length = 0;
        while (at < length && chunks->state != CHUNKS_ENDED && chunks->state != CHUNKS_DATA) {
                if (!take_byte(chunks, bytes[at]))
                        return -1;
                at++;
        }
        if (chunks->state == CHUNKS_DATA && at < length) {
                *ret_data = bytes + at;
                *ret_length = chunks->left < length - at ? (size_t)chunks->left : length - at;
                chunks->left -= *ret_length;
                if (chunks->left == 0)
                        chunks->state = CHUNKS_DATA_CR;
                at += *ret_length;
        }
        return (ssize_t)at;
}

bool chunks_ended(const struct chunks *chunks) {
        return chunks->state == CHUNKS_ENDED;
}
