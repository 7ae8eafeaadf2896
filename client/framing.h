/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages as lines, taken apart as they come, in pieces of any length. Lines end with LF, or CRLF;
 * empty ones are skipped; one that is too long is told as such, and the next one is read again.
 * Pure.
 */
#ifndef BERTH_CLIENT_FRAMING_H
#define BERTH_CLIENT_FRAMING_H

#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>

#define FRAMING_LINE_MAX ((size_t)32 << 20)

struct framing {
        struct strbuf line;
        bool skipping;
};
#define FRAMING_INIT                                 \
        {                                            \
                .line = {.limit = FRAMING_LINE_MAX } \
        }
void framing_release(struct framing *framing);
#define FRAMING_CLEANUP __attribute__((cleanup(framing_release)))

/* `line` is NULL where it was too long; else it has a NUL behind it. */
typedef void framing_tell(void *context, const char *line, size_t length);

void framing_take(struct framing *framing, const char *bytes, size_t length, framing_tell *tell,
                  void *context);
/* The input has ended: what came last without a line's end is a line too. */
void framing_end(struct framing *framing, framing_tell *tell, void *context);

#endif
