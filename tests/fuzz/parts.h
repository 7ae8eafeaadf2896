/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What fuzzers share: an input of several parts, and files that are only in memory.
 *
 * Parts are divided by lines that hold PART_MARK and nothing else. Each comes as memory of its own and of exactly its
 * size, so that the address sanitizer sees the first byte that is read beyond it.
 */
#ifndef BERTH_TESTS_FUZZ_PARTS_H
#define BERTH_TESTS_FUZZ_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PART_MARK "%%"

/* What libFuzzer calls, and replay.c. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct parts {
        const uint8_t *at;
        size_t left;
        bool over;
};
struct parts parts_of(const uint8_t *data, size_t size);

/* The next part, to be released with free(); empty after the last. */
char *parts_next(struct parts *parts, size_t *ret_length);
/* The same with a NUL behind it. */
char *parts_next_text(struct parts *parts);

/* Bytes as a file: its path is written into `path`. The descriptor is for the caller to close. */
#define MEMORY_PATH_SIZE 32
int memory_file(const void *bytes, size_t length, char path[MEMORY_PATH_SIZE]);

/* A folder of this process, in memory where there is room for that; removed, with what is in it, when the process ends. */
const char *scratch_folder(void);
/* A folder with what is in it. */
void scratch_remove(const char *path);

#endif
