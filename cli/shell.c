/* SPDX-License-Identifier: Apache-2.0 */
/* A list of what needs no quotes, rather than of what does: shells differ in the latter. */
#include "cli/shell.h"

#include <string.h>

void shell_append_word(struct strbuf *to, const char *word) {
        static const char plain[] =
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+=,-";

        if (*word && word[strspn(word, plain)] == '\0') {
                strbuf_append(to, word);
                return;
        }
        strbuf_append_char(to, '\'');
        for (; *word; word++) {
                if (*word == '\'')
                        strbuf_append(to, "'\\''");
                else
                        strbuf_append_char(to, *word);
        }
        strbuf_append_char(to, '\'');
}
