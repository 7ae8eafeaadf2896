/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All that knows Unicode, by utf8proc: columns, case folding, and which characters may go to a terminal as they are.
 * ASCII is handled without it, since nearly all text is that.
 */
#include "base/text_utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* Nearly all text is this. */
static bool is_plain_ascii(char byte) {
        return byte >= 0x20 && byte < 0x7F;
}

/* The bytes of the first character, at least 1, and its columns. */
static size_t first_character(const char *text, size_t length, int *ret_columns) {
        utf8proc_int32_t codepoint;
        utf8proc_ssize_t size;

        if (is_plain_ascii(*text)) {
                *ret_columns = 1;
                return 1;
        }
        size = utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)length, &codepoint);
        *ret_columns = size <= 0 ? 1 : utf8proc_charwidth(codepoint);
        return size <= 0 ? 1 : (size_t)size;
}

int text_columns(const char *text, size_t length) {
        int columns = 0, width;

        for (size_t at = 0; at < length; columns += width)
                at += first_character(text + at, length - at, &width);
        return columns;
}

size_t text_prefix(const char *text, size_t length, int columns) {
        size_t at = 0;

        while (at < length) {
                int width;
                size_t size = first_character(text + at, length - at, &width);

                columns -= width;
                if (columns < 0)
                        break;
                at += size;
        }
        return at;
}

bool text_is_utf8(const char *text, size_t length, size_t *ret_offset) {
        const utf8proc_uint8_t *bytes = (const utf8proc_uint8_t *)text;

        for (size_t i = 0; i < length;) {
                utf8proc_int32_t codepoint;
                utf8proc_ssize_t size;

                if (bytes[i] < 0x80) {
                        i++;
                        continue;
                }
                size = utf8proc_iterate(bytes + i, (utf8proc_ssize_t)(length - i), &codepoint);
                if (size <= 0) {
                        *ret_offset = i;
                        return false;
                }
                i += (size_t)size;
        }
        return true;
}

bool text_is_words(const char *text, size_t length, const char *others, int32_t *ret_codepoint) {
        const utf8proc_uint8_t *bytes = (const utf8proc_uint8_t *)text;

        for (size_t i = 0; i < length;) {
                utf8proc_int32_t codepoint;
                utf8proc_ssize_t size =
                        utf8proc_iterate(bytes + i, (utf8proc_ssize_t)(length - i), &codepoint);
                const char *category = size > 0 ? utf8proc_category_string(codepoint) : "";
                bool other = codepoint > 0 && codepoint < 0x80 && strchr(others, codepoint);

                if (category[0] != 'L' && category[0] != 'N' && strcmp(category, "Zs") != 0 && !other) {
                        *ret_codepoint = codepoint;
                        return false;
                }
                i += (size_t)size;
        }
        return true;
}

char *text_fold(const char *text, size_t length) {
        utf8proc_uint8_t *folded = NULL;
        utf8proc_ssize_t size =
                utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)length, &folded,
                             UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_CASEFOLD | UTF8PROC_IGNORE);

        if (size == UTF8PROC_ERROR_NOMEM)
                abort();
        return size < 0 ? NULL : (char *)folded;
}

static void append_byte(struct strbuf *to, char byte) {
        strbuf_printf(to, "\\x%02X", (unsigned char)byte);
}

void text_append_utf8(struct strbuf *to, const char *text) {
        size_t length = strlen(text), bad;

        while (!text_is_utf8(text, length, &bad)) {
                strbuf_append_bytes(to, text, bad);
                append_byte(to, text[bad]);
                text += bad + 1;
                length -= bad + 1;
        }
        strbuf_append_bytes(to, text, length);
}

/* Whether a character changes how others look, or where they stand, and shows nothing itself. */
static bool is_invisible(utf8proc_int32_t codepoint, bool behind_ascii) {
        utf8proc_category_t category = utf8proc_category(codepoint);

        if (codepoint == 0x200C || codepoint == 0x200D)
                return behind_ascii;
        return category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_ZL ||
               category == UTF8PROC_CATEGORY_ZP;
}

size_t text_append_safe_character(struct strbuf *to, const char *text, size_t length, size_t at) {
        const utf8proc_uint8_t *bytes = (const utf8proc_uint8_t *)text;
        /* The byte before it on the terminal may be an escaped number. */
        bool behind_ascii = at == 0 || bytes[at - 1] < 0x80 ||
                            (to->length > 0 && (unsigned char)to->data[to->length - 1] < 0x80);
        utf8proc_int32_t codepoint = bytes[at];
        utf8proc_ssize_t size = 1;

        if (is_plain_ascii(text[at])) {
                strbuf_append_char(to, text[at]);
                return 1;
        }
        if (codepoint >= 0x80)
                size = utf8proc_iterate(bytes + at, (utf8proc_ssize_t)(length - at), &codepoint);
        if (size <= 0) {
                append_byte(to, text[at]);
                return 1;
        }
        /* The last byte of a C1 control in UTF-8 is its number. */
        if (codepoint < 0x20 || (codepoint >= 0x7F && codepoint < 0xA0))
                append_byte(to, text[at + (size_t)size - 1]);
        else if (is_invisible(codepoint, behind_ascii))
                strbuf_printf(to, codepoint > 0xFFFF ? "\\U%08X" : "\\u%04X", (unsigned)codepoint);
        else
                strbuf_append_bytes(to, text + at, (size_t)size);
        return (size_t)size;
}

/* Another text could stand for the same: e with an accent is one character, or two. */
static bool is_composed(const char *text, size_t length) {
        utf8proc_uint8_t *composed = NULL;
        utf8proc_ssize_t size = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)length,
                                             &composed, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        bool same;

        if (size == UTF8PROC_ERROR_NOMEM)
                abort();
        same = size >= 0 && (size_t)size == length && memcmp(composed, text, length) == 0;
        free(composed);
        return same;
}

/*
 * Characters that are invisible, or look like others, or appear elsewhere: blanks other than the
 * space, fillers, characters without a picture, and letters that run from right to left, since they
 * take the signs and words around them along.
 */
static bool is_seen_otherwise(utf8proc_int32_t codepoint) {
        const utf8proc_property_t *property = utf8proc_get_property(codepoint);

        if (property->bidi_class == UTF8PROC_BIDI_CLASS_R || property->bidi_class == UTF8PROC_BIDI_CLASS_AL)
                return true;
        switch (property->category) {
        case UTF8PROC_CATEGORY_CC:
        case UTF8PROC_CATEGORY_CF:
        case UTF8PROC_CATEGORY_CN:
        case UTF8PROC_CATEGORY_CO:
        case UTF8PROC_CATEGORY_CS:
        case UTF8PROC_CATEGORY_ZL:
        case UTF8PROC_CATEGORY_ZP:
        case UTF8PROC_CATEGORY_ZS:
                return true;
        default:
                return codepoint == 0x2800 || property->ignorable;
        }
}

void text_append_exact(struct strbuf *to, const char *text, size_t length) {
        const utf8proc_uint8_t *bytes = (const utf8proc_uint8_t *)text;
        bool composed = is_composed(text, length);

        for (size_t at = 0; at < length;) {
                utf8proc_int32_t codepoint = bytes[at];
                utf8proc_ssize_t size = 1;

                if (text[at] == '\'' || text[at] == '\\')
                        strbuf_append_char(to, '\\');
                if (codepoint >= 0x80)
                        size = utf8proc_iterate(bytes + at, (utf8proc_ssize_t)(length - at), &codepoint);
                if (size <= 0 || codepoint < 0x20 || codepoint == 0x7F) {
                        append_byte(to, text[at]);
                        size = 1;
                } else if (codepoint >= 0x80 && codepoint < 0xA0) {
                        append_byte(to, text[at + (size_t)size - 1]);
                } else if (codepoint >= 0x80 && (!composed || is_seen_otherwise(codepoint))) {
                        strbuf_printf(to, codepoint > 0xFFFF ? "\\U%08X" : "\\u%04X", (unsigned)codepoint);
                } else {
                        strbuf_append_bytes(to, text + at, (size_t)size);
                }
                at += (size_t)size;
        }
}

static void append_safe(struct strbuf *to, const char *text, size_t length) {
        for (size_t at = 0; at < length;) {
                size_t plain = 0;

                while (at + plain < length && is_plain_ascii(text[at + plain]))
                        plain++;
                strbuf_append_bytes(to, text + at, plain);
                at += plain;
                if (at < length)
                        at += text_append_safe_character(to, text, length, at);
        }
}

/* Of characters that JSON does not escape by itself. */
static bool must_be_escaped(utf8proc_int32_t codepoint) {
        return (codepoint >= 0x7F && codepoint < 0xA0) || is_invisible(codepoint, true);
}

void text_append_json_safe(struct strbuf *to, const char *json) {
        const utf8proc_uint8_t *bytes = (const utf8proc_uint8_t *)json;
        size_t length = strlen(json), shown = 0;

        for (size_t at = 0; at < length;) {
                utf8proc_int32_t codepoint = bytes[at];
                utf8proc_ssize_t size = 1;

                if (codepoint >= 0x80)
                        size = utf8proc_iterate(bytes + at, (utf8proc_ssize_t)(length - at), &codepoint);
                if (size > 0 && must_be_escaped(codepoint)) {
                        strbuf_append_bytes(to, json + shown, at - shown);
                        /* Beyond the first plane JSON takes two halves, as UTF-16 does. */
                        if (codepoint > 0xFFFF)
                                strbuf_printf(to, "\\u%04X\\u%04X",
                                              0xD800U + ((unsigned)(codepoint - 0x10000) >> 10),
                                              0xDC00U + ((unsigned)(codepoint - 0x10000) & 0x3FF));
                        else
                                strbuf_printf(to, "\\u%04X", (unsigned)codepoint);
                        shown = at + (size_t)size;
                }
                at += size > 0 ? (size_t)size : 1;
        }
        strbuf_append_bytes(to, json + shown, length - shown);
}

void text_append_safe(struct strbuf *to, const char *text) {
        append_safe(to, text, strlen(text));
}

static void append_line_start(struct strbuf *to, int indent) {
        strbuf_printf(to, "\n%*s", indent, "");
}

void text_append_wrapped(struct strbuf *to, const char *text, int width, int used, int indent) {
        size_t end = strcspn(text, "\n");
        int column = used;

        for (size_t at = 0; at < end;) {
                struct strbuf word STRBUF_CLEANUP = STRBUF_INIT;
                size_t length = strcspn(text + at, " \n");
                int columns;

                append_safe(&word, text + at, length);
                columns = text_columns(strbuf_text(&word), word.length);
                if (at > 0 && column + 1 + columns > width) {
                        append_line_start(to, indent);
                        column = indent;
                } else if (at > 0) {
                        strbuf_append_char(to, ' ');
                        column++;
                }
                strbuf_append(to, strbuf_text(&word));
                column += columns;
                at += length + (text[at + length] == ' ');
        }
        while (text[end]) {
                size_t length = strcspn(text + end + 1, "\n");

                append_line_start(to, indent);
                append_safe(to, text + end + 1, length);
                end += 1 + length;
        }
}
