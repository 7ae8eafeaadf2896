/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/sandbox_checkpoint.h"

#include "base/files.h"
#include "runtime/protocol/report.h"
#include "runtime/protocol/request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC "berth-checkpoint-1"
#define PIECE ((size_t)256 << 10)
/* After the time that the runtime was given: it stops its kernels then. */
#define LATE_MS 7000

/* --- the envelope --- */

void sandbox_envelope_write(const struct sandbox_envelope *envelope, char ret[SANDBOX_ENVELOPE_SIZE]) {
        memset(ret, 0, SANDBOX_ENVELOPE_SIZE);
        snprintf(ret, SANDBOX_ENVELOPE_SIZE, "%s %s %lld %llu\n", MAGIC, envelope->id,
                 (long long)envelope->mark, (unsigned long long)envelope->bytes);
}

/*
 * The encoded form must be what would be written: so there is one form of each, and no number
 * beyond its range.
 */
int sandbox_envelope_read(const char bytes[SANDBOX_ENVELOPE_SIZE], struct sandbox_envelope *ret,
                          struct error *err) {
        static const char nothing[SANDBOX_ENVELOPE_SIZE];
        char text[SANDBOX_ENVELOPE_SIZE + 1], again[SANDBOX_ENVELOPE_SIZE];
        struct sandbox_envelope read = { 0 };
        long long mark;
        unsigned long long length;

        if (memcmp(bytes, nothing, sizeof(nothing)) == 0)
                return error_set_kind(err, ERROR_NOT_FOUND, "it is not whole");
        memcpy(text, bytes, SANDBOX_ENVELOPE_SIZE);
        text[SANDBOX_ENVELOPE_SIZE] = '\0';
        if (sscanf(text, MAGIC " %32[a-z0-9-] %19lld %19llu\n", read.id, &mark, &length) != 3)
                return error_set(err, "it is no checkpoint of this version");
        read.mark = mark;
        read.bytes = length;
        sandbox_envelope_write(&read, again);
        if (memcmp(bytes, again, sizeof(again)) != 0)
                return error_set(err, "it is no checkpoint of this version");
        *ret = read;
        return 0;
}

/* --- taken --- */

void sandbox_checkpoint_take(struct sandbox_checkpoint *checkpoint, const struct sandbox_wish *wish, int file,
                             int64_t now_ms, struct strbuf *asked) {
        const struct request request = { .type = REQUEST_CHECKPOINT,
                                         .bytes = (int64_t)wish->bytes_max,
                                         .max_ms = wish->time_max_ms };

        close_descriptor(&checkpoint->file);
        checkpoint->file = file;
        checkpoint->takes = true;
        checkpoint->ended = checkpoint->whole = false;
        checkpoint->why[0] = '\0';
        checkpoint->bytes = 0;
        checkpoint->wish = *wish;
        checkpoint->until_ms = now_ms + wish->time_max_ms + LATE_MS;
        request_write(&request, asked);
}

static void fail_checkpoint(struct sandbox_checkpoint *checkpoint, const char *why) {
        if (!checkpoint->why[0])
                snprintf(checkpoint->why, sizeof(checkpoint->why), "%s", why);
        close_descriptor(&checkpoint->file);
}

static void add_piece(struct sandbox_checkpoint *checkpoint, const struct report *report) {
        if (checkpoint->file < 0)
                return;
        if (report->length > checkpoint->wish.bytes_max + SANDBOX_CHECKPOINT_EXTRA_MAX - checkpoint->bytes) {
                fail_checkpoint(checkpoint, "its memory is more than may be kept");
                return;
        }
        for (size_t at = 0; at < report->length;) {
                ssize_t count = pwrite(checkpoint->file, report->bytes + at, report->length - at,
                                       (off_t)(SANDBOX_ENVELOPE_SIZE + checkpoint->bytes));

                if (count < 0 && errno == EINTR)
                        continue;
                if (count <= 0) {
                        fail_checkpoint(checkpoint, strerror(count < 0 ? errno : ENOSPC));
                        return;
                }
                at += (size_t)count;
                checkpoint->bytes += (uint64_t)count;
        }
}

/* The envelope last: it says that all the rest is there. */
static void finish_checkpoint(struct sandbox_checkpoint *checkpoint, const struct report *report,
                              int64_t mark) {
        struct sandbox_envelope envelope = { .mark = mark, .bytes = checkpoint->bytes };
        char bytes[SANDBOX_ENVELOPE_SIZE];

        checkpoint->takes = false;
        checkpoint->ended = true;
        if (report->reason)
                fail_checkpoint(checkpoint, report->reason);
        else if (checkpoint->patient &&
                 report->is_late) /* another attempt may keep what ending it now would lose */
                fail_checkpoint(checkpoint,
                                "its memory could not be kept in the time for it: checkpointSeconds");
        else if ((uint64_t)report->total != checkpoint->bytes)
                fail_checkpoint(checkpoint, "its runtime has sent more or less than it says");
        if (checkpoint->file < 0)
                return;
        memcpy(envelope.id, checkpoint->wish.id, sizeof(envelope.id));
        sandbox_envelope_write(&envelope, bytes);
        if (fsync(checkpoint->file) < 0 ||
            pwrite(checkpoint->file, bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes) ||
            fsync(checkpoint->file) < 0)
                fail_checkpoint(checkpoint, strerror(errno));
        checkpoint->whole = checkpoint->file >= 0;
        close_descriptor(&checkpoint->file);
}

/* True if the message belongs to the checkpoint. The client judges malformed ones. */
static bool is_about_it(struct sandbox_checkpoint *checkpoint, const struct message *message, int64_t mark) {
        struct report report;
        struct error ignored;

        if (!checkpoint->takes || report_read(message, &report, &ignored) < 0)
                return false;
        if (report.type == REPORT_PIECE)
                add_piece(checkpoint, &report);
        else if (report.type == REPORT_CHECKPOINTED)
                finish_checkpoint(checkpoint, &report, mark);
        else
                return false;
        return true;
}

void sandbox_checkpoint_hear(struct sandbox_checkpoint *checkpoint, const char *bytes, size_t length,
                             int64_t mark, struct strbuf *kept) {
        while (length > 0) {
                struct message message MESSAGE_CLEANUP = MESSAGE_INIT;
                struct error ignored;
                size_t used;
                int answer;

                /* When it is over, what is left belongs to the client, from the next message on. */
                if (!checkpoint->takes && checkpoint->raw.length == 0) {
                        strbuf_append_bytes(kept, bytes, length);
                        return;
                }
                answer = message_read(&checkpoint->reader, bytes, length, &used, &message, &ignored);
                if (answer < 0) {
                        /* Nothing that comes after can be read: the client sees the same, and knows what to do. */
                        strbuf_append_bytes(kept, checkpoint->raw.data, checkpoint->raw.length);
                        strbuf_append_bytes(kept, bytes, length);
                        strbuf_release(&checkpoint->raw);
                        message_reader_release(&checkpoint->reader);
                        fail_checkpoint(checkpoint, "its runtime does not speak as it should");
                        checkpoint->takes = false;
                        checkpoint->ended = true;
                        return;
                }
                strbuf_append_bytes(&checkpoint->raw, bytes, used);
                bytes += used;
                length -= used;
                if (answer == MESSAGE_MORE)
                        continue;
                if (!is_about_it(checkpoint, &message, mark))
                        strbuf_append_bytes(kept, checkpoint->raw.data, checkpoint->raw.length);
                strbuf_release(&checkpoint->raw);
        }
}

bool sandbox_checkpoint_reads(const struct sandbox_checkpoint *checkpoint) {
        return checkpoint->takes || checkpoint->raw.length > 0;
}

size_t sandbox_checkpoint_whole(const char *bytes, size_t length) {
        size_t at = 0;

        while (length - at >= 8) {
                const unsigned char *lengths = (const unsigned char *)bytes + at;
                uint64_t next = 8;

                for (size_t i = 0; i < 8; i += 4)
                        next += (uint64_t)lengths[i] << 24 | (uint64_t)lengths[i + 1] << 16 |
                                (uint64_t)lengths[i + 2] << 8 | lengths[i + 3];
                if (next > length - at)
                        break;
                at += (size_t)next;
        }
        return at;
}

/* --- given back --- */

void sandbox_checkpoint_give(struct sandbox_checkpoint *checkpoint, int source, uint64_t bytes) {
        close_descriptor(&checkpoint->source);
        checkpoint->source = source;
        checkpoint->left = bytes;
}

bool sandbox_checkpoint_next(struct sandbox_checkpoint *checkpoint, struct strbuf *asked) {
        struct request request = { .type = REQUEST_PIECE };
        char *piece = checkpoint->source >= 0 ? malloc(PIECE) : NULL;
        size_t wanted = checkpoint->left < PIECE ? (size_t)checkpoint->left : PIECE;
        ssize_t count = piece ? read(checkpoint->source, piece, wanted) : -1;

        /* Where the file is shorter than it was, the runtime waits for the rest until its time is over. */
        if (count > 0) {
                request.piece = piece;
                request.piece_length = (size_t)count;
                request_write(&request, asked);
                checkpoint->left -= (uint64_t)count;
        }
        free(piece);
        if (count <= 0 || checkpoint->left == 0)
                close_descriptor(&checkpoint->source);
        return count > 0;
}

bool sandbox_checkpoint_is_under_way(const struct sandbox_checkpoint *checkpoint) {
        return checkpoint->takes || checkpoint->source >= 0;
}

void sandbox_checkpoint_release(struct sandbox_checkpoint *checkpoint) {
        close_descriptor(&checkpoint->file);
        close_descriptor(&checkpoint->source);
        message_reader_release(&checkpoint->reader);
        strbuf_release(&checkpoint->raw);
}
