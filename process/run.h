/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program run to its end: given its input, bounded in output and time, stopped by an interrupt.
 *
 * Its end is waited for, not its output's: a process that it left behind may hold its pipes
 * forever. Bytes in them when it ends are taken.
 */
#ifndef BERTH_PROCESS_RUN_H
#define BERTH_PROCESS_RUN_H

#include "base/interrupt.h"
#include "base/strbuf.h"
#include "process/process.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RUN_NO_DEADLINE INT64_MAX

enum run_errors {
        RUN_ERRORS_KEPT, /* their end, for messages: run_result.said */
        RUN_ERRORS_DROPPED,
        RUN_ERRORS_INHERITED, /* ours */
        RUN_ERRORS_AS_OUTPUT
};

struct run_args {
        struct process_args process; /* 0, 1 and 2 are this module's to set */
        const void *input;           /* on its standard input, then the end */
        size_t input_length;
        size_t output_max; /* bytes of its standard output */
        bool keep_end;     /* of more than that the end is kept; else it is killed for it */
        /* Gets the output as it comes, which is not kept then. The callee bounds it. */
        void (*take)(void *opaque, const char *bytes, size_t length);
        void *opaque;
        enum run_errors errors;
        int64_t deadline_ms; /* on clock_system's monotonic clock, or RUN_NO_DEADLINE */
        /*
         * NULL: nothing stops it. At INTERRUPT_NOW it is killed; at INTERRUPT_FINISH it gets `ask`, where that is no 0, and is
         * killed `grace_ms` later, unless those are negative.
         */
        const struct interrupt *interrupt;
        int ask;
        int64_t grace_ms;
        /*
         * Not its own end is waited for but that of all processes that hold its output, 30 s at
         * most if it was killed.
         */
        bool wait_for_all;
};

enum run_end {
        RUN_EXITED,     /* `code` is its exit code */
        RUN_SIGNALLED,  /* by another process or a fault: `code` is the signal */
        RUN_LATE,       /* killed at the deadline */
        RUN_TALKATIVE,  /* killed: more output than output_max */
        RUN_INTERRUPTED /* killed */
};

struct run_result {
        enum run_end end;
        int code;
        struct strbuf output;
        struct strbuf said; /* the end of its standard error, one printable line */
        int64_t allowed_ms; /* from the start to the deadline */
        size_t output_max;
};
#define RUN_RESULT_INIT \
        { 0 }

/* -1 where it cannot be started: ERROR_NOT_FOUND where there is no such program. *ret is the caller's to release, whatever is returned. */
int run_to_end(const struct run_args *args, struct run_result *ret, struct error *err) MUST_USE;

/* 0 where it exited with 0; else what it did instead, and what it said, is the error. ERROR_INTERRUPTED where that ended it. */
int run_check(const struct run_result *result, const char *name, struct error *err) MUST_USE;

void run_result_release(struct run_result *result); /* overwrites first: it may hold a secret */
#define RUN_RESULT_CLEANUP __attribute__((cleanup(run_result_release)))

#endif
