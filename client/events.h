/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream of events (text/event-stream), taken apart as it comes, in pieces of any length. Fields
 * that are not known and comments are passed over, as the standard has it; an event that the stream
 * ends in the middle of is dropped. Pure.
 *
 *     struct events events EVENTS_CLEANUP = EVENTS_INIT;
 *     if (!events_take(&events, bytes, length, tell, context)) ...   // with each piece
 */
#ifndef BERTH_CLIENT_EVENTS_H
#define BERTH_CLIENT_EVENTS_H

#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>

#define EVENTS_LINE_MAX ((size_t)64 << 20) /* and of an event's data: a result with all that it may hold */

struct events {
        struct strbuf line, data;
        char name[32];
        bool has_data, return_seen;
};
#define EVENTS_INIT                                                                       \
        {                                                                                 \
                .line = { .limit = EVENTS_LINE_MAX }, .data = {.limit = EVENTS_LINE_MAX } \
        }
void events_release(struct events *events);
#define EVENTS_CLEANUP __attribute__((cleanup(events_release)))

/*
 * Calls `tell` for each event that is whole: its name, "message" where it has none, and its data, which has a NUL behind it. False
 * where `tell` said so, or a line or an event is longer than EVENTS_LINE_MAX: nothing more may be given then.
 */
bool events_take(struct events *events, const char *bytes, size_t length,
                 bool (*tell)(void *context, const char *name, const char *data, size_t length),
                 void *context);

#endif
