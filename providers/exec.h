/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code that is run in a fresh sandbox of an environment that was applied: what is asked for, and what came of it.
 *
 * struct provider_ops has the function. It succeeds whatever the program did, and fails where it could not be run at all.
 *
 *     ahead = ops->exec_ahead(arena)     // optional: before anything that takes time and may fail, manifests above all
 *     ops->exec(provider, &request, ...) // with request.ahead
 *     ops->exec_ahead_end(ahead)         // always
 */
#ifndef BERTH_PROVIDERS_EXEC_H
#define BERTH_PROVIDERS_EXEC_H

#include "base/interrupt.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One stream of a run's output, as it is returned: the whole or its beginning, and always what the whole was. */
struct stream_result {
        uint64_t bytes_total;
        size_t bytes_returned; /* at most STREAM_RETURNED_MAX */
        bool truncated;
        bool utf8;           /* content is valid UTF-8 (it may hold NUL) and ends on a whole character */
        char sha256[65];     /* of all bytes_total bytes */
        const char *content; /* bytes_returned bytes */
};
#define STREAM_RETURNED_MAX ((size_t)1048576)

enum exec_reason { EXEC_EXITED, EXEC_DEADLINE, EXEC_MEMORY, EXEC_INTERRUPTED };

struct exec_file {
        const char *name; /* in the workspace, relative */
        const char *path; /* on this machine */
};

struct exec_request {
        const char *environment;
        const char *agent;     /* on whose behalf, whose limits hold; or NULL */
        const char *language;  /* "python", "sh" or "bash" */
        const char *code_name; /* what tracebacks call it: "main.py" */
        const void *code;
        size_t code_length;
        const char *const *arguments; /* after the code's name */
        size_t argument_count;
        const struct exec_file *files; /* put into the workspace before it starts */
        size_t file_count;
        const char *out; /* folder for what the run leaves in the workspace, or NULL: new or empty, unless */
        bool out_over;   /* what is there may be replaced */
        bool out_dot;    /* names that begin with a dot, and HEAD, are brought back too */
        bool out_exec;   /* the right to execute is */
        int64_t deadline_ms; /* 0: the environment's own, which is also the most */
        bool accept_degraded;
        const struct interrupt *interrupt; /* ends the run; or NULL */
        const char *launcher;              /* a `berth launcher`'s socket: it makes the sandbox; or NULL */
        struct exec_ahead *ahead;          /* what was started for it, or NULL; of no use afterwards */
        bool capture;                      /* fill in the result's streams */
        int input;                         /* what the program reads: a descriptor, or -1 for nothing */
        int output, errors; /* where its output goes as it comes: descriptors, or -1 for nowhere */
};

struct exec_left {
        const char *name;   /* in the workspace; bytes that are not UTF-8 escaped as \xNN */
        uint64_t bytes;     /* of a regular file */
        const char *reason; /* why it was not brought back, or NULL: it was */
};

struct exec_result {
        int exit_code;
        enum exec_reason reason;
        struct stream_result output, errors; /* where `capture` was set */
        const struct exec_left *files;       /* where `out` was set */
        size_t file_count;
        int64_t wall_ms, cpu_ms;
        uint64_t peak_memory_bytes;
        struct exec_limits {
                int64_t memory_mb, cpu_millis, processes, workspace_mb, files, timeout_seconds;
        } limits;
        /* Hosts that it reached, or was refused; NULL: it had no way out. */
        const struct exec_reached {
                const char *host; /* NULL: none was named, or there were too many for a line each */
                unsigned port;
                const char *outcome; /* NULL: it was reached; else why not */
                uint64_t connections, sent_bytes, received_bytes;
        } * reached;
        size_t reached_count;
        const char *const *degraded; /* what this host could not enforce, one line each */
        size_t degraded_count;
        const char *const *elsewhere; /* names of those whose texts are kept in AWS, and are not fetched */
        size_t elsewhere_count;
        const char *const *withheld; /* names of the environment's variables that code never gets */
        size_t withheld_count;
};

/* The result as docs/json.md says; a new reference. For a run whose request had `capture` set. */
json_t *exec_result_json(const struct exec_result *result);

#endif
