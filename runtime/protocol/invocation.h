/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One invocation of the runtime on Lambda, for both sides: the event, which Berth writes and the runtime reads, and the last message of
 * the answer, which says what the environment was. README.md tells both in words ("The door on Lambda").
 *
 * The event is JSON, since Lambda takes nothing else. A caller that may invoke the function may
 * send any event: it is bounded and checked. The answer comes out of a sandbox and may have been
 * made by the code that ran there: messages that report_read() reads, and these two, which are
 * checked here.
 */
#ifndef BERTH_RUNTIME_PROTOCOL_INVOCATION_H
#define BERTH_RUNTIME_PROTOCOL_INVOCATION_H

#include "runtime/protocol/report.h"
#include "runtime/protocol/request.h"

#define INVOCATION_VERSION 1
/* What Lambda takes as the payload of an Invoke; as a buffered answer (6 MiB and 100 bytes). */
#define INVOCATION_EVENT_MAX ((size_t)6291456)
#define INVOCATION_ANSWER_MAX ((size_t)6291556)
/* Behind its start and its time an event is late, and is not run. */
#define INVOCATION_LATE_MS 60000
/* So far ahead of the runtime's clock its start may be. */
#define INVOCATION_AHEAD_MS 300000
#define INVOCATION_SESSION_MAX 256 /* as Lambda's tenant ids */
#define INVOCATION_BOOT_SIZE 33    /* 32 digits of hex, and the NUL */
/* Messages of an answer together, at most: as many as an event may ask for, and as fit into a buffered answer, in base64. */
#define INVOCATION_STREAM_BYTES_MAX ((int64_t)100 << 20)
#define INVOCATION_BUFFERED_BYTES_MAX \
        ((int64_t)13 << 18) /* 3.25 MiB: the start and the end of both streams */
/*
 * Of each stream of an execution: bytes from its start that are sent as they come, and bytes before its end that follow when it has
 * ended. Clients get no more (ENGINE_STREAM_MAX), and what is between them is counted: Lambda streams 6 MiB at full pace, and each
 * second more is paid for.
 */
#define INVOCATION_HEAD_BYTES ((size_t)1 << 20)
#define INVOCATION_TAIL_BYTES (INVOCATION_HEAD_BYTES / 2)
/*
 * The size of all of transfer/N/result: the answer's messages, with a bounded part of output and
 * displays. A policy for transfers has to let it pass.
 */
#define INVOCATION_RESULT_BYTES_MAX ((int64_t)8 << 20)
#define INVOCATION_RESULT_MAX ((size_t)24 << 20)
/* A checkpoint, where the event says nothing else: of data at most, in at most. Its file has up to 4 MiB besides. */
#define INVOCATION_CHECKPOINT_BYTES ((int64_t)8 << 20)
#define INVOCATION_CHECKPOINT_MS 500
/* The interval at which a running execution looks whether it must be interrupted. */
#define INVOCATION_INTERRUPT_MS 2000
/* What became of files: messages of `skipped` at most, and their bytes; bytes of all others, in one answer. */
#define INVOCATION_SKIPPED_MAX 1000
#define INVOCATION_SKIPPED_BYTES_MAX ((size_t)256 << 10)
#define INVOCATION_FILES_BYTES_MAX ((size_t)12 << 20)
#define INVOCATION_FILES_MAX 20000 /* in one event, or in the list that it points to */
#define INVOCATION_PATH_MAX 1024   /* of a file: bytes */
#define INVOCATION_URL_MAX 8192
#define INVOCATION_FIELDS_MAX 32

enum invocation_answer {
        INVOCATION_STREAM,  /* the messages as they come: InvokeWithResponseStream */
        INVOCATION_BUFFERED /* {berth: 1, messages: BASE64}, when all is over: Invoke */
};

struct invocation {
        const char *
                session; /* [a-zA-Z0-9._:/=+\-@ ]{1,256}: also the invocation's tenant, where the function has tenants */
        int64_t n;          /* of the execution, 1 and more: of what is no execution, of the last one */
        int64_t started_ms; /* when it was sent, by AWS's clock: since 1970 */
        int64_t timeout_ms; /* how long it may take from then on: 1 to REQUEST_TIMEOUT_MS_MAX */
        enum invocation_answer answer;
        int64_t answer_bytes; /* of output and displays in the answer at most; 0: as many as may be */
        bool shared;          /* in an environment that other sessions use too */
        /* The last execution of the session that may have begun, and where it did; 0: none */
        int64_t previous_n;
        const char *previous_boot; /* NULL: that is not known */
        const json_t *contexts;    /* NULL, or those with a kernel: [{context, generation}] */
        struct request request;    /* execute, prepare, restart or status; of an execution `n` is the same */
        /*
         * NULL, or the object in which an execution's code and standard input lie, {bytes, sha256,
         * get}: the request has neither until invocation_take_body(). The number of its last bytes
         * that are the input; -1: none
         */
        const json_t *body;
        int64_t body_input;
        /*
         * NULL, or as README.md tells them: checked here for their form, addresses and paths. `more` is what stands in the object that
         * `workspace` points to where there are too many files.
         */
        const json_t *workspace, *transfer, *interrupt;
        /* The checkpoint to begin with where kernels are not here any more: {bytes, sha256, get}. */
        const json_t *restore;
        /* the reason of a missing one, although `contexts` had kernels; or NULL */
        const char *restore_lacks;
        /* take a checkpoint: of at most this much data, within this time; 0: none */
        int64_t take_bytes, take_ms;

        json_t *event;       /* what all of it is borrowed from; owned. NULL for one that is written */
        struct strbuf input; /* standard input, decoded; or the body */
};
#define INVOCATION_INIT \
        { 0 }
void invocation_release(struct invocation *invocation); /* also of one that is all zero */
#define INVOCATION_CLEANUP __attribute__((cleanup(invocation_release)))

int invocation_read(const char *event, size_t length, struct invocation *ret, struct error *err) MUST_USE;
/* Code and input of an event that points to them: `bytes` is the object's, and empty afterwards. */
int invocation_take_body(struct invocation *invocation, struct strbuf *bytes, struct error *err) MUST_USE;
/*
 * Appends the event, without the request's code and input where it has a body. -1 where it is longer than an event may be, or its code is
 * no UTF-8; aborts on what else invocation_read() would refuse.
 */
int invocation_write(const struct invocation *invocation, struct strbuf *to, struct error *err) MUST_USE;

/* After this (since 1970, by AWS's clock) nothing of it runs that did not run before. */
int64_t invocation_deadline_ms(const struct invocation *invocation);

/* Whether it is a path of a workspace: relative, UTF-8, no part of it empty, "." or "..", at most INVOCATION_PATH_MAX. */
bool invocation_is_path(const char *path);
/* Whether it is an address that may be asked: https, or http on this machine. */
bool invocation_is_url(const char *url);

/* --- what only an answer from Lambda has --- */

/* A new reference: null for NULL; a text cut to `most` bytes, where a character ends, and without what is no UTF-8. */
json_t *invocation_text(const char *text, size_t most);

enum invocation_said {
        INVOCATION_REPORT, /* a message of protocol 1: for report_read() */
        INVOCATION_FILE,
        INVOCATION_END
};
enum invocation_said invocation_said(const struct message *message);

/* What became of a file of the workspace. */
enum invocation_file_fate {
        INVOCATION_CHANGED, /* made or written: it lies in the bucket now */
        /* by the code: it still lies in the bucket, and the reader of this deletes it there */
        INVOCATION_DELETED,
        INVOCATION_GONE,   /* it was not in the bucket any more when it was fetched */
        INVOCATION_SKIPPED /* `reason`: it stays in the environment */
};
/* Borrowed from the message. */
struct invocation_file {
        enum invocation_file_fate fate;
        const char *path; /* invocation_is_path(); of what is skipped any text */
        uint64_t bytes;
        const char *sha256; /* in hex; changed ones have it, else NULL */
        const char *reason; /* or NULL */
};
int invocation_file_read(const struct message *message, struct invocation_file *ret,
                         struct error *err) MUST_USE;
void invocation_file_write(const struct invocation_file *file, struct strbuf *to);

enum invocation_was {
        INVOCATION_NEW,  /* nothing was here before */
        INVOCATION_KEPT, /* the session's, as its last execution had left it */
        INVOCATION_RESET, /* the environment's, but Lambda has started the runtime again: files are here, processes are not */
        INVOCATION_STALE,  /* the session's, but its last execution was elsewhere: processes were ended */
        INVOCATION_CLEANED /* another session's: processes were ended, and files removed */
};
enum invocation_refusal {
        INVOCATION_TAKEN, /* it was not refused */
        INVOCATION_LATE,
        INVOCATION_REPEATED, /* it began here before: the answer has what is known of it */
        INVOCATION_FOREIGN, /* the environment is another session's, or is not known to be one session's alone */
        INVOCATION_UNCLEAN, /* the session before could not be cleaned away */
        INVOCATION_FAILED   /* what it takes could not be had: its files, its checkpoint, memory, a process */
};

/* What became of the checkpoint that the event named. */
enum invocation_restore {
        INVOCATION_UNNAMED,  /* it named none */
        INVOCATION_UNNEEDED, /* the session's kernels are here: it was not fetched */
        INVOCATION_LOADED,   /* into new kernels: what each got of it stands in their `started` */
        INVOCATION_UNUSABLE /* `reason`: it is gone, has another digest, or cannot be read. The kernels are lost */
};

/* Borrowed from the message. */
struct invocation_end {
        int64_t n;                       /* of the event */
        char boot[INVOCATION_BOOT_SIZE]; /* names the environment */
        int64_t starts;                  /* how often the runtime was started in it: 1 and more */
        int64_t served;                  /* events since the last start, with this one: 1 and more */
        enum invocation_was was;
        enum invocation_refusal refusal; /* but for INVOCATION_TAKEN nothing of it ran, now */
        const char *reason;              /* of the refusal, or a remark; or NULL */
        /* since the answer before; how long of that the environment was frozen */
        int64_t idle_ms, frozen_ms;
        int64_t cut_bytes;         /* of output and displays that did not fit into the answer */
        int64_t cpu_ms;            /* of this invocation, all processes */
        int64_t peak_memory_bytes; /* of its processes that live at its end; 0: not known */
        /*
         * The checkpoint: where one was taken and lies under transfer/N/checkpoint, its size and
         * SHA-256 in hex, and how long it took to take it and bring it there. Without one, the one
         * before is the session's still.
         */
        int64_t checkpoint_bytes, checkpoint_ms; /* 0: none */
        const char *checkpoint_sha256;           /* NULL: none */
        const json_t *checkpoint_contexts;       /* as in REPORT_CHECKPOINTED, or NULL */
        const char *checkpoint_reason;           /* the reason of a missing one, or NULL */
        enum invocation_restore restore;
        int64_t restore_ms;
        const char *restore_reason; /* of what is unusable, or NULL */
        /* Files: whether all that had changed was told before and lies in the bucket; how long it took to bring them in and out. */
        bool files_complete;
        const char *files_reason; /* why not, or NULL */
        /*
         * So many are not told in these messages, since an answer has no room for them: of those that are changed, deleted or gone, and of
         * skipped ones. Under transfer/N/result are more of the first, and all of them where `files_complete` is true there.
         */
        int64_t files_left_out, skipped_left_out;
        int64_t files_in_ms, files_out_ms;
        bool left_result; /* the answer lies under transfer/N/result too */
};
int invocation_end_read(const struct message *message, struct invocation_end *ret,
                        struct error *err) MUST_USE;
void invocation_end_write(const struct invocation_end *end, struct strbuf *to);

const char *invocation_was_name(enum invocation_was was);
const char *invocation_refusal_name(enum invocation_refusal refusal);
const char *invocation_restore_name(enum invocation_restore restore);

#endif
