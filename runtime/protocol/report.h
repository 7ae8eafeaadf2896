/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message from the runtime to its caller. It comes out of a sandbox: code there can have taken
 * the runtime over, so a report is no more than what that session claims. report_read() bounds and
 * checks each by itself; that the order is right (output belongs to the execution that runs, one
 * `done` for each) is for the caller, by `n`.
 */
#ifndef BERTH_RUNTIME_PROTOCOL_REPORT_H
#define BERTH_RUNTIME_PROTOCOL_REPORT_H

#include "runtime/protocol/content.h"

#define REPORT_PROTOCOL 1
#define REPORT_CONTEXTS_MAX 8

enum report_type {
        REPORT_HELLO,
        REPORT_STARTED,
        REPORT_OUTPUT,
        REPORT_DISPLAY,
        REPORT_DONE,
        REPORT_PREPARED,
        REPORT_RESTARTED,
        REPORT_STATUS,
        REPORT_REFUSED,
        REPORT_PIECE,
        REPORT_CHECKPOINTED,
        REPORT_RESTORED
};
enum report_status {
        REPORT_OK,
        REPORT_ERROR,
        REPORT_TIMEOUT,
        REPORT_MEMORY,
        REPORT_INTERRUPTED,
        REPORT_KILLED,
        REPORT_FAILED
};
enum report_was { REPORT_NEW, REPORT_KEPT, REPORT_WAS_RESTORED, REPORT_LOST };

/* Everything is borrowed from the message. */
struct report {
        enum report_type type;
        int64_t n;           /* started, output, display, done; refused, where it was an execution, else 0 */
        int64_t protocol;    /* hello */
        const char *version; /* hello: of the runtime */
        const char *context; /* started, prepared, restarted */
        /* started, of Python: which kernel it got. 0: sh, which has none */
        int64_t generation; /* prepared too */
        enum report_was was;
        /*
         * started: why it was lost, or a remark on its state, or NULL; refused: why; checkpointed,
         * restored: why nothing could be done at all, or NULL.
         */
        const char *reason;
        const json_t *restored,
                *lost; /* started: [name], [{name, type, why}]; NULL where nothing was restored */
        /* output; piece: of the checkpoint's file, in its order */
        bool is_stderr; /* output */
        const char *bytes;
        size_t length;
        /* display */
        bool is_main;
        const char *file; /* where it lies below the working folder, or NULL */
        struct content_display display;
        /* done */
        enum report_status status;
        int64_t exit_code; /* -1: nothing ended by itself */
        struct content_value value;
        struct content_error error;
        const char *ended;  /* why the kernel does not live any more, or NULL */
        const char *detail; /* for people, or NULL */
        int64_t wall_ms;
        int64_t stdout_bytes, stderr_bytes; /* as many as were sent */
        int64_t displays_dropped;
        int64_t left; /* done, status: processes that executions have left behind and that live */
        /* prepared */
        const char *python;    /* "3.11.2" */
        const json_t *missing; /* modules that could not be imported: [{module, reason}] */
        /*
         * status: contexts whose kernel lives: [{context, generation}]. checkpointed, restored: what became of each:
         * [{context, generation, kept, lost, reason}], where `kept` and `lost` count names, and a reason that is no null says that
         * nothing of it was kept.
         */
        const json_t *contexts;
        int64_t total; /* checkpointed: bytes of the file, as many as were sent */
        bool is_late; /* checkpointed: of a kernel that lives nothing was kept, since there was not time enough */
};
int report_read(const struct message *message, struct report *ret, struct error *err) MUST_USE;

/* Appends it to what goes out. Texts are cut to their bounds; aborts on what is not there. */
void report_write(const struct report *report, struct strbuf *to);

const char *report_status_name(enum report_status status);

#endif
