/* SPDX-License-Identifier: Apache-2.0 */
#include "client/events.h"

#include <stdio.h>
#include <string.h>

void events_release(struct events *events) {
        strbuf_release(&events->line);
        strbuf_release(&events->data);
}

/* A name that is longer than any event's is no event of ours, cut or not. */
static bool take_field(struct events *events) {
        const char *line = strbuf_text(&events->line), *colon = memchr(line, ':', events->line.length);
        size_t name = colon ? (size_t)(colon - line) : events->line.length;
        const char *value = colon ? colon + 1 : line + events->line.length;
        size_t length = events->line.length - (size_t)(value - line);

        if (length > 0 && *value == ' ') {
                value++;
                length--;
        }
        if (name == 5 && memcmp(line, "event", 5) == 0) {
                snprintf(events->name, sizeof(events->name), "%.*s", (int)(length < 64 ? length : 64), value);
        } else if (name == 4 && memcmp(line, "data", 4) == 0) {
                if (events->has_data)
                        strbuf_append_char(&events->data, '\n');
                strbuf_append_bytes(&events->data, value, length);
                events->has_data = true;
        }
        return !events->data.overflow;
}

/* An empty line ends an event; an event without data is dropped. */
static bool end_line(struct events *events,
                     bool (*tell)(void *context, const char *name, const char *data, size_t length),
                     void *context) {
        bool goes_on = true;

        if (events->line.length > 0) {
                goes_on = take_field(events);
                strbuf_clear(&events->line);
                return goes_on;
        }
        if (events->has_data)
                goes_on = tell(context, events->name[0] ? events->name : "message",
                               strbuf_text(&events->data), events->data.length);
        strbuf_clear(&events->data);
        events->name[0] = '\0';
        events->has_data = false;
        return goes_on;
}

/* Lines end with LF, CR, or both, of which the second may come with the next piece. */
bool events_take(struct events *events, const char *bytes, size_t length,
                 bool (*tell)(void *context, const char *name, const char *data, size_t length),
                 void *context) {
        for (size_t at = 0; at < length;) {
                const char *from = bytes + at;
                size_t run = 0;

                if (events->return_seen && *from == '\n') {
                        events->return_seen = false;
                        at++;
                        continue;
                }
                events->return_seen = false;
                while (at + run < length && from[run] != '\n' && from[run] != '\r')
                        run++;
                strbuf_append_bytes(&events->line, from, run);
                if (events->line.overflow)
                        return false;
                at += run;
                if (at == length)
                        break;
                events->return_seen = bytes[at++] == '\r';
                if (!end_line(events, tell, context))
                        return false;
        }
        return true;
}
