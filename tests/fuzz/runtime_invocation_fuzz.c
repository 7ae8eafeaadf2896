/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inputs of the runtime on Lambda, and texts that only its answers have: bytes as an event, and as
 * the head of a message. A message that is taken is written and read again, and must be as it was.
 */
#include "parts.h"
#include "runtime/protocol/invocation.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void must_be_same(const struct strbuf *first, const struct strbuf *second) {
        if (first->length != second->length || memcmp(first->data, second->data, first->length) != 0)
                abort();
}

static void read_as_event(const char *bytes, size_t size) {
        struct invocation first INVOCATION_CLEANUP = INVOCATION_INIT,
                                second INVOCATION_CLEANUP = INVOCATION_INIT;
        struct strbuf once STRBUF_CLEANUP = STRBUF_INIT, twice STRBUF_CLEANUP = STRBUF_INIT;
        struct error err = { 0 };

        if (invocation_read(bytes, size, &first, &err) < 0) {
                if (!err.message[0])
                        abort();
                return;
        }
        if (invocation_write(&first, &once, &err) < 0 ||
            invocation_read(once.data, once.length, &second, &err) < 0 ||
            invocation_write(&second, &twice, &err) < 0)
                abort();
        must_be_same(&once, &twice);
}

static void read_as_answer(const struct message *message) {
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
        struct invocation_file file;
        struct invocation_end end;
        struct error err = { 0 };

        if (invocation_file_read(message, &file, &err) == 0)
                invocation_file_write(&file, &bytes);
        else if (!err.message[0])
                abort();
        err.message[0] = '\0';
        if (invocation_end_read(message, &end, &err) == 0)
                invocation_end_write(&end, &bytes);
        else if (!err.message[0])
                abort();
        (void)invocation_said(message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct message message MESSAGE_CLEANUP = MESSAGE_INIT;

        read_as_event((const char *)data, size);
        message.head = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
        if (json_is_object(message.head))
                read_as_answer(&message);
        return 0;
}
