/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program run to its end: given bytes, bounded in output and time. It gets the arguments, the environment and the three
 * standard descriptors, nothing else; as the first of a process group of its own where asked, which is then killed whole.
 */
#ifndef BERTH_GITOPS_GIT_CHILD_H
#define BERTH_GITOPS_GIT_CHILD_H

#include "base/error.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct child_args {
        const char *const *arguments; /* the first is a path, or a name looked for in this process's PATH */
        const char *const *environment;
        const void *input; /* on its standard input, then the end */
        size_t input_length;
        size_t output_max; /* of its standard output */
        bool quiet;        /* its standard error leads nowhere; else it is inherited */
        bool own_group;
        int64_t deadline_ms; /* on clock_system's monotonic clock */
        bool interruptible;  /* killed on the second interrupt, and `grace_ms` after the first */
        int64_t grace_ms;
};

enum child_end {
        CHILD_EXITED,      /* `code` is its exit code */
        CHILD_KILLED,      /* by somebody else or a fault: `code` is the signal */
        CHILD_LATE,        /* by us, at the deadline */
        CHILD_TALKATIVE,   /* by us: more output than output_max */
        CHILD_INTERRUPTED, /* by us */
        CHILD_ABSENT       /* there is no such program */
};

struct child_result {
        enum child_end end;
        int code;
        struct strbuf output;
};

/* -1 only where no process can be started at all. ret->output is the caller's to release, whatever is returned. */
int child_run(const struct child_args *args, struct child_result *ret, struct error *err) MUST_USE;

#endif
