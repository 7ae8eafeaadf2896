/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's part in a checkpoint: the memory of a session's kernels, from the runtime's messages
 * into a file and back. Its client gives it the file, which the worker could not open by itself,
 * and it has no rights when it reads a sandbox's messages.
 *
 * The file begins with an envelope of SANDBOX_ENVELOPE_SIZE bytes, all of them 0 until everything
 * behind it is on the disk: a file that has one is whole, whichever process died while it was
 * written. The rest is read only by the runtime of that session.
 *
 * While a checkpoint is taken or given back, what others ask of the runtime waits, and of what it says only its words about the
 * checkpoint are taken out: the rest goes on to the client, the same bytes.
 */
#ifndef BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_CHECKPOINT_H
#define BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_CHECKPOINT_H

#include "base/error.h"
#include "base/strbuf.h"
#include "runtime/protocol/message.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SANDBOX_ENVELOPE_SIZE 128
#define SANDBOX_ENVELOPE_ID_MAX 32
/* Beside the data that was asked for a file has lists of names: not more of them than this. */
#define SANDBOX_CHECKPOINT_EXTRA_MAX ((uint64_t)16 << 20)

struct sandbox_envelope {
        char id[SANDBOX_ENVELOPE_ID_MAX + 1]; /* whose it is: letters, digits and dashes */
        int64_t mark;                         /* the last execution that is in it */
        uint64_t bytes;                       /* behind it */
};
void sandbox_envelope_write(const struct sandbox_envelope *envelope, char ret[SANDBOX_ENVELOPE_SIZE]);
/* Of a file's first bytes. ERROR_NOT_FOUND where all are 0: it is not whole. */
int sandbox_envelope_read(const char bytes[SANDBOX_ENVELOPE_SIZE], struct sandbox_envelope *ret,
                          struct error *err) MUST_USE;

/* What PARK and ARM ask for, and their payload: in the machine's order. */
struct sandbox_wish {
        uint64_t bytes_max;
        int64_t time_max_ms;
        char id[SANDBOX_ENVELOPE_ID_MAX + 1];
};

struct sandbox_checkpoint {
        /* Being taken. */
        int file;         /* where it goes; -1: nowhere, since that failed: the rest is thrown away */
        bool takes;       /* the runtime was asked, and has not come to its end */
        int64_t until_ms; /* when it should have */
        struct sandbox_wish wish;
        bool patient; /* what was not taken in time can be taken later: then it is of no use */
        uint64_t bytes;
        struct message_reader reader;
        struct strbuf raw; /* of the message that is being read */
        /* How the last one ended. */
        bool ended, whole;
        char why[256]; /* it is not whole */
        /* Being given back. */
        int source; /* -1: nothing is */
        uint64_t left;
};
#define SANDBOX_CHECKPOINT_NONE \
        { .file = -1, .source = -1 }

/*
 * Begins to take one: the request to the runtime is appended to `asked`. The file is the callee's.
 */
void sandbox_checkpoint_take(struct sandbox_checkpoint *checkpoint, const struct sandbox_wish *wish, int file,
                             int64_t now_ms, struct strbuf *asked);
/*
 * Bytes of the runtime's, from a message's beginning on. Messages that do not belong to the
 * checkpoint are appended to `kept`. When the runtime has come to its end, and the file is on the
 * disk or is of no use, `ended` is set. `mark` is the last execution that it took.
 */
void sandbox_checkpoint_hear(struct sandbox_checkpoint *checkpoint, const char *bytes, size_t length,
                             int64_t mark, struct strbuf *kept);
/* Whether its bytes go there first: since it takes one, or is in the middle of a message. */
bool sandbox_checkpoint_reads(const struct sandbox_checkpoint *checkpoint);
/* How many of these bytes are whole messages. */
size_t sandbox_checkpoint_whole(const char *bytes, size_t length);

/* Begins to give one back. The file, which stands behind its envelope, is the callee's; that it comes was said to the runtime. */
void sandbox_checkpoint_give(struct sandbox_checkpoint *checkpoint, int source, uint64_t bytes);
/* The next piece; false at the end. */
bool sandbox_checkpoint_next(struct sandbox_checkpoint *checkpoint, struct strbuf *asked);

/* Whether what others ask has to wait. */
bool sandbox_checkpoint_is_under_way(const struct sandbox_checkpoint *checkpoint);
void sandbox_checkpoint_release(struct sandbox_checkpoint *checkpoint);

#endif
