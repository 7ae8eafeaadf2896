/* SPDX-License-Identifier: Apache-2.0 */
/* Messages from a sandbox: read as they are meant, and refused where they are anything else. */
#include "runtime/protocol/report.h"

#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct message message_of(const char *head, const char *body) {
        struct message message = { .head = json_loads(head, 0, NULL) };

        if (!message.head)
                fail_msg("no JSON: %s", head);
        strbuf_append(&message.body, body);
        return message;
}

static int read_text(const char *head, const char *body, struct report *ret, struct message *keep) {
        struct error err = { 0 };
        int result;

        *keep = message_of(head, body);
        result = report_read(keep, ret, &err);
        assert_int_equal(result < 0, err.message[0] != '\0');
        return result;
}

#define DONE(status, code)                                                                              \
        "{\"type\":\"done\",\"n\":3,\"status\":\"" status "\",\"exitCode\":" code                       \
        ",\"value\":null,\"error\":null,\"ended\":null,\"detail\":null,\"wallMs\":1,\"stdoutBytes\":0," \
        "\"stderrBytes\":0,\"displaysDropped\":0,\"left\":0}"

#define OUTCOME(kept, reason) \
        "{\"context\":\"main\",\"generation\":1,\"kept\":" kept ",\"lost\":0,\"reason\":" reason "}"

static void test_what_is_written_is_read(void **state) {
        static const char *const cases[][2] = {
                { "{\"type\":\"hello\",\"protocol\":1,\"version\":\"0.1.0\"}", "" },
                { "{\"type\":\"started\",\"n\":1,\"context\":\"main\",\"state\":{\"generation\":2,\"was\":\"lost\",\"reason\":\"x\"}}",
                  "" },
                { "{\"type\":\"started\",\"n\":1,\"context\":\"main\",\"state\":null}", "" },
                { "{\"type\":\"output\",\"n\":1,\"stream\":\"stderr\"}", "bytes" },
                { "{\"type\":\"display\",\"n\":1,\"main\":true,\"file\":\".berth/displays/1-1.png\",\"parts\":[{\"type\":\"text/plain\",\"bytes\":2},{\"type\":\"image/png\",\"bytes\":0}]}",
                  "ab" },
                { DONE("ok", "0"), "" },
                { DONE("error", "3"), "" },
                { DONE("error", "null"), "" },
                { DONE("timeout", "null"), "" },
                { "{\"type\":\"prepared\",\"context\":\"a.b-c_D\",\"generation\":1,\"python\":\"3.11.2\",\"missing\":[{\"module\":\"m\",\"reason\":\"r\"}],\"reason\":null}",
                  "" },
                { "{\"type\":\"restarted\",\"context\":\"x\"}", "" },
                { "{\"type\":\"status\",\"contexts\":[{\"context\":\"main\",\"generation\":1}],\"left\":2}",
                  "" },
                { "{\"type\":\"refused\",\"n\":0,\"reason\":\"no\"}", "" },
                { "{\"type\":\"started\",\"n\":1,\"context\":\"main\",\"state\":{\"generation\":2,\"was\":\"restored\",\"reason\":null,\"restored\":[\"a\"],\"lost\":[{\"name\":\"l\",\"type\":\"lock\",\"why\":\"w\"}]}}",
                  "" },
                { "{\"type\":\"piece\"}", "bytes" },
                { "{\"type\":\"checkpointed\",\"bytes\":5,\"contexts\":[" OUTCOME(
                          "1", "null") "],\"reason\":null}",
                  "" },
                { "{\"type\":\"checkpointed\",\"bytes\":0,\"contexts\":[],\"reason\":\"r\"}", "" },
                { "{\"type\":\"checkpointed\",\"bytes\":0,\"contexts\":[],\"reason\":null,\"late\":true}",
                  "" },
                { "{\"type\":\"restored\",\"contexts\":[" OUTCOME("0", "\"r\"") "],\"reason\":null}", "" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct message message MESSAGE_CLEANUP = MESSAGE_INIT, again MESSAGE_CLEANUP = MESSAGE_INIT;
                struct message_reader reader MESSAGE_READER_CLEANUP = { 0 };
                struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
                struct report report;
                struct error err = { 0 };
                size_t used, at = 0;
                int answer = MESSAGE_MORE;

                if (read_text(cases[i][0], cases[i][1], &report, &message) < 0)
                        fail_msg("refused: %s", cases[i][0]);
                report_write(&report, &bytes);
                /* Byte by byte, as slow as it can come. */
                while (at < bytes.length && answer == MESSAGE_MORE) {
                        answer = message_read(&reader, bytes.data + at, 1, &used, &again, &err);
                        at += used;
                }
                assert_int_equal(answer, MESSAGE_WHOLE);
                assert_int_equal(at, bytes.length);
                assert_true(message_reader_is_between(&reader));
                if (!json_equal(message.head, again.head))
                        fail_msg("changed: %s", cases[i][0]);
                assert_int_equal(again.body.length, strlen(cases[i][1]));
                assert_memory_equal(strbuf_text(&again.body), cases[i][1], again.body.length);
        }
}

static void test_what_is_none_is_refused(void **state) {
        static const char *const cases[][2] = {
                { "{}", "" },
                { "{\"type\":1}", "" },
                { "{\"type\":\"unheard\"}", "" },
                { "{\"type\":\"hello\",\"protocol\":1}", "" },
                { "{\"type\":\"hello\",\"protocol\":\"1\",\"version\":\"x\"}", "" },
                { "{\"type\":\"hello\",\"protocol\":1,\"version\":\"x\",\"more\":1}", "" },
                { "{\"type\":\"hello\",\"protocol\":1,\"version\":\"x\"}", "body" },
                { "{\"type\":\"output\",\"n\":1,\"stream\":\"stdin\"}", "x" },
                { "{\"type\":\"output\",\"n\":1,\"stream\":\"stdout\"}", "" },
                { "{\"type\":\"output\",\"n\":0,\"stream\":\"stdout\"}", "x" },
                { "{\"type\":\"output\",\"n\":-1,\"stream\":\"stdout\"}", "x" },
                { "{\"type\":\"output\",\"n\":1.5,\"stream\":\"stdout\"}", "x" },
                { "{\"type\":\"started\",\"n\":1,\"context\":\"a/b\",\"state\":null}", "" },
                { "{\"type\":\"started\",\"n\":1,\"context\":\"main\",\"state\":{\"generation\":0,\"was\":\"new\",\"reason\":null}}",
                  "" },
                { "{\"type\":\"started\",\"n\":1,\"context\":\"main\",\"state\":{\"generation\":1,\"was\":\"old\",\"reason\":null}}",
                  "" },
                { "{\"type\":\"started\",\"n\":1,\"context\":\"main\",\"state\":[]}", "" },
                { "{\"type\":\"display\",\"n\":1,\"main\":true,\"file\":\"../x.png\",\"parts\":[{\"type\":\"a/b\",\"bytes\":1}]}",
                  "x" },
                { "{\"type\":\"display\",\"n\":1,\"main\":true,\"file\":\".berth/displays/../../x\",\"parts\":[{\"type\":\"a/b\",\"bytes\":1}]}",
                  "x" },
                { "{\"type\":\"display\",\"n\":1,\"main\":true,\"file\":\".berth/displays/..\",\"parts\":[{\"type\":\"a/b\",\"bytes\":1}]}",
                  "x" },
                { "{\"type\":\"display\",\"n\":1,\"main\":true,\"file\":null,\"parts\":[]}", "" },
                { "{\"type\":\"display\",\"n\":1,\"main\":true,\"file\":null,\"parts\":[{\"type\":\"a/b\",\"bytes\":2}]}",
                  "x" },
                { "{\"type\":\"display\",\"n\":1,\"main\":true,\"file\":null,\"parts\":[{\"type\":\"a/b\",\"bytes\":0}]}",
                  "x" },
                { "{\"type\":\"display\",\"n\":1,\"main\":true,\"file\":null,\"parts\":[{\"type\":\"a/b\",\"bytes\":-1}]}",
                  "x" },
                { "{\"type\":\"display\",\"n\":1,\"main\":true,\"file\":null,\"parts\":[{\"type\":\"a b/c\",\"bytes\":1}]}",
                  "x" },
                { "{\"type\":\"display\",\"n\":1,\"main\":true,\"file\":null,\"parts\":[{\"type\":\"../c\",\"bytes\":1}]}",
                  "x" },
                { DONE("ok", "1"), "" },
                { DONE("ok", "null"), "" },
                { DONE("error", "0"), "" },
                { DONE("timeout", "0"), "" },
                { DONE("error", "256"), "" },
                { DONE("error", "-1"), "" },
                { DONE("error", "\"1\""), "" },
                { DONE("fine", "0"), "" },
                { DONE("ok", "0"), "x" },
                { "{\"type\":\"prepared\",\"context\":\"x\",\"generation\":1,\"python\":null,\"missing\":[{\"module\":1,\"reason\":\"r\"}],\"reason\":null}",
                  "" },
                { "{\"type\":\"prepared\",\"context\":\"x\",\"generation\":1,\"python\":null,\"missing\":{},\"reason\":null}",
                  "" },
                { "{\"type\":\"status\",\"contexts\":[{\"context\":\"main\"}],\"left\":2}", "" },
                { "{\"type\":\"status\",\"contexts\":[],\"left\":-1}", "" },
                { "{\"type\":\"refused\",\"n\":0,\"reason\":null}", "" },
                { "{\"type\":\"started\",\"n\":1,\"context\":\"main\",\"state\":{\"generation\":2,\"was\":\"restored\",\"reason\":null}}",
                  "" },
                { "{\"type\":\"started\",\"n\":1,\"context\":\"main\",\"state\":{\"generation\":2,\"was\":\"kept\",\"reason\":null,\"restored\":[],\"lost\":[]}}",
                  "" },
                { "{\"type\":\"started\",\"n\":1,\"context\":\"main\",\"state\":{\"generation\":2,\"was\":\"restored\",\"reason\":null,\"restored\":[1],\"lost\":[]}}",
                  "" },
                { "{\"type\":\"started\",\"n\":1,\"context\":\"main\",\"state\":{\"generation\":2,\"was\":\"restored\",\"reason\":null,\"restored\":[],\"lost\":[{\"name\":\"x\",\"type\":\"y\"}]}}",
                  "" },
                { "{\"type\":\"piece\"}", "" },
                { "{\"type\":\"piece\",\"n\":1}", "x" },
                { "{\"type\":\"checkpointed\",\"bytes\":-1,\"contexts\":[],\"reason\":null}", "" },
                { "{\"type\":\"checkpointed\",\"bytes\":0,\"contexts\":null,\"reason\":null}", "" },
                { "{\"type\":\"checkpointed\",\"bytes\":0,\"contexts\":[],\"reason\":null,\"late\":1}", "" },
                { "{\"type\":\"restored\",\"contexts\":[],\"reason\":null,\"late\":true}", "" },
                { "{\"type\":\"checkpointed\",\"bytes\":0,\"contexts\":[" OUTCOME(
                          "1", "\"r\"") "],\"reason\":null}",
                  "" },
                { "{\"type\":\"restored\",\"contexts\":[" OUTCOME("-1", "null") "],\"reason\":null}", "" },
                { "{\"type\":\"restored\",\"contexts\":[{\"context\":\"a/b\",\"generation\":1,\"kept\":0,\"lost\":0,\"reason\":null}],\"reason\":null}",
                  "" },
                { "{\"type\":\"restored\",\"bytes\":0,\"contexts\":[],\"reason\":null}", "" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct message message MESSAGE_CLEANUP = MESSAGE_INIT;
                struct report report;

                if (read_text(cases[i][0], cases[i][1], &report, &message) == 0)
                        fail_msg("taken: %s", cases[i][0]);
        }
}

/* A head whose one text is as long as that. */
static int read_long(const char *format, size_t length) {
        struct message message MESSAGE_CLEANUP = MESSAGE_INIT;
        struct strbuf head STRBUF_CLEANUP = STRBUF_INIT, text STRBUF_CLEANUP = STRBUF_INIT;
        const char *hole = strchr(format, '@');
        struct report report;

        for (size_t i = 0; i < length; i++)
                strbuf_append_char(&text, 'x');
        strbuf_append_bytes(&head, format, (size_t)(hole - format));
        strbuf_append(&head, strbuf_text(&text));
        strbuf_append(&head, hole + 1);
        return read_text(strbuf_text(&head), "", &report, &message);
}

static void test_texts_have_an_end(void **state) {
        static const char done[] =
                "{\"type\":\"done\",\"n\":3,\"status\":\"ok\",\"exitCode\":0,\"value\":{\"type\":\"str\",\"text\":\"@\","
                "\"truncated\":true},\"error\":null,\"ended\":null,\"detail\":null,\"wallMs\":1,"
                "\"stdoutBytes\":0,\"stderrBytes\":0,\"displaysDropped\":0,\"left\":0}";
        static const char refused[] = "{\"type\":\"refused\",\"n\":1,\"reason\":\"@\"}";

        (void)state;
        assert_int_equal(read_long(done, CONTENT_TEXT_MAX), 0);
        assert_int_equal(read_long(done, CONTENT_TEXT_MAX + 1), -1);
        assert_int_equal(read_long(refused, CONTENT_REASON_MAX), 0);
        assert_int_equal(read_long(refused, CONTENT_REASON_MAX + 1), -1);
}

/* A reason of our own that is too long is cut on a whole character, so that the other side takes it. */
static void test_a_long_reason_is_cut(void **state) {
        struct message message MESSAGE_CLEANUP = MESSAGE_INIT;
        struct message_reader reader MESSAGE_READER_CLEANUP = { 0 };
        struct strbuf reason STRBUF_CLEANUP = STRBUF_INIT, bytes STRBUF_CLEANUP = STRBUF_INIT;
        struct report report = { .type = REPORT_REFUSED, .n = 1 };
        struct error err;
        size_t used;

        (void)state;
        strbuf_append(&reason, "x");
        while (reason.length < 2 * CONTENT_REASON_MAX)
                strbuf_append(&reason, "\xc3\xa9");
        report.reason = reason.data;
        report_write(&report, &bytes);
        assert_int_equal(message_read(&reader, bytes.data, bytes.length, &used, &message, &err),
                         MESSAGE_WHOLE);
        assert_int_equal(report_read(&message, &report, &err), 0);
        assert_int_equal(strlen(report.reason), CONTENT_REASON_MAX - 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_what_is_written_is_read),
                cmocka_unit_test(test_what_is_none_is_refused),
                cmocka_unit_test(test_texts_have_an_end),
                cmocka_unit_test(test_a_long_reason_is_cut),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
