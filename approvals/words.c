/* SPDX-License-Identifier: Apache-2.0 */
#include "approvals/words.h"

#include "base/text.h"
#include "base/text_utf8.h"

#include <string.h>

static void show_word(const char *word, size_t length, struct strbuf *to) {
        bool plain =
                length > 0 && strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                           "._-/:=@%+,") == length;

        if (plain) {
                strbuf_append_bytes(to, word, length);
                return;
        }
        strbuf_append_char(to, '\'');
        text_append_exact(to, word, length);
        strbuf_append_char(to, '\'');
}

void words_show(const json_t *command, struct strbuf *to) {
        const json_t *word;
        size_t index;

        json_array_foreach (command, index, word) {
                if (index > 0)
                        strbuf_append_char(to, ' ');
                show_word(json_string_value(word), json_string_length(word), to);
        }
}

void words_show_text(const char *text, struct strbuf *to) {
        show_word(text, strlen(text), to);
}
