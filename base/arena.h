/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for the data of one pass: allocated piece by piece, released as a whole.
 *
 * Running out of memory aborts the process; whatever Berth does is safe to be killed at any point.
 * An arena belongs to one thread at a time.
 */
#ifndef BERTH_BASE_ARENA_H
#define BERTH_BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>

struct arena;

struct arena *arena_new(void);
void arena_free(struct arena *arena); /* NULL is fine */
/* From now on whatever it held is overwritten before its memory is given back: copies of secrets do not stay behind. */
void arena_wipe_when_freed(struct arena *arena);
/* Forgets everything allocated so far, and keeps a little of the memory for what comes next. */
void arena_clear(struct arena *arena);

/* Zeroed, aligned for any type, never NULL. */
void *arena_alloc(struct arena *arena, size_t size);
/* The same for `count` items of `size` bytes; aborts where the product overflows. */
void *arena_array(struct arena *arena, size_t count, size_t size);

char *arena_strdup(struct arena *arena, const char *text);                 /* NULL gives NULL */
char *arena_strndup(struct arena *arena, const char *text, size_t length); /* bytes may include NUL */
char *arena_printf(struct arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* `arguments` is used up. */
char *arena_vprintf(struct arena *arena, const char *format, va_list arguments)
        __attribute__((format(printf, 2, 0)));

/* Bytes taken from the system so far, for benchmarks and tests. */
size_t arena_size(const struct arena *arena);

void arena_freep(struct arena **arena);
#define ARENA_CLEANUP __attribute__((cleanup(arena_freep)))

#endif
