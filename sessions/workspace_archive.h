/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of a workspace as a zip (libarchive's), written while they are read: memory for a page of names and one piece of content.
 *
 * What is left out stands in LEFT-OUT.txt at its end, with the reason: files that are larger than may be downloaded, and
 * names that other systems would take for a way out (a backslash parts folders on Windows).
 */
#ifndef BERTH_SESSIONS_WORKSPACE_ARCHIVE_H
#define BERTH_SESSIONS_WORKSPACE_ARCHIVE_H

#include "sessions/workspace.h"

#define WORKSPACE_LEFT_OUT "LEFT-OUT.txt"

struct workspace_archive {
        const char *prefix; /* of paths, as in a list; NULL: all */
        uint64_t file_max;  /* bytes; 0: any */
        uint64_t total_max; /* bytes of all files together; 0: any */
        const struct interrupt *interrupt;
        /* All of it, in order; -1 ends the archive. */
        int (*write)(void *context, const void *bytes, size_t length);
        void *context;
};

/* PROBLEM_STOPPING where `write` failed, or the interrupt was raised. What was written by then is no zip. */
int workspace_archive_write(struct workspace *workspace, const struct workspace_archive *archive,
                            struct problem *problem) MUST_USE;

#endif
