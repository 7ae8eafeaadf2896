/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A body of multipart/form-data, read whole and in pieces: the same parts, bytes and verdict. The first byte says how large the
 * pieces are.
 */
#include "base/strbuf.h"
#include "parts.h"
#include "server/multipart.h"

#include <stdlib.h>
#include <string.h>

static void require(bool condition) {
        if (!condition)
                abort();
}

/* 0 where it is refused, 1 where it has not ended, 2 where it has. */
static int read_all(const char *bytes, size_t length, size_t step, struct strbuf *ret) {
        static struct multipart multipart;
        bool in_part = false;
        size_t idle = 0;

        multipart_begin(&multipart, "XX");
        for (size_t at = 0; at < length;) {
                size_t piece = step < length - at ? step : length - at;
                struct multipart_event event;
                ssize_t used = multipart_take(&multipart, bytes + at, piece, &event);

                if (used < 0) {
                        require(multipart.why != NULL);
                        return 0;
                }
                require((size_t)used <= piece);
                idle = used > 0 ? 0 : idle + 1;
                require(idle < 3);
                at += (size_t)used;
                require(event.type != MULTIPART_PART || !in_part);
                require((event.type != MULTIPART_DATA && event.type != MULTIPART_PART_END) || in_part);
                if (event.type == MULTIPART_PART) {
                        require(multipart.name[0] && strlen(multipart.name) <= MULTIPART_NAME_MAX);
                        strbuf_printf(ret, "[%s]", multipart.name);
                } else if (event.type == MULTIPART_DATA) {
                        require(event.length > 0);
                        strbuf_append_bytes(ret, event.bytes, event.length);
                }
                if (event.type != MULTIPART_NOTHING && event.type != MULTIPART_DATA)
                        in_part = event.type == MULTIPART_PART;
        }
        return multipart_ended(&multipart) ? 2 : 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct strbuf whole STRBUF_CLEANUP = STRBUF_INIT, pieces STRBUF_CLEANUP = STRBUF_INIT;
        char type[256], boundary[MULTIPART_BOUNDARY_MAX + 1];
        const char *body = (const char *)data + 1;
        int verdict;

        if (size < 1)
                return 0;
        memcpy(type, body, size - 1 < 255 ? size - 1 : 255);
        type[size - 1 < 255 ? size - 1 : 255] = '\0';
        if (multipart_boundary(type, boundary))
                require(boundary[0] && strlen(boundary) <= MULTIPART_BOUNDARY_MAX);
        verdict = read_all(body, size - 1, size, &whole);
        require(read_all(body, size - 1, (size_t)data[0] % 16 + 1, &pieces) == verdict);
        /* Where it is refused, a part of what came before may have been told. */
        if (verdict > 0)
                require(whole.length == pieces.length &&
                        (whole.length == 0 || memcmp(whole.data, pieces.data, whole.length) == 0));
        return 0;
}
