/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream of events: the same in whatever pieces it comes. Its checksums would keep a fuzzer outside: it is read as it is, and once more
 * as one message of these headers and this payload, with checksums that fit.
 */
#include "base/strbuf.h"
#include "parts.h"
#include "providers/aws/client/event_stream.h"

#include <stdlib.h>
#include <string.h>

static int keep(void *context, const struct event_stream_message *message, struct error *err) {
        const char *const texts[] = { message->type, message->event, message->exception, message->code,
                                      message->text };

        (void)err;
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
                strbuf_printf(context, "%s|", texts[i] ? texts[i] : "-");
        strbuf_append_bytes(context, message->payload, message->length);
        strbuf_append_char(context, '\n');
        return 0;
}

static void read_by(const uint8_t *bytes, size_t size, size_t step, struct strbuf *ret) {
        struct event_stream *stream EVENT_STREAM_CLEANUP = event_stream_new(keep, ret);
        struct error err = { 0 };

        for (size_t at = 0; at < size; at += step) {
                if (event_stream_add(stream, bytes + at, size - at < step ? size - at : step, &err) == 0)
                        continue;
                if (!*err.message || event_stream_end(stream, &err) == 0)
                        abort();
                strbuf_append(ret, "broken");
                return;
        }
        strbuf_append(ret, event_stream_end(stream, &err) < 0 ? "cut" : "whole");
}

static void compare(const uint8_t *bytes, size_t size, size_t step) {
        struct strbuf whole STRBUF_CLEANUP = STRBUF_INIT, pieces STRBUF_CLEANUP = STRBUF_INIT;

        read_by(bytes, size, size ? size : 1, &whole);
        read_by(bytes, size, step, &pieces);
        if (whole.length != pieces.length ||
            memcmp(strbuf_text(&whole), strbuf_text(&pieces), whole.length) != 0)
                abort();
}

static void put_number(uint8_t *at, uint32_t number) {
        for (int i = 3; i >= 0; i--, number >>= 8)
                at[i] = (uint8_t)number;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        size_t step = 1 + (size ? data[0] % 13U : 0);
        uint8_t *message = malloc(size + 16);

        if (!message)
                abort();
        compare(data, size, step);
        put_number(message, (uint32_t)(size + 16));
        put_number(message + 4, (uint32_t)(size ? size - data[size - 1] % size : 0));
        put_number(message + 8, event_stream_crc(0, message, 8));
        if (size)
                memcpy(message + 12, data, size);
        put_number(message + 12 + size, event_stream_crc(0, message, 12 + size));
        compare(message, size + 16, step);
        free(message);
        return 0;
}
