/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A body of multipart/form-data (RFC 7578), taken apart as it comes: no part is ever kept, whatever its size. By the letter of what
 * clients send: nothing stands before the first boundary, lines end with CRLF, each part has one Content-Disposition of form-data
 * with one name, and what follows the last boundary is nothing. Pure.
 *
 *     multipart_begin(&multipart, boundary)
 *     while (length > 0) {
 *             used = multipart_take(&multipart, bytes, length, &event);   // -1: no such body
 *             // MULTIPART_PART: multipart.name; MULTIPART_DATA: event.bytes of it; MULTIPART_PART_END; MULTIPART_NOTHING: more
 *     }
 *     multipart_ended(&multipart)
 *
 * Its own, since none of Debian's libraries fits: libmicrohttpd's post processor lives in its own server, gmime, libsoup and APR's
 * are parts of object systems, and lenient.
 */
#ifndef BERTH_SERVER_MULTIPART_H
#define BERTH_SERVER_MULTIPART_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define MULTIPART_BOUNDARY_MAX 70 /* RFC 2046, 5.1.1 */
#define MULTIPART_NAME_MAX 1024   /* bytes */
#define MULTIPART_HEAD_MAX 8192   /* bytes of one part's header fields */
#define MULTIPART_PARTS_MAX 10000

enum multipart_state {
        MULTIPART_IN_DATA, /* or in front of all, where the delimiter's CRLF counts as seen */
        MULTIPART_AFTER_DELIMITER,
        MULTIPART_IN_HEAD,
        MULTIPART_AT_END,
        MULTIPART_BROKEN
};

struct multipart {
        enum multipart_state state;
        char delimiter[MULTIPART_BOUNDARY_MAX + 5]; /* CRLF, "--", the boundary */
        size_t delimiter_length, matched; /* bytes of it that were seen and are not yet known to be data */
        bool in_part;
        char tail[3]; /* behind a delimiter */
        size_t tail_length;
        char head[MULTIPART_HEAD_MAX + 1];
        size_t head_length;
        size_t parts;
        char name[MULTIPART_NAME_MAX + 1];     /* of the part; UTF-8 or not, without NUL */
        char filename[MULTIPART_NAME_MAX + 1]; /* the same; "": it has none */
        const char *why;                       /* what is wrong, where -1 was returned */
};

enum multipart_event_type { MULTIPART_NOTHING, MULTIPART_PART, MULTIPART_DATA, MULTIPART_PART_END };

struct multipart_event {
        enum multipart_event_type type;
        const char *bytes; /* borrowed from what was given, or from the parser until the next call */
        size_t length;
};

/*
 * The boundary of "multipart/form-data; boundary=..."; false where the type is another, or has none that may be. `ret` takes
 * MULTIPART_BOUNDARY_MAX + 1 bytes.
 */
bool multipart_boundary(const char *type, char *ret);

void multipart_begin(struct multipart *multipart, const char *boundary);
/* How many of the bytes were used up, perhaps none; -1 where they are no such body. */
ssize_t multipart_take(struct multipart *multipart, const char *bytes, size_t length,
                       struct multipart_event *ret);
/* Whether the last boundary was seen. */
bool multipart_ended(const struct multipart *multipart);

#endif
