/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/work/disposition.h"

#include <stdbool.h>
#include <string.h>

static bool is_plain(char byte) {
        return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
               (byte != '\0' && strchr("-._~", byte));
}

/* In the first only what needs no quoting; in the second (RFC 8187) all else by its bytes. */
void disposition_write(const char *name, struct strbuf *ret) {
        strbuf_append(ret, "attachment; filename=\"");
        for (const char *at = name; *at; at++)
                strbuf_append_char(ret, (char)(is_plain(*at) || *at == ' ' ? *at : '_'));
        strbuf_append(ret, "\"; filename*=UTF-8''");
        for (const char *at = name; *at; at++) {
                if (is_plain(*at))
                        strbuf_append_char(ret, *at);
                else
                        strbuf_printf(ret, "%%%02X", (unsigned)(unsigned char)*at);
        }
}
