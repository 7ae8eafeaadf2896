/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/output.h"

#include "base/text_utf8.h"

void output_init(struct output *output, bool hashed) {
        *output = (struct output){ .hashed = hashed };
}

void output_release(struct output *output) {
        digest_stream_end(output->digest, NULL);
        strbuf_release(&output->kept);
        *output = (struct output){ 0 };
}

void output_add(struct output *output, const void *bytes, size_t length) {
        size_t room = STREAM_RETURNED_MAX - output->kept.length;

        if (output->hashed && !output->digest)
                output->digest = digest_stream_new();
        if (output->hashed)
                digest_stream_add(output->digest, bytes, length);
        output->total += length;
        strbuf_append_bytes(&output->kept, bytes, length < room ? length : room);
}

/* The length without a character at the end of which only the beginning is there. */
static size_t whole_characters(const char *text, size_t length) {
        for (size_t back = 1; back <= 3 && back <= length; back++) {
                unsigned char byte = (unsigned char)text[length - back];
                size_t takes = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;

                if ((byte & 0xc0) == 0x80)
                        continue;
                return takes > back ? length - back : length;
        }
        return length;
}

void output_finish(struct output *output, struct arena *arena, struct stream_result *ret) {
        const char *text = strbuf_text(&output->kept);
        size_t length = output->kept.length, bad;

        *ret = (struct stream_result){ .bytes_total = output->total };
        /* Only a cut of ours may be moved: text that ends in half a character by itself is not text. */
        if (output->total > length)
                length = whole_characters(text, length);
        ret->utf8 = text_is_utf8(text, length, &bad);
        ret->bytes_returned = ret->utf8 ? length : output->kept.length;
        ret->truncated = ret->bytes_returned < output->total;
        ret->content = arena_strndup(arena, text, ret->bytes_returned);
        if (output->hashed && !output->digest)
                output->digest = digest_stream_new();
        digest_stream_end(output->digest, ret->sha256);
        output->digest = NULL;
}
