/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a terminal's client reads: a stream of events, whole and in pieces whose size the first byte says; each event's data as what code
 * has said, on its way to a terminal; and the same bytes as what was typed at the prompt.
 */
#include "base/text_utf8.h"
#include "client/cell.h"
#include "client/events.h"
#include "client/shown.h"
#include "parts.h"

#include <stdlib.h>
#include <string.h>

static void must(bool holds) {
        if (!holds)
                abort();
}

static void must_be_same(const struct strbuf *first, const struct strbuf *second) {
        must(first->length == second->length &&
             (first->length == 0 || memcmp(first->data, second->data, first->length) == 0));
}

/* Nothing in it drives a terminal, and what is safe stays as it is. */
static void look_at_shown(const char *bytes, size_t length) {
        struct strbuf once STRBUF_CLEANUP = STRBUF_INIT, again STRBUF_CLEANUP = STRBUF_INIT,
                           plain STRBUF_CLEANUP = STRBUF_INIT;
        struct shown terminal = { .is_terminal = true }, second = { .is_terminal = true }, file = { 0 };

        shown_append(&terminal, bytes, length, &once);
        shown_end_line(&terminal, &once);
        for (size_t i = 0; i < once.length; i++)
                must(((unsigned char)once.data[i] >= 0x20 || once.data[i] == '\n' || once.data[i] == '\t') &&
                     once.data[i] != 0x7f);
        must(text_is_utf8(strbuf_text(&once), once.length, &(size_t){ 0 }));
        must(once.length == 0 || once.data[once.length - 1] == '\n');
        shown_append(&second, strbuf_text(&once), once.length, &again);
        must_be_same(&once, &again);
        shown_append(&file, bytes, length, &plain);
        must(plain.length == length && (length == 0 || memcmp(plain.data, bytes, length) == 0));
}

static bool collect(void *context, const char *name, const char *data, size_t length) {
        struct strbuf *told = context;

        must(name[0] && strlen(name) < sizeof(((struct events *)NULL)->name) && data[length] == '\0');
        must(!strpbrk(name, "\r\n"));
        look_at_shown(data, length);
        strbuf_printf(told, "[%s %zu]", name, length);
        strbuf_append_bytes(told, data, length);
        return strcmp(name, "stop") != 0;
}

/* The piece has memory of exactly its size. */
static bool take_all(const char *bytes, size_t length, size_t step, struct strbuf *told) {
        struct events events EVENTS_CLEANUP = EVENTS_INIT;
        bool goes_on = true;

        for (size_t at = 0; at < length && goes_on; at += step) {
                size_t size = length - at < step ? length - at : step;
                char *piece = malloc(size);

                must(piece != NULL);
                memcpy(piece, bytes + at, size);
                goes_on = events_take(&events, piece, size, collect, told);
                free(piece);
        }
        return goes_on;
}

/* Code lies within what was typed, and one more empty line ends whatever can be ended by one. */
static void look_at_cell(const char *bytes, size_t length) {
        char *typed = malloc(length + 1);
        bool is_shell = false;
        const char *code;

        must(typed != NULL);
        memcpy(typed, bytes, length);
        typed[length] = '\0';
        code = cell_code(typed, &is_shell);
        must(code >= typed && code <= typed + strlen(typed));
        must(is_shell || code == typed);
        (void)cell_is_whole(typed);
        free(typed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct strbuf whole STRBUF_CLEANUP = STRBUF_INIT, pieces STRBUF_CLEANUP = STRBUF_INIT;
        const char *bytes = (const char *)data + 1;
        bool verdict;

        if (size < 1)
                return 0;
        verdict = take_all(bytes, size - 1, size, &whole);
        must(take_all(bytes, size - 1, (size_t)data[0] + 1, &pieces) == verdict);
        must_be_same(&whole, &pieces);
        look_at_cell(bytes, size - 1);
        return 0;
}
