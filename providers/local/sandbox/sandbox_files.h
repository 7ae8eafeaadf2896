/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A workspace's files by the descriptor of its folder. Names may be hostile, and so may what lies there: nothing here follows a
 * link, leaves the folder, or opens anything but regular files and folders. Paths may be longer than the kernel takes at once.
 */
#ifndef BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_FILES_H
#define BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_FILES_H

#include "base/error.h"
#include "base/strbuf.h"
#include "process/frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Bytes of one folder's list, about: enough for the most files that a workspace may hold, if they are not named to do harm. */
#define SANDBOX_LIST_MAX ((size_t)32 << 20)

/*
 * A new file, open for writing; folders on the way are made. Files and folders that are made belong
 * to that user.
 */
int sandbox_files_create(int folder, const char *name, bool executable, uid_t uid, gid_t gid,
                         struct error *err) MUST_USE;
/* The message for a file that could not be written, by errno. Always -1. */
int sandbox_files_explain(const char *name, struct error *err) MUST_USE;
/* The same with the bytes of `from`, a regular file; where they do not fit, nothing is there. */
int sandbox_files_put(int folder, const char *name, bool executable, int from, uid_t uid, gid_t gid,
                      struct error *err) MUST_USE;

/* One name of a folder; `mode` has the type and the owner's right to execute. */
struct sandbox_entry {
        const char *name; /* lies where it was read */
        mode_t mode;
        uint64_t bytes, inode;
        int64_t written_ns, changed_ns;
};
/*
 * Of the folder at `path`, "" for the workspace itself: entries as NUL-ended words, at most `bytes_max` bytes of them (*ret_cut
 * where there are more). -1 where it cannot be read.
 */
int sandbox_files_list(int folder, const char *path, size_t bytes_max, struct strbuf *ret,
                       bool *ret_cut) MUST_USE;
/* So many bytes from `at` on are whole words, and fit into a frame. */
size_t sandbox_files_piece(const struct strbuf *words, size_t at);
/* One word of it; -1 if it is invalid. */
int sandbox_entry_read(const char *word, struct sandbox_entry *ret) MUST_USE;

/* Of the next three: what is there belongs to a program that may run meanwhile, and change it under our hands. */
/* The same as sandbox_files_put(), where a file may be already. */
int sandbox_files_replace(int folder, const char *name, bool executable, int from, uid_t uid, gid_t gid,
                          struct error *err) MUST_USE;
int sandbox_files_make_folder(int folder, const char *name, uid_t uid, gid_t gid, struct error *err) MUST_USE;
/* A file, or a folder that is empty. A name that does not exist counts as removed. */
int sandbox_files_remove(int folder, const char *name, struct error *err) MUST_USE;

/* A regular file, open for reading; -1 if it is not a regular file, or cannot be read. */
int sandbox_files_open(int folder, const char *path) MUST_USE;

/*
 * The worker's side, after the end: LIST and READ are answered until the client closes, or says nothing for a minute. Whether it
 * said TAKEN.
 */
bool sandbox_files_serve(int folder, struct frame_reader *client);
/* Before it: one PUT, answered. */
int sandbox_files_receive(int folder, int client, struct frame *frame, struct error *err) MUST_USE;

#endif
