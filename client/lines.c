/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libedit asks for characters by a function of ours: its own goes on reading after the first
 * signal, and knows nothing of the interrupt. A signal that comes while the prompt waits is seen by
 * poll(2) nevertheless.
 */
#include "client/lines.h"

#include "base/files.h"
#include "base/library.h"
#include "base/strbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#define HISTORY_LINES 1000
#define LINE_MAX_BYTES ((size_t)16 << 20) /* a longer line was not typed */

#define EDIT_SYMBOLS(X) \
        X(el_init)      \
        X(el_end) X(el_set) X(el_get) X(el_gets) X(el_resize) X(history_init) X(history_end) X(history)

EDIT_SYMBOLS(LIBRARY_POINTER)
static const struct library_symbol edit_symbols[] = { EDIT_SYMBOLS(LIBRARY_SYMBOL) };
static struct library edit = LIBRARY(EDIT_SONAME, "libedit2", "editing lines", edit_symbols);

struct lines {
        EditLine *editor; /* NULL: lines come as they are */
        History *past;
        char *history; /* NULL: not kept */
        char prompt[64];
        const struct interrupt *interrupt;
        bool shows_prompt;
        struct strbuf input; /* without an editor: what was read, and from where on it is not used */
        size_t used;
        char *line; /* the one that was given out */
};

static char *prompt_of(EditLine *editor) {
        void *lines = NULL;

        sym_el_get(editor, EL_CLIENTDATA, &lines);
        return ((struct lines *)lines)->prompt;
}

/* 1: there is something to read; 0: the interrupt; -1: neither will come. */
static int wait_for_input(const struct interrupt *interrupt) {
        for (;;) {
                struct pollfd waits[2] = {
                        { .fd = STDIN_FILENO, .events = POLLIN },
                        { .fd = interrupt_descriptor(interrupt, INTERRUPT_FINISH), .events = POLLIN },
                };

                if (poll(waits, 2, -1) < 0 && errno != EINTR)
                        return -1;
                if (interrupt_level(interrupt) != INTERRUPT_NONE)
                        return 0;
                if (waits[0].revents)
                        return 1;
        }
}

/* A character of the terminal's encoding, which may have several bytes. */
static int next_character(EditLine *editor, wchar_t *ret) {
        void *lines = NULL;
        mbstate_t state = { 0 };
        char byte;

        sym_el_get(editor, EL_CLIENTDATA, &lines);
        for (;;) {
                size_t used;

                if (wait_for_input(((struct lines *)lines)->interrupt) != 1)
                        return -1;
                if (read(STDIN_FILENO, &byte, 1) != 1)
                        return 0;
                used = mbrtowc(ret, &byte, 1, &state);
                if (used == (size_t)-2)
                        continue;
                if (used == (size_t)-1)
                        *ret = L'?';
                return 1;
        }
}

/* The file is made here, since libedit makes it as the umask says and narrows it afterwards. */
static void load_history(struct lines *lines) {
        HistEvent event;
        int file;

        lines->past = sym_history_init();
        if (!lines->past)
                abort();
        sym_history(lines->past, &event, H_SETSIZE, HISTORY_LINES);
        sym_history(lines->past, &event, H_SETUNIQUE, 1);
        sym_el_set(lines->editor, EL_HIST, sym_history, lines->past);
        if (!lines->history)
                return;
        file = open(lines->history, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (file < 0) {
                free(lines->history);
                lines->history = NULL;
                return;
        }
        close(file);
        sym_history(lines->past, &event, H_LOAD, lines->history);
}

struct lines *lines_open(const char *history, bool *ret_plain, struct error *err) {
        struct lines *lines = calloc(1, sizeof(*lines));

        if (!lines)
                abort();
        *ret_plain = false;
        lines->input.limit = LINE_MAX_BYTES;
        lines->shows_prompt = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
        if (!lines->shows_prompt)
                return lines;
        if (library_load(&edit, err) < 0) {
                *ret_plain = true;
                return lines;
        }
        lines->editor = sym_el_init("berth", stdin, stdout, stderr);
        if (!lines->editor) {
                *ret_plain = true;
                (void)error_set(err, "libedit cannot use this terminal");
                return lines;
        }
        if (history && !(lines->history = strdup(history)))
                abort();
        sym_el_set(lines->editor, EL_CLIENTDATA, lines);
        sym_el_set(lines->editor, EL_PROMPT, prompt_of);
        sym_el_set(lines->editor, EL_EDITOR, "emacs");
        sym_el_set(lines->editor, EL_GETCFN, next_character);
        /* Usual keys, which libedit binds differently. */
        sym_el_set(lines->editor, EL_BIND, "^R", "em-inc-search-prev", NULL);
        load_history(lines);
        return lines;
}

void lines_closep(struct lines **lines) {
        HistEvent event;

        if (!*lines)
                return;
        if ((*lines)->history)
                sym_history((*lines)->past, &event, H_SAVE, (*lines)->history);
        if ((*lines)->past)
                sym_history_end((*lines)->past);
        if ((*lines)->editor)
                sym_el_end((*lines)->editor);
        free((*lines)->history);
        free((*lines)->line);
        strbuf_release(&(*lines)->input);
        free(*lines);
        *lines = NULL;
}

static enum lines_next give_line(struct lines *lines, const char *text, size_t length, const char **ret) {
        free(lines->line);
        lines->line = strndup(text, length);
        if (!lines->line)
                abort();
        *ret = lines->line;
        return LINES_LINE;
}

/* The last line of an input may lack its end. */
static enum lines_next next_plain(struct lines *lines, const struct interrupt *interrupt, const char **ret) {
        for (;;) {
                const char *from = strbuf_text(&lines->input) + lines->used;
                size_t left = lines->input.length - lines->used;
                const char *end = memchr(from, '\n', left);
                char buffer[4096];
                ssize_t got;

                if (end) {
                        lines->used += (size_t)(end - from) + 1;
                        return give_line(lines, from, (size_t)(end - from), ret);
                }
                if (wait_for_input(interrupt) == 0)
                        return LINES_INTERRUPTED;
                got = read(STDIN_FILENO, buffer, sizeof(buffer));
                if (got < 0 && (errno == EINTR || errno == EAGAIN))
                        continue;
                if (got <= 0 && left > 0) {
                        lines->used = lines->input.length;
                        return give_line(lines, from, left, ret);
                }
                if (got <= 0)
                        return LINES_END;
                if (lines->used == lines->input.length) {
                        strbuf_clear(&lines->input);
                        lines->used = 0;
                }
                strbuf_append_bytes(&lines->input, buffer, (size_t)got);
                if (lines->input.overflow)
                        return LINES_END;
        }
}

enum lines_next lines_next(struct lines *lines, const char *prompt, const struct interrupt *interrupt,
                           const char **ret) {
        const char *text;
        HistEvent event;
        int length = 0;

        if (!lines->editor) {
                if (lines->shows_prompt) {
                        fputs(prompt, stdout);
                        fflush(stdout);
                }
                return next_plain(lines, interrupt, ret);
        }
        snprintf(lines->prompt, sizeof(lines->prompt), "%s", prompt);
        lines->interrupt = interrupt;
        sym_el_resize(lines->editor);
        text = sym_el_gets(lines->editor, &length);
        if (interrupt_level(interrupt) != INTERRUPT_NONE)
                return LINES_INTERRUPTED;
        if (!text || length <= 0)
                return LINES_END;
        if (length > 1)
                sym_history(lines->past, &event, H_ENTER, text);
        while (length > 0 && text[length - 1] == '\n')
                length--;
        return give_line(lines, text, (size_t)length, ret);
}
