/* SPDX-License-Identifier: Apache-2.0 */
/*
 * malloc() and the like for libraries that take a program's own: they abort where there is no memory, as Berth does. Most libraries
 * say NULL or false then, which means something else as well ("not JSON", "the signature is wrong"), and some crash.
 */
#ifndef BERTH_BASE_MEMORY_H
#define BERTH_BASE_MEMORY_H

#include <stddef.h>

void *memory_new(size_t size);
void *memory_new_zeroed(size_t count, size_t size);
void *memory_resize(void *memory, size_t size); /* as realloc(): 0 gives it back */
char *memory_copy_text(const char *text);
void memory_free_wiped(void *memory); /* NULL is fine; all of it is overwritten first */

#endif
