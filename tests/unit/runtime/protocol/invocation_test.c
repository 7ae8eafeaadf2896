/* SPDX-License-Identifier: Apache-2.0 */
/* Events of Lambda and texts that only its answers have: there and back, and invalid ones. */
#include "runtime/protocol/invocation.h"

#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEX32 "0123456789abcdef0123456789abcdef"
#define HEX64 HEX32 HEX32
#define POLICY \
        "{\"url\":\"https://b.s3.amazonaws.com/\",\"prefix\":\"a/transfer/3/\",\"fields\":{\"policy\":\"x\"}}"
#define GET \
        "{\"get\":\"https://b.s3.amazonaws.com/k?X-Amz-Signature=1\",\"bytes\":5,\"sha256\":\"" HEX64 "\"}"
#define FILE_GET \
        "{\"path\":\"a/b.txt\",\"get\":\"http://127.0.0.1:9/k\",\"bytes\":0,\"sha256\":\"" HEX64 "\"}"
#define BASE "\"berth\":1,\"session\":\"s-a\",\"n\":3,\"startedAtMs\":1700000000000,\"timeoutMs\":60000"
#define EXECUTE "\"request\":{\"type\":\"execute\",\"n\":3}"

static const char *const good[] = {
        "{" BASE "," EXECUTE "}",
        "{" BASE "," EXECUTE ",\"code\":\"print(1)\",\"stdin\":\"AAECAw==\"}",
        "{" BASE "," EXECUTE ",\"stdin\":\"\"}",
        "{" BASE
        ",\"answer\":\"buffered\",\"answerBytes\":5,\"shared\":true,\"previous\":{\"n\":2,\"boot\":\"" HEX32
        "\"},\"contexts\":[{\"context\":\"main\",\"generation\":4}],\"request\":{\"type\":\"execute\",\"n\":3,"
        "\"language\":\"sh\",\"context\":\"x\",\"timeoutMs\":5,\"variables\":{\"A\":\"\\u00e9\"}},\"code\":\"\\u20ac\","
        "\"checkpoint\":{\"restore\":" GET
        ",\"take\":{\"maxBytes\":8388608,\"maxMs\":500}},\"workspace\":{\"files\":[" FILE_GET
        "],\"more\":" GET ",\"put\":" POLICY ",\"maxBytes\":7,\"maxFiles\":8},\"transfer\":" POLICY
        ",\"interrupt\":{\"get\":\"https://x/\"}}",
        "{" BASE
        ",\"previous\":{\"n\":2},\"checkpoint\":{\"lacks\":\"too large\"},\"request\":{\"type\":\"restart\","
        "\"context\":\"main\"}}",
        "{" BASE "," EXECUTE ",\"body\":" GET "}",
        "{" BASE ",\"request\":{\"type\":\"execute\",\"n\":3,\"stdinBytes\":0},\"body\":" GET "}",
        "{" BASE ",\"request\":{\"type\":\"execute\",\"n\":3,\"stdinBytes\":5},\"body\":" GET "}",
        "{" BASE ",\"request\":{\"type\":\"prepare\",\"modules\":[\"json\"]}}",
        "{" BASE ",\"request\":{\"type\":\"status\"}}",
};

/* An event that is read is written, and read again as the same. */
static void test_events_there_and_back(void **state) {
        (void)state;
        for (size_t i = 0; i < CONTENT_COUNT(good); i++) {
                struct invocation first INVOCATION_CLEANUP = INVOCATION_INIT,
                                        second INVOCATION_CLEANUP = INVOCATION_INIT;
                struct strbuf once STRBUF_CLEANUP = STRBUF_INIT, twice STRBUF_CLEANUP = STRBUF_INIT;
                struct error err;

                if (invocation_read(good[i], strlen(good[i]), &first, &err) < 0)
                        fail_msg("%s: %s", good[i], err.message);
                assert_int_equal(invocation_write(&first, &once, &err), 0);
                assert_int_equal(invocation_read(once.data, once.length, &second, &err), 0);
                assert_int_equal(invocation_write(&second, &twice, &err), 0);
                assert_string_equal(once.data, twice.data);
                assert_int_equal(first.n, 3);
                assert_int_equal(invocation_deadline_ms(&first), 1700000120000);
        }
}

static void test_what_an_event_says(void **state) {
        struct invocation event INVOCATION_CLEANUP = INVOCATION_INIT;
        struct error err;

        (void)state;
        assert_int_equal(invocation_read(good[1], strlen(good[1]), &event, &err), 0);
        assert_string_equal(event.session, "s-a");
        assert_int_equal(event.request.n, 3);
        assert_int_equal(event.request.language, REQUEST_PYTHON);
        assert_memory_equal(event.request.code, "print(1)", event.request.code_length);
        assert_int_equal(event.request.input_length, 4);
        assert_memory_equal(event.request.input, "\0\1\2\3", 4);
        assert_int_equal(event.answer, INVOCATION_STREAM);
        assert_null(event.previous_boot);
        assert_false(event.shared);
}

/* Limits that it does not give for a checkpoint are this page's. */
static void test_a_checkpoint_of_no_limits(void **state) {
        static const char text[] = "{" BASE "," EXECUTE ",\"checkpoint\":{\"take\":{}}}";
        struct invocation event INVOCATION_CLEANUP = INVOCATION_INIT,
                                none INVOCATION_CLEANUP = INVOCATION_INIT;
        struct error err;

        (void)state;
        assert_int_equal(invocation_read(text, strlen(text), &event, &err), 0);
        assert_int_equal(event.take_bytes, 8 << 20);
        assert_int_equal(event.take_ms, 500);
        assert_int_equal(invocation_read(good[4], strlen(good[4]), &none, &err), 0);
        assert_int_equal(none.take_bytes, 0);
}

static void test_events_that_are_none(void **state) {
        static const char *const cases[] = {
                "",
                "[]",
                "7",
                "{}",
                "{" BASE "}",
                "{" BASE "," EXECUTE,
                "{" BASE "," EXECUTE ",\"unknown\":1}",
                "{" BASE "," EXECUTE "," EXECUTE "}",
                "{\"berth\":2,\"session\":\"s\",\"n\":3,\"startedAtMs\":1,\"timeoutMs\":1," EXECUTE "}",
                "{\"berth\":1,\"session\":\"\",\"n\":3,\"startedAtMs\":1,\"timeoutMs\":1," EXECUTE "}",
                "{\"berth\":1,\"session\":\"a*\",\"n\":3,\"startedAtMs\":1,\"timeoutMs\":1," EXECUTE "}",
                "{\"berth\":1,\"session\":\"s\",\"n\":0,\"startedAtMs\":1,\"timeoutMs\":1," EXECUTE "}",
                "{\"berth\":1,\"session\":\"s\",\"n\":4,\"startedAtMs\":1,\"timeoutMs\":1," EXECUTE "}",
                "{\"berth\":1,\"session\":\"s\",\"n\":3,\"startedAtMs\":0,\"timeoutMs\":1," EXECUTE "}",
                "{\"berth\":1,\"session\":\"s\",\"n\":3,\"startedAtMs\":9223372036854775807,\"timeoutMs\":1," EXECUTE
                "}",
                "{\"berth\":1,\"session\":\"s\",\"n\":3,\"startedAtMs\":1,\"timeoutMs\":86400001," EXECUTE
                "}",
                "{" BASE ",\"request\":{\"type\":\"interrupt\",\"n\":3}}",
                "{" BASE ",\"request\":{\"type\":\"checkpoint\",\"maxBytes\":3,\"maxMs\":3}}",
                "{" BASE ",\"request\":{\"type\":\"execute\",\"n\":3,\"stdinBytes\":0}}",
                "{" BASE ",\"request\":{\"type\":\"status\"},\"code\":\"1\"}",
                "{" BASE ",\"request\":{\"type\":\"execute\",\"n\":3,\"context\":\"../x\"}}",
                "{" BASE "," EXECUTE ",\"code\":\"a\\u0000b\"}",
                "{" BASE "," EXECUTE ",\"code\":7}",
                "{" BASE "," EXECUTE ",\"stdin\":\"A\"}",
                "{" BASE "," EXECUTE ",\"stdin\":\"====\"}",
                "{" BASE "," EXECUTE ",\"answer\":\"no\"}",
                "{" BASE "," EXECUTE ",\"answerBytes\":-1}",
                "{" BASE "," EXECUTE ",\"previous\":{\"n\":0}}",
                "{" BASE "," EXECUTE ",\"previous\":{\"n\":1,\"boot\":\"x\"}}",
                "{" BASE "," EXECUTE ",\"contexts\":[{\"context\":\"a\",\"generation\":0}]}",
                "{" BASE "," EXECUTE
                ",\"contexts\":[{\"context\":\"a\",\"generation\":1},{\"context\":\"a\",\"generation\":2}]}",
                "{" BASE "," EXECUTE ",\"interrupt\":{\"get\":\"http://169.254.169.254/\"}}",
                "{" BASE "," EXECUTE ",\"transfer\":{\"url\":\"file:///etc\",\"prefix\":\"\",\"fields\":{}}}",
                "{" BASE "," EXECUTE
                ",\"transfer\":{\"url\":\"https://x/\",\"prefix\":\"\",\"fields\":{\"a\\\"b\":\"\"}}}",
                "{" BASE "," EXECUTE
                ",\"checkpoint\":{\"restore\":{\"get\":\"https://x/\",\"bytes\":1,\"sha256\":\"x\"}}}",
                "{" BASE "," EXECUTE ",\"checkpoint\":{\"restore\":" GET ",\"lacks\":\"x\"}}",
                "{" BASE "," EXECUTE ",\"checkpoint\":{\"take\":{\"maxBytes\":0,\"maxMs\":1}}}",
                "{" BASE "," EXECUTE ",\"workspace\":{\"files\":[],\"maxBytes\":1,\"maxFiles\":1}}",
                "{" BASE "," EXECUTE ",\"workspace\":{\"files\":[7],\"put\":" POLICY
                ",\"maxBytes\":1,\"maxFiles\":1}}",
                "{" BASE "," EXECUTE ",\"body\":7}",
                "{" BASE "," EXECUTE ",\"body\":" FILE_GET "}",
                "{" BASE "," EXECUTE ",\"body\":" GET ",\"code\":\"1\"}",
                "{" BASE "," EXECUTE ",\"body\":" GET ",\"stdin\":\"\"}",
                "{" BASE ",\"request\":{\"type\":\"status\"},\"body\":" GET "}",
                "{" BASE ",\"request\":{\"type\":\"execute\",\"n\":3,\"stdinBytes\":6},\"body\":" GET "}",
                "{" BASE ",\"request\":{\"type\":\"execute\",\"n\":3,\"stdinBytes\":-1},\"body\":" GET "}",
                "{" BASE ",\"request\":{\"type\":\"execute\",\"n\":3,\"stdinBytes\":\"1\"},\"body\":" GET "}",
                "{" BASE "," EXECUTE
                ",\"body\":{\"get\":\"https://x/\",\"bytes\":16777217,\"sha256\":\"" HEX64 "\"}}",
                "[[[[[[[[[[[[]]]]]]]]]]]]",
        };

        (void)state;
        for (size_t i = 0; i < CONTENT_COUNT(cases); i++) {
                struct invocation event INVOCATION_CLEANUP = INVOCATION_INIT;
                struct error err = { 0 };

                if (invocation_read(cases[i], strlen(cases[i]), &event, &err) == 0)
                        fail_msg("was read: %s", cases[i]);
                assert_true(err.message[0]);
        }
}

/* Code and input that lie in an object: one behind the other, of the length that the event says. */
static void test_a_body_is_taken(void **state) {
        static const char event_text[] =
                "{" BASE ",\"request\":{\"type\":\"execute\",\"n\":3,\"stdinBytes\":2},"
                "\"body\":" GET "}";
        static const struct {
                const char *bytes;
                size_t length;
                bool good;
        } cases[] = { { "1+1\0b", 5, true },
                      { "1\0"
                        "1ab",
                        5, false },
                      { "1+1a", 4, false },
                      { "", 0, false } };

        (void)state;
        for (size_t i = 0; i < CONTENT_COUNT(cases); i++) {
                struct invocation event INVOCATION_CLEANUP = INVOCATION_INIT;
                struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
                struct error err;

                assert_int_equal(invocation_read(event_text, strlen(event_text), &event, &err), 0);
                assert_int_equal(event.body_input, 2);
                strbuf_append_bytes(&bytes, cases[i].bytes, cases[i].length);
                assert_int_equal(invocation_take_body(&event, &bytes, &err), cases[i].good ? 0 : -1);
                if (!cases[i].good)
                        continue;
                assert_int_equal(event.request.code_length, 3);
                assert_memory_equal(event.request.code, "1+1", 3);
                assert_int_equal(event.request.input_length, 2);
                assert_memory_equal(event.request.input, "\0b", 2);
        }
}

static void test_paths_and_addresses(void **state) {
        static const char *const paths[] = { "a", "a/b", "...", "a b/\xc3\xa9" };
        static const char *const no_paths[] = { "", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "./a" };
        static const char *const urls[] = { "https://b/", "https://b:4/x?y=%20", "http://127.0.0.1/",
                                            "http://localhost:80/", "http://[::1]:1/x" };
        static const char *const no_urls[] = { "",
                                               "b",
                                               "https://",
                                               "https:///x",
                                               "ftp://b/",
                                               "http://b/",
                                               "http://127.0.0.1",
                                               "http://127.0.0.1.example.org/",
                                               "http://127.0.0.1:x@example.org/",
                                               "http://localhostx/",
                                               "https://b/ c",
                                               "https://b/\n",
                                               "https://b/\"" };

        (void)state;
        for (size_t i = 0; i < CONTENT_COUNT(paths); i++)
                assert_true(invocation_is_path(paths[i]));
        for (size_t i = 0; i < CONTENT_COUNT(no_paths); i++)
                assert_false(invocation_is_path(no_paths[i]));
        for (size_t i = 0; i < CONTENT_COUNT(urls); i++)
                assert_true(invocation_is_url(urls[i]));
        for (size_t i = 0; i < CONTENT_COUNT(no_urls); i++)
                assert_false(invocation_is_url(no_urls[i]));
}

static void test_what_is_too_large(void **state) {
        struct invocation event = { .session = "s", .n = 1, .started_ms = 1, .timeout_ms = 1 };
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT, input STRBUF_CLEANUP = STRBUF_INIT;
        struct error err = { 0 };

        (void)state;
        event.request = (struct request){
                .type = REQUEST_EXECUTE, .n = 1, .context = "main", .code = "\xff", .code_length = 1
        };
        assert_int_equal(invocation_write(&event, &bytes, &err), -1);
        assert_true(strstr(err.message, "UTF-8"));
        assert_true(strbuf_reserve(&input, INVOCATION_EVENT_MAX));
        memset(input.data, 'x', INVOCATION_EVENT_MAX);
        event.request.code = input.data;
        event.request.code_length = INVOCATION_EVENT_MAX;
        assert_int_equal(invocation_write(&event, &bytes, &err), -1);
        assert_true(strstr(err.message, "Lambda takes"));
        event.request.code_length = INVOCATION_EVENT_MAX - 300;
        assert_int_equal(invocation_write(&event, &bytes, &err), 0);
        assert_int_equal(bytes.data[0], '{');
}

static void reread(const struct strbuf *bytes, struct message *ret) {
        struct message_reader reader MESSAGE_READER_CLEANUP = { 0 };
        struct error err;
        size_t used;

        assert_int_equal(message_read(&reader, bytes->data, bytes->length, &used, ret, &err), MESSAGE_WHOLE);
        assert_int_equal(used, bytes->length);
}

static void test_files_there_and_back(void **state) {
        static const struct invocation_file files[] = {
                { .fate = INVOCATION_CHANGED, .path = "a/b", .bytes = 5, .sha256 = HEX64 },
                { .fate = INVOCATION_DELETED, .path = "a" },
                { .fate = INVOCATION_GONE, .path = "a", .reason = "r" },
                { .fate = INVOCATION_SKIPPED, .path = "/odd//", .reason = "no file" },
        };

        (void)state;
        for (size_t i = 0; i < CONTENT_COUNT(files); i++) {
                struct strbuf first STRBUF_CLEANUP = STRBUF_INIT, second STRBUF_CLEANUP = STRBUF_INIT;
                struct message message MESSAGE_CLEANUP = MESSAGE_INIT;
                struct invocation_file file;
                struct error err;

                invocation_file_write(&files[i], &first);
                reread(&first, &message);
                assert_int_equal(invocation_said(&message), INVOCATION_FILE);
                assert_int_equal(invocation_file_read(&message, &file, &err), 0);
                invocation_file_write(&file, &second);
                assert_int_equal(first.length, second.length);
                assert_memory_equal(first.data, second.data, first.length);
        }
}

static void test_ends_there_and_back(void **state) {
        json_t *contexts JSON_CLEANUP = json_pack("[{s:s, s:i, s:i, s:i, s:n}]", "context", "main",
                                                  "generation", 1, "kept", 2, "lost", 0, "reason");
        const struct invocation_end ends[] = {
                { .boot = HEX32, .starts = 1, .served = 1 },
                { .n = 3,
                  .boot = HEX32,
                  .starts = 2,
                  .served = 9,
                  .was = INVOCATION_STALE,
                  .refusal = INVOCATION_REPEATED,
                  .reason = "r\xc3\xa9",
                  .idle_ms = 5,
                  .frozen_ms = 4,
                  .cut_bytes = 3,
                  .cpu_ms = 2,
                  .peak_memory_bytes = 1,
                  .checkpoint_bytes = 7,
                  .checkpoint_ms = 8,
                  .checkpoint_sha256 = HEX64,
                  .checkpoint_contexts = contexts,
                  .restore = INVOCATION_UNUSABLE,
                  .restore_ms = 4,
                  .restore_reason = "gone",
                  .files_left_out = 11,
                  .skipped_left_out = 12,
                  .files_complete = true,
                  .files_reason = "x",
                  .files_in_ms = 1,
                  .files_out_ms = 2,
                  .left_result = true },
        };

        (void)state;
        for (size_t i = 0; i < CONTENT_COUNT(ends); i++) {
                struct strbuf first STRBUF_CLEANUP = STRBUF_INIT, second STRBUF_CLEANUP = STRBUF_INIT;
                struct message message MESSAGE_CLEANUP = MESSAGE_INIT;
                struct invocation_end end;
                struct error err = { 0 };

                invocation_end_write(&ends[i], &first);
                reread(&first, &message);
                assert_int_equal(invocation_said(&message), INVOCATION_END);
                if (invocation_end_read(&message, &end, &err) < 0)
                        fail_msg("%s", err.message);
                invocation_end_write(&end, &second);
                assert_int_equal(first.length, second.length);
                assert_memory_equal(first.data, second.data, first.length);
        }
}

/* Each member of an answer's end, as a liar might set it. */
static void test_ends_that_are_none(void **state) {
        static const char *const lies[][2] = {
                { "boot", "\"x\"" },
                { "starts", "0" },
                { "served", "-1" },
                { "was", "\"old\"" },
                { "refused", "null" },
                { "refused", "\"no\"" },
                { "reason", "7" },
                { "n", "-1" },
                { "idleMs", "9223372036854775807" },
                { "checkpoint", "null" },
                { "files", "{}" },
                { "leftResult", "1" },
                { "checkpoint", "{\"bytes\":1,\"ms\":0,\"sha256\":null,\"contexts\":null,\"reason\":null}" },
                { "checkpoint", "{\"bytes\":0,\"ms\":0,\"sha256\":null,\"contexts\":[{}],\"reason\":null}" },
                { "restore", "null" },
                { "restore", "{\"did\":\"no\",\"ms\":0,\"reason\":null}" },
                { "restore", "{\"did\":\"loaded\",\"ms\":-1,\"reason\":null}" },
                { "restore", "{\"did\":\"unusable\",\"ms\":0,\"reason\":null}" },
                { "more", "1" },
        };
        const struct invocation_end honest = { .boot = HEX32, .starts = 1, .served = 1 };

        (void)state;
        for (size_t i = 0; i < CONTENT_COUNT(lies); i++) {
                struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
                struct message message MESSAGE_CLEANUP = MESSAGE_INIT;
                struct invocation_end end;
                struct error err = { 0 };

                invocation_end_write(&honest, &bytes);
                reread(&bytes, &message);
                json_put(message.head, lies[i][0], json_loads(lies[i][1], JSON_DECODE_ANY, NULL));
                if (invocation_end_read(&message, &end, &err) == 0)
                        fail_msg("was read: %s: %s", lies[i][0], lies[i][1]);
                assert_true(err.message[0]);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_events_there_and_back),     cmocka_unit_test(test_what_an_event_says),
                cmocka_unit_test(test_a_checkpoint_of_no_limits), cmocka_unit_test(test_events_that_are_none),
                cmocka_unit_test(test_a_body_is_taken),           cmocka_unit_test(test_paths_and_addresses),
                cmocka_unit_test(test_what_is_too_large),         cmocka_unit_test(test_files_there_and_back),
                cmocka_unit_test(test_ends_there_and_back),       cmocka_unit_test(test_ends_that_are_none),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
