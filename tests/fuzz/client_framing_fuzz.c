/* SPDX-License-Identifier: Apache-2.0 */
/* Lines on standard input: the same in whatever pieces they come, none with a line's end, none empty, and none of their bytes lost. */
#include "client/framing.h"
#include "parts.h"

#include <stdlib.h>
#include <string.h>

static void keep(void *context, const char *line, size_t length) {
        if (!line || length == 0 || memchr(line, '\n', length) || line[length] != '\0')
                abort();
        strbuf_append_bytes(context, line, length);
        strbuf_append_char(context, '\n');
}

static void take(const char *bytes, size_t size, size_t step, struct strbuf *ret) {
        struct framing framing FRAMING_CLEANUP = FRAMING_INIT;

        for (size_t at = 0; at < size; at += step)
                framing_take(&framing, bytes + at, size - at < step ? size - at : step, keep, ret);
        framing_end(&framing, keep, ret);
}

static size_t count(const char *bytes, size_t size) {
        size_t found = 0;

        for (size_t i = 0; i < size; i++)
                found += bytes[i] != '\n' && bytes[i] != '\r';
        return found;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct strbuf whole STRBUF_CLEANUP = STRBUF_INIT, pieces STRBUF_CLEANUP = STRBUF_INIT;
        const char *bytes = (const char *)data;

        take(bytes, size, size ? size : 1, &whole);
        take(bytes, size, 1 + (size ? data[0] % 7U : 0), &pieces);
        if (whole.length != pieces.length ||
            memcmp(strbuf_text(&whole), strbuf_text(&pieces), whole.length) != 0 ||
            count(strbuf_text(&whole), whole.length) != count(bytes, size))
                abort();
        return 0;
}
