/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Zeroed blocks, each twice as large as the one before up to a limit; a piece is the next bytes of the newest
 * block. So a piece is zeroed without being wiped, and freeing all of them is a few calls. A piece that needs more
 * than a block gets one of its own size.
 */
#include "base/arena.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Many arenas live for one call only. With its head it is no more than what malloc() keeps at hand for the next one. */
#define FIRST_BLOCK (1024U - (unsigned)sizeof(struct block))
#define LARGEST_BLOCK (1024U * 1024U)
#define KEPT_BLOCK (64U * 1024U) /* by arena_clear(): what costs little to wipe */

struct block {
        struct block *next;
        size_t size; /* of data */
        size_t used;
        alignas(max_align_t) unsigned char data[];
};

struct arena {
        struct block *head;
        size_t total;
        bool wiped; /* before memory is given back */
};

/* Under AddressSanitizer each piece is a block of its own, so that a write beyond it is seen. */
#if defined(__SANITIZE_ADDRESS__)
#define ONE_BLOCK_EACH 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ONE_BLOCK_EACH 1
#endif
#endif
#ifndef ONE_BLOCK_EACH
#define ONE_BLOCK_EACH 0
#endif

/* calloc() takes nothing of what is at hand, and wiping as little as this is quicker. */
static void *zeroed(size_t size) {
        void *memory = size > FIRST_BLOCK + sizeof(struct block) ? calloc(1, size) : malloc(size);

        if (!memory)
                abort();
        if (size <= FIRST_BLOCK + sizeof(struct block))
                memset(memory, 0, size);
        return memory;
}

static struct block *add_block(struct arena *arena, size_t at_least) {
        size_t size = arena->head ? arena->head->size * 2 : FIRST_BLOCK;
        struct block *block;

        if (size > LARGEST_BLOCK)
                size = LARGEST_BLOCK;
        if (size < at_least || ONE_BLOCK_EACH)
                size = at_least;
        block = zeroed(sizeof(*block) + size);
        block->size = size;
        block->next = arena->head;
        arena->head = block;
        arena->total += size;
        return block;
}

struct arena *arena_new(void) {
        return zeroed(sizeof(struct arena));
}

void arena_wipe_when_freed(struct arena *arena) {
        arena->wiped = true;
}

static void free_block(const struct arena *arena, struct block *block) {
        if (arena->wiped)
                explicit_bzero(block->data, block->used);
        free(block);
}

void arena_free(struct arena *arena) {
        struct block *next;

        if (!arena)
                return;
        for (struct block *block = arena->head; block; block = next) {
                next = block->next;
                free_block(arena, block);
        }
        free(arena);
}

void arena_clear(struct arena *arena) {
        struct block *kept = NULL, *next;

        for (struct block *block = arena->head; block; block = next) {
                next = block->next;
                if (!kept && block->size <= KEPT_BLOCK) {
                        kept = block;
                        continue;
                }
                arena->total -= block->size;
                free_block(arena, block);
        }
        if (kept) {
                memset(kept->data, 0, kept->used);
                kept->used = 0;
                kept->next = NULL;
        }
        arena->head = kept;
}

void arena_freep(struct arena **arena) {
        arena_free(*arena);
}

/* Values of the manifests are most of what an arena holds: 8 bytes suit all that Berth stores. */
static size_t aligned(size_t size) {
        if (size > SIZE_MAX / 2)
                abort();
        return (size + 7U) & ~(size_t)7U;
}

void *arena_alloc(struct arena *arena, size_t size) {
        size_t need = aligned(size ? size : 1);
        struct block *block = arena->head;
        void *memory;

        if (!block || block->size - block->used < need)
                block = add_block(arena, need);
        memory = block->data + block->used;
        block->used += need;
        return memory;
}

void *arena_array(struct arena *arena, size_t count, size_t size) {
        size_t total;

        if (__builtin_mul_overflow(count, size, &total))
                abort();
        return arena_alloc(arena, total);
}

char *arena_strndup(struct arena *arena, const char *text, size_t length) {
        char *copy = arena_alloc(arena, length + 1);

        memcpy(copy, text, length);
        return copy;
}

char *arena_strdup(struct arena *arena, const char *text) {
        return text ? arena_strndup(arena, text, strlen(text)) : NULL;
}

/* Into what is left of the block, where it fits as a rule; what did not fit is wiped again. */
char *arena_vprintf(struct arena *arena, const char *format, va_list arguments) {
        struct block *block = arena->head;
        size_t room = block ? block->size - block->used : 0;
        char *text = room > 0 ? (char *)block->data + block->used : NULL;
        va_list again;
        int length;

        va_copy(again, arguments);
        length = vsnprintf(text, room, format, arguments);
        if (length < 0)
                abort();
        if ((size_t)length < room && aligned((size_t)length + 1) <= room) {
                block->used += aligned((size_t)length + 1);
        } else {
                if (text)
                        memset(text, 0, (size_t)length < room ? (size_t)length : room);
                text = arena_alloc(arena, (size_t)length + 1);
                vsnprintf(text, (size_t)length + 1, format, again);
        }
        va_end(again);
        return text;
}

char *arena_printf(struct arena *arena, const char *format, ...) {
        va_list arguments;
        char *text;

        va_start(arguments, format);
        text = arena_vprintf(arena, format, arguments);
        va_end(arguments);
        return text;
}

size_t arena_size(const struct arena *arena) {
        return arena->total;
}
