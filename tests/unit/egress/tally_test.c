/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "egress/tally.h"

#include <stdio.h>
#include <string.h>

static struct tally_line line_of(const char *host, uint16_t port, const char *outcome) {
        struct tally_line line = { .port = port, .connections = 1, .sent_bytes = 2, .received_bytes = 3 };

        snprintf(line.host, sizeof(line.host), "%s", host);
        snprintf(line.outcome, sizeof(line.outcome), "%s", outcome);
        return line;
}

static void added_up_and_back(void **state) {
        static struct tally tally, read;
        const struct tally_line lines[] = { line_of("a.b", 443, ""), line_of("a.b", 80, ""),
                                            line_of("a.b", 443, "no"), line_of("a.b", 443, "") };
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT, described STRBUF_CLEANUP = STRBUF_INIT;
        struct error err;

        (void)state;
        for (size_t i = 0; i < 4; i++)
                tally_add(&tally, &lines[i]);
        assert_int_equal(tally.count, 3);
        tally_write(&tally, &text);
        assert_int_equal(tally_read(text.data, text.length, &read, &err), 0);
        assert_int_equal(read.count, 3);
        assert_int_equal(read.lines[0].connections, 2);
        assert_int_equal(read.lines[0].received_bytes, 6);
        assert_string_equal(read.lines[2].outcome, "no");
        tally_describe(&read.lines[0], &described);
        assert_string_equal(strbuf_text(&described), "a.b:443: 2 connections, 4 bytes sent, 6 received");
}

static void bounded(void **state) {
        static struct tally tally;

        (void)state;
        for (unsigned i = 0; i < 10 * TALLY_LINES; i++) {
                char host[32];
                struct tally_line line;

                snprintf(host, sizeof(host), "h%u.b", i);
                line = line_of(host, 443, "");
                tally_add(&tally, &line);
        }
        assert_int_equal(tally.count, TALLY_LINES + 1);
        assert_string_equal(tally.lines[TALLY_LINES].host, "");
        assert_int_equal(tally.lines[TALLY_LINES].connections, 9 * TALLY_LINES);
        tally.count = 0;
        for (unsigned i = 0; i <= TALLY_LINES; i++) {
                struct tally_line line = line_of("a.b", (uint16_t)i, "");

                tally_add(&tally, &line);
        }
        assert_int_equal(tally.lines[TALLY_LINES].connections, 1);
}

static void what_is_none(void **state) {
#define LINE(host, outcome, number)                                                                     \
        "[{\"host\": \"" host "\", \"port\": 1, \"outcome\": \"" outcome "\", \"connections\": " number \
        ", \"sentBytes\": 0, \"receivedBytes\": 0}]"
        static const char *const texts[] = {
                "",
                "{}",
                "[1]",
                "[{}]",
                LINE("127.0.0.1", "", "1"),
                LINE("A.b", "", "1"),
                LINE("a.b", "\\n", "1"),
                LINE("a.b", "\\u202e", "1"),
                LINE("a.b", "", "-1"),
                LINE("a.b", "", "1.5"),
                LINE("a.b", "", "null"),
        };
        static struct tally read;
        struct error err;

        (void)state;
        assert_int_equal(tally_read("[]", 2, &read, &err), 0);
        assert_int_equal(tally_read(LINE("a.b", "x", "1"), strlen(LINE("a.b", "x", "1")), &read, &err), 0);
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                if (tally_read(texts[i], strlen(texts[i]), &read, &err) == 0)
                        fail_msg("%s is read", texts[i]);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(added_up_and_back), cmocka_unit_test(bounded),
                                            cmocka_unit_test(what_is_none) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
