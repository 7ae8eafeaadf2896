/* SPDX-License-Identifier: Apache-2.0 */
/* Messages as bytes; bytes that are not messages; requests there and back. */
#include "runtime/protocol/message.h"

#include "base/json.h"
#include "runtime/protocol/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int read_once(const char *bytes, size_t length, struct message *ret, struct error *err) {
        struct message_reader reader MESSAGE_READER_CLEANUP = { 0 };
        size_t used;

        return message_read(&reader, bytes, length, &used, ret, err);
}

static void test_two_messages_in_one_piece(void **state) {
        struct message_reader reader MESSAGE_READER_CLEANUP = { 0 };
        struct message message MESSAGE_CLEANUP = MESSAGE_INIT;
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
        json_t *head = json_pack("{s:s}", "type", "x");
        struct error err;
        size_t used, first;

        (void)state;
        message_write(&bytes, head, "a\0b", 3);
        first = bytes.length;
        message_write(&bytes, head, NULL, 0);
        assert_int_equal(message_read(&reader, bytes.data, bytes.length, &used, &message, &err),
                         MESSAGE_WHOLE);
        assert_int_equal(used, first);
        assert_memory_equal(message.body.data, "a\0b", 3);
        message_release(&message);
        assert_int_equal(message_read(&reader, bytes.data + used, 11, &first, &message, &err), MESSAGE_MORE);
        assert_int_equal(first, 11);
        assert_false(message_reader_is_between(&reader));
        used += first;
        assert_int_equal(
                message_read(&reader, bytes.data + used, bytes.length - used, &first, &message, &err),
                MESSAGE_WHOLE);
        assert_string_equal(json_text(message.head, "type"), "x");
        assert_int_equal(message.body.length, 0);
        assert_true(message_reader_is_between(&reader));
        json_decref(head);
}

static void test_bytes_that_are_no_message(void **state) {
        static const struct {
                const char *bytes;
                size_t length;
                const char *says;
        } cases[] = {
                { "\0\x10\0\1\0\0\0\0", 8, "1048577 and 0 bytes" },
                { "\0\0\0\2\1\0\0\1", 8, "2 and 16777217 bytes" },
                { "\xff\xff\xff\xff\xff\xff\xff\xff", 8, "4294967295 and 4294967295" },
                { "\0\0\0\0\0\0\0\0", 8, "no JSON" },
                { "\0\0\0\2\0\0\0\0[]", 10, "no object" },
                { "\0\0\0\2\0\0\0\0{x", 10, "no JSON" },
                { "\0\0\0\3\0\0\0\0{}x", 11, "no JSON" },
                { "\0\0\0\x0d\0\0\0\0{\"a\":1,\"a\":2}", 21, "no JSON" },
                { "\0\0\0\x0e\0\0\0\0{\"a\":\"\\u0000\"}", 22, "no JSON" },
                { "\0\0\0\x0e\0\0\0\0{\"a\":\"\\ud800\"}", 22, "no JSON" },
                { "\0\0\0\x09\0\0\0\0{\"a\":\"\xff\"}", 17, "no JSON" },
                { "\0\0\0\x18\0\0\0\0{\"a\":[[[[[[[[[]]]]]]]]]}", 32, "nested deeper" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct message message MESSAGE_CLEANUP = MESSAGE_INIT;
                struct error err = { 0 };

                assert_int_equal(read_once(cases[i].bytes, cases[i].length, &message, &err), -1);
                assert_null(message.head);
                if (!strstr(err.message, cases[i].says))
                        fail_msg("%zu: %s", i, err.message);
        }
}

/* A message that is announced costs nothing until it comes. */
static void test_memory_grows_with_what_comes(void **state) {
        struct message_reader reader MESSAGE_READER_CLEANUP = { 0 };
        struct message message MESSAGE_CLEANUP = MESSAGE_INIT;
        struct error err;
        size_t used;

        (void)state;
        assert_int_equal(message_read(&reader, "\0\x10\0\0\1\0\0\0x", 9, &used, &message, &err),
                         MESSAGE_MORE);
        assert_true(reader.head.capacity < 4096 && reader.body.capacity < 4096);
}

static void test_requests_there_and_back(void **state) {
        json_t *variables = json_pack("{s:s}", "A", "b"), *modules = json_pack("[s]", "numpy"),
               *contexts = json_pack("[{s:s, s:i}]", "context", "main", "generation", 3);
        const struct request requests[] = {
                { .type = REQUEST_EXECUTE,
                  .n = 7,
                  .context = "x",
                  .language = REQUEST_SHELL,
                  .timeout_ms = 5,
                  .variables = variables,
                  .code = "echo",
                  .code_length = 4,
                  .input = "in",
                  .input_length = 2 },
                { .type = REQUEST_EXECUTE,
                  .n = 1,
                  .context = "main",
                  .code = "",
                  .code_length = 0,
                  .input = "",
                  .input_length = 0 },
                { .type = REQUEST_PREPARE, .context = "main", .modules = modules },
                { .type = REQUEST_INTERRUPT, .n = 3 },
                { .type = REQUEST_RESTART, .context = "main" },
                { .type = REQUEST_STATUS },
                { .type = REQUEST_END },
                { .type = REQUEST_CHECKPOINT, .bytes = 5, .max_ms = 1 },
                { .type = REQUEST_RESTORE, .bytes = 7, .max_ms = 2, .contexts = contexts },
                { .type = REQUEST_RESTORE, .bytes = 0, .max_ms = 2, .reason = "it is gone" },
                { .type = REQUEST_PIECE, .piece = "piece", .piece_length = 5 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
                struct message message MESSAGE_CLEANUP = MESSAGE_INIT;
                struct strbuf first STRBUF_CLEANUP = STRBUF_INIT, second STRBUF_CLEANUP = STRBUF_INIT;
                struct request request;
                struct error err = { 0 };

                request_write(&requests[i], &first);
                assert_int_equal(read_once(first.data, first.length, &message, &err), MESSAGE_WHOLE);
                if (request_read(&message, &request, &err) < 0)
                        fail_msg("%zu: %s", i, err.message);
                assert_int_equal(request.type, requests[i].type);
                assert_int_equal(request.n, requests[i].n);
                assert_int_equal(request.code_length, requests[i].code_length);
                assert_int_equal(request.input_length, requests[i].input_length);
                assert_int_equal(request.input != NULL, requests[i].input != NULL);
                request_write(&request, &second);
                assert_int_equal(first.length, second.length);
                assert_memory_equal(first.data, second.data, first.length);
        }
        json_decref(variables);
        json_decref(modules);
        json_decref(contexts);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_two_messages_in_one_piece),
                cmocka_unit_test(test_bytes_that_are_no_message),
                cmocka_unit_test(test_memory_grows_with_what_comes),
                cmocka_unit_test(test_requests_there_and_back),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
