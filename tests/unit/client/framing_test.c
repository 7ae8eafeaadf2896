/* SPDX-License-Identifier: Apache-2.0 */
/* Lines, in whatever pieces they come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/framing.h"

#include <stdlib.h>
#include <string.h>

static void note(void *context, const char *line, size_t length) {
        strbuf_append_char(context, '<');
        if (line)
                strbuf_append_bytes(context, line, length);
        else
                strbuf_append(context, "too long");
        strbuf_append_char(context, '>');
}

static void in_any_pieces(void **state) {
        static const char text[] = "one\n\r\n\ntwo\r\n\rthree\r\r\nfour";

        (void)state;
        for (size_t step = 1; step < sizeof(text); step++) {
                struct framing framing FRAMING_CLEANUP = FRAMING_INIT;
                struct strbuf told STRBUF_CLEANUP = STRBUF_INIT;

                for (size_t at = 0; at < sizeof(text) - 1; at += step) {
                        size_t left = sizeof(text) - 1 - at;

                        framing_take(&framing, text + at, left < step ? left : step, note, &told);
                }
                framing_end(&framing, note, &told);
                framing_end(&framing, note, &told);
                assert_string_equal(strbuf_text(&told), "<one><two><\rthree\r><four>");
        }
}

static void what_is_too_long(void **state) {
        struct framing framing FRAMING_CLEANUP = FRAMING_INIT;
        struct strbuf told STRBUF_CLEANUP = STRBUF_INIT;
        char *piece = malloc(1 << 20);

        (void)state;
        assert_non_null(piece);
        memset(piece, 'x', 1 << 20);
        for (int i = 0; i < 40; i++)
                framing_take(&framing, piece, 1 << 20, note, &told);
        framing_take(&framing, "\nnext\n", 6, note, &told);
        for (int i = 0; i < 40; i++)
                framing_take(&framing, piece, 1 << 20, note, &told);
        framing_end(&framing, note, &told);
        assert_string_equal(strbuf_text(&told), "<too long><next><too long>");
        assert_int_equal(framing.line.capacity, 0);
        free(piece);
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(in_any_pieces),
                                            cmocka_unit_test(what_is_too_long) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
