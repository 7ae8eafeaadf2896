/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One stream of a program's output, kept within bounds: the first STREAM_RETURNED_MAX bytes, the count and the SHA-256 of
 * all. Memory does not grow beyond that whatever is printed.
 */
#ifndef BERTH_PROVIDERS_LOCAL_SANDBOX_OUTPUT_H
#define BERTH_PROVIDERS_LOCAL_SANDBOX_OUTPUT_H

#include "base/arena.h"
#include "base/digest.h"
#include "base/strbuf.h"
#include "providers/exec.h"

struct output {
        struct strbuf kept; /* at most STREAM_RETURNED_MAX bytes */
        uint64_t total;     /* bytes that came */
        bool hashed;
        struct digest_stream *digest; /* from the first byte on */
};

/* `hashed`: the SHA-256 is wanted. */
void output_init(struct output *output, bool hashed);
void output_add(struct output *output, const void *bytes, size_t length);
/*
 * The result of a hashed one, with the content in the arena. Ends the stream; it still must be
 * released.
 */
void output_finish(struct output *output, struct arena *arena, struct stream_result *ret);
void output_release(struct output *output); /* also of one that is all zero */
#define OUTPUT_CLEANUP __attribute__((cleanup(output_release)))

#endif
