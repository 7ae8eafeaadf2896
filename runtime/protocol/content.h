/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an execution has to show, as it stands in a message: a value, an error, a display. The
 * kernel sends it to the runtime, and the runtime to its caller: both ends are checked by the same
 * rules, since user code can speak for either.
 *
 * Everything here is borrowed from the message that it was read from.
 */
#ifndef BERTH_RUNTIME_PROTOCOL_CONTENT_H
#define BERTH_RUNTIME_PROTOCOL_CONTENT_H

#include "runtime/protocol/message.h"

#include <stdbool.h>
#include <stdint.h>

#define CONTENT_NAME_MAX 256             /* of a type, of an exception, of a MIME type: bytes */
#define CONTENT_TEXT_MAX ((size_t)65536) /* of a value; of an exception's text; of a traceback: bytes */
#define CONTENT_REASON_MAX 1024          /* of a reason, in words: bytes */
#define CONTENT_LINES_MAX 400            /* of a traceback */
#define CONTENT_PARTS_MAX 16             /* of a display */
#define CONTENT_GENERATION_MAX ((int64_t)1 << 40)
#define CONTENT_NAMES_MAX 1000                   /* of a list of a checkpoint's names */
#define CONTENT_NAMES_BYTES_MAX ((size_t)131072) /* of such a list, as JSON */

/* Of the last expression: its type's name and its repr. */
struct content_value {
        const char *type, *text; /* type NULL: no value */
        bool truncated;
};
/* null or {type, text, truncated} */
int content_value_read(const json_t *json, struct content_value *ret, struct error *err) MUST_USE;
/* A new reference. */
json_t *content_value_json(const struct content_value *value);

struct content_error {
        const char *name, *value; /* name NULL: no error */
        const json_t *traceback;  /* a list of texts; NULL: none */
};
/* null or {name, value, traceback} */
int content_error_read(const json_t *json, struct content_error *ret, struct error *err) MUST_USE;
json_t *content_error_json(const struct content_error *error);

/* One thing in several forms, as MIME types. Their bytes lie one behind the other in the message's body. */
struct content_part {
        const char *type;
        const char *bytes;
        size_t length;
};
struct content_display {
        struct content_part parts[CONTENT_PARTS_MAX];
        size_t count; /* at least 1 */
};
/* [{type, bytes}]; together they are the whole body. */
int content_display_read(const json_t *json, const struct strbuf *body, struct content_display *ret,
                         struct error *err) MUST_USE;
json_t *content_display_json(const struct content_display *display);

/* A list of at most `most` objects that have two members: `text`, a name, and `other`, a text or a number (as json_type). */
bool content_is_pairs(const json_t *list, size_t most, const char *text, const char *other, json_type type);
/* Which of the names it is, or -1: also where it is NULL. */
int content_index(const char *const *names, size_t count, const char *name);
#define CONTENT_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* What of a namespace was restored: a list of names. */
bool content_is_names(const json_t *list);
/* Names that were not kept: a list of {name, type, why}. */
bool content_is_lost(const json_t *list);

/* The name of a context: 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-'. */
bool content_is_context(const char *name);

#endif
