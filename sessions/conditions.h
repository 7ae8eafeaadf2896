/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a request says of the file it means: Range, If-Match, If-None-Match (RFC 9110, sections 13.1 and 14.2). Pure.
 */
#ifndef BERTH_SESSIONS_CONDITIONS_H
#define BERTH_SESSIONS_CONDITIONS_H

#include <stdbool.h>
#include <stdint.h>

/* `"` and 32 hexadecimal digits and `"`. */
#define ETAG_SIZE 35

/* The headers as they came, borrowed; NULL where there was none. */
struct conditions {
        const char *if_match;
        const char *if_none_match;
};

enum conditions_verdict {
        CONDITIONS_HOLD,
        CONDITIONS_MATCHED, /* If-None-Match found it: 304 for GET and HEAD, 412 for others */
        CONDITIONS_FAIL,    /* 412 */
        CONDITIONS_BAD      /* 400: no list of entity tags */
};

/* `etag` is the file's own, a strong one; NULL where there is no file. Weak tags never match If-Match. */
enum conditions_verdict conditions_judge(const struct conditions *conditions, const char *etag);

enum range_verdict {
        RANGE_WHOLE, /* none was asked for, or one that is to be ignored: another unit, several, no range at all */
        RANGE_PART,
        RANGE_BEHIND /* 416 */
};

/* Of a file of `bytes`. A part is *ret_length bytes, at least one, from *ret_from on. */
enum range_verdict range_read(const char *range, uint64_t bytes, uint64_t *ret_from, uint64_t *ret_length);

#endif
