/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of a checkpoint: what the kernels of a session kept in their variables, each context's for itself. README.md has the
 * form in words: a line that says what it is, and then messages (message.h), each a part:
 *
 *     context, data, data, ..., end     of one that was kept
 *     context                           of one that was not: its reason says why
 *     over
 *
 * Reading does no I/O, and what a context's data mean is for its kernel alone. The file comes out
 * of a sandbox: code there can have written all of it. So parts are bounded, checked and read in
 * their order, and anything else is refused.
 */
#ifndef BERTH_RUNTIME_PROTOCOL_CHECKPOINT_H
#define BERTH_RUNTIME_PROTOCOL_CHECKPOINT_H

#include "runtime/protocol/content.h"

#define CHECKPOINT_LINE "berth checkpoint 1\n"
#define CHECKPOINT_CONTEXTS_MAX 8
#define CHECKPOINT_DATA_MAX ((size_t)1 << 20) /* of one part */
/* A file is at most this much longer than the data in it. */
#define CHECKPOINT_EXTRA_MAX ((int64_t)4 << 20)

enum checkpoint_part_type { CHECKPOINT_CONTEXT, CHECKPOINT_DATA, CHECKPOINT_END, CHECKPOINT_OVER };

/* Everything is borrowed from the message. */
struct checkpoint_part {
        enum checkpoint_part_type type;
        /* context */
        const char *context;
        int64_t generation; /* of the kernel that was kept, or of the last one */
        const char *python; /* "3.11.2"; NULL: nothing was kept, and the next part is another context's */
        int64_t flags;      /* of `from __future__`: bits */
        int64_t kept;       /* how many names */
        const json_t *lost; /* [{name, type, why}] */
        int64_t lost_count; /* those that are not in the list, too */
        const char *reason; /* context: why nothing was kept; end: why it is not whole; or NULL */
        /* data */
        const char *bytes;
        size_t length; /* at least 1 */
        /* end */
        int64_t total;    /* bytes of data */
        int64_t checksum; /* their CRC-32 */
};

/* One part by itself. */
int checkpoint_part_read(const struct message *message, struct checkpoint_part *ret,
                         struct error *err) MUST_USE;
/* Appends it. Aborts on what checkpoint_part_read() would refuse. */
void checkpoint_part_write(const struct checkpoint_part *part, struct strbuf *to);

/* What of a file has come so far; all zero is a new one. */
struct checkpoint_reader {
        size_t line_come;
        struct message_reader messages;
        bool in_context, over;
        char contexts[CHECKPOINT_CONTEXTS_MAX][65];
        size_t context_count;
        int64_t total; /* of data, in this context */
};
void checkpoint_reader_release(struct checkpoint_reader *reader);
#define CHECKPOINT_READER_CLEANUP __attribute__((cleanup(checkpoint_reader_release)))

/* Whether its end is a whole file's end. */
bool checkpoint_reader_is_over(const struct checkpoint_reader *reader);

/*
 * Takes at most what belongs to one part, as message_read() does: MESSAGE_WHOLE gives a part, which lies in *ret_message. No context
 * comes twice, `end` counts its data, and nothing comes after `over`. -1: err, and nothing more can be read.
 */
int checkpoint_read(struct checkpoint_reader *reader, const void *bytes, size_t length, size_t *ret_used,
                    struct message *ret_message, struct checkpoint_part *ret, struct error *err) MUST_USE;

#endif
