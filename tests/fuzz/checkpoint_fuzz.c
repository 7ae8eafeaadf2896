/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of a checkpoint, in pieces whose size the first byte says. Each part that is taken is written and read again, and must be as
 * it was; so must the whole file where it is one.
 */
#include "parts.h"
#include "runtime/protocol/checkpoint.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void must_be_same(const struct strbuf *first, const struct strbuf *second) {
        if (first->length != second->length || memcmp(first->data, second->data, first->length) != 0)
                abort();
}

static void repeat(const struct checkpoint_part *part, struct strbuf *file) {
        struct strbuf first STRBUF_CLEANUP = STRBUF_INIT, second STRBUF_CLEANUP = STRBUF_INIT;
        struct message_reader reader MESSAGE_READER_CLEANUP = { 0 };
        struct message message MESSAGE_CLEANUP = MESSAGE_INIT;
        struct checkpoint_part repeated;
        struct error err;
        size_t used;

        checkpoint_part_write(part, &first);
        if (message_read(&reader, first.data, first.length, &used, &message, &err) != MESSAGE_WHOLE ||
            used != first.length || checkpoint_part_read(&message, &repeated, &err) < 0)
                abort();
        checkpoint_part_write(&repeated, &second);
        must_be_same(&first, &second);
        strbuf_append_bytes(file, first.data, first.length);
}

/* MESSAGE_MORE: all of it was read. */
static int read_file(const uint8_t *data, size_t size, size_t piece, struct strbuf *again, bool *ret_over) {
        struct checkpoint_reader reader CHECKPOINT_READER_CLEANUP = { 0 };
        int answer = MESSAGE_MORE;
        size_t at = 0;

        strbuf_append(again, CHECKPOINT_LINE);
        while (at < size && answer >= 0) {
                struct message message MESSAGE_CLEANUP = MESSAGE_INIT;
                struct checkpoint_part part;
                struct error err = { 0 };
                size_t used = 0;

                answer = checkpoint_read(&reader, data + at, size - at < piece ? size - at : piece, &used,
                                         &message, &part, &err);
                if (answer == MESSAGE_WHOLE)
                        repeat(&part, again);
                if (answer < 0 && !err.message[0])
                        abort();
                at += used;
        }
        *ret_over = checkpoint_reader_is_over(&reader);
        return answer;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct strbuf first STRBUF_CLEANUP = STRBUF_INIT, second STRBUF_CLEANUP = STRBUF_INIT;
        size_t piece = size > 0 && data[0] ? data[0] : SIZE_MAX;
        bool over;

        if (read_file(data + (size > 0), size - (size > 0), piece, &first, &over) >= 0 && over) {
                if (read_file((const uint8_t *)first.data, first.length, SIZE_MAX, &second, &over) < 0 ||
                    !over)
                        abort();
                must_be_same(&first, &second);
        }
        return 0;
}
