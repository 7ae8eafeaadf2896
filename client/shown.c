/* SPDX-License-Identifier: Apache-2.0 */
#include "client/shown.h"

#include "base/text_utf8.h"

static void append_terminal(struct shown *shown, const char *bytes, size_t length, struct strbuf *to) {
        for (size_t at = 0; at < length;) {
                if (shown->return_held) {
                        shown->return_held = false;
                        strbuf_append_char(to, '\n');
                        at += bytes[at] == '\n';
                        continue;
                }
                if (bytes[at] == '\r') {
                        shown->return_held = true;
                        at++;
                } else if (bytes[at] == '\n' || bytes[at] == '\t') {
                        strbuf_append_char(to, bytes[at++]);
                } else {
                        at += text_append_safe_character(to, bytes, length, at);
                }
        }
}

void shown_append(struct shown *shown, const char *bytes, size_t length, struct strbuf *to) {
        size_t before = to->length;

        if (shown->is_terminal)
                append_terminal(shown, bytes, length, to);
        else
                strbuf_append_bytes(to, bytes, length);
        if (to->length > before)
                shown->inside_line = to->data[to->length - 1] != '\n';
}

void shown_end_line(struct shown *shown, struct strbuf *to) {
        if (shown->inside_line || shown->return_held)
                strbuf_append_char(to, '\n');
        shown->inside_line = false;
        shown->return_held = false;
}
