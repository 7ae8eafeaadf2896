/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files and folders. */
#ifndef BERTH_BASE_FILES_H
#define BERTH_BASE_FILES_H

#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"

#include <stddef.h>

/* Appends the file's bytes. Refuses more than `limit` bytes, also where the file grows while it is read. ERROR_NOT_FOUND where it does not exist. */
int file_read(const char *path, size_t limit, struct strbuf *ret, struct error *err) MUST_USE;

/* Writes a new file beside `path`, syncs it and renames it over `path`; mode as for open(2). */
int file_write_atomic(const char *path, const void *data, size_t length, unsigned mode,
                      struct error *err) MUST_USE;

/* Makes the folder and its parents, mode 0700 where they are new. */
int folder_make(const char *path, struct error *err) MUST_USE;

/* "folder/name" as new text to be released with free(); an empty or "." folder gives "name". */
char *path_join(const char *folder, const char *name);
/* The same in the arena. */
const char *path_join_in(const char *folder, const char *name, struct arena *arena);

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

/* Leaves -1; one that is negative is nothing to close. */
void close_descriptor(int *descriptor);
#define DESCRIPTOR_CLEANUP __attribute__((cleanup(close_descriptor)))

/* For char * from malloc. */
void free_text(char **text);
#define TEXT_CLEANUP __attribute__((cleanup(free_text)))

#endif
