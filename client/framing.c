/* SPDX-License-Identifier: Apache-2.0 */
#include "client/framing.h"

#include <string.h>

void framing_release(struct framing *framing) {
        strbuf_release(&framing->line);
}

void framing_end(struct framing *framing, framing_tell *tell, void *context) {
        struct strbuf *line = &framing->line;

        if (framing->skipping) {
                tell(context, NULL, 0);
        } else {
                if (line->length > 0 && line->data[line->length - 1] == '\r')
                        line->data[--line->length] = '\0';
                if (line->length > 0)
                        tell(context, strbuf_text(line), line->length);
        }
        framing->skipping = false;
        if (line->capacity > FRAMING_LINE_MAX / 32)
                framing_release(framing); /* a large one is not kept for those behind it */
        else
                strbuf_clear(line);
}

void framing_take(struct framing *framing, const char *bytes, size_t length, framing_tell *tell,
                  void *context) {
        while (length > 0) {
                const char *end = memchr(bytes, '\n', length);
                size_t run = end ? (size_t)(end - bytes) : length;

                if (!framing->skipping) {
                        strbuf_append_bytes(&framing->line, bytes, run);
                        framing->skipping = framing->line.overflow;
                        if (framing->skipping)
                                framing_release(framing);
                }
                if (!end)
                        return;
                framing_end(framing, tell, context);
                bytes += run + 1;
                length -= run + 1;
        }
}
