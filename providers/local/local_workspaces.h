/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workspaces of sessions on disk, for policies and guards.
 *
 *     {workspaces}/sessions/ID/session.json    {"formatVersion": "1", "stack": NAME, "environment": NAME, "livesUntilMs": MS, ...}
 *     {workspaces}/sessions/ID/workspace/      the session's files: the agent's code writes here what it likes
 *
 * A file's age is counted from its ctime, which a program cannot set as it likes. It can set the mtime, and unpacking an old
 * archive does. As in S3, the date is that of the writing.
 */
#ifndef BERTH_PROVIDERS_LOCAL_LOCAL_WORKSPACES_H
#define BERTH_PROVIDERS_LOCAL_LOCAL_WORKSPACES_H

#include "base/arena.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SESSION_FORMAT "1"
#define SESSIONS_FOLDER "sessions"
#define SESSION_FILE "session.json"
#define SESSION_WORKSPACE "workspace"

struct local_session {
        const char *id;
        const char *environment; /* NULL where not known */
        const char *owner;       /* NULL where not known */
        int64_t lives_until_ms; /* its session lives until then, and its files are not swept; 0: it has ended */
        const char *problem;    /* why nothing can be said about it; NULL: all is well */
};

/*
 * The stack's sessions, sorted by id, and those whose stack cannot be told (`problem` is set).
 * A folder that does not exist holds none.
 */
int local_sessions_list(const char *workspaces, const char *stack, struct arena *arena,
                        struct local_session **ret, size_t *ret_count, struct error *err) MUST_USE;

/* Files with a ctime, in milliseconds since 1970, after the first and at or before the second. */
struct workspace_span {
        int64_t after_ms;
        int64_t until_ms;
};

struct workspace_tally {
        uint64_t files; /* whatever is no folder */
        uint64_t bytes;
        int64_t oldest_ms;         /* meaningful where files > 0 */
        uint64_t problems;         /* what could not be read or removed */
        const char *first_problem; /* in the arena */
};

/* Adds a tally to the total, which may be all zero. */
void local_tally_add(struct workspace_tally *total, const struct workspace_tally *tally);

/*
 * Counts the files of a session's workspace that lie in the span. With `remove`, also removes them
 * under its lock, and the folders that are empty after it or have been empty since before the
 * span's end. Whatever links and mounts the workspace holds, nothing outside of it is touched. A
 * file that cannot be read or removed is counted and does not stop the rest.
 */
int local_workspace_expire(const char *workspaces, const char *id, struct workspace_span span, bool remove,
                           struct arena *arena, struct workspace_tally *ret, struct error *err) MUST_USE;

/* Removes the session with everything in it. */
int local_session_remove(const char *workspaces, const char *id, struct error *err) MUST_USE;

#endif
