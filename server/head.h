/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head of a request: parsed by the letter of RFC 9112, and checked before it is routed. Refused
 * is what two programs in a row may read in two ways (a NUL, a bare CR or LF, a line that is folded
 * or has no name, lengths that repeat or contradict, codings, NUL that hides behind an escape), and
 * what a web page has a browser on this machine send (a foreign Host or Origin). Pure.
 */
#ifndef BERTH_SERVER_HEAD_H
#define BERTH_SERVER_HEAD_H

#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define HEAD_FIELDS_MAX 128

struct head_field {
        const char *name, *value; /* a token; text, without the blanks around it */
};

struct head {
        const char *method;
        const char *target; /* as it came, escapes and query with it */
        bool old;           /* HTTP/1.0 */
        struct head_field *fields;
        size_t field_count;
};

struct head_hosts {
        const char *const *
                names; /* without ports; each may be sent by clients, besides localhost and loopback addresses */
        size_t count;
        bool any;          /* no Host is foreign */
        bool behind_proxy; /* whose clients may come by https */
        bool by_tls;       /* this one came by https, as all do */
};

struct head_pair {
        const char *name, *value;
};

/* What of a head was understood: in the arena. */
struct head_parts {
        const char *path;  /* its escapes resolved; it begins with a slash */
        const char *slash; /* the first in the path that was escaped; NULL: none was. route_takes_slash() */
        struct head_pair *query; /* in their order, "" where there is no value */
        size_t query_count;
        bool has_body, chunked;
        unsigned long long length; /* of the body; 0 where it comes in chunks */
        /* the client waits for a go-ahead before it sends the body: Expect: 100-continue */
        bool awaits_go_ahead;
        bool last; /* the client wants no other request on this connection */
};

/*
 * The length of the head that the bytes begin with, the empty line at its end included; 0: its end has not come; -1: this is no
 * head, since it has a NUL, or a CR or LF that stands alone. *seen, at first 0, is what need not be read again.
 */
ssize_t head_end(const char *bytes, size_t length, size_t *seen);

/*
 * Takes such a head apart. 0, or the HTTP status that refuses it, with a line for the client.
 * `text` has a NUL behind it; it is cut up, and must live as long as what comes out. An empty line
 * in front of it is passed over.
 */
unsigned head_parse(char *text, struct arena *arena, struct head *ret, const char **ret_why);

/* Judges it: 0, or the status that refuses it, as above. */
unsigned head_read(const struct head *head, const struct head_hosts *hosts, struct arena *arena,
                   struct head_parts *ret, const char **ret_why);

/* The value of the one field of that name, or NULL. */
const char *head_field(const struct head *head, const char *name);
/* Whether there is any. */
bool head_has_field(const struct head *head, const char *name);

/* --- the grammar's parts --- */

bool head_is_token(const char *text, size_t length);
/* What a field's value may hold: no control character but a tab. */
bool head_is_text(char byte);
/* -1 for another character. */
int head_hex_digit(char digit);

#endif
