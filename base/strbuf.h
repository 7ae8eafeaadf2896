/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Growing text. Always NUL-terminated once something was appended; may hold NUL bytes.
 *
 * `struct strbuf buffer STRBUF_CLEANUP = STRBUF_INIT;` releases itself. A buffer that takes bytes from outside
 * (a network answer, a file) sets `limit`: what would exceed it is not appended and `overflow` is set. A buffer that may hold a
 * secret begins as STRBUF_SECRET, and stays so when it is moved.
 */
#ifndef BERTH_BASE_STRBUF_H
#define BERTH_BASE_STRBUF_H

#include <stdbool.h>
#include <stddef.h>

struct strbuf {
        char *data; /* NULL while empty; strbuf_text() never is */
        size_t length;
        size_t capacity;
        size_t limit; /* bytes at the most, 0 for none */
        bool overflow;
        bool secret; /* all memory is overwritten before it is given back: at release, and where the buffer grows */
};

#define STRBUF_INIT \
        { 0 }
#define STRBUF_SECRET \
        { .secret = true }
#define STRBUF_CLEANUP __attribute__((cleanup(strbuf_release)))

void strbuf_release(struct strbuf *buffer); /* may be used again afterwards */
void strbuf_clear(struct strbuf *buffer);   /* empties, keeps the memory */

void strbuf_append(struct strbuf *buffer, const char *text);
void strbuf_append_bytes(struct strbuf *buffer, const void *bytes, size_t length);
void strbuf_append_char(struct strbuf *buffer, char character);
void strbuf_printf(struct strbuf *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Room for that many bytes more behind the text, for who writes them there; false where that exceeds the limit. */
bool strbuf_reserve(struct strbuf *buffer, size_t extra);

const char *strbuf_text(const struct strbuf *buffer);

/* Gives the text away, to be released with free(); never NULL. */
char *strbuf_take(struct strbuf *buffer);

#endif
