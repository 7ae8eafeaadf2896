/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room doubles, so that appending costs a constant time a byte. A buffer with a limit takes nothing
 * beyond it and sets `overflow`: a reader of outside data checks it once, at the end.
 */
#include "base/strbuf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void free_data(struct strbuf *buffer) {
        if (buffer->secret && buffer->data)
                explicit_bzero(buffer->data, buffer->capacity);
        free(buffer->data);
}

void strbuf_release(struct strbuf *buffer) {
        free_data(buffer);
        *buffer = (struct strbuf){ .limit = buffer->limit, .secret = buffer->secret };
}

void strbuf_clear(struct strbuf *buffer) {
        buffer->length = 0;
        buffer->overflow = false;
        if (buffer->data)
                buffer->data[0] = '\0';
}

bool strbuf_reserve(struct strbuf *buffer, size_t extra) {
        size_t need, capacity;
        char *data;

        if (__builtin_add_overflow(buffer->length, extra, &need) ||
            __builtin_add_overflow(need, (size_t)1, &need))
                abort();
        if (buffer->limit && need - 1 > buffer->limit) {
                buffer->overflow = true;
                return false;
        }
        if (need <= buffer->capacity)
                return true;
        capacity = buffer->capacity ? buffer->capacity * 2 : 128;
        if (capacity < need)
                capacity = need;
        /* realloc() would leave the secret where it was. */
        data = buffer->secret ? malloc(capacity) : realloc(buffer->data, capacity);
        if (!data)
                abort();
        if (buffer->secret) {
                if (buffer->data)
                        memcpy(data, buffer->data, buffer->length);
                free_data(buffer);
        }
        buffer->data = data;
        buffer->data[buffer->length] = '\0';
        buffer->capacity = capacity;
        return true;
}

/* Nearly every append is a few bytes for which there is room. */
static inline bool reserve(struct strbuf *buffer, size_t extra) {
        return (extra < buffer->capacity - buffer->length && !buffer->limit) || strbuf_reserve(buffer, extra);
}

void strbuf_append_bytes(struct strbuf *buffer, const void *bytes, size_t length) {
        if (!reserve(buffer, length))
                return;
        if (length)
                memcpy(buffer->data + buffer->length, bytes, length);
        buffer->length += length;
        buffer->data[buffer->length] = '\0';
}

void strbuf_append(struct strbuf *buffer, const char *text) {
        strbuf_append_bytes(buffer, text, strlen(text));
}

void strbuf_append_char(struct strbuf *buffer, char character) {
        if (!reserve(buffer, 1))
                return;
        buffer->data[buffer->length++] = character;
        buffer->data[buffer->length] = '\0';
}

void strbuf_printf(struct strbuf *buffer, const char *format, ...) {
        va_list arguments, again;
        int length;

        va_start(arguments, format);
        va_copy(again, arguments);
        length = vsnprintf(NULL, 0, format, arguments);
        va_end(arguments);
        if (length < 0)
                abort();
        if (strbuf_reserve(buffer, (size_t)length)) {
                vsnprintf(buffer->data + buffer->length, (size_t)length + 1, format, again);
                buffer->length += (size_t)length;
        }
        va_end(again);
}

const char *strbuf_text(const struct strbuf *buffer) {
        return buffer->data ? buffer->data : "";
}

char *strbuf_take(struct strbuf *buffer) {
        char *data;

        if (!buffer->data)
                strbuf_reserve(buffer, 0);
        data = buffer->data ? buffer->data : calloc(1, 1);
        if (!data)
                abort();
        data[buffer->length] = '\0';
        *buffer = (struct strbuf){ .limit = buffer->limit, .secret = buffer->secret };
        return data;
}
