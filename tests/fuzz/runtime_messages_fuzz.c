/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of a session's runtime, in pieces whose size the first byte says. Each is read as all
 * that it could be: what the runtime says, which comes out of a sandbox; what it is asked; what a
 * kernel says to it; a part of a checkpoint. A message that is taken is written and read again, and
 * must be as it was.
 */
#include "parts.h"
#include "runtime/protocol/checkpoint.h"
#include "runtime/protocol/report.h"
#include "runtime/protocol/request.h"
#include "runtime/serve/kernel_word.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void reread(const struct strbuf *bytes, struct message *ret) {
        struct message_reader reader MESSAGE_READER_CLEANUP = { 0 };
        struct error err;
        size_t used;

        if (message_read(&reader, bytes->data, bytes->length, &used, ret, &err) != MESSAGE_WHOLE ||
            used != bytes->length)
                abort();
}

static void must_be_same(const struct strbuf *first, const struct strbuf *second) {
        if (first->length != second->length || memcmp(first->data, second->data, first->length) != 0)
                abort();
}

static void repeat_report(const struct report *report) {
        struct strbuf first STRBUF_CLEANUP = STRBUF_INIT, second STRBUF_CLEANUP = STRBUF_INIT;
        struct message message MESSAGE_CLEANUP = MESSAGE_INIT;
        struct report repeated;
        struct error err;

        report_write(report, &first);
        reread(&first, &message);
        if (report_read(&message, &repeated, &err) < 0)
                abort();
        report_write(&repeated, &second);
        must_be_same(&first, &second);
}

static void repeat_request(const struct request *request) {
        struct strbuf first STRBUF_CLEANUP = STRBUF_INIT, second STRBUF_CLEANUP = STRBUF_INIT;
        struct message message MESSAGE_CLEANUP = MESSAGE_INIT;
        struct request repeated;
        struct error err;

        request_write(request, &first);
        reread(&first, &message);
        if (request_read(&message, &repeated, &err) < 0)
                abort();
        request_write(&repeated, &second);
        must_be_same(&first, &second);
}

static void read_as_all(const struct message *message) {
        struct report report;
        struct request request;
        struct kernel_word word;
        struct checkpoint_part part;
        struct error err = { 0 };

        if (report_read(message, &report, &err) == 0)
                repeat_report(&report);
        else if (!err.message[0])
                abort();
        err.message[0] = '\0';
        if (request_read(message, &request, &err) == 0)
                repeat_request(&request);
        else if (!err.message[0])
                abort();
        err.message[0] = '\0';
        if (kernel_word_read(message, &word, &err) < 0 && !err.message[0])
                abort();
        err.message[0] = '\0';
        if (checkpoint_part_read(message, &part, &err) < 0 && !err.message[0])
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct message_reader reader MESSAGE_READER_CLEANUP = { 0 };
        size_t piece = size > 0 && data[0] ? data[0] : SIZE_MAX, at = size > 0;
        int answer = MESSAGE_MORE;

        while (at < size && answer >= 0) {
                struct message message MESSAGE_CLEANUP = MESSAGE_INIT;
                struct error err = { 0 };
                size_t used = 0;

                answer = message_read(&reader, data + at, size - at < piece ? size - at : piece, &used,
                                      &message, &err);
                if (answer == MESSAGE_WHOLE)
                        read_as_all(&message);
                if (answer < 0 && !err.message[0])
                        abort();
                at += used;
        }
        return 0;
}
