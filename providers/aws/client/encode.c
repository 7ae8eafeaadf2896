/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RFC 3986's unreserved characters stay, all others are encoded byte by byte in upper case: what signatures are made
 * over, so that no character may be encoded in one place and plain in another.
 */
#include "providers/aws/client/encode.h"

#include "base/digest.h"

#include "providers/aws/client/aws_client.h"

#include <string.h>

static bool is_unreserved(unsigned char byte) {
        return (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') ||
               byte == '-' || byte == '_' || byte == '.' || byte == '~';
}

void encode_percent(struct strbuf *ret, const char *text, size_t length, bool keep_slash) {
        static const char digits[] = "0123456789ABCDEF";

        for (size_t i = 0; i < length; i++) {
                unsigned char byte = (unsigned char)text[i];

                if (is_unreserved(byte) || (keep_slash && byte == '/')) {
                        strbuf_append_char(ret, text[i]);
                } else {
                        char triplet[3] = { '%', digits[byte >> 4], digits[byte & 15] };

                        strbuf_append_bytes(ret, triplet, sizeof(triplet));
                }
        }
}

void encode_undo(char *text, bool plus) {
        char *to = text;

        for (const char *from = text; *from; from++) {
                if (*from == '%' && digest_from_hex(from[1]) >= 0 && digest_from_hex(from[2]) >= 0) {
                        *to++ = (char)(digest_from_hex(from[1]) * 16 + digest_from_hex(from[2]));
                        from += 2;
                } else {
                        *to++ = plus && *from == '+' ? ' ' : *from;
                }
        }
        *to = '\0';
}

const char *encode_path(struct arena *arena, const char *part) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        encode_percent(&text, part, strlen(part), false);
        return arena_strndup(arena, strbuf_text(&text), text.length);
}

void encode_form_add(struct strbuf *form, const char *name, const char *value) {
        strbuf_append_char(form, '&');
        encode_percent(form, name, strlen(name), false);
        strbuf_append_char(form, '=');
        encode_percent(form, value, strlen(value), false);
}
