/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/markup.h"

#include "base/text_utf8.h"

#include <stdbool.h>
#include <string.h>

/* By number, all that Markdown or a forge could take for something. What hides or reorders text is shown by its own. */
static size_t append_character(struct strbuf *to, const char *text, size_t length, size_t at) {
        struct strbuf safe STRBUF_CLEANUP = STRBUF_INIT;
        size_t size = text_append_safe_character(&safe, text, length, at);

        for (const char *byte = strbuf_text(&safe); *byte; byte++) {
                if (strchr("&<>|`*_[]()#@~!\\$%^:\"'", *byte))
                        strbuf_printf(to, "&#%d;", *byte);
                else
                        strbuf_append_char(to, *byte);
        }
        return size;
}

static void append_code(struct strbuf *to, const char *text, size_t length) {
        strbuf_append(to, "<code>");
        for (size_t at = 0; at < length;)
                at += append_character(to, text, length, at);
        strbuf_append(to, "</code>");
}

void markup_code(struct strbuf *to, const char *text, size_t most) {
        size_t length = strlen(text), shown = length;

        if (most && length > most) {
                shown = most;
                /* Not in the middle of a character. */
                while (shown > 0 && ((unsigned char)text[shown] & 0xc0) == 0x80)
                        shown--;
        }
        append_code(to, text, shown);
        if (shown < length)
                strbuf_printf(to, "&nbsp;… (%zu bytes)", length);
}

/* Letters, digits, and the signs of sentences where nothing else can be meant by them. */
static bool is_plain_word(const char *word, size_t length) {
        for (size_t i = 0; i < length; i++) {
                unsigned char byte = (unsigned char)word[i];
                bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                              (byte >= '0' && byte <= '9');

                if (letter || strchr(",;()-'\"", byte))
                        continue;
                /* In the middle of a word these are a host, a path, a time or an emoji. */
                if (strchr(".:?", byte) && i + 1 == length)
                        continue;
                return false;
        }
        return true;
}

static void append_words(struct strbuf *to, const char *line, size_t length) {
        for (size_t at = 0; at < length;) {
                size_t word = 0;

                while (at + word < length && line[at + word] != ' ')
                        word++;
                if (!is_plain_word(line + at, word))
                        append_code(to, line + at, word);
                for (size_t i = 0; is_plain_word(line + at, word) && i < word;)
                        i += append_character(to, line + at, word, i);
                at += word;
                if (at < length)
                        strbuf_append_char(to, line[at++]);
        }
}

void markup_text(struct strbuf *to, const char *text) {
        while (*text) {
                size_t length = strcspn(text, "\r\n");

                /* Indented lines are commands to copy. */
                if (strncmp(text, "  ", 2) == 0)
                        append_code(to, text + 2, length - 2);
                else
                        append_words(to, text, length);
                text += length;
                length = strspn(text, "\r\n");
                text += length;
                if (length && *text)
                        strbuf_append(to, "<br>");
        }
}
