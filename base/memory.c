/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

/* Memory that could not be had; nothing may be given for nothing. */
static void *checked(void *memory, size_t size) {
        if (!memory && size > 0)
                abort();
        return memory;
}

void *memory_new(size_t size) {
        return checked(malloc(size), size);
}

void *memory_new_zeroed(size_t count, size_t size) {
        return checked(calloc(count, size), count && size ? 1 : 0);
}

void *memory_resize(void *memory, size_t size) {
        return checked(realloc(memory, size), size);
}

char *memory_copy_text(const char *text) {
        return checked(strdup(text), 1);
}

void memory_free_wiped(void *memory) {
        if (memory)
                explicit_bzero(memory, malloc_usable_size(memory));
        free(memory);
}
