/* SPDX-License-Identifier: Apache-2.0 */
#include "approvals/words.h"

#include "base/terminal.h"
#include "base/text.h"

#include <string.h>

static const char *word_of(const json_t *words, size_t at) {
        return json_string_value(json_array_get(words, at));
}

static bool is_wild(const char *word) {
        return strcmp(word, "*") == 0 || strcmp(word, "**") == 0;
}

static bool is_shell(const char *program) {
        static const char *const shells[] = { "sh",    "bash", "dash", "ash",  "zsh",     "ksh",    "mksh",
                                              "rbash", "csh",  "tcsh", "fish", "busybox", "toybox", NULL };
        const char *slash = strrchr(program, '/');

        return text_is_among(slash ? slash + 1 : program, shells);
}

bool words_are_void(const json_t *pattern) {
        const char *program = word_of(pattern, 0);
        bool of_shell = false;

        if (!program || is_wild(program))
                return true;
        /* A shell may be started by another program: env, timeout, nice. */
        for (size_t i = 0; i < json_array_size(pattern); i++) {
                const char *word = word_of(pattern, i);

                if (!word || (of_shell && is_wild(word)))
                        return true;
                of_shell = of_shell || is_shell(word);
        }
        return false;
}

bool words_fit(const json_t *pattern, const json_t *command) {
        size_t count = json_array_size(pattern), given = json_array_size(command);

        if (words_are_void(pattern))
                return false;
        for (size_t i = 0; i < count; i++) {
                const char *word = word_of(pattern, i), *found = word_of(command, i);

                if (i + 1 == count && word && strcmp(word, "**") == 0)
                        return true;
                if (!word || !found || (strcmp(word, "*") != 0 && strcmp(word, found) != 0))
                        return false;
        }
        return count == given;
}

/* One character at a time and by itself: a joiner is shown too, whatever stands before it. */
static void show_word(const char *word, size_t length, struct strbuf *to) {
        bool plain =
                length > 0 && strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                           "._-/:=@%+,") == length;

        if (plain) {
                strbuf_append_bytes(to, word, length);
                return;
        }
        strbuf_append_char(to, '\'');
        for (size_t at = 0; at < length;) {
                if (word[at] == '\'' || word[at] == '\\')
                        strbuf_append_char(to, '\\');
                at += text_append_safe_character(to, word + at, length - at, 0);
        }
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
