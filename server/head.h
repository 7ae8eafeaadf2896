/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands in front of a request's body, judged before anybody routes it. Refused is what two programs in a row may read in
 * two ways (lengths that repeat or contradict, codings, NUL and slashes that hide behind escapes), and what a web page has
 * a browser on this machine send (a foreign Host or Origin). Pure.
 */
#ifndef BERTH_SERVER_HEAD_H
#define BERTH_SERVER_HEAD_H

#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>

struct head_field {
        const char *name, *value;
        size_t name_length, value_length; /* as they came: a NUL may be among them */
};

struct head {
        const char *version; /* "HTTP/1.1" */
        const char *target;  /* as it came, escapes and query with it */
        struct head_field *fields;
        size_t field_count;
};

struct head_hosts {
        const char *const *
                names; /* without ports; each may be sent by clients, besides localhost and loopback addresses */
        size_t count;
        bool any; /* no Host is foreign */
};

struct head_pair {
        const char *name, *value;
};

/* What of a head was understood: in the arena. */
struct head_parts {
        const char *path;        /* its escapes resolved; it begins with a slash */
        struct head_pair *query; /* in their order, "" where there is no value */
        size_t query_count;
        bool has_body;
        unsigned long long length; /* of the body; 0 where it comes in chunks */
};

/* 0, or the HTTP status that refuses it, with a line for whoever sent it. */
unsigned head_read(const struct head *head, const struct head_hosts *hosts, struct arena *arena,
                   struct head_parts *ret, const char **ret_why);

/* The value of the one field of that name, or NULL. */
const char *head_field(const struct head *head, const char *name);

#endif
