/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workspace of a run as its client sees it, before the program and after it: by its folder, where the client placed the run
 * itself, else by asking the worker.
 */
#ifndef BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_WORKSPACE_H
#define BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_WORKSPACE_H

#include "base/error.h"
#include "base/strbuf.h"
#include "process/frame.h"
#include "providers/local/sandbox/sandbox_files.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct sandbox_workspace {
        int folder; /* -1: the worker is asked */
        uid_t uid;  /* the owner of files that are put in by folder */
        gid_t gid;
        struct frame_reader *worker; /* borrowed */
        int patience_ms;             /* for its next word; 0: some minutes */
};

/* `from` is a regular file. Before the program alone. */
int sandbox_workspace_put(const struct sandbox_workspace *workspace, const char *name, bool executable,
                          int from, struct error *err) MUST_USE;
/*
 * While the program runs, of a session's workspace alone. What fails is said and the next one may go well; where the
 * worker is gone, all do.
 */
int sandbox_workspace_replace(const struct sandbox_workspace *workspace, const char *name, bool executable,
                              int from, struct error *err) MUST_USE;
int sandbox_workspace_make_folder(const struct sandbox_workspace *workspace, const char *name,
                                  struct error *err) MUST_USE;
int sandbox_workspace_remove(const struct sandbox_workspace *workspace, const char *name,
                             struct error *err) MUST_USE;
/* Of the next two: 1 where it cannot be read, which is the program's doing; -1 where nothing more can be asked. */
int sandbox_workspace_list(const struct sandbox_workspace *workspace, const char *path,
                           struct strbuf *ret_entries, bool *ret_cut, struct error *err) MUST_USE;

/* A file whose bytes are still to come. All of it must be copied before anything else is asked. */
struct sandbox_content {
        int file; /* -1: the worker sends it */
        struct frame first;
};
#define SANDBOX_CONTENT_NONE \
        { .file = -1 }
int sandbox_workspace_open(const struct sandbox_workspace *workspace, const char *path,
                           struct sandbox_content *ret, struct error *err) MUST_USE;
/* At most `bytes` are written. */
int sandbox_workspace_copy(const struct sandbox_workspace *workspace, struct sandbox_content *content, int to,
                           uint64_t bytes, struct error *err) MUST_USE;
void sandbox_content_release(struct sandbox_content *content);
#define SANDBOX_CONTENT_CLEANUP __attribute__((cleanup(sandbox_content_release)))

#endif
