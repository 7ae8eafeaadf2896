/* SPDX-License-Identifier: Apache-2.0 */
/* The head of an answer, as text. Pure. */
#ifndef BERTH_SERVER_ANSWER_H
#define BERTH_SERVER_ANSWER_H

#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ANSWER_UNKNOWN (-1)  /* the body ends with the connection */
#define ANSWER_CHUNKED (-2)  /* where the last chunk says so */
#define ANSWER_BODILESS (-3) /* a status without a body: 204, 304 */

struct answer_header {
        const char *name, *value;
};

struct answer_head {
        unsigned status;
        const char *type; /* of the body; NULL: no body, so no type */
        const struct answer_header *headers;
        size_t header_count;
        int64_t length;  /* of the body, or one of the above */
        int64_t wall_ms; /* when it is given */
        bool last;       /* the connection ends behind it */
};

/*
 * No cache may keep it, unless `headers` have a Cache-Control. A control character in a value,
 * which could begin a line of its own, is written as a blank.
 */
void answer_head_write(const struct answer_head *head, struct strbuf *ret);

bool answer_has_body(unsigned status);

#endif
