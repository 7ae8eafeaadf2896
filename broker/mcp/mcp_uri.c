/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/mcp/mcp_uri.h"

#include "base/digest.h"

#include <string.h>

static const char beginning[] = "berth://workspaces/";

static void escape(const char *text, const char *plain, struct strbuf *to) {
        for (; *text; text++) {
                if (strchr(plain, *text))
                        strbuf_append_char(to, *text);
                else
                        strbuf_printf(to, "%%%02X", (unsigned)(unsigned char)*text);
        }
}

#define UNRESERVED "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"

void mcp_uri_write(const char *id, const char *path, struct strbuf *to) {
        strbuf_append(to, beginning);
        escape(id, UNRESERVED, to);
        strbuf_append_char(to, '/');
        escape(path, UNRESERVED "/", to);
}

/* NULL for an invalid escape, or that of a NUL or, in an id, of a slash. */
static const char *unescape(const char *text, size_t length, bool slashes, struct arena *arena) {
        char *plain = arena_strndup(arena, text, length), *to = plain;

        for (size_t i = 0; i < length; i++) {
                int high, low;

                if (text[i] != '%') {
                        *to++ = text[i];
                        continue;
                }
                high = i + 2 < length ? digest_from_hex(text[i + 1]) : -1;
                low = high >= 0 ? digest_from_hex(text[i + 2]) : -1;
                if (low < 0 || (high == 0 && low == 0) || (!slashes && high * 16 + low == '/'))
                        return NULL;
                *to++ = (char)(high * 16 + low);
                i += 2;
        }
        *to = '\0';
        return plain;
}

bool mcp_uri_read(const char *uri, struct arena *arena, const char **ret_id, const char **ret_path) {
        const char *id = uri + sizeof(beginning) - 1, *slash, *plain_id, *plain_path;

        if (strncmp(uri, beginning, sizeof(beginning) - 1) != 0)
                return false;
        slash = strchr(id, '/');
        if (!slash || slash == id || slash[1] == '\0')
                return false;
        plain_id = unescape(id, (size_t)(slash - id), false, arena);
        plain_path = unescape(slash + 1, strlen(slash + 1), true, arena);
        if (!plain_id || !plain_path)
                return false;
        *ret_id = plain_id;
        *ret_path = plain_path;
        return true;
}
