/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files and folders. */
#ifndef BERTH_BASE_FILES_H
#define BERTH_BASE_FILES_H

#include "base/arena.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* Appends the file's bytes. Refuses more than `limit` bytes, also where the file grows while it is read. ERROR_NOT_FOUND where it does not exist. */
int file_read(const char *path, size_t limit, struct strbuf *ret, struct error *err) MUST_USE;

/*
 * -1 if all users of this machine may read or write the file, with the command that ends it. A
 * group may: that is how a service's user is given a secret. A missing file is fine: its reader
 * reports it.
 */
int file_check_private(const char *path, struct error *err) MUST_USE;

/*
 * Replaces the file at `path`, or makes it: whole or not at all, even beside other writers, and
 * durable against power failure once 0 was returned. Mode as for open(2).
 */
int file_write_atomic(const char *path, const void *data, size_t length, unsigned mode,
                      struct error *err) MUST_USE;

/* The same for what is written bit by bit: begin, write to `descriptor`, finish; closed without finishing it leaves nothing. */
struct file_replacement {
        int descriptor;
        char *path, *temporary; /* owned */
};
#define FILE_REPLACEMENT_INIT \
        { .descriptor = -1 }
int file_replace_begin(const char *path, unsigned mode, struct file_replacement *ret,
                       struct error *err) MUST_USE;
int file_replace_finish(struct file_replacement *replacement, struct error *err) MUST_USE;
void file_replace_close(struct file_replacement *replacement);
#define FILE_REPLACEMENT_CLEANUP __attribute__((cleanup(file_replace_close)))

/* Whether a file of this name, in its folder, is what another process left of a replacement when it died. */
bool file_is_leftover(const char *name);

/* Renames what has been synced already, within one file system, and makes the new name last. */
int path_move(const char *from, const char *to, struct error *err) MUST_USE;
/* Makes the names in the folder, "" for this one, last. ERROR_NOT_FOUND where there is no such folder. */
int folder_sync(const char *path, struct error *err) MUST_USE;

/* Makes the folder and its parents, mode 0700 where they are new. */
int folder_make(const char *path, struct error *err) MUST_USE;

/* "folder/name" as new text to be released with free(); an empty or "." folder gives "name". */
char *path_join(const char *folder, const char *name);
/* The same in the arena. */
const char *path_join_in(const char *folder, const char *name, struct arena *arena);
/*
 * The part before the last slash; "" if there is no slash, "/" for a file in the root. In the
 * arena.
 */
const char *path_folder(const char *path, struct arena *arena);

/*
 * Whether the file that is open is still the one of that name: 1; 0 where there is another or none; -1 with errno where that
 * cannot be known.
 */
int descriptor_is_at(int descriptor, const char *path) MUST_USE;

/*
 * Appends all that is left to read, in as few pieces as the file's size allows. 0; 1 where that is more than `limit` bytes,
 * of which no more than one is read; -1 with errno.
 */
int descriptor_read(int descriptor, size_t limit, struct strbuf *ret) MUST_USE;
/* Writes all of it, however many calls that takes. -1 with errno. */
int descriptor_write(int descriptor, const void *data, size_t length) MUST_USE;

/*
 * Waits until the lock of the whole file (flock(2)) is ours alone, or `interrupt`, which may be NULL, is raised: -1 with EINTR. By
 * itself flock(2) goes on waiting after a signal whose handler has SA_RESTART.
 */
int descriptor_lock(int descriptor, const struct interrupt *interrupt) MUST_USE;
/* Writes all of it. At the end of a regular file many zeros become a hole, which takes no room. -1 with errno. */
int descriptor_append(int descriptor, const void *bytes, size_t length) MUST_USE;
/* Copies at most `limit` bytes, whatever the first one grows to meanwhile, as descriptor_append() writes them. -1 with errno. */
int descriptor_copy(int from, int to, uint64_t limit) MUST_USE;

/* Since 1970; where that does not fit into the number, the nearest that does. */
int64_t nanoseconds_of(struct timespec time);

/* Leaves -1; one that is negative is nothing to close. */
void close_descriptor(int *descriptor);
#define DESCRIPTOR_CLEANUP __attribute__((cleanup(close_descriptor)))

/*
 * This process, and those that it starts, may have this many descriptors, or as many as the system
 * allows it.
 */
void descriptors_allow(unsigned long most);
/* The same, and an error where the system allows fewer than `least`. */
int descriptors_need(unsigned long least, unsigned long most, struct error *err) MUST_USE;

/* For char * from malloc. */
void free_text(char **text);
#define TEXT_CLEANUP __attribute__((cleanup(free_text)))

#endif
