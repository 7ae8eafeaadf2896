/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of events, whole and cut into pieces of every length. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/events.h"

#include <stdlib.h>
#include <string.h>

/* "name=data;" for each event. */
static bool collect(void *context, const char *name, const char *data, size_t length) {
        struct strbuf *told = context;

        strbuf_append(told, name);
        strbuf_append_char(told, '=');
        strbuf_append_bytes(told, data, length);
        strbuf_append_char(told, ';');
        return strcmp(name, "stop") != 0;
}

static bool take_all(const char *text, size_t length, size_t step, struct strbuf *told) {
        struct events events EVENTS_CLEANUP = EVENTS_INIT;

        for (size_t at = 0; at < length; at += step) {
                if (!events_take(&events, text + at, length - at < step ? length - at : step, collect, told))
                        return false;
        }
        return true;
}

static void streams(void **state) {
        static const struct {
                const char *text, *told;
                bool refused;
        } cases[] = {
                { "", "", false },
                { "id: 1\nevent: started\ndata: {}\n\n", "started={};", false },
                { "data:a\n\ndata: b\n\n", "message=a;message=b;", false },
                { "data:  two blanks\n\n", "message= two blanks;", false },
                { "data: a\r\ndata: b\r\n\r\n", "message=a\nb;", false },
                { "data: a\rdata: b\r\r", "message=a\nb;", false },
                { ":\n\n: a comment\n\ndata: x\n\n", "message=x;", false },
                { "event: lonely\n\ndata: y\n\n", "message=y;", false },
                { "retry: 5\nunknown: z\ndata\n\n", "message=;", false },
                { "data: not ended", "", false },
                { "data: not ended\n", "", false },
                { "event: aVeryLongNameThatNoEventOfOursHasAtAll\ndata: q\n\n",
                  "aVeryLongNameThatNoEventOfOursH=q;", false },
                { "event: stop\ndata: 1\n\ndata: 2\n\n", "stop=1;", true },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                for (size_t step = 1; step <= strlen(cases[i].text) + 1; step++) {
                        struct strbuf told STRBUF_CLEANUP = STRBUF_INIT;
                        bool whole = take_all(cases[i].text, strlen(cases[i].text), step, &told);

                        assert_string_equal(strbuf_text(&told), cases[i].told);
                        assert_int_equal(whole, !cases[i].refused);
                }
        }
}

static void nul_is_data(void **state) {
        struct strbuf told STRBUF_CLEANUP = STRBUF_INIT;

        (void)state;
        assert_true(take_all("data: a\0b\n\n", 11, 4, &told));
        assert_int_equal(told.length, strlen("message=a?b;"));
        assert_memory_equal(told.data, "message=a\0b;", told.length);
}

/* What never ends is refused before it is all of memory. */
static void length_is_bounded(void **state) {
        struct events events EVENTS_CLEANUP = EVENTS_INIT, many EVENTS_CLEANUP = EVENTS_INIT;
        size_t step = EVENTS_LINE_MAX / 4;
        static const char field[] = { 'd', 'a', 't', 'a', ':', ' ' };
        char *piece = calloc(1, step);
        struct strbuf told STRBUF_CLEANUP = STRBUF_INIT;

        (void)state;
        assert_non_null(piece);
        memset(piece, 'x', step);
        for (int i = 0; i < 4; i++)
                assert_true(events_take(&events, piece, step, collect, &told));
        assert_false(events_take(&events, piece, 1, collect, &told));
        memcpy(piece, field, sizeof(field));
        piece[step - 1] = '\n';
        for (int i = 0; i < 4; i++)
                assert_true(events_take(&many, piece, step, collect, &told));
        assert_false(events_take(&many, piece, step, collect, &told));
        free(piece);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(streams),
                cmocka_unit_test(nul_is_data),
                cmocka_unit_test(length_is_bounded),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
