/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request to the runtime: messages of its caller, who lives outside of the sandbox. It is trusted
 * more than what runs inside, and checked nevertheless. README.md has the messages in words.
 */
#ifndef BERTH_RUNTIME_PROTOCOL_REQUEST_H
#define BERTH_RUNTIME_PROTOCOL_REQUEST_H

#include "runtime/protocol/content.h"

#define REQUEST_VARIABLES_MAX 256
#define REQUEST_VARIABLES_BYTES_MAX ((size_t)65536) /* names and values, together */
#define REQUEST_TIMEOUT_MS_MAX ((int64_t)24 * 3600 * 1000)
#define REQUEST_MODULES_MAX 64
#define REQUEST_CONTEXTS_MAX 8
#define REQUEST_ARGUMENTS_MAX 1024
#define REQUEST_ARGUMENTS_BYTES_MAX ((size_t)262144) /* with the end of each; one alone has at most 131071 */
#define REQUEST_ARGUMENT_MAX ((size_t)131071)

/* Of data in a checkpoint, and of its file: what comes beside the data is bounded by CHECKPOINT_EXTRA_MAX (checkpoint.h). */
#define REQUEST_CHECKPOINT_BYTES_MAX ((int64_t)1 << 32)

enum request_type {
        REQUEST_EXECUTE,
        REQUEST_PREPARE,
        REQUEST_INTERRUPT,
        REQUEST_RESTART,
        REQUEST_STATUS,
        REQUEST_CHECKPOINT,
        REQUEST_RESTORE,
        REQUEST_PIECE,
        REQUEST_RUN,
        REQUEST_END /* kernels end as Python does, and the runtime with them */
};
enum request_language { REQUEST_PYTHON, REQUEST_SHELL, REQUEST_BASH };

/* Everything is borrowed from the message. */
struct request {
        enum request_type type;
        int64_t n;           /* of the execution, or of the command; execute, interrupt, run */
        const char *context; /* execute, prepare, restart */
        /* execute */
        enum request_language language;
        int64_t timeout_ms;      /* 0: none */
        const json_t *variables; /* NULL, or an object of texts; run has them too */
        const char *code;
        size_t code_length;
        const char *input; /* NULL: no standard input */
        size_t input_length;
        /* run */
        const json_t *arguments; /* a list of texts: the program, and what it is given */
        /* prepare */
        const json_t *modules; /* NULL, or a list of texts */
        /* checkpoint, restore */
        int64_t bytes;  /* checkpoint: of data at most; restore: of the file, which comes in pieces */
        int64_t max_ms; /* 1 and more */
        /* restore */
        const json_t *contexts; /* NULL, or what the file should bring back: [{context, generation}] */
        const char *reason;     /* why there is no file, where `bytes` is 0; or NULL */
        /* piece: of the file, in its order; at least one byte */
        const char *piece;
        size_t piece_length;
};

/* The language that has the name ("python", "sh", "bash"), or -1. */
int request_language(const char *name);
const char *request_language_name(enum request_language language);
int request_read(const struct message *message, struct request *ret, struct error *err) MUST_USE;

/* A session's contexts, as its record has them: [{context, generation}], each once, with a generation that was. */
bool request_is_contexts(const json_t *list);

/* What can be run: a list of texts without NUL, the first of which is not empty. */
bool request_is_arguments(const json_t *list);

/* For the caller's side. Aborts on what request_read() would refuse. */
void request_write(const struct request *request, struct strbuf *to);

#endif
